"""The objects of every target: exact, named, and accepted by the target's own schema and rules."""

import json
import shlex
import shutil
import subprocess
from fractions import Fraction

import jsonschema
import kubernetes_validate
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from allocator_service.core.errors import Conflict, TooLarge, Unreadable
from allocator_service.enforcement.rendering import targets
from allocator_service.enforcement.rendering.manifests import yaml_stream
from allocator_service.enforcement.rendering.names import account_name, class_name, object_name
from allocator_service.enforcement.rendering.targets import TARGETS, target_named
from policies import PolicyError
from tests.examples import examples
from tests.unit.enforcement.crds import MANIFESTS, SCHEMAS, broken_rules
from tests.unit.enforcement.decisions import DECIDED_AT, POLICIES, decide, document


def render(asked, target, *, label="partition", quota="hard", members=()):
    """Decide a document and render that."""
    return targets.decision_render(
        decided=decide(asked, label=label),
        target=target_named(target),
        label=label,
        members=members,
        now=DECIDED_AT,
        quota=quota,
    )


def pool_document(**changes):
    """10 CPUs of big servers and 6 of small ones, for ada with 8.5 CPUs of tasks and bob with 3."""
    asked = {
        "resources": [{"name": "cpu", "unit": ""}, {"name": "memory", "unit": "GiB"}],
        "servers": [
            {"name": "b", "capacity": {"cpu": 10, "memory": 20}, "labels": {"partition": "big"}},
            {"name": "s", "capacity": {"cpu": 6, "memory": 12}, "labels": {"partition": "small"}},
        ],
        "tenants": [{"name": "ada", "weight": 2}, {"name": "bob", "weight": 1}],
        "workloads": [
            {
                "tenant": "ada",
                "name": "a",
                "demand": {"cpu": 0.5, "memory": 1},
                "tasks": 17,
                "server_selector": {"partition": "big"},
            },
            {
                "tenant": "bob",
                "name": "b",
                "demand": {"cpu": 1, "memory": 0.5},
                "tasks": 3,
                "server_selector": {"partition": "small"},
            },
        ],
        "policy": {"name": "drfh", "mode": "indivisible", "options": {}},
        "weights": "explicit",
    } | changes
    asked["servers"] = [{"count": 1, **server} for server in asked["servers"]]
    return asked


def test_slurm_has_an_account_and_its_partitions_per_tenant():
    rendering = render(pool_document(), "slurm", members=["ada", "carl"])
    comment = "allocator pool=lab run=01a20387-d168-76c6-8191-4e0a898ddb02 generation=17"

    def account(slug, fairshare, cpu, mem):
        limits = {"cpu": cpu, "mem": mem}
        return {
            "kind": "account", "tenant": slug, "account": slug, "fairshare": fairshare,
            "limits": limits, "comment": comment,
        }  # fmt: skip

    def of_class(slug, partition, cpu, mem):
        limits = {"cpu": cpu, "mem": mem}
        return {
            "kind": "class", "tenant": slug, "account": slug, "partition": partition,
            "limits": limits, "comment": comment,
        }  # fmt: skip

    assert rendering.objects == [
        account("ada", 2000, 8, 17 * 1024),
        account("bob", 1000, 3, 1536),
        account("carl", 1, 0, 0),
        of_class("ada", "big", 8, 17 * 1024),
        of_class("ada", "small", 0, 0),
        of_class("bob", "big", 0, 0),
        of_class("bob", "small", 3, 1536),
        of_class("carl", "big", 0, 0),
        of_class("carl", "small", 0, 0),
    ]
    ada = rendering.limits.tenants[0]
    assert [str(lost) for lost in ada.lost] == ["0.5", "0"]
    assert ada.notes == ["8.5 cpu became 8: fractions of 1 CPU cannot be enforced."]


def test_the_script_lowers_everything_before_it_raises_anything():
    rendering = render(pool_document(), "slurm")
    lines = [line for line in rendering.text.splitlines() if line.startswith("run sacctmgr")]
    assert lines == [
        "run sacctmgr -i modify account where name=ada,bob set GrpTRES=cpu=0,mem=0",
        "run sacctmgr -i modify user where account=ada,bob partition=big set GrpTRES=cpu=0,mem=0",
        "run sacctmgr -i modify user where account=ada,bob partition=small set GrpTRES=cpu=0,mem=0",
        "run sacctmgr -i modify account where name=ada set GrpTRES=cpu=8,mem=17408 fairshare=2000",
        "run sacctmgr -i modify account where name=bob set GrpTRES=cpu=3,mem=1536 fairshare=1000",
        "run sacctmgr -i modify user where account=ada partition=big set GrpTRES=cpu=8,mem=17408",
        "run sacctmgr -i modify user where account=ada partition=small set GrpTRES=cpu=0,mem=0",
        "run sacctmgr -i modify user where account=bob partition=big set GrpTRES=cpu=0,mem=0",
        "run sacctmgr -i modify user where account=bob partition=small set GrpTRES=cpu=3,mem=1536",
    ]


