"""Groups in the objects of every target: parents of the tenants, accepted by the targets' schemas."""

import copy
import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator_service.enforcement.rendering import targets
from allocator_service.enforcement.rendering.names import group_accounts, group_objects
from allocator_service.enforcement.rendering.targets import TARGETS, target_named
from allocator_service.pools.budgets import MonthlyStops
from tests.examples import examples
from tests.unit.enforcement.crds import MANIFESTS, broken_rules
from tests.unit.enforcement.decisions import DECIDED_AT, decide, document
from tests.unit.enforcement.test_targets import render


def tree_document(**changes):
    """Case A below a department: labs (weight 3) has a (2, 20 tasks) and b; genes has c."""
    tasks = {"a": 20, "b": None, "c": None}
    return {
        "resources": [{"name": "cpu", "unit": ""}, {"name": "memory", "unit": "GiB"}],
        "servers": [{"name": "s", "capacity": {"cpu": 100, "memory": 100}, "count": 1, "labels": {}}],
        "groups": [
            {"name": "labs", "parent": "science", "weight": 3},
            {"name": "science"},
            {"name": "genes", "parent": "science"},
            {"name": "empty"},
        ],
        "tenants": [
            {"name": "a", "group": "labs", "weight": 2},
            {"name": "b", "group": "labs", "weight": 1},
            {"name": "c", "group": "genes"},
        ],
        "workloads": [
            {"tenant": name, "name": "w", "demand": {"cpu": 1, "memory": 1}, "tasks": count}
            for name, count in tasks.items()
        ],
        "policy": {"name": "drfh", "mode": "indivisible", "options": {}},
        "weights": "explicit",
    } | changes  # fmt: skip


def renamed(asked, names):
    """The same document with other names of groups."""
    asked = copy.deepcopy(asked)
    for group in asked["groups"]:
        group["name"] = names.get(group["name"], group["name"])
        if group.get("parent"):
            group["parent"] = names.get(group["parent"], group["parent"])
    for tenant in asked["tenants"]:
        tenant["group"] = names.get(tenant["group"], tenant["group"])
    return asked


def test_slurm_limits_the_parent_accounts_to_the_sums_of_their_children():
    rendering = render(tree_document(), "slurm")
    groups = [each for each in rendering.objects if each["kind"] == "group"]
    assert [
        (g["account"], g["parent"], g["fairshare"], g["limits"]["cpu"], g["limits"]["mem"])
        for g in groups
    ] == [
        ("science", None, 1000, 100, 102400),
        ("empty", None, 1000, 0, 0),
        ("labs", "science", 3000, 75, 76800),
        ("genes", "science", 1000, 25, 25600),
    ]
    accounts = [each for each in rendering.objects if each["kind"] == "account"]
    assert [(a["account"], a["group"], a["fairshare"], a["limits"]["cpu"]) for a in accounts] == [
        ("a", "labs", 2000, 20), ("b", "labs", 1000, 55), ("c", "genes", 1000, 25),
    ]  # fmt: skip
    assert rendering.limits.notes[-1].startswith("Groups are parents of their members' accounts")


def test_the_script_lowers_and_raises_parents_before_their_children():
    rendering = targets.decision_render(
        decided=decide(tree_document()),
        target=target_named("slurm"),
        label="partition",
        members=(),
        former_groups=["old", "labs"],
        now=DECIDED_AT,
    )
    lines = [line for line in rendering.text.splitlines() if line.startswith("run sacctmgr")]
    modify = "run sacctmgr -i modify account where name="
    assert lines == [
        f"{modify}science,empty,labs,genes,a,b,c set GrpTRES=cpu=0,mem=0",
        f"{modify}science set GrpTRES=cpu=100,mem=102400 fairshare=1000",
        f"{modify}empty set GrpTRES=cpu=0,mem=0 fairshare=1000",
        f"{modify}labs set GrpTRES=cpu=75,mem=76800 fairshare=3000",
        f"{modify}genes set GrpTRES=cpu=25,mem=25600 fairshare=1000",
        f"{modify}a set GrpTRES=cpu=20,mem=20480 fairshare=2000",
        f"{modify}b set GrpTRES=cpu=55,mem=56320 fairshare=1000",
        f"{modify}c set GrpTRES=cpu=25,mem=25600 fairshare=1000",
        f"{modify}old set GrpTRES=cpu=-1,mem=-1",
    ]


