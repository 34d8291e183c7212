"""Workloads of the jobs in `squeue --json`, and the errors of jobs that cannot be read."""

import json
from decimal import Decimal

import pytest

from allocator_agent.licences import WAITS_FOR_LICENCES
from allocator_agent.slurm import jobs as agent
from allocator_service.core.errors import TooLarge, Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports import slurm_content, slurm_jobs
from allocator_service.imports.kinds import read_nodes, read_workloads
from allocator_service.imports.rows import Owner, RefusedRow, SkippedRow, WorkloadRow
from allocator_service.workloads.gangs import Gang, Piece

LAB = [Resource("cpu", "core"), Resource("memory", "GiB"), Resource("gpu", "")]
TYPED = [*LAB, Resource("gpu_a100", "")]
NOBODY = Owner()
NODES = [
    {"name": "n1", "partitions": ["big", "all"], "cpus": 8, "real_memory": 8192},
    {"name": "n2", "partitions": ["small", "all"], "cpus": 4, "real_memory": 4096},
    {
        "name": "g1",
        "partitions": ["gpu"],
        "cpus": 4,
        "real_memory": 4096,
        "gres": "gpu:v100:1,gpu:a100:2(S:0)",
    },
    {"name": "g2", "partitions": ["gpu"], "cpus": 4, "real_memory": 4096, "gres": "gpu:v100:2"},
]
TOPOLOGY = "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=s2 Level=0 Nodes=g1,g2\n"
NOW = 1_795_000_000


def job(number=7, **fields):
    return {
        "job_id": number,
        "account": "Physics_Lab",
        "job_state": "PENDING",
        "state_reason": "Priority",
        "partition": "small",
        "node_count": 1,
        "tres_req_str": "cpu=1,mem=512M,node=1,billing=1",
        "submit_time": NOW,
        **fields,
    }


def rows(*jobs, resources=LAB, owner=NOBODY, **more):
    document = {"jobs": list(jobs), "nodes": NODES, **more}
    return list(read_workloads(document, "slurm", resources, owner).rows)


def row(*jobs, **more):
    (found,) = rows(*jobs, **more)
    assert isinstance(found, WorkloadRow), found
    return found


def error(found):
    assert isinstance(found, RefusedRow), found
    (one,) = found.errors
    return found.name, one.pointer, one.code