def test_no_partition_ends_a_command_of_the_script():
    evil = "x; rm -rf ~ $(id) '\""
    servers = [{"name": "b", "capacity": {"cpu": 10, "memory": 20}, "labels": {"partition": evil}}]
    asked = pool_document(servers=servers)
    for workload in asked["workloads"]:
        workload["server_selector"] = {}
    text = render(asked, "slurm").text
    words = [shlex.split(line) for line in text.splitlines() if line.startswith("run sacctmgr")]
    assert all(f"partition={evil}" in each for each in words if "user" in each)
    assert any("user" in each for each in words)


def test_kueue_has_a_flavor_per_class_and_a_hard_queue_per_tenant():
    big, small, ada, bob = render(pool_document(), "kueue").objects
    assert (big["metadata"]["name"], big["spec"]) == ("big", {"nodeLabels": {"partition": "big"}})
    assert small["spec"] == {"nodeLabels": {"partition": "small"}}
    assert ada["spec"] == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ada"}},
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory"],
                "flavors": [
                    {
                        "name": "big",
                        "resources": [
                            {"name": "cpu", "nominalQuota": "8500m"},
                            {"name": "memory", "nominalQuota": str(17 * 2**30)},
                        ],
                    },
                    {
                        "name": "small",
                        "resources": [
                            {"name": "cpu", "nominalQuota": "0"},
                            {"name": "memory", "nominalQuota": "0"},
                        ],
                    },
                ],
            }
        ],
    }
    assert bob["metadata"]["annotations"] == {
        "allocator.run": "01a20387-d168-76c6-8191-4e0a898ddb02",
        "allocator.generation": "17",
    }


def test_soft_quota_is_a_cohort_that_lends_what_is_not_used():
    ada = render(pool_document(), "kueue", quota="soft").objects[2]
    assert ada["spec"]["cohortName"] == "lab"
    assert ada["spec"]["fairSharing"] == {"weight": "2000m"}
    assert ada["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0] == {
        "name": "cpu",
        "nominalQuota": "8500m",
        "borrowingLimit": "1500m",
        "lendingLimit": "8500m",
    }


def test_effective_quotas_are_in_the_status_and_the_spec_gives_nothing():
    ada = render(pool_document(), "kueue", quota="effective").objects[2]
    assert list(ada["status"]) == ["effectiveQuotas"]
    effective = ada["status"]["effectiveQuotas"]
    assert effective["orchestratorRef"] == {"apiGroup": "allocator", "kind": "Pool", "name": "lab"}

    def quotas(groups):
        return [row["nominalQuota"] for f in groups[0]["flavors"] for row in f["resources"]]

    assert quotas(effective["resourceGroups"]) == ["8500m", str(17 * 2**30), "0", "0"]
    assert quotas(ada["spec"]["resourceGroups"]) == ["0", "0", "0", "0"]


@pytest.mark.parametrize("quota", ["hard", "soft"])
def test_only_effective_quotas_are_in_a_status(quota):
    assert all(
        "status" not in each for each in render(pool_document(), "kueue", quota=quota).objects
    )


MISREAD = [
    "y", "n", "1e3", "12e03", "08", "0o7", "0x1f", "0b1", "5", "1.5", "1_0e3", "1e-3", "yes", "null",
    "true", "off", "2026-11-01",
]  # fmt: skip


