"""Policies that see the pool as one server and hand out whole tasks.

They differ in what one task adds to its tenant's share, and in what a task takes: of the
resources themselves, or of equal slots.

Sources: Ghodsi et al., NSDI 2011: Algorithm 1 (DRF), §4.2 (asset fairness), §6 (slots, and
max-min on a single resource).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from policies.filling.pool_loop import fill_pool, fill_pool_summed
from policies.model.allocation import Allocation, least_level_unsatisfied
from policies.model.problem import Problem
from policies.model.queues import queues_of
from policies.model.server_classes import one_class
from policies.proofs.pool_of_tasks import pool_of_tasks


def _allocate(
    problem: Problem, policy: str, options: Mapping[str, Any], deadline: float | None
) -> Allocation:
    pool = pool_of_tasks(problem, policy, options)
    queues = queues_of(problem, pool.reasons, pool.share_per_task)
    demand = np.ascontiguousarray(pool.demand[queues.workloads])
    if pool.weighted is None:
        level = fill_pool(queues, demand, pool.room.copy(), deadline)
    else:
        weighted = np.ascontiguousarray(pool.weighted[queues.workloads])
        level = fill_pool_summed(queues, weighted, demand, pool.room.copy(), deadline)
    tasks = queues.tasks(problem)
    nothing = np.zeros(0, dtype=np.int64)
    limited_by = pool.limited_by(problem, tasks)
    return Allocation(
        problem=problem,
        policy=policy,
        mode="indivisible",
        options=dict(options),
        tasks=tasks,
        classes=one_class(problem),
        placement_workload=nothing,
        placement_class=nothing,
        placement_tasks=np.zeros(0),
        level=level,
        limited_by=limited_by,
        objective=least_level_unsatisfied(problem, level, limited_by),
    )


def solve_drf(problem: Problem, options: Mapping[str, Any], deadline: float | None) -> Allocation:
    """DRF, Algorithm 1: whole tasks by least weighted dominant share.

    Args:
        problem: any problem without selectors.
        options: ``resource_weights``, by which each tenant's weight differs between resources.
        deadline: ``time.monotonic()`` seconds at which to give up, or None.

    Raises:
        SolveTimeoutError: the deadline passed.
    """
    return _allocate(problem, "drf", options, deadline)


def solve_asset(problem: Problem, options: Mapping[str, Any], deadline: float | None) -> Allocation:
    """Asset fairness in whole tasks: by least weighted sum of shares of all resources.

    Args and raises as :func:`solve_drf`.
    """
    return _allocate(problem, "asset", options, deadline)


def solve_single_resource(
    problem: Problem, options: Mapping[str, Any], deadline: float | None
) -> Allocation:
    """Max-min on one resource only, the others merely must not overflow.

    Args as :func:`solve_drf`; ``options["resource"]`` is the one that counts, by default the
    first. A task without any of it is free, so its tenant is served first.

    Raises:
        PolicyOptionsError: no such resource. SolveTimeoutError: the deadline passed.
    """
    return _allocate(problem, "single-resource", options, deadline)


def solve_slots(problem: Problem, options: Mapping[str, Any], deadline: float | None) -> Allocation:
    """Hadoop's slots: max-min on equal slots, whatever a task needs of each resource.

    A server has ``min_r floor(c[l, r] / slot[r])`` slots and a task takes
    ``ceil(max_r D[j, r] / slot[r])`` of them.

    Args as :func:`solve_drf`; options: ``slots_per_largest_server`` (14 unless given), or
    ``slot`` with an amount per resource.

    Raises:
        PolicyOptionsError: a slot of an unknown resource. SolveTimeoutError.
    """
    return _allocate(problem, "slots", options, deadline)