class TestShapes:
    def test_jobs_of_one_shape_are_one_workload(self):
        found = row(job(1), job(2), job(3, job_state=["RUNNING"], tres_alloc_str="cpu=1,mem=0.5G"))
        assert (found.owner, found.name, found.tasks) == (
            "physics-lab",
            "small/cpu=1,memory=0.5",
            3,
        )
        assert found.demand == [1, Decimal("0.5"), 0]
        assert (found.selector, found.gang) == ({"partition": "small"}, Gang())

    def test_the_nodes_of_a_job_are_a_gang_of_one_piece_on_each_server(self):
        found = row(job(node_count={"set": True, "number": 3}, tres_req_str="cpu=6,mem=1G,node=3"))
        # A third of 1 GiB is rounded up at the last digit.
        third = Decimal("0.333333333334")
        assert found.gang == Gang((Piece(3, {"cpu": Decimal(2), "memory": third}),), 1)
        assert found.name == "small/3 x cpu=2,memory=0.333333333334"
        assert (found.tasks, found.demand) == (1, [6, 3 * third, 0])

    def test_waiting_tasks_of_an_array_count(self):
        assert row(job(array_task_string="1-9:2,20,30-31%4")).tasks == 5 + 1 + 2
        gang = row(job(array_task_string="0-99", node_count=2, tres_req_str="cpu=2,node=2"))
        assert (gang.tasks, gang.gang.pieces[0].count) == (100, 2)

    def test_the_parts_of_a_heterogeneous_job_are_two_kinds(self):
        head = job(7, het_job_id=7, tres_req_str="cpu=4,node=1")
        workers = job(8, het_job_id=7, node_count=3, tres_req_str="cpu=3,node=3")
        found = row(head, workers)
        pieces = (Piece(3, {"cpu": Decimal(1)}), Piece(1, {"cpu": Decimal(4)}))
        assert (found.gang, found.tasks) == (Gang(pieces, 1), 1)

    def test_parts_of_three_kinds_or_on_different_servers_are_single_tasks(self):
        three = [job(n, het_job_id=7, tres_req_str=f"cpu={n}", node_count=1) for n in (7, 8, 9)]
        assert [each.gang for each in rows(*three)] == [Gang()] * 3
        apart = [job(7, het_job_id=7), job(8, het_job_id=7, partition="big")]
        assert [each.gang for each in rows(*apart)] == [Gang()] * 2

    def test_pools_without_gangs_get_a_task_for_each_node(self):
        document = {"jobs": [job(node_count=3, array_task_string="1-2")], "nodes": NODES}
        file = read_workloads(document, "slurm", LAB, NOBODY)
        (single,) = file.by_kinds(0)
        assert (single.tasks, single.gang, single.name) == (
            6,
            Gang(),
            "small/cpu=0.333333333334,memory=0.166666666667",
        )
        assert read_workloads({**document, "jobs": [job()]}, "slurm", LAB, NOBODY).by_kinds is None

    @pytest.mark.parametrize(
        "exclusive", [{"shared": "none"}, {"shared": ["none"]}, {"exclusive": ["true"]}]
    )
    def test_an_exclusive_job_takes_the_cpus_of_the_smallest_node(self, exclusive):
        assert row(job(partition="all", **exclusive)).demand[0] == 4
        assert row(job(partition="big", **exclusive)).demand[0] == 8
        running = job(partition="big", job_state="RUNNING", tres_alloc_str="cpu=6", **exclusive)
        assert row(running).demand[0] == 6
        more = job(partition="small", tres_req_str="cpu=6,mem=1G", **exclusive)
        assert row(more).demand[0] == 6

    @pytest.mark.parametrize("shared", [None, "", [], "user", ["oversubscribe"]])
    def test_a_job_that_shares_its_nodes_takes_what_it_asks_for(self, shared):
        assert row(job(shared=shared, exclusive=[])).demand[0] == 1


