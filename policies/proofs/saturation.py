"""What stopped each workload of an indivisible answer, worked out again from its placements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, TextArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.borrow_cap import beyond_borrow_limit
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.reasons import (
    LEVEL,
    NO_SERVER_LARGE_ENOUGH,
    limited_by_limit,
    limited_by_resource,
    unserved_reasons,
)
from policies.model.server_classes import ServerClasses
from policies.proofs.pool_of_tasks import pool_of_tasks, whole_pool
from policies.proofs.stop_reasons import STILL_FITS, stopped_by, too_large


def stops_of(
    problem: Problem, allocation: Allocation, classes: ServerClasses
) -> tuple[str, ...] | None:
    """(n) the reason why each workload runs no more tasks; None for policies that never fill.

    Args:
        problem: the problem.
        allocation: whole tasks within every capacity.
        classes: the server classes or ranges that its placements refer to.
    """
    if not allocation.policy.saturates:
        return None
    stops = _stops_by_room(problem, allocation, classes)
    if allocation.history is None:
        return stops
    beyond = beyond_borrow_limit(problem, allocation.choice, allocation.history)
    if not beyond.any():
        return stops
    return tuple(
        LEVEL if stop == STILL_FITS and beyond[tenant] else stop
        for stop, tenant in zip(stops, problem.workload_tenant.tolist(), strict=True)
    )


def _stops_by_room(
    problem: Problem, allocation: Allocation, classes: ServerClasses
) -> tuple[str, ...]:
    """(n) the reasons by what is left on the servers, or in the pool."""
    choice = allocation.choice
    if choice.sees_one_pool:
        kept = choice.policy.long_term
        pool = whole_pool(problem) if kept else pool_of_tasks(problem, choice)
        return pool.limited_by(problem, allocation.tasks)
    whole = WholeServers.of(problem)
    left = whole.capacity[classes.first_row].copy()
    per_server = np.round(allocation.placement_tasks / classes.servers[allocation.placement_class])
    for r in range(problem.m):
        used = per_server * whole.demand[allocation.placement_workload, r]
        left[:, r] -= grouped_sum(used, allocation.placement_class, classes.count)
    rows, kind = np.unique(classes.first_row, return_inverse=True)
    first = np.searchsorted(classes.first_row, rows)
    allowed = np.ascontiguousarray(classes.allowed[:, first])
    reasons = filling_reasons(problem, whole, classes)

    def stops_on(allowed: BoolArray) -> tuple[str, ...]:
        return stopped_by(
            tuple(map(limited_by_resource, problem.resources)),
            allocation.tasks,
            problem.tasks,
            whole.demand,
            left,
            whole.share_of_unit,
            allowed,
            kind,
            reasons,
        )

    if not problem.limits:
        return stops_on(allowed)
    exhausted = _exhausted_limits(allocation, whole)
    within = allowed.copy()
    for number, workloads in enumerate(exhausted):
        within[np.ix_(workloads, problem.limited[number].rows[rows])] = False
    stops = list(stops_on(allowed))
    for j, stop in enumerate(stops_on(within)):
        if stops[j] == STILL_FITS:
            stops[j] = stop
            if stop != STILL_FITS:
                fits = _rows_with_room(whole.demand[j], left, kind) & allowed[j]
                stops[j] = _limit_in_the_way(problem, exhausted, j, rows[fits])
    return tuple(stops)


def _exhausted_limits(allocation: Allocation, whole: WholeServers) -> list[IntArray]:
    """Return for each limit the workloads of which one more task would exceed it."""
    problem, classes = allocation.problem, allocation.classes
    exhausted = []
    for item, amounts in zip(problem.limited, whole.limits, strict=True):
        below = np.zeros(problem.n, dtype=np.bool_)
        below[item.workloads] = True
        workload = allocation.placement_workload
        mine = below[workload] & item.rows[classes.first_row][allocation.placement_class]
        tasks = np.round(allocation.placement_tasks[mine])
        room = amounts - tasks @ whole.demand[workload[mine]]
        exhausted.append(item.workloads[(whole.demand[item.workloads] > room).any(axis=1)])
    return exhausted


def _rows_with_room(demand: FloatArray, left: FloatArray, kind: IntArray) -> BoolArray:
    """Return the rows (K,) with a server that has room for one more task."""
    room = np.zeros(int(kind.max(initial=-1)) + 1, dtype=np.bool_)
    np.logical_or.at(room, kind, (left >= demand).all(axis=1))
    return room


def _limit_in_the_way(
    problem: Problem, exhausted: Sequence[IntArray], workload: int, rows: IntArray
) -> str:
    """Return the first limit that excludes a row, as the reason of a workload with room there."""
    for number, workloads in enumerate(exhausted):
        if workload in workloads and problem.limited[number].rows[rows].any():
            return limited_by_limit(problem, number)
    raise AssertionError("a workload with room that no limit stops")


def filling_reasons(problem: Problem, whole: WholeServers, classes: ServerClasses) -> TextArray:
    """(n,) why a workload cannot run at all on empty servers, or the empty string."""
    reasons = unserved_reasons(problem, classes.allowed)
    rows, first = np.unique(classes.first_row, return_index=True)
    allowed = np.ascontiguousarray(classes.allowed[:, first])
    misfit = too_large(whole.demand, whole.capacity[rows], allowed, np.arange(len(rows)))
    reasons[(reasons == "") & misfit] = NO_SERVER_LARGE_ENOUGH
    return reasons
