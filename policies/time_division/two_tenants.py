"""Time division of one pool between two tenants with one workload each.

Source: Algorithm 3.1 of the TDA thesis (2015): of all saturated allocations, G1 gives tenant 1 the
higher share, G2 tenant 2, G3 both the same; either one slot of the allocation that is closest to
equal, or two slots, one of G1 and one of G2, in the proportion that makes the averages equal. By the
thesis' Proposition 3.1 more tasks for one are fewer for the other, so the best pair of step 3 is the
edge of the upper hull that crosses the line of equal shares: no other pair needs to be looked at.
"""

from __future__ import annotations

import time

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.errors import SolveTimeoutError
from policies.model.certificate import Round
from policies.model.problem import Problem
from policies.model.tolerance import DISCRETE_TOLERANCE
from policies.proofs.slots.slot_pool import Slot, SlotPool
from policies.time_division.rounds import Division, restated

# Saturated allocations that are listed, a few seconds' work; for more, slots are generated.
MOST_LISTED = 1_000_000


def two_alone(problem: Problem, pool: SlotPool) -> bool:
    """Return whether there are two tenants of one stage with one workload each.

    They must have one server and few slots.
    """
    return (
        len(pool.tenants) == len(pool.workloads) == 2
        and len(pool.kind) == 1
        and not problem.deficit.any()
        and bool(problem.second_stage[pool.tenants[0]] == problem.second_stage[pool.tenants[1]])
        and int(pool.knapsacks[0].most[0]) < MOST_LISTED
    )


def divide_between_two(problem: Problem, pool: SlotPool, deadline: float | None) -> Division:
    """Return the best division of the period, with at most two slots.

    Args:
        problem: for weights; pool: one server and two tenants (:func:`two_alone`).
        deadline: ``time.monotonic()`` seconds at which to give up.

    Returns:
        The slots and, as for any division, prices that prove the averages.

    Raises:
        SolveTimeoutError: the deadline passed.
    """
    listed = saturated_pairs(pool)
    per_task = pool.share / problem.effective_weight[pool.tenants]
    hull = listed[_upper_hull(listed, deadline)]
    chosen, fractions, edge = _best(listed, hull, per_task)
    weighted = fractions @ (chosen * per_task)
    share = weighted * problem.effective_weight[pool.tenants]
    rounds, frozen_in = _rounds(problem, pool, hull, per_task, weighted, edge)
    slots = tuple(Slot(tasks[None, :]) for tasks in chosen)
    proven = restated(problem, pool, rounds, frozen_in, share)
    return Division(slots, fractions, share, proven, frozen_in, len(listed), True)


def saturated_pairs(pool: SlotPool) -> IntArray:
    """Return the tasks (N, 2) of both tenants in every saturated allocation, by the first one's."""
    most = pool.knapsacks[0].most
    first = np.arange(int(most[0]) + 1)
    left = pool.capacity[0] - first[:, None] * pool.demand[0]
    needed = pool.demand[1] > 0
    second = np.floor(left[:, needed] / pool.demand[1, needed]).min(axis=1)
    second = np.minimum(second, pool.limit[1])
    left -= second[:, None] * pool.demand[1]
    full = (first >= pool.limit[0]) | (pool.demand[0] > left).any(axis=1)
    pairs: IntArray = np.column_stack([first, second.astype(np.int64)])[full]
    return pairs


def _upper_hull(points: IntArray, deadline: float | None) -> list[int]:
    """Corners of the upper hull of points whose second number falls as the first one grows."""
    rows = points.tolist()
    corners: list[int] = []
    for position, (x, y) in enumerate(rows):
        # The clock costs more than a corner, so that it is looked at now and then.
        if position % 10_000 == 0 and deadline is not None and time.monotonic() > deadline:
            raise SolveTimeoutError("solve.timeout", "the time limit passed between two slots")
        while len(corners) > 1:
            (ax, ay), (bx, by) = rows[corners[-2]], rows[corners[-1]]
            if (bx - ax) * (y - ay) - (by - ay) * (x - ax) < 0:
                break
            corners.pop()
        corners.append(position)
    return corners


def _best(
    listed: IntArray, hull: IntArray, per_task: FloatArray
) -> tuple[IntArray, FloatArray, int]:
    """Return the result of steps 2 to 6.

    It consists of the tasks of the slots (s, 2), their fractions (s,) and an edge of the hull
    there.
    """
    one = np.ones(1)
    sides = _side(hull, per_task)
    edges = max(len(hull) - 1, 0)
    if (sides >= 0).all():
        return hull[:1], one, 0
    if (sides <= 0).all():
        return hull[-1:], one, edges - 1
    after = int((sides >= 0).argmax())
    if sides[after] == 0:
        return hull[after : after + 1], one, after - 1
    r1, r2 = hull[after] * per_task, hull[after - 1] * per_task
    ahead, behind = r1[0] - r1[1], r2[1] - r2[0]
    part = behind / (ahead + behind)
    equal = listed[_side(listed, per_task) == 0]
    average = part * r1[0] + (1 - part) * r2[0]
    # One slot is preferred where a mixture of two gains nothing.
    if len(equal) and average <= equal[0, 0] * per_task[0] * (1 + DISCRETE_TOLERANCE):
        return equal[:1], one, after - 1
    return hull[[after, after - 1]], np.array([part, 1 - part]), after - 1


def _side(tasks: IntArray, per_task: FloatArray) -> IntArray:
    """Return the side (c,) of each combination of tasks, by the higher weighted share.

    It is 1 in G1, -1 in G2 and 0 in G3.
    """
    share = tasks * per_task
    difference = share[:, 0] - share[:, 1]
    equal = np.abs(difference) <= DISCRETE_TOLERANCE * share.max(axis=1)
    return np.where(equal, 0, np.sign(difference)).astype(np.int64)


def _rounds(
    problem: Problem,
    pool: SlotPool,
    hull: IntArray,
    per_task: FloatArray,
    weighted: FloatArray,
    edge: int,
) -> tuple[list[Round], IntArray]:
    """Return the rounds and the round of each tenant.

    Their prices make the hull's edge worth most. If one tenant has the lower share, the first round is
    its alone.
    """
    weight = problem.effective_weight[pool.tenants]
    stage = int(problem.second_stage[pool.tenants[0]])
    across = np.zeros(2)
    if len(hull) > 1:
        step = np.abs(hull[edge + 1] - hull[edge]) * per_task
        across = step[::-1] / step.sum()
    lower = int(weighted.argmin())
    level, other = float(weighted[lower]), float(weighted[1 - lower])
    if len(hull) > 1 and other <= level * (1 + DISCRETE_TOLERANCE):
        return [Round(stage, level, level, across / weight)], np.zeros(2, dtype=np.int64)
    alone = np.eye(2)
    beside = across if len(hull) > 1 else alone[1 - lower]
    rounds = [
        Round(stage, level, level, alone[lower] / weight),
        Round(stage, other, other, beside / weight),
    ]
    frozen_in = np.ones(2, dtype=np.int64)
    frozen_in[lower] = 0
    return rounds, frozen_in
