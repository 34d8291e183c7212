"""Taking from an answer what rounding gave it too much, before it leaves ``solve``.

Solvers of divisible tasks, and averages over slots, fill servers up to a few units in the last
place, on either side. What is exactly too full (``capacities``) gives back its excess and one unit
of rounding, again and with twice as much until it fits; whole tasks fit as they are. The same answer
is always made from the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from policies.arrays import BoolArray, FloatArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.tolerance import MOST_TAKEN
from policies.proofs.capacities import Capacities
from policies.proofs.exact_signs import UNIT

_MOST_TRIES = 20


def rounded_to_feasible(allocation: Allocation) -> Allocation:
    """Return the answer within every capacity and task limit, exactly.

    Only an answer that rounding alone has outside is changed.
    """
    if allocation.whole:
        return allocation
    problem = allocation.problem
    capacities = Capacities.of(problem, allocation, allocation.classes)
    tasks, placed = np.minimum(allocation.tasks, problem.tasks), allocation.placement_tasks
    if len(placed):
        placed = _placed(allocation, capacities)
        if not np.array_equal(placed, allocation.placement_tasks):
            summed = grouped_sum(placed, allocation.placement_workload, problem.n)
            tasks = np.minimum(summed, problem.tasks)

    def excess(tasks: FloatArray, over: BoolArray) -> FloatArray:
        by_resource = _excess(
            tasks @ capacities.demand, problem.server_count @ capacities.capacity, over
        )
        return _worst(capacities.demand > 0, by_resource)

    tasks = _taken_back(tasks, capacities.pool_overfilled, excess)
    if problem.limits and allocation.choice.sees_one_pool:
        tasks = _within_limits(allocation, capacities, tasks, np.ones(len(tasks)))
    return replace(allocation, tasks=tasks, placement_tasks=placed)


def _placed(allocation: Allocation, capacities: Capacities) -> FloatArray:
    """Return the tasks (p,) of each placement so that no server or workload has too many."""
    problem, classes = allocation.problem, allocation.classes
    workload, of = allocation.placement_workload, allocation.placement_class
    servers = classes.servers[of].astype(np.float64)
    counted = (capacities.demand > 0)[workload]
    has = capacities.capacity[classes.first_row] * classes.servers[:, None]

    def overfilled(each: FloatArray) -> BoolArray:
        return capacities.servers_overfilled(allocation, each * servers)

    def excess_on_servers(each: FloatArray, over: BoolArray) -> FloatArray:
        used = np.zeros(over.shape)
        np.add.at(used, of, (each * servers)[:, None] * capacities.demand[workload])
        return _worst(counted, _excess(used, has, over)[of])

    def beyond(each: FloatArray) -> BoolArray:
        return capacities.beyond_limits(allocation, each * servers)

    def excess_of_limits(each: FloatArray, over: BoolArray) -> FloatArray:
        run = grouped_sum(each * servers, workload, problem.n)
        return _excess(run, problem.tasks, over)[workload]

    each = _as_stored(allocation.placement_tasks / servers, servers)
    each = _as_stored(_taken_back(each, overfilled, excess_on_servers), servers)
    each = _as_stored(_taken_back(each, beyond, excess_of_limits), servers)
    if problem.limits:
        each = _as_stored(_within_limits(allocation, capacities, each, servers), servers)
    return each * servers


def _within_limits(
    allocation: Allocation, capacities: Capacities, each: FloatArray, servers: FloatArray
) -> FloatArray:
    """Return tasks on each of so many servers (p,) within all limits.

    Where the pool is one server, they are those of workloads (n,).
    """

    def exceeded(each: FloatArray) -> BoolArray:
        return capacities.limits_exceeded(allocation, each * servers)

    def excess(each: FloatArray, over: BoolArray) -> FloatArray:
        part = np.zeros(len(each))
        for limit in np.flatnonzero(over.any(axis=1)).tolist():
            mine, workloads = capacities.counted(allocation, limit)
            demand = capacities.demand[workloads]
            used = (each * servers)[mine] @ demand
            by_resource = _excess(used, capacities.limits[limit], over[limit])
            part[mine] = np.maximum(part[mine], _worst(demand > 0, by_resource))
        return part

    return _taken_back(each, exceeded, excess)


def _as_stored(each: FloatArray, servers: FloatArray) -> FloatArray:
    """Tasks on each of so many servers (p,) that come back from their sum as they were."""
    # Sums are stored, and readers divide them again: what they get must be what was checked.
    for _ in range(_MOST_TRIES):
        changed = (each * servers) / servers != each
        if not changed.any():
            break
        each = np.where(changed, np.nextafter(each, 0.0), each)
    return each


def _taken_back(
    amounts: FloatArray,
    too_much: Callable[[FloatArray], BoolArray],
    excess: Callable[[FloatArray, BoolArray], FloatArray],
) -> FloatArray:
    """Return the amounts (p,) reduced until nothing is too full.

    They are returned unchanged if that is impossible.

    Args:
        amounts: of tasks.
        too_much: returns the places that are too full; excess: returns the relative excess (p,) of the
            place of each amount, given those places; 0 elsewhere.
    """
    fitting = amounts
    for attempt in range(_MOST_TRIES):
        over = too_much(fitting)
        if not over.any():
            return fitting
        part = excess(fitting, over)
        part[part > 0] += UNIT * 2.0**attempt
        # More than rounding is an error of a solver, which the checks have to find.
        if part.max(initial=0.0) > MOST_TAKEN:
            break
        # At least one step down, where the part is smaller than the distance of two numbers.
        less = np.minimum(fitting * (1.0 - part), np.nextafter(fitting, 0.0))
        fitting = np.where(part > 0, less, fitting)
    return amounts


def _excess(used: FloatArray, has: FloatArray, over: BoolArray) -> FloatArray:
    """Return the relative excess of ``used`` over capacity where it is over, and 0 elsewhere."""
    part = used / np.where(over & (has > 0), has, 1.0) - 1.0
    excess: FloatArray = np.where(over, np.maximum(part, UNIT), 0.0)
    return excess


def _worst(counted: BoolArray, excess: FloatArray) -> FloatArray:
    """Return the worst excess (p,) of the resources that are counted (p, m)."""
    worst: FloatArray = np.where(counted, excess, 0.0).max(axis=1, initial=0.0)
    return worst