def test_the_limit_of_a_former_group_with_the_account_of_a_tenant_stays():
    limits = targets.decision_limits(
        decide(tree_document()),
        label="partition",
        units=TARGETS["slurm"].units(decide(tree_document()).resources),
        members=(),
        former_groups=["a", "old"],
        quota="hard",
        at=DECIDED_AT,
    )
    removed = [each for each in TARGETS["slurm"].objects(limits) if each["kind"] == "removed"]
    assert [(each["group"], each["account"]) for each in removed] == [("old", "old")]


def test_kueue_has_a_cohort_per_group_in_which_hard_queues_neither_borrow_nor_lend():
    objects = render(tree_document(), "kueue").objects
    cohorts = {o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == "Cohort"}
    assert cohorts == {
        "science": {"parentName": "lab"},
        "empty": {"parentName": "lab"},
        "labs": {"parentName": "science"},
        "genes": {"parentName": "science"},
    }
    queue = next(o for o in objects if o["metadata"]["name"] == "a")
    assert queue["spec"]["cohortName"] == "labs"
    assert queue["metadata"]["annotations"]["allocator.cohort"] == "labs"
    assert queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0] == {
        "name": "cpu", "nominalQuota": "20", "borrowingLimit": "0", "lendingLimit": "0",
    }  # fmt: skip


def test_effective_quotas_give_cohorts_nothing_of_their_own():
    objects = render(tree_document(), "kueue", quota="effective").objects
    cohorts = [each for each in objects if each["kind"] == "Cohort"]
    assert [each["status"] for each in cohorts] == [
        {
            "effectiveQuotas": {
                "orchestratorRef": {"apiGroup": "allocator", "kind": "Pool", "name": "lab"},
                "resourceGroups": [],
            }
        }
    ] * 4
    queue = next(each for each in objects if each["metadata"]["name"] == "a")
    (group,) = queue["status"]["effectiveQuotas"]["resourceGroups"]
    assert group["flavors"][0]["resources"][0] == {
        "name": "cpu", "nominalQuota": "20", "borrowingLimit": "0", "lendingLimit": "0",
    }  # fmt: skip


def test_soft_cohorts_share_by_the_weights_of_siblings():
    objects = render(tree_document(), "kueue", quota="soft").objects
    weights = {
        o["metadata"]["name"]: o["spec"]["fairSharing"]["weight"]
        for o in objects
        if o["kind"] != "ResourceFlavor"
    }
    assert weights == {
        "science": "1000m", "empty": "1000m", "labs": "3000m", "genes": "1000m",
        "a": "2000m", "b": "1000m", "c": "1000m",
    }  # fmt: skip


def test_volcano_and_kai_queues_have_their_groups_as_parents():
    volcano = render(tree_document(), "volcano").objects
    assert {o["metadata"]["name"]: o["spec"].get("parent") for o in volcano} == {
        "science": None, "empty": None, "labs": "science", "genes": "science",
        "a": "labs", "b": "labs", "c": "genes",
    }  # fmt: skip
    assert volcano[0]["spec"]["capability"] == {"cpu": "100", "memory": str(100 * 2**30)}
    kai = render(tree_document(), "kai").objects
    assert {o["metadata"]["name"]: o["spec"].get("parentQueue") for o in kai} == {
        "pool-lab": None, "science": "pool-lab", "empty": "pool-lab", "labs": "science",
        "genes": "science", "a": "labs", "b": "labs", "c": "genes",
    }  # fmt: skip
    labs = next(o for o in kai if o["metadata"]["name"] == "labs")
    assert labs["spec"]["resources"]["cpu"] == {
        "quota": 75000,
        "limit": 75000,
        "overQuotaWeight": 0,
    }


def test_namespaces_have_no_parents_and_a_note_says_so():
    rendering = render(tree_document(), "kubernetes")
    assert [each["kind"] for each in rendering.objects] == ["ResourceQuota"] * 3
    assert rendering.limits.notes[-1].startswith("Namespaces have no parents")