class TestPlaces:
    def test_a_partition_is_the_classes_of_its_nodes(self):
        assert row(job(partition="all")).selector == {"partition": ["big", "small"]}
        assert row(job(partition="all")).name == "big+small/cpu=1,memory=0.5"
        assert row(job(partition="gpu,all")).selector == {}
        assert row(job(partition="gpu,all")).name == "any/cpu=1,memory=0.5"

    def test_types_select_the_nodes_that_have_them(self):
        asks = {"partition": "gpu", "tres_req_str": "cpu=1,gres/gpu=1,gres/gpu:a100=1"}
        found = row(job(tres_per_node="gres:gpu:a100:1", **asks))
        assert found.selector == {"partition": "gpu", "gres.gpu": "a100.v100"}
        assert found.demand == [1, 0, 1]
        both = row(job(tres_per_job="gres/gpu:v100=1", **asks))
        assert both.selector["gres.gpu"] == ["a100.v100", "v100"]
        typed = row(job(tres_per_node="gres:gpu:a100:1", **asks), resources=TYPED)
        assert (typed.selector, typed.demand) == ({"partition": "gpu"}, [1, 0, 1, 1])

    def test_models_without_a_total_are_summed(self):
        found = row(job(tres_req_str="cpu=1,gres/gpu:a100=1,gres/gpu:v100=2,license/x=1"))
        assert found.demand == [1, 0, 3]

    def test_licences_are_on_no_node_and_left_out(self):
        resources = (Resource("cpu"), Resource("license_x"))
        found = row(job(tres_req_str="cpu=1,license/x=1"), resources=resources)
        assert found.demand == [1, 0]

    def test_a_stated_total_counts_in_place_of_the_models(self):
        assert row(job(tres_req_str="cpu=1,gres/gpu=4,gres/gpu:a100=1")).demand == [1, 0, 4]

    def test_one_switch_is_a_label_that_all_servers_share(self):
        asks = {"node_count": 2, "required_switches": 1}
        assert row(job(**asks), topology=TOPOLOGY).gang.together == "switch"
        assert row(job(node_count=2, minimum_switches=1), topology=TOPOLOGY).gang.together
        assert row(job(**asks), topology=TOPOLOGY).name.endswith(" in one switch")
        assert row(job(**asks)).gang.together == ""
        assert row(job(node_count=2, required_switches=2), topology=TOPOLOGY).gang.together == ""
        assert row(job(required_switches=1), topology=TOPOLOGY).gang == Gang()
        running = {**asks, "job_state": "RUNNING"}
        assert row(job(nodes="n[1-2]", **running), topology=TOPOLOGY).gang.together == "switch"
        # Slurm has given up waiting for one switch.
        assert row(job(nodes="n1,g1", **running), topology=TOPOLOGY).gang.together == ""

    def test_nodes_get_the_labels_that_jobs_select(self):
        document = {"nodes": NODES, "topology": TOPOLOGY}
        found = read_nodes(document, "slurm", TYPED, NOBODY).rows
        assert [each.labels for each in found] == [
            {"partition": "big", "switch": "s1"},
            {"partition": "small", "switch": "s1"},
            {"partition": "gpu", "switch": "s2", "gres.gpu": "a100.v100"},
            {"partition": "gpu", "switch": "s2", "gres.gpu": "v100"},
        ]
        assert [each.capacity[2:] for each in found[2:]] == [[3, 2], [2, 0]]

    def test_groups_of_sinfo_have_the_partitions_of_their_nodes(self):
        def group(partition, *names):
            four = {"minimum": 4, "maximum": 4}
            return {
                "nodes": {"nodes": list(names)},
                "cpus": four,
                "memory": four,
                "partition": {"name": partition},
            }

        sinfo = [group("small", "n2"), group("big", "n1"), group("all", "n1", "n2")]
        document = {"sinfo": sinfo, "jobs": [job(partition="all"), job(partition="big")]}
        found = read_workloads(document, "slurm", LAB, NOBODY).rows
        assert [each.selector for each in found] == [{}, {"partition": "big"}]
        named = read_nodes(document, "slurm", LAB, NOBODY).rows
        assert {each.name: each.labels for each in named} == {
            "n2": {"partition": "small"},
            "n1": {"partition": "big"},
        }


class TestSkipped:
    @pytest.mark.parametrize("reason", sorted(slurm_jobs.NOT_YET))
    def test_a_job_that_cannot_start_is_skipped(self, reason):
        (found,) = rows(job(state_reason=reason))
        assert (type(found), found.name) == (SkippedRow, "job 7")
        assert reason in found.reason
        assert row(job(state_reason=reason, job_state="RUNNING")).tasks == 1

    def test_reasons_and_states_are_those_of_the_agent(self):
        assert {*agent.NOT_YET, WAITS_FOR_LICENCES} == slurm_jobs.NOT_YET
        assert set(agent.JOB_STATES.split(",")) == slurm_jobs.PRESENT_STATES
        assert agent.SOON_SECONDS == slurm_jobs.SOON_SECONDS

    def test_a_job_that_begins_later_is_skipped(self):
        begins = {"state_reason": "BeginTime"}
        (late,) = rows(job(eligible_time=NOW + 601, **begins))
        assert isinstance(late, SkippedRow)
        assert row(job(eligible_time=NOW + 600, **begins)).tasks == 1
        # The file is as old as the last event that it states.
        assert row(job(eligible_time=NOW + 601, **begins), last_update={"number": NOW + 1})

    @pytest.mark.parametrize("state", ["COMPLETED", ["FAILED"], ["RUNNING", "COMPLETING"], []])
    def test_a_job_that_has_ended_is_skipped(self, state):
        (found,) = rows(job(job_state=state))
        assert isinstance(found, SkippedRow)

    def test_a_job_of_other_resources_is_skipped(self):
        (found,) = rows(job(), resources=[Resource("gpu", "")])
        assert isinstance(found, SkippedRow)


