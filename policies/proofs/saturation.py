"""What stopped each workload of an indivisible answer, worked out again from its placements."""

from __future__ import annotations

import numpy as np

from policies.arrays import TextArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.borrow_cap import beyond_borrow_limit
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.reasons import LEVEL, NO_SERVER_LARGE_ENOUGH, unserved_reasons
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
    return stopped_by(
        problem.resources,
        allocation.tasks,
        problem.tasks,
        whole.demand,
        left,
        whole.share_of_unit,
        allowed,
        kind,
        filling_reasons(problem, whole, classes),
    )


def filling_reasons(problem: Problem, whole: WholeServers, classes: ServerClasses) -> TextArray:
    """(n,) why a workload cannot run at all on empty servers, or the empty string."""
    reasons = unserved_reasons(problem, classes.allowed)
    rows, first = np.unique(classes.first_row, return_index=True)
    allowed = np.ascontiguousarray(classes.allowed[:, first])
    misfit = too_large(whole.demand, whole.capacity[rows], allowed, np.arange(len(rows)))
    reasons[(reasons == "") & misfit] = NO_SERVER_LARGE_ENOUGH
    return reasons
