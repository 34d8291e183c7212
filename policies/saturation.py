"""What stopped each workload of an indivisible answer, worked out again from its placements."""

from __future__ import annotations

import numpy as np

from policies.allocation import Allocation
from policies.arrays import TextArray
from policies.classes import POOL_LEVEL, ServerClasses
from policies.pool_tasks import pool_of_tasks
from policies.problem import Problem
from policies.reasons import unserved_reasons
from policies.stops import NO_SERVER_LARGE_ENOUGH, stopped_by, too_large
from policies.whole_numbers import WholeServers


def stops_of(
    problem: Problem, allocation: Allocation, classes: ServerClasses
) -> tuple[str, ...] | None:
    """(n) the reason why each workload runs no more tasks; None for policies that never fill.

    Args:
        problem: the problem.
        allocation: whole tasks within every capacity.
        classes: the server classes or ranges that its placements refer to.
    """
    if allocation.policy in POOL_LEVEL:
        pool = pool_of_tasks(problem, allocation.policy, allocation.options)
        return pool.limited_by(problem, allocation.tasks)
    if allocation.policy == "static":
        return None
    whole = WholeServers.of(problem)
    left = whole.capacity[classes.first_row].copy()
    per_server = np.round(allocation.placement_tasks / classes.servers[allocation.placement_class])
    used = per_server[:, None] * whole.demand[allocation.placement_workload]
    np.subtract.at(left, allocation.placement_class, used)
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
