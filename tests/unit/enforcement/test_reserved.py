"""Guarantees and loans in soft renderings: what is reserved is not lent, and nothing else changes."""

import random
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from allocator_service.enforcement.rendering import targets
from allocator_service.enforcement.rendering.targets import TARGETS
from policies import PolicyError, problem_from_document, solve
from tests.examples import examples
from tests.unit.enforcement.crds import MANIFESTS, broken_rules
from tests.unit.enforcement.decisions import DECIDED_AT, decide
from tests.unit.enforcement.test_group_targets import grouped
from tests.unit.enforcement.test_targets import render

GPU = "nvidia.com/gpu"


def gpu_document(**changes):
    """8 H100 and 8 A10; ml has a and b, of which a has 8 tasks; c is beside the group."""
    return {
        "resources": [{"name": "gpu", "unit": "GPU"}],
        "servers": [
            {"name": name, "capacity": {"gpu": 8}, "count": 1, "labels": {"partition": name},
             "contributed_by": owner}
            for name, owner in (("h100", "a"), ("a10", None))
        ],
        "groups": [{"name": "ml"}],
        "tenants": [{"name": "a", "group": "ml"}, {"name": "b", "group": "ml"}, {"name": "c"}],
        "workloads": [
            {"tenant": name, "name": "w", "demand": {"gpu": 1}, "tasks": tasks}
            for name, tasks in (("a", 8), ("b", None), ("c", None))
        ],
        "policy": {"name": "drfh", "mode": "indivisible", "options": {}},
        "weights": "explicit",
    } | changes  # fmt: skip


def amended(asked, **amounts):
    """The document with amounts of groups and tenants, by their names."""
    for row in (*asked["groups"], *asked["tenants"]):
        row |= amounts.get(row["name"], {})
    return asked


def queues(rendering):
    """Quota and lending limit of each queue on each flavor."""
    return {
        each["metadata"]["name"]: {
            flavor["name"]: (int(row["nominalQuota"]), int(row.get("lendingLimit", -1)))
            for flavor in each["spec"]["resourceGroups"][0]["flavors"]
            for row in flavor["resources"]
        }
        for each in rendering.objects
        if each["kind"] == "ClusterQueue"
    }


def h100(amount):
    return [{"where": {"partition": ["h100"]}, "amount": {"gpu": amount}}]


@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
def test_a_soft_queue_keeps_the_guaranteed_part_of_each_flavor(mode):
    """3 H100 of a are guaranteed: of the 3 or more that it has there, the others may borrow the rest."""
    policy = {"name": "drfh", "mode": mode, "options": {}}
    asked = amended(gpu_document(policy=policy), a={"guarantee": h100(3)})
    soft, hard = queues(render(asked, "kueue", quota="soft")), queues(render(asked, "kueue"))
    for queue, flavors in soft.items():
        for flavor, (quota, lent) in flavors.items():
            assert quota == hard[queue][flavor][0]
            kept = 3 if (queue, flavor) == ("a", "h100") else 0
            assert quota - lent == kept, (queue, flavor, soft)
    assert hard["a"]["h100"][1] == 0


def test_the_guarantee_of_a_group_is_kept_by_the_queues_of_its_members():
    """Of 6 H100, 3 are each of a's and b's; cohorts have nothing of their own to keep."""
    asked = amended(gpu_document(), ml={"guarantee": h100(6)})
    rendering = render(asked, "kueue", quota="soft")
    kept = {
        name: {flavor: quota - lent for flavor, (quota, lent) in flavors.items()}
        for name, flavors in queues(rendering).items()
    }
    assert kept == {
        "a": {"a10": 0, "h100": 3}, "b": {"a10": 0, "h100": 3}, "c": {"a10": 0, "h100": 0},
    }  # fmt: skip
    assert all(
        "resourceGroups" not in o["spec"] for o in rendering.objects if o["kind"] == "Cohort"
    )


