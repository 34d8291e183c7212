"""Guarantees: answers to other guarantees, and steps that are not those of the problem, are refused."""

from dataclasses import replace

import numpy as np
import pytest

from policies import Guarantee, Problem, choose, solve, verify

INF = np.inf
MODES = ("divisible", "indivisible")


def changed(problem, **fields):
    """The problem with other fields of its first guarantee."""
    first, *others = problem.guarantees
    return replace(problem, guarantees=(replace(first, **fields), *others))


FORGERIES = {
    "half the amount": lambda p: changed(p, amount=p.guarantees[0].amount * 0.5),
    "twice the amount": lambda p: changed(p, amount=p.guarantees[0].amount * 2),
    "a little less": lambda p: changed(p, amount=p.guarantees[0].amount * (1 - 1e-6)),
    "no guarantee": lambda p: replace(p, guarantees=p.guarantees[1:]),
    "other servers": lambda p: changed(p, where={} if p.guarantees[0].where else {"zone": ("0",)}),
    "another tenant": lambda p: changed(p, scope="tenant", node=p.t - 1),
    "own servers": lambda p: replace(p, own_servers=~p.own_servers),
    "another count": lambda p: replace(p, count_guaranteed=not p.count_guaranteed),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_an_answer_to_other_guarantees_is_refused(forgery, mode):
    rng = np.random.default_rng(7)
    refused = 0
    for _ in range(25):
        problem = contested_problem(rng)
        answer = solve(problem, "drfh", mode=mode)
        other = FORGERIES[forgery](problem)
        if verify(other, replace(answer, problem=other)).valid:
            own = solve(other, "drfh", mode=mode)
            assert answer.tasks == pytest.approx(own.tasks, abs=1e-7)
        else:
            refused += 1
    assert refused


def contested_problem(rng):
    t = 4
    return Problem.create(
        resources=["cpu", "memory"], capacity=rng.integers(4, 12, (2, 2)),
        server_labels=[{"zone": "0"}, {"zone": "1"}], contributed_by=[0, 1],
        tenants=[f"t{i}" for i in range(t)], demand=rng.integers(1, 4, (t, 2)),
        weight=rng.integers(1, 3, t), groups=["g"], tenant_group=[0, 0, -1, -1],
        guarantees=[
            Guarantee("group", 0, np.array([float(rng.integers(3, 9)), INF]), {"zone": ("0",)}),
            Guarantee("tenant", 2, np.array([INF, float(rng.integers(3, 9))])),
        ],
    )  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("step", ["pool", "raised", "rest", "floor", "met", "parts", "none"])
def test_a_step_that_says_something_else_is_refused(step, mode):
    problem = contested_problem(np.random.default_rng(3))
    answer = solve(problem, "drfh", mode=mode)
    floors = answer.floors

    def less(found):
        return replace(found, tasks=found.tasks * 0.5)

    forged = {
        "pool": replace(floors, pools=(less(floors.pools[0]), *floors.pools[1:])),
        "raised": replace(floors, raised=less(floors.raised)),
        "rest": replace(floors, rest=less(floors.rest)),
        "floor": replace(floors, floor=floors.floor * 2),
        "met": replace(floors, met=floors.met * 0.5),
        "parts": replace(floors, pool_of_part=floors.pool_of_part[::-1]),
        "none": None,
    }[step]
    assert verify(problem, answer).valid
    assert not verify(problem, replace(answer, floors=forged)).valid


@pytest.mark.parametrize("stated", ["objective", "bound", "gap", "limited_by"])
def test_an_answer_that_is_not_described_as_its_last_step_is_refused(stated):
    problem = contested_problem(np.random.default_rng(3))
    answer = solve(problem, "drfh")
    assert "resource:cpu" not in answer.limited_by
    other = {
        "objective": answer.objective * 1.01,
        "bound": answer.bound * 1.01,
        "gap": answer.gap + 0.01,
        "limited_by": ("resource:cpu",) * problem.n,
    }[stated]
    found = verify(problem, replace(answer, **{stated: other}))
    wrong = "floors_limited_by" if stated == "limited_by" else "floors_objective"
    assert [check.name for check in found.checks if not check.holds] == [wrong]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("factor", [1 + 1e-6, np.nan])
def test_levels_that_are_not_those_of_the_shares_are_refused(factor, mode):
    problem = contested_problem(np.random.default_rng(3))
    answer = solve(problem, "drfh", mode=mode)
    found = verify(problem, replace(answer, level=answer.level * factor))
    assert "floors_level" in [check.name for check in found.checks if not check.holds]


def test_an_answer_with_fewer_tasks_than_its_steps_is_refused():
    """It is feasible, and its placements add up to its tasks."""
    problem = contested_problem(np.random.default_rng(3))
    answer = solve(problem, "drfh")
    less = replace(answer, tasks=answer.tasks * 0.9, placement_tasks=answer.placement_tasks * 0.9)
    failed = {check.name for check in verify(problem, less).checks if not check.holds}
    assert "floors_together" in failed
    assert failed == {"floors_together", "floors_on_servers", "floors_level"}


def test_floors_that_nobody_asked_for_are_refused():
    problem = contested_problem(np.random.default_rng(3))
    floors = solve(problem, "drfh").floors
    without = replace(problem, guarantees=())
    assert not verify(without, replace(solve(without, "drfh"), floors=floors)).valid


def test_a_choice_of_another_policy_is_refused():
    problem = contested_problem(np.random.default_rng(3))
    answer = solve(problem, "drfh")
    other = choose("drf", "divisible")
    pools = tuple(pool and replace(pool, choice=other) for pool in answer.floors.pools)
    found = verify(problem, replace(answer, floors=replace(answer.floors, pools=pools)))
    assert [check.name for check in found.checks if not check.holds] == ["floor_pools"]
