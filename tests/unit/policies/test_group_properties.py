"""Properties of fairness in pools with groups: of siblings and of groups, by the tree's weights."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from policies import Problem, properties_of, solve
from policies.properties.fairness import (
    bottleneck_fair,
    envy_free,
    single_resource_fair,
    strong_sharing_incentive,
    takes_part,
    weak_sharing_incentive,
)
from policies.properties.groups import group_share_guarantee
from policies.properties.resolving import Budget, population_monotonic, strategy_proof
from tests.examples import examples
from tests.unit.policies.trees import problems_in_groups


def guaranteed(answer):
    return group_share_guarantee(answer, takes_part(answer))


def two_and_one(**other):
    """A group of two beside a group of one, on one resource: 1/4, 1/4 and 1/2."""
    return Problem.create(
        **{
            "resources": ["cpu"], "capacity": [[12]], "tenants": ["a", "b", "c"],
            "demand": [[1]] * 3, "groups": ["two", "one"], "tenant_group": [0, 0, 1],
        } | other
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
def test_a_decision_in_groups_keeps_what_its_tree_promises(mode):
    answer = solve(two_and_one(), "drf", mode=mode)
    assert answer.tasks.tolist() == pytest.approx([3, 3, 6])
    for check in (
        envy_free, guaranteed, strong_sharing_incentive, weak_sharing_incentive, bottleneck_fair,
        single_resource_fair,
    ):  # fmt: skip
        assert check(answer).holds is True
    verdicts = properties_of(answer, seconds=20)
    assert verdicts.jain_index == pytest.approx(1)
    assert verdicts.contribution_ratio == pytest.approx(1)
    assert verdicts.verdicts["population_monotonic"].holds is True
    # Whole tasks of twice the size bring half a task more.
    assert verdicts.verdicts["strategy_proof"].holds is (mode == "divisible")


def test_a_group_with_less_than_its_part_is_named():
    flat = solve(two_and_one(groups=[], tenant_group=[-1] * 3), "drf")
    assert guaranteed(flat).holds is None
    verdict = guaranteed(replace(flat, problem=two_and_one()))
    assert (verdict.holds, verdict.worst) == (False, {"group": "one", "size": pytest.approx(1 / 6)})


def test_a_group_that_wants_no_more_lacks_nothing():
    answer = solve(two_and_one(tasks=[np.inf, np.inf, 1]), "drf")
    assert guaranteed(answer).holds is True


def test_groups_of_a_later_tier_are_guaranteed_nothing():
    answer = solve(two_and_one(group_tier=[0, 1]), "drf")
    assert answer.tasks.tolist() == pytest.approx([6, 6, 0])
    assert guaranteed(answer).holds is True
    assert strong_sharing_incentive(answer).holds is True
    assert properties_of(answer, seconds=0).jain_index == pytest.approx(1)


def test_servers_that_differ_guarantee_no_part():
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=[[1, 2], [4, 3]], tenants=["a", "b"],
        demand=[[1, 1], [3, 2]], groups=["g", "h"], tenant_group=[0, 1],
    )  # fmt: skip
    verdict = guaranteed(solve(problem, "drfh"))  # 12/25 each
    assert verdict.holds is None
    assert "0.02 less" in verdict.reason


def test_envy_is_between_siblings():
    answer = solve(two_and_one(), "drf")
    assert (envy_free(answer).holds, envy_free(answer).reason) == (True, "between siblings")
    other = replace(answer, tasks=np.array([2.0, 4.0, 6.0]))
    worst = envy_free(other).worst
    assert worst == {"tenant": "a", "other": "b", "size": pytest.approx(1 / 6)}
    alone = solve(two_and_one(tenant_group=[0, 1, -1]), "drf")
    assert envy_free(alone).holds is None


@given(problem=problems_in_groups())
@examples(150)
def test_on_one_pool_groups_have_their_part_and_siblings_envy_nobody(problem):
    answer = solve(problem, "drf", mode="divisible")
    assert guaranteed(answer).holds is not False
    assert envy_free(answer).holds is not False
    assert strong_sharing_incentive(answer).holds is not False


@given(problem=problems_in_groups(finite=True))
@examples(150)
def test_whole_tasks_keep_the_part_within_one_on_each_level(problem):
    assert guaranteed(solve(problem, "drf", mode="indivisible")).holds is not False


@given(problem=problems_in_groups(selectors=True))
@examples(100)
def test_on_servers_siblings_envy_nobody(problem):
    answer = solve(problem, "drfh", mode="divisible")
    assert envy_free(answer).holds is not False
    assert guaranteed(answer).holds is not False


@given(problem=problems_in_groups())
@examples(20)
def test_tenants_leave_and_misreport_within_their_groups(problem):
    answer = solve(problem, "drf", mode="divisible")
    assert population_monotonic(answer, Budget.of(60.0)).holds is not None or (
        takes_part(answer).sum() < 2
    )
    assert strategy_proof(answer, Budget.of(60.0)).holds is not None
