"""Reasons for which workloads stop in the slots of a schedule.

They are derived from what each slot leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.model.problem import Problem
from policies.model.reasons import TASK_LIMIT, limited_by_resource
from policies.model.tolerance import AGREEMENT
from policies.proofs.slots.slot_pool import SlotPool
from policies.proofs.stop_reasons import stopped_by


def stops_in_slot(problem: Problem, pool: SlotPool, on_server: IntArray) -> tuple[str, ...]:
    """Return why each workload (n) runs no more tasks in a slot with the tasks ``on_server`` (L, q)."""
    q, m = len(pool.workloads), problem.m
    left = pool.capacity - on_server @ pool.demand
    largest = pool.capacity.sum(axis=0) if len(pool.capacity) else np.zeros(m)
    stops = stopped_by(
        tuple(map(limited_by_resource, problem.resources)),
        on_server.sum(axis=0).astype(np.float64),
        pool.limit,
        demand=pool.demand,
        left=left,
        share_of_unit=np.divide(1.0, largest, out=np.zeros(m), where=largest > 0),
        allowed=pool.allowed_on_kind,
        kind=pool.kind,
        reasons=np.full(q, "", dtype=object),
    )
    reasons = pool.reasons.copy()
    reasons[pool.workloads] = stops
    return tuple(reasons.tolist())


def stops_over_time(
    problem: Problem, pool: SlotPool, fraction: FloatArray, on_server: Sequence[IntArray]
) -> tuple[str, ...]:
    """Return what stops each workload (n) in the longest slot in which it does not run all its tasks.

    ``task_limit`` where there is no such slot, or next to no time in it; equally long slots count in
    their order.

    Args:
        problem, pool: what the schedule is for.
        fraction: (s,) of the period; on_server: (s) tasks (L, q) of each slot.
    """
    result = list(pool.reasons.tolist())
    average = np.zeros(len(pool.workloads))
    for part, tasks in zip(fraction.tolist(), on_server, strict=True):
        average += part * tasks.sum(axis=0)
    unfinished = average < pool.limit * (1 - AGREEMENT)
    for j in pool.workloads[~unfinished].tolist():
        result[j] = TASK_LIMIT
    served = pool.workloads[unfinished].tolist()
    for position in np.argsort(-fraction, kind="stable").tolist():
        undecided = [j for j in served if result[j] in ("", TASK_LIMIT)]
        if not undecided:
            break
        stops = stops_in_slot(problem, pool, on_server[position])
        for j in undecided:
            result[j] = stops[j]
    return tuple(result)
