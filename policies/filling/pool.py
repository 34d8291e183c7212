"""Policies that see the pool as one server and hand out whole tasks.

They differ in what one task adds to its tenant's share, and in what a task takes: of the
resources themselves, or of equal slots.

Sources: Ghodsi et al., NSDI 2011: Algorithm 1 (DRF), §4.2 (asset fairness), §6 (slots, and
max-min on a single resource).
"""

from __future__ import annotations

import numpy as np

from policies.filling.pool_loop import fill_pool, fill_pool_in_groups, fill_pool_summed
from policies.model.allocation import Allocation
from policies.model.objectives import least_level_unsatisfied
from policies.model.queues import queues_of
from policies.model.request import Request
from policies.model.server_classes import one_class
from policies.proofs.pool_of_tasks import pool_of_tasks


def solve_indivisible(request: Request) -> Allocation:
    """Fill one pool with whole tasks by Algorithm 1.

    The tenant with the least weighted share launches its next task. The policy defines the share.
    DRF counts the dominant share (with the option ``resource_weights``, for the weight in each
    resource), asset fairness the sum of all shares, ``single-resource`` the share of one
    ``resource`` (a task without any of it is free, so its tenant is served first), ``slots`` equal
    slots, whatever a task needs of each resource: a server has ``min_r floor(c[l, r] / slot[r])``
    of them, a task takes ``ceil(max_r D[j, r] / slot[r])``.

    Raises:
        PolicyOptionsError: an option names a resource or tenant that does not exist.
        SolveTimeoutError: the deadline passed.
    """
    problem = request.problem
    pool = pool_of_tasks(problem, request.choice)
    queues = queues_of(problem, pool.reasons, pool.share_per_task)
    demand = np.ascontiguousarray(pool.demand[queues.workloads])
    room = pool.room - queues.count @ demand
    if problem.has_groups:
        level = fill_pool_in_groups(problem, queues, demand, room, request.deadline)
    elif pool.weighted is None:
        level = fill_pool(queues, demand, room, request.deadline)
    else:
        weighted = np.ascontiguousarray(pool.weighted[queues.workloads])
        level = fill_pool_summed(queues, weighted, demand, room, request.deadline)
    tasks = queues.tasks(problem)
    nothing = np.zeros(0, dtype=np.int64)
    limited_by = pool.limited_by(problem, tasks)
    return Allocation(
        problem=problem,
        choice=request.choice,
        tasks=tasks,
        classes=one_class(problem),
        placement_piece=nothing,
        placement_class=nothing,
        placement_tasks=np.zeros(0),
        level=level,
        limited_by=limited_by,
        objective=least_level_unsatisfied(problem, level, limited_by),
    )