def test_volcano_reserves_the_totals_in_queues_and_their_parents():
    asked = amended(gpu_document(), ml={"guarantee": h100(6)})
    soft = {
        o["metadata"]["name"]: o["spec"] for o in render(asked, "volcano", quota="soft").objects
    }
    assert {name: spec["guarantee"] for name, spec in soft.items()} == {
        name: {"resource": {GPU: str(amount)}}
        for name, amount in {"ml": 6, "a": 3, "b": 3, "c": 0}.items()
    }
    hard = render(asked, "volcano").objects
    assert not any("guarantee" in each["spec"] for each in hard)
    without = render(gpu_document(), "volcano", quota="soft").objects
    assert not any("guarantee" in each["spec"] for each in without)


@pytest.mark.parametrize("target", ["slurm", "kubernetes", "kai"])
def test_other_targets_write_the_decision_alone(target):
    """The same decision, with what makes it a guarantee taken out of the input."""
    asked = amended(gpu_document(), ml={"guarantee": h100(6)}, a={"lend": [{"amount": {"gpu": 9}}]})
    for quota in TARGETS[target].quotas:
        decided = decide(asked)
        rendered = [
            targets.decision_render(
                decided=each, target=TARGETS[target], label="partition", members=(),
                now=DECIDED_AT, quota=quota,
            ).objects
            for each in (decided, _unreserved(decided))
        ]  # fmt: skip
        assert rendered[0] == rendered[1]


def _unreserved(decided):
    decided.reserved.clear()
    return decided


def test_a_lender_lends_what_others_may_still_have_on_its_servers():
    """a has tasks on 5 of its 8 H100. Others have 1 of the 2 that it lends, and may have 1 more."""
    asked = amended(gpu_document(), a={"lend": [{"amount": {"gpu": 2}}]})
    asked["workloads"] = [
        {"tenant": tenant, "name": kind, "demand": {"gpu": 1}, "tasks": tasks,
         "server_selector": {"partition": [kind]}}
        for tenant, kind, tasks in (("a", "h100", 5), ("c", "h100", 1), ("c", "a10", 1))
    ]  # fmt: skip
    found = queues(render(asked, "kueue", quota="soft"))
    assert found["c"] == {"a10": (1, 1), "h100": (1, 1)}
    assert found["a"] == {"a10": (0, 0), "h100": (5, 1)}
    volcano = render(asked, "volcano", quota="soft").objects
    (spec,) = [each["spec"] for each in volcano if each["metadata"]["name"] == "a"]
    assert (spec["guarantee"]["resource"][GPU], spec["deserved"][GPU]) == ("4", "5")


def test_a_loan_of_several_flavors_is_lent_once():
    """a has 4 tasks on each of two kinds of servers of its own, and lends 3 in all."""
    asked = amended(gpu_document(), a={"lend": [{"amount": {"gpu": 3}}]})
    asked["servers"][1]["contributed_by"] = "a"
    for workload, tasks in zip(asked["workloads"], (4, 0, 0), strict=True):
        workload["tasks"] = tasks
        workload["server_selector"] = {"partition": ["h100"]}
    asked["workloads"].append({**asked["workloads"][0], "name": "v"})
    asked["workloads"][-1]["server_selector"] = {"partition": ["a10"]}
    found = queues(render(asked, "kueue", quota="soft"))["a"]
    assert found == {"a10": (4, 3), "h100": (4, 0)}


def test_on_one_pool_the_total_is_kept():
    asked = amended(
        gpu_document(policy={"name": "drf", "mode": "indivisible", "options": {}}),
        b={"guarantee": [{"amount": {"gpu": 4}}]},
    )
    assert {name: quota - lent for name, flavors in queues(render(asked, "kueue", quota="soft")).items()
            for quota, lent in flavors.values()} == {"a": 0, "b": 4, "c": 0}  # fmt: skip


def guaranteed(seed):
    """A random document of groups with guarantees, own servers and loans."""
    asked, draw = grouped(seed), random.Random(seed)
    for node in [*asked["groups"], *asked["tenants"]]:
        node.pop("limit", None)
        if draw.random() < 0.5:
            where = draw.choice([{}, {"partition": ["big"]}, {"partition": ["small"]}])
            node["guarantee"] = [{"where": where, "amount": {"cpu": draw.choice([1, 2.5, 7])}}]
    names = [tenant["name"] for tenant in asked["tenants"]]
    for server in asked["servers"]:
        server["contributed_by"] = draw.choice([None, *names])
    for tenant in asked["tenants"]:
        tenant["own_servers"] = draw.random() < 0.3
        if draw.random() < 0.3:
            tenant["lend"] = [{"amount": {"cpu": draw.choice([0, 1, 4])}}]
    return asked


