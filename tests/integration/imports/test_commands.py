"""The import commands: what they write, what they leave alone, and what they tell."""

import json
from decimal import Decimal

import pytest

from allocator_service.core.models import AuditEntry
from allocator_service.imports.management.import_command import progress_bar
from allocator_service.pools.models import Server
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload

NODES = "name,contributed_by,count,capacity.cpu,capacity.memory,labels.zone\n"
TWO_NODES = NODES + "big,u1,1,64,256Gi,a\nsmall,,2,8,16,b\n"
WORKLOADS = "tenant,name,demand.cpu,demand.memory,tasks,selector.zone\n"


@pytest.fixture
def lab(pool, tenant):
    tenant("u1")
    return pool


def generation(pool):
    pool.refresh_from_db()
    return pool.generation


def servers():
    return {
        server.name: (server.contributed_by and server.contributed_by.slug, *server.capacity)
        for server in Server.objects.select_related("contributed_by").order_by("name")
    }


class TestNodes:
    def test_a_file_is_written_once_and_then_changes_nothing(self, lab, command):
        first = command("import_nodes", TWO_NODES)
        assert first.lines[-1].startswith("2 added, 0 changed, 0 unchanged, 0 refused, 0 skipped")
        written = {
            "big": ("u1", Decimal(64), Decimal(256)),
            "small-0001": (None, Decimal(8), Decimal(16)),
            "small-0002": (None, Decimal(8), Decimal(16)),
        }
        assert servers() == written
        before = generation(lab), AuditEntry.objects.count()
        second = command("import_nodes", TWO_NODES)
        assert second.lines[-1].startswith("0 added, 0 changed, 2 unchanged, 0 refused")
        assert (servers(), (generation(lab), AuditEntry.objects.count())) == (written, before)

    def test_a_changed_row_changes_its_server_and_no_other(self, lab, command):
        command("import_nodes", TWO_NODES)
        versions = dict(Server.objects.values_list("name", "version"))
        ran = command("import_nodes", TWO_NODES.replace("64", "96"))
        assert ran.lines[-1].startswith("0 added, 1 changed, 1 unchanged")
        assert servers()["big"] == ("u1", Decimal(96), Decimal(256))
        assert dict(Server.objects.values_list("name", "version")) == {**versions, "big": 2}

    def test_a_greater_count_adds_what_is_missing(self, lab, command):
        command("import_nodes", TWO_NODES)
        ran = command("import_nodes", TWO_NODES.replace(",2,8", ",3,8"))
        assert ran.lines[-1].startswith("0 added, 1 changed, 1 unchanged")
        assert sorted(servers()) == ["big", "small-0001", "small-0002", "small-0003"]

    def test_a_dry_run_tells_every_row_and_writes_none(self, lab, command):
        bad = (
            TWO_NODES + "wrong,u1,1,NaN,1,a\nnone,nobody,1,1,1,a\nzero,u1,1,0,0,a\nbig,u1,1,1,1,a\n"
        )
        before = generation(lab)
        ran = command("import_nodes", bad, "--dry-run")
        assert [line.split("\t")[:3] for line in ran.lines[:-1]] == [
            ["line 2", "added", "u1/big"],
            ["line 3", "added", "small"],
            ["line 4", "refused", "wrong"],
            ["line 5", "refused", "nobody/none"],
            ["line 6", "refused", "u1/zero"],
            ["line 7", "refused", "u1/big"],
        ]
        codes = [line.split("\t")[3].split()[0] for line in ran.lines[2:-1]]
        assert codes == ["quantity.syntax", "tenant.unknown:", "capacity.zero", "row.duplicate"]
        assert "line 2" in ran.lines[5]
        assert (ran.code, servers(), generation(lab)) == (1, {}, before)

    def test_one_refused_row_keeps_all_from_being_written(self, lab, command):
        before = generation(lab)
        ran = command("import_nodes", TWO_NODES + "wrong,u1,1,-1,1,a\n")
        assert (ran.code, servers(), generation(lab)) == (1, {}, before)
        assert "nothing was written" in ran.error
        assert ran.lines[0].startswith("line 4\trefused\twrong\tquantity.negative /capacity/cpu:")

    def test_refused_rows_can_be_skipped(self, lab, command):
        ran = command("import_nodes", TWO_NODES + "wrong,u1,1,-1,1,a\n", "--skip-refused")
        assert (ran.code, sorted(servers())) == (0, ["big", "small-0001", "small-0002"])

    def test_tenants_are_registered_when_that_is_asked(self, lab, command):
        content = NODES + "n,new-team,1,1,1,a\n"
        assert command("import_nodes", content).code == 1
        ran = command("import_nodes", content, "--dry-run", "--register-tenants")
        assert "tenants would be registered: new-team" in ran.lines
        assert not Tenant.objects.filter(slug="new-team").exists()
        ran = command("import_nodes", content, "--register-tenants")
        assert "tenants registered: new-team" in ran.lines
        assert servers() == {"n": ("new-team", 1, 1)}

    def test_options_name_the_contributor_of_rows_that_do_not(self, lab, tenant, command):
        tenant("b")
        content = "name,capacity.cpu,labels.zone\nn,1,b\n"
        command("import_nodes", content, "--contributed-by", "u1")
        command("import_nodes", content, "--owner-label", "zone")
        owners = Server.objects.values_list("contributed_by__slug", flat=True)
        assert sorted(filter(None, owners)) == ["b", "u1"]

    def test_a_cordoned_node_drains_and_comes_back(self, lab, command):
        node = {
            "metadata": {"name": "n1"},
            "spec": {"unschedulable": True},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}},
        }
        cordoned = json.dumps({"items": [node]})
        command("import_nodes", cordoned, "--format", "kubernetes")
        assert Server.objects.get().state == "draining"
        before = generation(lab)
        ran = command("import_nodes", cordoned, "--format", "kubernetes")
        assert (ran.lines[-1].startswith("0 added, 0 changed, 1 unchanged"), generation(lab)) == (
            True,
            before,
        )
        node["spec"] = {}
        command("import_nodes", json.dumps({"items": [node]}), "--format", "kubernetes")
        assert Server.objects.get().state == "active"

    def test_a_retired_server_is_added_anew(self, lab, command):
        command("import_nodes", TWO_NODES)
        Server.objects.filter(name="big").update(state="retired")
        ran = command("import_nodes", TWO_NODES)
        assert ran.lines[-1].startswith("1 added, 0 changed, 1 unchanged")

    def test_twenty_thousand_rows(self, lab, command):
        content = NODES + "".join(f"n{number},,1,4,8,a\n" for number in range(20_000))
        assert command("import_nodes", content).lines[-1].startswith("20000 added")
        assert Server.objects.count() == 20_000
        ran = command("import_nodes", content.replace("n19999,,1,4,8", "n19999,,1,5,8"))
        assert ran.lines[-1].startswith("0 added, 1 changed, 19999 unchanged")

    def test_who_imported_what_is_audited(self, lab, command, tmp_path):
        command("import_nodes", TWO_NODES)
        entry = AuditEntry.objects.get(action="server.contribute")
        assert (entry.actor, entry.reason) == ("manage.py import_nodes", str(tmp_path / "file"))
        assert entry.after["servers"] == 3

    @pytest.mark.parametrize(
        ("content", "options", "said"),
        [
            (b"name,capacity.cpu\nK\xfcche,1\n", [], "is not UTF-8: line 2"),
            (b"{", ["--format", "slurm"], "line 1, column 2"),
            (b"name,capacity.disk\nn,1\n", [], 'the column "capacity.disk" is not counted'),
        ],
    )
    def test_an_unreadable_file_is_exit_2(self, lab, command, content, options, said):
        ran = command("import_nodes", content, *options)
        assert (ran.code, ran.lines) == (2, [])
        assert said in ran.error

    def test_an_unknown_pool_is_exit_2(self, lab, command):
        ran = command("import_nodes", TWO_NODES, pool="nowhere")
        assert (ran.code, ran.error) == (2, "There is no such pool.")