@pytest.mark.parametrize("target", ["slurm", "kueue", "volcano", "kai"])
def test_groups_named_as_something_else_get_names_of_their_own(target):
    """As a tenant, the pool, its queue, or what schedulers keep for themselves."""
    names = {"labs": "a", "science": "root", "genes": "lab", "empty": "pool-lab"}
    objects = render(renamed(tree_document(), names), target).objects
    if target == "slurm":
        own = [each["account"] for each in objects if each["kind"] in ("account", "group")]
        kept = {"root"}
    else:
        own = [(each["kind"], each["metadata"]["name"]) for each in objects]
        kept = {("Cohort", "root"), ("Queue", "root"), ("Cohort", "lab")}
    assert len(own) == len(set(own))
    assert not kept & set(own)
    parents = {
        each["spec"].get(field)
        for each in objects
        for field in ("parentName", "cohortName", "parent", "parentQueue")
        if target != "slurm"
    } - {None, "lab"}
    assert parents <= {each["metadata"]["name"] for each in objects if target != "slurm"}


def test_names_of_groups_never_meet():
    slugs = ["root", "x", "a", "default", "kube-x"]
    first = group_objects(slugs, {"a"})
    taken = {"a", *first.values()} - {"x"}
    second = group_objects([*slugs, first["root"]], taken)
    assert len(set(second.values())) == len(second)
    assert not taken & set(second.values())
    assert group_accounts(["default", "root"], set())["default"] == "default"
    assert group_accounts(["root"], set())["root"].startswith("group-root-")


def grouped(seed):
    """A random document whose tenants are in random groups of up to four levels."""
    asked = document(seed, "drfh", ("divisible", "indivisible")[seed % 2])
    draw = random.Random(seed)
    names = [f"g{index}" for index in range(draw.randint(1, 5))]
    asked["groups"] = [
        {
            "name": name,
            "parent": draw.choice([None, *names[max(0, index - 2) : index]]),
            "weight": draw.choice([0.5, 1, 3]),
        }
        for index, name in enumerate(names)
    ]
    for tenant in asked["tenants"]:
        tenant["group"] = draw.choice([None, *names])
    for node in [*asked["groups"], *asked["tenants"]]:
        if draw.random() < 0.3:
            where = draw.choice([{}, {"partition": ["big"]}, {"partition": ["big", "small"]}])
            node["limit"] = [{"where": where, "amount": {"cpu": draw.choice([0, 1.5, 7])}}]
    return asked


@given(st.integers(0, 2**32))
@examples(60)
def test_no_parent_stops_a_child_and_every_manifest_is_valid(seed):
    decided = decide(grouped(seed))
    for target in TARGETS.values():
        for quota in target.quotas:
            limits = targets.decision_limits(
                decided,
                label="partition",
                units=target.units(decided.resources),
                members=[],
                quota=quota,
                at=DECIDED_AT,
            )
            for group in limits.groups:
                below = [t.rendered for t in limits.tenants if t.group == group.slug]
                below += [g.rendered for g in limits.groups if g.parent == group.slug]
                sums = [sum(column) for column in zip(*below, strict=True)]
                assert group.rendered == (sums or [0] * len(limits.units))
            objects = target.objects(limits)
            if target.name == "slurm":
                continue
            for each in objects:
                if each["kind"] != "ResourceQuota":
                    MANIFESTS[each["apiVersion"], each["kind"]].validate(each)
                if each["kind"] == "ClusterQueue":
                    assert broken_rules(each) == []
            if target.name in ("volcano", "kai"):
                parents_come_first(objects)


def parents_come_first(objects):
    seen = set()
    for each in objects:
        parent = each["spec"].get("parent") or each["spec"].get("parentQueue")
        assert parent is None or parent in seen
        seen.add(each["metadata"]["name"])


def test_slurm_has_minutes_of_monthly_budgets():
    """100 hours of the group labs, rounded down; nodes without a budget are freed."""
    stops = MonthlyStops(
        frozenset({"cpu"}),
        {("group", "labs", "cpu"): Decimal("100.009"), ("tenant", "c", "cpu"): 7},
    )
    rendering = targets.decision_render(
        decided=decide(tree_document()),
        target=target_named("slurm"),
        label="partition",
        members=["a", "b", "c"],
        former_groups=["old"],
        now=DECIDED_AT,
        stops=stops,
    )
    minutes = {each["account"]: each["minutes"] for each in rendering.objects if "minutes" in each}
    assert minutes == {
        "science": {"cpu": -1}, "empty": {"cpu": -1}, "labs": {"cpu": 6000}, "genes": {"cpu": -1},
        "old": {"cpu": -1}, "a": {"cpu": -1}, "b": {"cpu": -1}, "c": {"cpu": 420},
    }  # fmt: skip
    assert any("PriorityUsageResetPeriod=MONTHLY" in note for note in rendering.limits.notes)
    assert "name=labs set GrpTRES=cpu=75,mem=76800 GrpTRESMins=cpu=6000 fairshare" in rendering.text
    assert "minutes" not in str(render(tree_document(), "slurm").objects)