class TestRefused:
    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"account": ""}, ("/account", "field.blank")),
            ({"account": "é"}, ("/account", "slug.syntax")),
            ({"array_task_string": "1-3,5,..."}, ("/array_task_string", "import.shape")),
            ({"array_task_string": "9-1"}, ("/array_task_string", "import.shape")),
            ({"array_task_string": "1-9:0"}, ("/array_task_string", "import.shape")),
            ({"tres_req_str": "cpu=x"}, ("/tres_req_str", "import.shape")),
            ({"tres_req_str": "gres/gpu:a100=1K"}, ("/tres_req_str", "field.type")),
            ({"node_count": -1}, ("/node_count", "field.type")),
            ({"node_count": 10_001}, ("/node_count", "field.range")),
            ({"partition": 5}, ("/partition", "import.shape")),
            ({"tres_per_node": ["a"]}, ("/tres_per_node", "field.type")),
        ],
    )  # fmt: skip
    def test_a_job_that_cannot_be_read_is_named(self, fields, expected):
        found = rows(job(6), job(7, **fields))
        assert error(found[1]) == ("job 7", *expected)
        assert found[0].tasks == 1

    def test_a_cut_list_of_array_tasks_says_how_to_get_all(self):
        (found,) = rows(job(array_task_string="1,3,5,..."))
        assert "SLURM_BITSTR_LEN=0" in found.errors[0].detail

    def test_the_other_parts_of_a_job_that_cannot_be_read_are_refused(self):
        found = rows(job(7, het_job_id=7), job(8, het_job_id=7, tres_req_str="cpu=x"), job(9))
        assert [type(each) for each in found] == [RefusedRow, RefusedRow, WorkloadRow]
        assert "job 8" in found[0].errors[0].detail

    def test_jobs_without_nodes_are_refused(self):
        with pytest.raises(Unacceptable, match="sinfo --json"):
            read_workloads({"jobs": [job()]}, "slurm", LAB, NOBODY)
        with pytest.raises(Unacceptable, match="squeue --json"):
            read_workloads({"nodes": NODES}, "slurm", LAB, NOBODY)

    def test_the_tenant_may_be_one_for_all_or_another_field(self):
        assert row(job(account=None), owner=Owner("ada")).owner == "ada"
        assert row(job(user_name="Ann_B"), owner=Owner(label="user_name")).owner == "ann-b"


class TestContent:
    def test_the_outputs_of_commands_follow_each_other_in_any_order(self):
        queue, nodes = json.dumps({"jobs": [job()]}, indent=1), json.dumps({"nodes": NODES})
        for parts in ([queue, nodes, TOPOLOGY], [TOPOLOGY, nodes, queue], [nodes, TOPOLOGY, queue]):
            text = "\n".join(parts)
            document = slurm_content.slurm_content(text)
            assert document["jobs"] == [job()]
            assert document["nodes"] == NODES
            assert slurm_content.switches_of(document)["g2"] == "s2"

    @pytest.mark.parametrize(
        "text",
        ["", " ", "[]", "{", '{"jobs": [', '{"jobs": [1 2]}', '{"jobs" []}', '{"a": 1,}', "x{}",
         "{} x", '{"jobs": [1,]}', '{"jobs": [,1]}', "{1: 2}", '{"a": 1} SwitchName=s', "nonsense"],
    )  # fmt: skip
    def test_other_text_is_refused(self, text):
        with pytest.raises(Unacceptable, match="not the expected JSON"):
            slurm_content.slurm_content(text)

    def test_items_are_read_whatever_their_length(self):
        items = [{"name": "x" * length} for length in (1, 4_080, 4_096, 20_000, 100_000)]
        items += [123_456] * 5_000
        text = json.dumps({"jobs": items})
        assert slurm_content.slurm_content(text) == {"jobs": items}

    def test_an_item_of_too_many_values_is_refused(self):
        with pytest.raises(TooLarge):
            slurm_content.slurm_content('{"jobs": [[' + "1," * 2_000_000 + "1]]}")

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("n1", ("n1",)),
            ("n[1-3,07],g", ("n1", "n2", "n3", "n07", "g")),
            ("r[1-2]n[01-02]", ("r1n01", "r1n02", "r2n01", "r2n02")),
            ("n[1-99999999]", ()),
            ("n[1-300]m[1-300]", ()),
            ("n[a-b]", ()),
        ],
    )
    def test_names_of_nodes(self, text, names):
        assert slurm_content.node_names(text) == names