class TestWorkloads:
    CONTENT = WORKLOADS + "u1,train,4,16Gi,10,a|b\n,serve,500m,1,,\n"

    def test_a_file_is_written_once_and_then_changes_nothing(self, lab, command):
        first = command("import_workloads", self.CONTENT, "--tenant", "u1")
        assert first.lines[-1].startswith("2 added, 0 changed, 0 unchanged, 0 refused")
        train, serve = Workload.objects.order_by("id")
        assert (train.demand, train.tasks) == ([Decimal(4), Decimal(16)], 10)
        assert train.server_selector == {"zone": ["a", "b"]}
        assert (serve.demand, serve.tasks) == ([Decimal("0.5"), Decimal(1)], None)
        before = generation(lab)
        again = command("import_workloads", self.CONTENT, "--tenant", "u1")
        assert again.lines[-1].startswith("0 added, 0 changed, 2 unchanged")
        assert generation(lab) == before

    def test_a_changed_row_changes_its_workload_and_not_its_state(self, lab, command):
        command("import_workloads", self.CONTENT, "--tenant", "u1")
        Workload.objects.filter(name="train").update(state="paused")
        ran = command("import_workloads", self.CONTENT.replace(",10,", ",12,"), "--tenant", "u1")
        assert ran.lines[-1].startswith("0 added, 1 changed, 1 unchanged")
        train = Workload.objects.get(name="train")
        assert (train.tasks, train.state, train.version) == (12, "paused", 2)

    def test_refused_rows_are_told_and_nothing_is_written(self, lab, command):
        before = generation(lab)
        ran = command("import_workloads", self.CONTENT + "u1,zero,0,0,,\nu1,train,1,1,,\n")
        assert [line.split("\t")[3].split()[0] for line in ran.lines[:-1]] == [
            "field.required",
            "demand.zero",
            "row.duplicate",
        ]
        assert (ran.code, Workload.objects.count(), generation(lab)) == (1, 0, before)

    def test_pods_become_workloads_of_their_namespaces(self, lab, command):
        pods = [
            {
                "metadata": {
                    "name": f"web-{number}",
                    "namespace": "u1",
                    "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}],
                },
                "spec": {"containers": [{"resources": {"requests": {"cpu": "250m"}}}]},
                "status": {"phase": phase},
            }
            for number, phase in enumerate(["Running", "Pending", "Succeeded"])
        ]
        ran = command("import_workloads", json.dumps({"items": pods}), "--format", "kubernetes")
        assert ran.lines[-1].startswith("1 added, 0 changed, 0 unchanged, 0 refused, 1 skipped")
        web = Workload.objects.get()
        assert (web.tenant.slug, web.name, web.tasks) == ("u1", "web", 2)
        assert web.demand == [Decimal("0.25"), Decimal(0)]


