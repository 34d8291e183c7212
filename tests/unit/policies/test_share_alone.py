"""The option ``share`` of ``drfh``: tasks over those that a workload would run alone."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import (
    Limit,
    PolicyOptionsError,
    Problem,
    ShareDefinition,
    choose,
    solve,
    verify,
)
from policies.model.alone import tasks_on_whole_pool
from tests.examples import examples
from tests.references.alone import shares_alone, tasks_alone
from tests.references.filling import fill
from tests.references.groups import leximin_in_groups
from tests.references.leximin import reference_shares
from tests.unit.policies.problems import problem_of, problems
from tests.unit.policies.trees import problems_in_groups, problems_with_limits

ALONE = {"share": "alone"}
PLACEMENTS = ("best-fit", "first-fit", "affinity", "two-choices")
TWO_SERVERS = {"server_labels": [{"server": "1"}, {"server": "2"}]}
FIRST, SECOND, ANYWHERE = {"server": "1"}, {"server": "2"}, {}


def alone(problem, mode="divisible", **options):
    answer = solve(problem, "drfh", mode=mode, options=ALONE | options)
    checks = verify(problem, answer).checks
    assert all(check.holds for check in checks), [check for check in checks if not check.holds]
    return answer


def shares(problem, tasks, *, whole=False):
    """(t,) shares before weights of tenants that run so many tasks."""
    found = np.zeros(problem.t)
    each = [float(part) for part in shares_alone(problem, whole=whole)]
    np.add.at(found, problem.workload_tenant, tasks * each)
    return found


def near(fractions, **tolerance):
    return pytest.approx([float(Fraction(each)) for each in fractions], **tolerance)


# Capacities, demands, selectors; shares and tasks by dominant shares, and alone.
FIGURES = {
    "constraints": (
        ([[4, 12], [12, 4]], [[1, 3], [3, 1], [1, 1]], [FIRST, ANYWHERE, SECOND]),
        (["3/13"] * 3, ["16/13", "16/13", "48/13"]),
        (["6/17"] * 3, ["32/17", "32/17", "48/17"]),
    ),
    "Proposition 4": (
        ([[1, 2], [4, 3]], [[1, 1], [3, 2]], None),
        (["12/25"] * 2, ["12/5", "4/5"]),
        (["6/11"] * 2, ["24/11", "10/11"]),
    ),
    "less than a third of every server": (
        ([[6, 6], [2, 6]], [[1, 2], [2, 2], [2, 2]], [FIRST, FIRST, ANYWHERE]),
        (["2/7"] * 3, ["12/7", "8/7", "8/7"]),
        (["4/13"] * 3, ["20/13", "16/13", "16/13"]),
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name):
    (capacity, demand, selectors), dominant, by_tasks = FIGURES[name]
    problem = problem_of(capacity, demand, selectors=selectors, **TWO_SERVERS)
    for share, (level, tasks) in {"dominant": dominant, "alone": by_tasks}.items():
        answer = solve(problem, "drfh", options={"share": share})
        assert verify(problem, answer).valid
        assert answer.level == near(level, rel=1e-12)
        assert answer.tasks == near(tasks, rel=1e-12)
        assert answer.objective == pytest.approx(answer.level[0], rel=1e-12)


def test_selectors_can_leave_somebody_less_than_its_part_of_every_server():
    (capacity, demand, selectors), *_ = FIGURES["less than a third of every server"]
    problem = problem_of(capacity, demand, selectors=selectors, **TWO_SERVERS)
    third = [min(c / 3 / d for c, d in zip(server, demand[2], strict=True)) for server in capacity]
    assert sum(third) == pytest.approx(4 / 3)
    assert alone(problem).tasks[2] == pytest.approx(16 / 13, rel=1e-12)
    assert 16 / 13 < 4 / 3


def test_whole_tasks_alone_are_counted_server_by_server():
    """With divisible counts the tasks of 5 would have 1.6 of each server, and six of the ten servers."""
    problem = problem_of([[8]], [[8], [5]], server_count=[10])
    assert tasks_on_whole_pool(problem, whole=True).tolist() == [10, 10]
    assert tasks_on_whole_pool(problem, whole=False).tolist() == [10, 16]
    answer = alone(problem, "indivisible")
    assert answer.tasks.tolist() == [5, 5]
    assert answer.level.tolist() == [0.5, 0.5]
    assert solve(problem, "drfh", mode="indivisible").tasks.tolist() == [4, 6]


def test_whole_tasks_by_hand():
    """Alone 5 tasks of (1, 3) or (3, 1), or 8 of (1, 1): the second server takes 2 and 2."""
    (capacity, demand, selectors), *_ = FIGURES["constraints"]
    problem = problem_of(capacity, demand, selectors=selectors, **TWO_SERVERS)
    assert tasks_on_whole_pool(problem, whole=True).tolist() == [5, 5, 8]
    assert alone(problem, "indivisible").tasks.tolist() == [4, 2, 2]
    assert solve(problem, "drfh", mode="indivisible").tasks.tolist() == [4, 1, 3]


def test_the_default_is_the_dominant_share_to_the_last_bit():
    problem = problem_of([[1, 14], [8, 4], [0.3, 0.7]], [[1, 4], [3, 1], [0.1, 0.1]])
    for mode in ("divisible", "indivisible"):
        default = solve(problem, "drfh", mode=mode)
        named = solve(problem, "drfh", mode=mode, options={"share": "dominant"})
        assert default.choice.share is named.choice.share is ShareDefinition.DOMINANT
        for part in ("tasks", "level", "placement_tasks"):
            assert getattr(default, part).tobytes() == getattr(named, part).tobytes()


@pytest.mark.parametrize(
    ("policy", "options"),
    [("drfh", {"share": "tasks"}), ("drfh", {"share": None}), ("drf", ALONE), ("asset", ALONE)],
)
def test_what_a_share_counts_has_two_names_under_one_policy(policy, options):
    with pytest.raises(PolicyOptionsError) as error:
        choose(policy, options=options)
    assert error.value.code == "policy.options"


@examples(300)
@given(problem=problems())
def test_tasks_alone_are_those_of_one_server_after_the_other(problem):
    for whole in (True, False):
        found = tasks_on_whole_pool(problem, whole=whole).tolist()
        assert found == near(tasks_alone(problem, whole=whole), rel=1e-15)


@pytest.mark.parametrize("capacity", [0.3, 0.7, 5 / 9, 1e9 + 0.1])
def test_a_server_that_has_exactly_room_for_three_tasks_has_three(capacity):
    problem = problem_of([[capacity * 3]], [[capacity]])
    if capacity * 3 == float(Fraction(repr(capacity)) * 3):
        assert tasks_on_whole_pool(problem, whole=True).tolist() == [3]


@examples(200)
@given(problem=problems())
def test_divisible_shares_agree_with_linear_programs(problem):
    answer = alone(problem)
    expected = reference_shares(problem, each=shares_alone(problem, whole=False))
    assert shares(problem, answer.tasks) == pytest.approx(expected, rel=2e-6, abs=2e-6)


@examples(200)
@given(problem=problems_in_groups(selectors=True))
def test_divisible_shares_in_groups_are_those_of_exact_arithmetic(problem):
    answer = alone(problem)
    each = shares_alone(problem, whole=False)
    expected = [float(share) for share in leximin_in_groups(problem, each=each)]
    assert shares(problem, answer.tasks) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=40)
@given(problem=problems_with_limits(), flat=problems_with_limits(flat=True))
def test_divisible_shares_with_limits_agree_with_exact_and_linear_programs(problem, flat):
    answer = alone(problem)
    each = shares_alone(problem, whole=False)
    expected = [float(share) for share in leximin_in_groups(problem, each=each)]
    assert shares(problem, answer.tasks) == pytest.approx(expected, abs=1e-8)
    expected = reference_shares(flat, each=shares_alone(flat, whole=False))
    assert shares(flat, alone(flat).tasks) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("placement", PLACEMENTS)
@examples(60)
@given(data=st.data())
def test_whole_tasks_are_those_of_the_plain_filling(placement, data):
    kind = data.draw(st.sampled_from([problems, problems_in_groups, problems_with_limits]))
    fields = {} if kind is problems else {"selectors": True, "finite": True}
    problem = data.draw(kind(**fields))
    answer = alone(problem, "indivisible", placement=placement, seed=5)
    each = shares_alone(problem, whole=True)
    assert answer.tasks.tolist() == fill(problem, placement, 5, each=each)[1]


def test_groups_are_compared_by_the_sum_of_their_tenants_shares():
    """Dominant vectors of (1, 0) and (0, 1) fit into each other; parts of a pool alone add up."""
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=[[10, 10], [10, 10]], tenants=["dev", "prod", "sci"],
        demand=[[1, 0], [0, 1], [1, 1]], groups=["eng"], tenant_group=[0, 0, -1],
    )  # fmt: skip
    assert solve(problem, "drfh").tasks == pytest.approx([10, 10, 10])
    answer = alone(problem)
    assert answer.level == pytest.approx([1 / 3, 1 / 3, 2 / 3])
    assert answer.tasks == near(["20/3", "20/3", "40/3"])
    assert alone(problem, "indivisible").tasks.tolist() == [7, 7, 13]


def test_a_limit_does_not_change_what_a_workload_would_run_alone():
    problem = problem_of([[1, 2], [4, 3]], [[1, 1], [3, 2]])
    limited = replace(problem, limits=(Limit("tenant", 0, np.array([2.0, np.inf])),))
    answer = alone(limited)
    assert answer.tasks == near([2, 1])
    assert answer.level == near(["1/2", "3/5"])
    assert answer.limited_by[0] == "limit:tenant"


def random_pool(rng, constrained=False):
    """Workloads without a number of tasks on servers that differ, with positive demands."""
    t, k, m = int(rng.integers(2, 7)), int(rng.integers(2, 6)), int(rng.integers(2, 4))
    return problem_of(
        rng.integers(1, 13, (k, m)).tolist(),
        rng.integers(1, 7, (t, m)).tolist(),
        server_count=rng.integers(1, 4, k),
        weight=rng.integers(1, 4, t),
    )


def lacking(problem, answer):
    """(t,) part by which each tenant has fewer tasks than its weight's part of every server runs."""
    part = problem.weight / problem.weight.sum()
    entitled = part * [float(tasks) for tasks in tasks_alone(problem, whole=False)]
    return np.maximum(entitled - answer.tasks, 0.0) / entitled


def test_without_constraints_nobody_has_less_than_its_part_of_every_server():
    """By dominant shares somebody has less in a fifth of a thousand pools."""
    rng = np.random.default_rng(29)
    below = 0
    for _ in range(1000):
        problem = random_pool(rng)
        assert lacking(problem, alone(problem)).max() <= 1e-9
        below += lacking(problem, solve(problem, "drfh")).max() > 1e-6
    assert below > 200