def limited_document(**limits):
    """The tree of the others with limits, by the names of groups and tenants."""
    asked = tree_document()
    for part in ("groups", "tenants"):
        for row in asked[part]:
            if row["name"] in limits:
                row["limit"] = limits[row["name"]]
    return asked


def test_limits_bound_what_soft_cohorts_and_queues_borrow():
    everywhere = [{"where": {}, "amount": {"cpu": 30}}]
    asked = limited_document(
        labs=[{"where": {}, "amount": {"cpu": 90, "memory": 85}}], c=everywhere
    )
    objects = {
        o["metadata"]["name"]: o["spec"] for o in render(asked, "kueue", quota="soft").objects
    }
    (flavors,) = objects["labs"]["resourceGroups"]
    (flavor,) = flavors["flavors"]
    held = {
        resource["name"]: sum(
            int(row["nominalQuota"])
            for queue in ("a", "b")
            for row in objects[queue]["resourceGroups"][0]["flavors"][0]["resources"]
            if row["name"] == resource["name"]
        )
        for resource in flavor["resources"]
    }
    gib = 2**30
    assert {row["name"]: row["nominalQuota"] for row in flavor["resources"]} == {
        "cpu": "0", "memory": "0",
    }  # fmt: skip
    assert {row["name"]: int(row["borrowingLimit"]) for row in flavor["resources"]} == {
        "cpu": 90 - held["cpu"], "memory": 85 * gib - held["memory"],
    }  # fmt: skip
    assert "resourceGroups" not in objects["science"]
    (row, *_) = objects["c"]["resourceGroups"][0]["flavors"][0]["resources"]
    assert int(row["nominalQuota"]) + int(row["borrowingLimit"]) == 30
    hard = render(asked, "kueue").objects
    assert all("resourceGroups" not in o["spec"] for o in hard if o["kind"] == "Cohort")


def test_limits_of_all_servers_bound_soft_queues_of_totals():
    asked = limited_document(labs=[{"where": {}, "amount": {"cpu": 90}}])
    volcano = {
        o["metadata"]["name"]: o["spec"] for o in render(asked, "volcano", quota="soft").objects
    }
    assert volcano["labs"]["capability"] == {"cpu": "90"}
    assert "capability" not in volcano["a"]
    kai = {o["metadata"]["name"]: o["spec"] for o in render(asked, "kai", quota="soft").objects}
    assert kai["labs"]["resources"]["cpu"]["limit"] == 90_000
    assert kai["labs"]["resources"]["memory"]["limit"] == -1


def test_a_limit_of_one_class_bounds_its_flavor_and_one_of_other_labels_none():
    asked = limited_document(
        a=[
            {"where": {"partition": ["big"]}, "amount": {"cpu": 25}},
            {"where": {"room": ["cellar"]}, "amount": {"cpu": 24}},
        ]
    )
    half = {"capacity": {"cpu": 50, "memory": 50}, "count": 1}
    asked["servers"] = [
        {"name": "one", **half, "labels": {"partition": "big", "room": "cellar"}},
        {"name": "two", **half, "labels": {"partition": "small"}},
    ]
    rendering = render(asked, "kueue", quota="soft")
    queue = next(o for o in rendering.objects if o["metadata"]["name"] == "a")
    big, small = (
        {"nominal": int(row["nominalQuota"]), "more": int(row["borrowingLimit"])}
        for flavor in queue["spec"]["resourceGroups"][0]["flavors"]
        for row in flavor["resources"]
        if row["name"] == "cpu"
    )
    assert big["nominal"] + big["more"] == 25
    assert small["nominal"] + small["more"] == 50
    assert any("by other labels than partition" in note for note in rendering.limits.notes)
    assert not any("limit of" in note for note in render(asked, "kueue").limits.notes)
