"""A round that is left open has to prove who is stuck, and how much is open."""

from dataclasses import replace

import numpy as np
import pytest

from policies import Certificate, solve, verify
from policies.proofs.cost_curve import CostCurve
from policies.proofs.level_bounds import RoundProof, lift_left
from tests.unit.policies.problems import problem_of


def refusals(problem, answer):
    return [check.name for check in verify(problem, answer).checks if not check.holds]


@pytest.mark.parametrize("policy", ["drf", "drfh", "asset"])
def test_an_open_round_cannot_freeze_who_is_not_stuck(policy):
    """Half of the memory is free, and C would take it."""
    problem = problem_of([[10, 10]], [[1, 0], [1, 0], [0, 1]])
    answer = solve(problem, policy, mode="divisible")
    assert answer.tasks.round(9).tolist() == [5, 5, 10]
    item = answer.certificate.rounds[0]
    half = replace(item, level=0.5, bound=0.5, prices=np.array([[1.0, 0.0]]), proven=False)
    place = answer.placement_tasks
    forged = replace(
        answer,
        tasks=np.array([5.0, 5.0, 5.0]),
        placement_tasks=np.array([5.0, 5.0, 5.0]) if len(place) else place,
        level=np.array([0.5, 0.5, 0.5]),
        limited_by=("resource:cpu", "resource:cpu", "level"),
        objective=0.5,
        bound=0.5,
        gap=0.0,
        certificate=Certificate((half,), np.zeros(3, dtype=np.int64)),
    )
    assert refusals(problem, forged) == ["tenants_stuck"]


def division(problem, answer, tasks, rounds, frozen_in, **stated):
    """A schedule of one slot with these tasks, and what follows from them."""
    tasks = np.array(tasks)
    schedule = replace(answer.schedule, fraction=np.ones(1), tasks=tasks[None, :], **stated)
    share = tasks * problem.dominant_share_per_task
    certificate = replace(answer.certificate, rounds=rounds, frozen_in=np.array(frozen_in))
    return replace(
        answer, tasks=tasks.astype(float), level=share, schedule=schedule, certificate=certificate
    )


def test_a_tenant_that_never_runs_cannot_be_left_open():
    problem = problem_of([[10, 10]], [[2, 1], [2, 1]])
    answer = solve(problem, "tda")
    (item,) = {round_.stage: round_ for round_ in answer.certificate.rounds}.values()
    numbers = {"objective": 0.0, "bound": answer.schedule.bound, "lp_bound": 0.5, "gap": 1.0}
    both = replace(item, level=0.0, bound=0.5, prices=np.array([1.0, 1.0]), proven=False)
    one = division(problem, answer, [5, 0], (both,), [0, 0], **numbers)
    named = {"limited_by": ("resource:cpu",) * 2, "objective": 0.0, "bound": 0.5, "gap": 1.0}
    assert refusals(problem, replace(one, **named)) == ["open_rounds"]
    # Nor if those who have it all were frozen before.
    first = replace(item, level=1.0, bound=1.0, prices=np.array([1.0, 0.0]))
    last = replace(item, level=0.0, bound=0.0, prices=np.array([1.0, 1.0]), proven=False)
    numbers |= {"lp_bound": 1.0}
    two = division(problem, answer, [5, 0], (first, last), [0, 1], **numbers)
    assert refusals(problem, replace(two, **named | {"bound": 1.0})) == ["open_rounds"]


@pytest.mark.parametrize(
    ("costs", "frozen"),
    [
        ([1.0, 0.5, 0.0], [True, True, False]),  # all whose lift is no more than rounding
        ([1e-9, 2e-9, 0.0], [False, True, False]),  # otherwise the one with the least
        ([0.0, 0.0, 0.0], [True, True, True]),  # prices say nothing of anybody
    ],
)
def test_tenants_that_only_rounding_lifts_end_a_round_together(costs, frozen):
    wanting = np.array([True, True, True, False])
    lift = lift_left(1e-9, np.array([*costs, 1.0]), wanting)
    proof = RoundProof(1.0, lift, CostCurve.of(np.arange(4), np.ones(4), np.ones(4), 4))
    assert proof.stuck_but_for_rounding.tolist() == [*frozen, False]
    assert not proof.stuck.any()
