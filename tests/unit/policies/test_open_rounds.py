"""A round that is left open has to prove who is stuck, and how much is open."""

from dataclasses import replace

import numpy as np
import pytest

from policies import Certificate, Limit, Problem, solve, verify
from policies.leximin.group_rounds import GroupRounds
from policies.leximin.refinement import filled_up
from policies.model.server_classes import server_classes
from policies.proofs.cost_curve import CostCurve
from policies.proofs.group_bounds import without_noise
from policies.proofs.level_bounds import RoundProof, lift_left
from policies.proofs.normal_form import normalise
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


def small_limit(capacity, servers, weight, demand, group, kind, amount):
    """A pool in groups, in which the first one may have next to nothing of the first resource."""
    groups = max(group) + 1
    return Problem.create(
        resources=["cpu", "memory"], capacity=capacity, server_count=servers,
        server_labels=[{"kind": str(row)} for row in range(len(capacity))],
        tenants=[f"tenant-{i}" for i in range(len(weight))], weight=weight, demand=demand,
        groups=[f"group-{g}" for g in range(groups)], tenant_group=group,
        selectors=[{} if each is None else {"kind": str(each)} for each in kind],
        limits=[Limit("group", 0, np.array([amount, np.inf]))],
    )  # fmt: skip


SMALL_LIMITS = [
    small_limit(
        [[5, 1], [5, 3]], [45, 51], [0.12589254117941673, 0.0199526231496888,
         0.03162277660168379, 0.039810717055349734], [[5, 9], [2, 9], [1, 9], [1, 8]],
        [2, 0, -1, 0], [None, 0, 0, 0], 0.010548847185901353,
    ),
    small_limit(
        [[2, 7], [4, 5], [2, 6]], [80, 96, 69], [0.6309573444801932, 0.31622776601683794,
         0.19952623149688797, 0.001995262314968879, 0.01, 0.31622776601683794],
        [[8, 1], [6, 7], [6, 2], [6, 7], [1, 9], [1, 9]], [0, -1, -1, 0, -1, 0],
        [0, None, None, 1, 1, 1], 0.022987147661975287,
    ),
]  # fmt: skip


@pytest.mark.parametrize("problem", SMALL_LIMITS)
def test_no_round_stays_open_beside_a_limit_that_is_next_to_nothing(problem):
    """An allowance for rounding, as a part of the pool, is much of such a limit."""
    answer = solve(problem, "drfh", mode="divisible")
    assert [item.proven for item in answer.certificate.rounds] == [True, True]
    assert verify(problem, answer).valid
    amount = problem.limits[0].amount[0]
    mine = problem.tenant_group == 0
    assert answer.tasks[mine] @ problem.demand[mine, 0] == pytest.approx(amount, rel=1e-14)


def test_rooms_that_a_program_left_are_filled_up():
    """Some of two tenants' places are moved, so that both classes are full again."""
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=[[10, 5], [4, 8]], server_labels=[{}, {"kind": "b"}],
        tenants=["a", "b", "c"], demand=[[2, 1], [1, 2], [1, 1]],
        groups=["ml"], tenant_group=[0, 0, -1],
    )  # fmt: skip
    form = normalise(problem, server_classes(problem)).leximin
    exact = GroupRounds(form, None, interior=False).run()
    assert (exact.x > 0).sum() > form.n, "a tenant has several places"
    workload = int((exact.x > 0).sum(axis=1).argmax())
    moved = exact.x.copy()
    moved[workload] += 1e-10 * np.array([1.0, -1.0])
    filled = filled_up(form, moved, exact.share)
    assert np.abs(form.used_parts(moved) - form.used_parts(exact.x)).max() > 1e-11
    assert form.used_parts(filled) == pytest.approx(form.used_parts(exact.x), abs=1e-14)
    assert form.tenant_sums(filled) == pytest.approx(exact.share, rel=1e-15)


def test_prices_lose_what_rounding_alone_explains():
    problem = problem_of([[10, 10], [5, 9]], [[1, 2], [2, 1]], server_labels=[{}, {"kind": "b"}])
    form = normalise(problem, server_classes(problem)).leximin
    prices = np.array([[1e-15, 2.0], [0.0, 2.0 * (1 + 1e-14)]])
    assert np.ptp(without_noise(form, prices), axis=0).tolist() == [0.0, 0.0]
    assert without_noise(form, prices)[0].tolist() == [0.0, prices[1, 1]]
    apart = np.array([[1e-9, 2.0], [0.0, 2.0 * (1 + 1e-9)]])
    assert np.array_equal(without_noise(form, apart), apart)
