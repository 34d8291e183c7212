"""Workloads that divide a guarantee in whole tasks, so that the tasks are not too many."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from policies.arrays import IntArray
from policies.model.limits import CountedWorkloads
from policies.model.problem import Problem
from policies.model.problem_fields import Guarantee, Limit

# Verification places at most this many whole tasks again.
MOST_DIVIDED = 5_000_000


def dividing(
    problem: Problem,
    item: CountedWorkloads[Guarantee],
    workloads: IntArray,
    limits_of: Callable[[int], Iterable[CountedWorkloads[Limit]]],
) -> IntArray:
    """Return those of some workloads (w,) that divide a guarantee in whole tasks.

    Workloads that alone would have most tasks of it are left out until the others, whatever the policy
    gives them, have at most ``MOST_DIVIDED`` pieces. One workload alone divides nothing.

    Args:
        limits_of: returns the limits of a workload that apply in the pool of the guarantee.
    """
    if len(workloads) < 2:
        return workloads
    named = item.limited
    demand = problem.demand[workloads][:, named]
    alone = np.full(demand.shape, np.inf)
    np.divide(item.limit.amount[named], demand, out=alone, where=demand > 0)
    pieces = np.ones(len(workloads))
    if problem.gangs:
        gangs = [problem.gangs.get(j) for j in workloads.tolist()]
        pieces = np.array([1.0 if each is None else each.count.sum() for each in gangs])
    # Rounded up, because parts of tasks of several workloads may add up to a task; whole numbers, so
    # that all sums are exact.
    fitting = np.ceil(np.minimum(alone.min(axis=1), MOST_DIVIDED + 1))
    most = pieces * np.minimum(fitting, problem.tasks[workloads])
    if problem.limited and most.sum() > MOST_DIVIDED:
        limited = [_within_limits(problem, j, limits_of(j)) for j in workloads.tolist()]
        most = np.minimum(most, pieces * np.array(limited))
    order = np.argsort(most, kind="stable")
    # Tasks that use all of one resource are at most those of the workload that has most of them alone.
    by_amount = named.sum() * np.maximum.accumulate((pieces * fitting)[order])
    fits = np.minimum(np.cumsum(most[order]), by_amount) <= MOST_DIVIDED
    some: IntArray = workloads[np.sort(order[fits])]
    return some


def _within_limits(
    problem: Problem, workload: int, limits: Iterable[CountedWorkloads[Limit]]
) -> float:
    """Return how many tasks of a workload the amount of each of its limits suffices for."""
    tasks = float("inf")
    for each in limits:
        demand = problem.demand[workload, each.limited]
        amount = each.limit.amount[each.limited][demand > 0]
        tasks = min(tasks, float(np.ceil(amount / demand[demand > 0]).min(initial=np.inf)))
    return tasks