def test_the_bar_grows_to_its_end_and_is_drawn_only_when_it_grows():
    drawings = []
    draw = progress_bar(drawings.append)
    for done in range(1001):
        draw("checking", done, 1000)
    assert len(drawings) == 31
    assert drawings[15].endswith("[" + "#" * 15 + "." * 15 + "] 50 %")
    assert drawings[-1].endswith("[" + "#" * 30 + "] 100 %")


def slurm_file(*names):
    node = {"cpus": 8, "real_memory": 8192, "gres": ""}
    nodes = [{**node, "name": name, "partitions": [name]} for name in names]
    shape = {"account": "u1", "tres_req_str": "cpu=2,mem=2G,node=2", "node_count": 2}
    jobs = [
        {"job_id": number, "job_state": "PENDING", "partition": name, **shape}
        for number, name in enumerate(names)
    ]
    return json.dumps({"nodes": nodes}) + json.dumps({"jobs": jobs})


def test_jobs_of_slurm_select_servers_where_the_policy_places_tasks(lab, command):
    file = slurm_file("big", "small")
    lab.policy_name, lab.policy_mode = "drfh", "indivisible"
    lab.save()
    found = command("import_workloads", file, "--format", "slurm")
    assert found.lines[-1].startswith("2 added, 0 changed, 0 unchanged, 0 refused")
    big, small = Workload.objects.order_by("name")
    assert (big.server_selector, small.server_selector) == (
        {"partition": "big"},
        {"partition": "small"},
    )
    assert (big.pieces[0]["count"], big.per_server, big.demand) == (2, 1, [2, 2])
    again = command("import_workloads", file, "--format", "slurm")
    assert again.lines[-1].startswith("0 added, 0 changed, 2 unchanged")


def test_jobs_of_slurm_select_nothing_where_the_policy_does_not(lab, command):
    lab.policy_name, lab.policy_mode, lab.policy_places = "drf", "divisible", False
    lab.save()
    found = command("import_workloads", slurm_file("big", "small"), "--format", "slurm")
    assert found.lines[-1].startswith("2 added, 0 changed, 0 unchanged, 0 refused")
    assert [each.server_selector for each in Workload.objects.all()] == [{}, {}]


def test_a_job_of_slurm_that_cannot_be_read_is_named(lab, command):
    file = slurm_file("big").replace("mem=2G", "mem=2X").replace('"job_id": 0', '"job_id": 4711')
    found = command("import_workloads", file, "--format", "slurm")
    assert found.code == 1
    assert found.lines[0].startswith("item 0\trefused\tjob 4711\timport.shape /tres_req_str: ")
    assert not Workload.objects.exists()