@pytest.mark.parametrize("name", MISREAD)
def test_no_name_is_a_number_or_a_truth_value_to_kubectl(name):
    """kubectl reads scalars by another table than PyYAML; only quotes are texts to both."""
    text = yaml_stream([{name: name, "list": [name, f"{name}-a"]}], notes=())
    scalars = [each for each in yaml.scan(text) if isinstance(each, yaml.ScalarToken)]
    assert [each.value for each in scalars if not each.plain] == [name, name, name]
    if shutil.which("kubectl"):
        labels = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a"},
            "data": {name: name},
        }
        told = subprocess.run(
            ["kubectl", "label", "--local", "--filename", "-", "--output", "json", "seen=yes"],
            input=yaml_stream([labels], notes=()), capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert json.loads(told.stdout)["data"] == {name: name}


def test_kubernetes_has_a_quota_of_requests_per_namespace():
    quota = render(pool_document(), "kubernetes").objects[0]
    assert (quota["metadata"]["namespace"], quota["metadata"]["name"]) == ("ada", "allocator-lab")
    assert quota["spec"] == {"hard": {"requests.cpu": "8500m", "requests.memory": str(17 * 2**30)}}


def test_volcano_and_kai_have_a_queue_per_tenant():
    volcano = render(pool_document(), "volcano").objects[1]
    assert (
        volcano["spec"]["deserved"]
        == volcano["spec"]["capability"]
        == {
            "cpu": "3",
            "memory": str(3 * 2**29),
        }
    )
    assert "capability" not in render(pool_document(), "volcano", quota="soft").objects[1]["spec"]
    parent, ada, _ = render(pool_document(), "kai").objects
    assert parent["metadata"]["name"] == ada["spec"]["parentQueue"] == "pool-lab"
    # 17 GiB are 18,253.611008 times 10^6 bytes, rounded down.
    assert ada["spec"]["resources"] == {
        "cpu": {"quota": 8500, "limit": 8500, "overQuotaWeight": 0},
        "memory": {"quota": 18253, "limit": 18253, "overQuotaWeight": 0},
    }
    soft = render(pool_document(), "kai", quota="soft").objects[1]["spec"]["resources"]["cpu"]
    assert soft == {"quota": 8500, "limit": -1, "overQuotaWeight": 2000}


@given(st.integers(0, 2**32), st.sampled_from(POLICIES))
@examples(100)
def test_every_manifest_is_valid_and_its_stream_reads_back(seed, chosen):
    asked = document(seed, *chosen)
    try:
        decided = decide(asked)
    except PolicyError:
        return
    for target in TARGETS.values():
        for quota in target.quotas:
            limits = targets.decision_limits(
                decided,
                label="partition",
                units=target.units(decided.resources),
                members=["kube-system"],
                quota=quota,
                at=DECIDED_AT,
            )
            if decided.period_seconds and target.name != "slurm":
                with pytest.raises(Conflict, match="divides time"):
                    target.objects(limits)
                continue
            objects = target.objects(limits)
            if target.name == "slurm":
                continue
            for each in objects:
                if each["kind"] != "ResourceQuota":
                    MANIFESTS[each["apiVersion"], each["kind"]].validate(each)
                if each["kind"] == "ClusterQueue":
                    assert broken_rules(each) == []
            stream = target.text(objects, notes=["a note"])
            assert stream.startswith("# a note\n---\n")
            assert list(yaml.load_all(stream, yaml.CSafeLoader)) == objects


@pytest.mark.parametrize("seed", range(4))
def test_kubernetes_takes_the_quotas(seed):
    for quota in render(document(seed, "drfh", "divisible"), "kubernetes").objects:
        kubernetes_validate.validate(quota, "1.31", strict=True)


def test_the_schemas_refuse_what_the_projects_refuse():
    ada = render(pool_document(), "kueue").objects[2]
    ada["spec"]["resourceGroups"][0]["flavors"][0]["resources"].pop()
    ada["spec"]["resourceGroups"][0]["flavors"][1]["resources"][0]["borrowingLimit"] = "1"
    assert broken_rules(ada)[0].startswith("flavors must have the same number")
    assert "borrowingLimit must be nil when cohort is empty" in broken_rules(ada)
    ada["spec"]["resourceGroups"][0]["flavors"][0]["name"] = "Big"
    with pytest.raises(jsonschema.ValidationError):
        MANIFESTS["kueue.x-k8s.io/v1beta2", "ClusterQueue"].validate(ada)
    quota = render(pool_document(), "kubernetes").objects[0]
    quota["spec"]["hrad"] = quota["spec"].pop("hard")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(quota, "1.31", strict=True)


def servers_of(values, label="partition"):
    return [
        {"name": f"s{i}", "capacity": {"cpu": 1, "memory": 1}, "labels": {label: value}}
        for i, value in enumerate(values)
    ]


def free(asked):
    for workload in asked["workloads"]:
        workload["server_selector"] = {}
    return asked


def test_more_classes_than_kueue_takes_are_refused():
    fits = free(pool_document(servers=servers_of([f"p{i}" for i in range(64)])))
    assert len(render(fits, "kueue").objects) == 66
    with pytest.raises(Conflict, match="64 flavors") as refused:
        render(free(pool_document(servers=servers_of([f"p{i}" for i in range(65)]))), "kueue")
    assert refused.value.code == "rendering.too_many"


def test_a_label_that_no_node_has_is_refused():
    with pytest.raises(Conflict, match="No node") as refused:
        render(free(pool_document(servers=servers_of(["a b"]))), "kueue")
    assert refused.value.code == "rendering.label"
    label = "no/such/key"
    with pytest.raises(Conflict, match="No node"):
        render(free(pool_document(servers=servers_of(["a"], label))), "kueue", label=label)


def test_too_many_limits_are_refused(monkeypatch):
    monkeypatch.setattr(targets, "MAX_CELLS", 3)
    with pytest.raises(TooLarge, match="are 4 limits") as refused:
        render(pool_document(), "slurm")
    assert refused.value.code == "rendering.too_large"


def test_a_quota_that_the_target_lacks_is_refused():
    with pytest.raises(Unreadable, match='"quota" of slurm is one of: hard'):
        render(pool_document(), "slurm", quota="soft")


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_units_that_a_target_cannot_count_are_refused(target):
    resources = [{"name": "cpu", "unit": ""}, {"name": "memory", "unit": "pages"}]
    with pytest.raises(Conflict, match='memory in "pages"') as refused:
        render(pool_document(resources=resources), target)
    assert refused.value.code == "rendering.unit"


def test_memory_without_a_unit_is_mib_and_said():
    resources = [{"name": "cpu", "unit": "millicores"}, {"name": "memory", "unit": ""}]
    rendering = render(pool_document(resources=resources), "slurm")
    assert rendering.objects[0]["limits"] == {"cpu": 0, "mem": 17}
    assert "The pool has no unit for memory: it is taken for MiB." in rendering.limits.notes


def test_a_type_of_gpu_is_a_tres_of_its_own_for_slurm():
    names = ("gpu", "gpu_a100")
    asked = pool_document(resources=[{"name": name, "unit": ""} for name in names])
    for server in asked["servers"]:
        server["capacity"] = dict.fromkeys(names, 4)
    for workload in asked["workloads"]:
        workload["demand"] = dict.fromkeys(names, 1)
    limits = render(asked, "slurm").objects[0]["limits"]
    assert limits.keys() == {"gres/gpu", "gres/gpu:a100"}


def test_a_licence_is_a_tres_of_accounts_and_of_no_partition_for_slurm():
    asked = pool_document(resources=[{"name": "cpu"}, {"name": "license_matlab"}])
    for server in asked["servers"]:
        server["capacity"] = {"cpu": 8}
    labels = {"partition": "slurm-licenses"}
    asked["servers"].append({**asked["servers"][0], "name": "l", "labels": labels})
    asked["servers"][-1]["capacity"] = {"license_matlab": 3}
    pieces = [{"count": 1, "demand": {"cpu": 2}}, {"count": 1, "demand": {"license_matlab": 2}}]
    both = {"cpu": 2, "license_matlab": 2}
    asked["workloads"] = [
        {"tenant": "ada", "name": "a", "tasks": 2, "demand": both, "pieces": pieces},
        {"tenant": "bob", "name": "b", "tasks": 4, "demand": {"cpu": 3}},
    ]
    asked["policy"] = {"name": "drfh", "mode": "indivisible"}
    rendering = render(asked, "slurm")
    limits = {each["tenant"]: each["limits"] for each in of_kind(rendering, "account")}
    assert limits == {
        "ada": {"cpu": 2, "license/matlab": 2},
        "bob": {"cpu": 12, "license/matlab": 0},
    }
    classes = of_kind(rendering, "class")
    assert {each["partition"] for each in classes} == {"big", "small"}
    # A limit of 0 licences in a partition would stop the jobs of the account's own licences there.
    assert all(each["limits"].keys() == {"cpu"} for each in classes)


def of_kind(rendering, kind):
    return [each for each in rendering.objects if each["kind"] == kind]


def test_what_a_target_has_no_name_for_is_left_out_and_said():
    asked = pool_document(resources=[{"name": "cpu", "unit": ""}, {"name": "seats", "unit": ""}])
    for server in asked["servers"]:
        server["capacity"] = {"cpu": 4, "seats": 4}
    for workload in asked["workloads"]:
        workload["demand"] = {"cpu": 1, "seats": 1}
    quota = render(asked, "kubernetes")
    assert quota.objects[0]["spec"]["hard"].keys() == {"requests.cpu"}
    assert "no resource that seats stands for" in quota.limits.notes[0]
    assert render(asked, "slurm").objects[0]["limits"].keys() == {"cpu", "gres/seats"}
    asked["resources"][0]["name"] = "chairs"
    for each in (*asked["servers"],):
        each["capacity"] = {"chairs": 4, "seats": 4}
    for each in asked["workloads"]:
        each["demand"] = {"chairs": 1, "seats": 1}
    with pytest.raises(Conflict, match="knows none of the pool's resources"):
        render(asked, "kueue")


def test_names_that_schedulers_keep_are_mapped_and_never_shared():
    longest = "a" * 63
    assert account_name(longest) == object_name(longest) == longest
    assert account_name("root").startswith("tenant-root-")
    for kept in ("default", "root", "kube-system"):
        assert object_name(kept).startswith(f"tenant-{kept}-")
    values = ["Big", "big", "BIG", "b ig", "b-ig", "ü", "", "x" * 253, "x" * 64, "-", "a.b"]
    names = [class_name(value) for value in values]
    assert len(set(names)) == len(values)
    schema = SCHEMAS["kueue.x-k8s.io/v1beta2", "ResourceFlavor"]["properties"]["metadata"]
    for name in names:
        assert len(name) <= 63
        jsonschema.validate({"name": name}, schema)


def test_slots_become_reservations_of_this_period_and_the_next():
    asked = pool_document(
        resources=[{"name": "cpu", "unit": ""}, {"name": "memory", "unit": "GiB"}],
        servers=[{"name": "s1", "capacity": {"cpu": 15, "memory": 15}, "labels": {}}],
        policy={"name": "tda", "mode": "indivisible", "options": {"period_seconds": 4100}},
        tenants=[{"name": "ada", "weight": 1}, {"name": "bob", "weight": 1}],
        workloads=[
            {"tenant": "ada", "name": "wide", "demand": {"cpu": 5, "memory": 2}, "tasks": None},
            {"tenant": "bob", "name": "tall", "demand": {"cpu": 3, "memory": 3.5}, "tasks": None},
        ],
    )
    rendering = render(asked, "slurm")
    accounts = [each for each in rendering.objects if each["kind"] == "account"]
    reserved = [each for each in rendering.objects if each["kind"] == "reservation"]
    assert {each["kind"] for each in rendering.objects} == {"account", "reservation"}
    assert len({each["name"] for each in reserved}) == len(reserved)
    assert all(each["name"].startswith("allocator-lab-") for each in reserved)
    begins = sorted({each["start"] for each in reserved})
    period = sorted({(each["end"] - each["start"]).total_seconds() for each in reserved})
    assert sum(period) == 4100
    assert len(begins) == 4
    for at in begins:  # at every instant
        running = [each for each in reserved if each["start"] <= at < each["end"]]
        assert sum(each["cores"] for each in running) <= 15
        assert sum(each["limits"]["mem"] for each in running) <= 15 * 1024
    most = {
        each["account"]: max(r["cores"] for r in reserved if r["account"] == each["account"])
        for each in accounts
    }
    assert {each["account"]: each["limits"]["cpu"] for each in accounts} == most
    assert Fraction(most["ada"], 5).denominator == 1  # whole tasks of 5 CPUs
    text = rendering.text
    assert text.count("scontrol create reservation") == len(reserved)
    assert "StartTime=2026-11-02T08:00:00 " in text


@pytest.mark.parametrize("target", ["kueue", "kubernetes", "volcano"])
def test_what_kubernetes_would_cut_is_refused(target):
    asked = pool_document(
        resources=[{"name": "cpu", "unit": ""}, {"name": "memory", "unit": "GiB"}],
        servers=[{"name": "b", "capacity": {"cpu": 10, "memory": 2e10}, "labels": {}}],
        workloads=[{"tenant": "ada", "name": "a", "demand": {"cpu": 1, "memory": 2e9}, "tasks": 9}],
    )
    with pytest.raises(Conflict) as refused:
        render(asked, target)
    assert refused.value.code == "rendering.quantity"
    assert "9223372036854775807" in refused.value.detail