def floors_met(asked):
    """Amounts of the floors of each tenant that are met, by another way than the renderings'."""
    parsed = problem_from_document(asked)
    options = dict(parsed.choice.options)
    answer = solve(
        parsed.problem, parsed.choice.policy.name, mode=parsed.choice.mode, options=options
    )
    found = {name: [0.0] * parsed.problem.m for name in parsed.problem.tenants}
    if answer.floors is not None:
        for j, met in enumerate(answer.floors.met.tolist()):
            amounts = found[parsed.problem.tenants[parsed.problem.workload_tenant[j]]]
            for r, demand in enumerate(parsed.problem.demand[j].tolist()):
                amounts[r] += met * demand
    return found


@given(st.integers(0, 2**32))
@examples(60)
def test_what_is_reserved_is_guaranteed_or_not_lent_and_within_the_decision(seed):
    asked = guaranteed(seed)
    try:
        decided = decide(asked)
    except PolicyError:
        assume(False)
    met = floors_met(asked)
    for tenant in decided.tenants:
        reserved = [of for (slug, _), of in decided.reserved.items() if slug == tenant.slug]
        totals = [sum(column) for column in zip(*reserved, strict=True)] or [0] * 3
        for total, floor, amount in zip(totals, met[tenant.slug], tenant.amounts, strict=False):
            assert float(total) >= floor - 1e-6 * max(floor, 1)
            assert total <= amount + Decimal("1e-6") * max(amount, 1)
            if not any(each.get("lend") for each in asked["tenants"]):
                assert float(total) == pytest.approx(floor, abs=1e-6)
    for name in ("kueue", "volcano"):
        target = TARGETS[name]
        limits = targets.decision_limits(
            decided, label="partition", units=target.units(decided.resources), members=[],
            quota="soft", at=DECIDED_AT,
        )  # fmt: skip
        for node in (*limits.tenants, *limits.groups):
            for value, amounts in node.reserved.items():
                assert all(0 <= a <= b for a, b in zip(amounts, node.by_class[value], strict=True))
        for group in limits.groups:
            below = [limits.reserved(t) for t in limits.tenants if t.group == group.slug]
            below += [limits.reserved(g) for g in limits.groups if g.parent == group.slug]
            sums = [sum(column) for column in zip(*below, strict=True)]
            assert limits.reserved(group) == (sums or [0] * len(limits.units))
        for each in target.objects(limits):
            MANIFESTS[each["apiVersion"], each["kind"]].validate(each)
            if each["kind"] == "ClusterQueue":
                assert broken_rules(each) == []


@given(st.integers(0, 2**32))
@examples(60)
def test_others_on_the_servers_of_a_lender_stay_within_its_loan(seed):
    """What they have there and what the lender's queue lends of its own tasks there."""
    asked = guaranteed(seed)
    lenders = [each for each in asked["tenants"] if each.get("lend")]
    assume(lenders and asked["policy"]["mode"] == "indivisible")
    try:
        decided = decide(asked)
    except PolicyError:
        assume(False)
    parsed = problem_from_document(asked)
    problem = parsed.problem
    answer = solve(
        problem, parsed.choice.policy.name, mode="indivisible", options=dict(parsed.choice.options)
    )
    cpu = problem.resources.index("cpu")
    for lender in lenders:
        number = problem.tenants.index(lender["name"])
        others = own = Decimal(0)
        workloads, rows, tasks = answer.placements_by_row()
        for j, row, count in zip(workloads.tolist(), rows.tolist(), tasks.tolist(), strict=True):
            if problem.contributed_by[row] == number:
                amount = Decimal(str(problem.demand[j, cpu])) * round(count)
                if problem.workload_tenant[j] == number:
                    own += amount
                else:
                    others += amount
        kept = sum(of[cpu] for (slug, _), of in decided.reserved.items() if slug == lender["name"])
        most = Decimal(str(lender["lend"][0]["amount"]["cpu"]))
        assert others + max(own - kept, Decimal(0)) <= most
