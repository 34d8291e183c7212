"""Demands of whole tasks on a pool that counts as one server, and what they add to shares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from policies import catalogue
from policies.arrays import FloatArray, IntArray, TextArray, grouped_sum
from policies.errors import PolicyOptionsError
from policies.model.policy import Choice, ShareDefinition
from policies.model.problem import Problem
from policies.model.quantities import (
    LARGEST_WHOLE,
    POOL,
    Quantities,
    offered_capacity,
    quantities_read,
    whole_quantities,
)
from policies.model.reasons import (
    NO_SERVER_LARGE_ENOUGH,
    limited_by_limit,
    limited_by_resource,
    unserved_reasons,
)
from policies.model.server_classes import one_class
from policies.model.share_definition import share_per_task, shares_of, weight_factors
from policies.proofs.stop_reasons import stopped_by

# Whole tasks by dominant shares, whatever policy asks for them.
DRF_OF_TASKS = Choice(catalogue.DRF, "indivisible")


@dataclass(frozen=True, eq=False)
class PoolOfTasks:
    """Demands of tasks on the pool and what they add to shares, in whole numbers.

    Attributes:
        share_per_task: (n,) what one task adds to its tenant's share.
        weighted: (n, m) the share of each resource that one task adds, for its weight there; None
            where weights do not differ between resources, or shares add up all the same.
        demand: (n, q) of one task, room: (q,) of the pool: resources and amounts of limits, or one
            column of slots.
        stops: (q) the reason of a workload that a full column stops.
        names: (n,) index of the resource to name where slots are what is missing; None where the
            columns are resources.
        reasons: (n,) why a workload cannot run, or the empty string.
    """

    share_per_task: FloatArray
    weighted: FloatArray | None
    demand: FloatArray
    room: FloatArray
    stops: tuple[str, ...]
    names: IntArray | None
    reasons: TextArray

    def limited_by(self, problem: Problem, tasks: FloatArray) -> tuple[str, ...]:
        """Return what stopped each workload (n), given the tasks that run."""
        left = self.room - tasks @ self.demand
        # Limits first: more of a resource does not help a workload that a limit stops as well.
        resources = len(self.room) if self.names is not None else problem.m
        order = np.roll(np.arange(len(self.room)), -resources)
        stops = stopped_by(
            tuple(self.stops[column] for column in order),
            tasks,
            problem.tasks,
            demand=self.demand[:, order],
            left=left[None, order],
            share_of_unit=np.ones(len(self.room)),
            allowed=np.ones((problem.n, 1), dtype=np.bool_),
            kind=np.zeros(1, dtype=np.int64),
            reasons=self.reasons,
        )
        if self.names is None:
            return stops
        return tuple(
            limited_by_resource(problem.resources[missing]) if stop == self.stops[0] else stop
            for stop, missing in zip(stops, self.names.tolist(), strict=True)
        )


def pool_of_tasks(problem: Problem, choice: Choice) -> PoolOfTasks:
    """Return the demands and shares that the chosen policy counts.

    They are the same for solving and for verifying.

    Raises:
        PolicyOptionsError: options that name a resource that the pool does not have.
    """
    reasons = unserved_reasons(problem, one_class(problem).allowed)
    if choice.policy.share is ShareDefinition.SLOTS:
        return _in_slots(problem, choice, reasons)
    whole = quantities_read(problem, POOL)
    demand, room = whole.demand, problem.server_count @ whole.capacity
    reasons[(reasons == "") & (demand > room).any(axis=1)] = NO_SERVER_LARGE_ENOUGH
    if choice.policy.share is ShareDefinition.SINGLE_RESOURCE:
        share = problem.demand_share[:, _resource(problem, choice)]
    else:
        share = share_per_task(problem, choice)
    weighted = _weighted(problem, choice, share, reasons)
    stops = [*map(limited_by_resource, problem.resources)]
    if problem.limits:
        # In one pool a limit is one more resource, of which the workloads that count in it demand.
        of_limits, amounts, more = _columns_of_limits(problem, whole)
        demand, room, stops = np.hstack([demand, of_limits]), np.r_[room, amounts], stops + more
    return PoolOfTasks(share, weighted, demand, room, tuple(stops), None, reasons)


def _columns_of_limits(
    problem: Problem, whole: Quantities
) -> tuple[FloatArray, FloatArray, list[str]]:
    """Return demand (n, c), room (c,) and reason (c) of each amount of a limit that can bind."""
    cells = np.argwhere(np.isfinite(whole.limits)).tolist()
    demand = np.zeros((problem.n, len(cells)))
    for column, (limit, resource) in enumerate(cells):
        workloads = problem.limited[limit].workloads
        demand[workloads, column] = whole.demand[workloads, resource]
    room = np.array([whole.limits[limit, resource] for limit, resource in cells])
    return demand, room, [limited_by_limit(problem, limit) for limit, _ in cells]


def _weighted(
    problem: Problem, choice: Choice, share: FloatArray, reasons: TextArray
) -> FloatArray | None:
    """Return the shares (n, m) for weights.

    None if weights do not differ, or if one resource dominates all workloads of each tenant.
    """
    factors = weight_factors(problem, choice)
    if factors is None:
        return None
    weighted = problem.demand_share / factors[problem.workload_tenant]
    dominant = np.ones((problem.t, problem.m), dtype=np.bool_)
    runs = reasons == ""
    attained = weighted[runs] >= share[runs, None]
    np.logical_and.at(dominant, problem.workload_tenant[runs], attained)
    return None if dominant.any(axis=1).all() else weighted


def shares_counted(problem: Problem, choice: Choice, tasks: FloatArray) -> FloatArray:
    """Return the share (t,) of each tenant, before its weight, as the chosen policy counts it.

    Args:
        problem, choice: what was decided. tasks: (n,) that run.

    Raises:
        PolicyOptionsError: options that name what the problem does not have.
    """
    if choice.policy.share not in (ShareDefinition.SINGLE_RESOURCE, ShareDefinition.SLOTS):
        return shares_of(problem, choice, tasks)
    per_task = pool_of_tasks(problem, choice).share_per_task
    return grouped_sum(tasks * per_task, problem.workload_tenant, problem.t)


@lru_cache(maxsize=1)
def whole_pool(problem: Problem) -> PoolOfTasks:
    """Return the demands of tasks on the pool as one server.

    The last result is kept, because solving and verifying a step request it four times.
    """
    pool = pool_of_tasks(problem, DRF_OF_TASKS)
    for array in (pool.demand, pool.room, pool.reasons):
        array.setflags(write=False)
    return pool


def _resource(problem: Problem, choice: Choice) -> int:
    name = choice.options.get("resource", problem.resources[0])
    if name not in problem.resources:
        raise PolicyOptionsError(
            "policy.options",
            f"the pool has no resource {name!r}; it has {', '.join(problem.resources)}",
            "/policy/options/resource",
        )
    return problem.resources.index(name)


def slots_of(problem: Problem, choice: Choice) -> tuple[IntArray, FloatArray]:
    """Return the slots of one server of each row (k,), and those that one task takes (n,).

    Raises:
        PolicyOptionsError: a slot of a resource that the pool does not have.
    """
    return _slots_counted(problem, *_slot(problem, choice))


def _in_slots(problem: Problem, choice: Choice, reasons: TextArray) -> PoolOfTasks:
    slot, parts = _slot(problem, choice)
    offered = slot > 0
    per_server, per_task = _slots_counted(problem, slot, parts)
    # In Python's integers, because the product may exceed 64 bits.
    slots = float((per_server.astype(object) * problem.server_count).sum())
    taken = problem.demand / np.where(offered, slot, 1.0)
    misfit = ((problem.demand > 0) & ~offered).any(axis=1) | (per_task > slots)
    reasons[(reasons == "") & misfit] = NO_SERVER_LARGE_ENOUGH
    return PoolOfTasks(
        share_per_task=per_task / max(slots, 1.0),
        weighted=None,
        demand=per_task[:, None],
        room=np.array([slots]),
        stops=(limited_by_resource(problem.resources[0]),),
        names=taken.argmax(axis=1),
        reasons=reasons,
    )


def _slots_counted(problem: Problem, slot: FloatArray, parts: int) -> tuple[IntArray, FloatArray]:
    """Slots of one server of each row (k,), and slots that one task of each workload takes (n,).

    Counted in whole numbers: a slot is ``slot / parts``, which need not be one.
    """
    offered = np.flatnonzero(slot > 0)
    if not len(offered):
        return np.zeros(problem.k, dtype=np.int64), np.zeros(problem.n)
    servers = offered_capacity(problem)
    whole = whole_quantities(
        problem.demand[:, offered],
        np.vstack([servers, slot])[:, offered],
        np.maximum(problem.totals, slot)[offered],
    )
    # As above: products with ``parts`` may exceed 64 bits.
    room, taken = (
        table.astype(np.int64).astype(object) for table in (whole.capacity, whole.demand)
    )
    size = np.maximum(room[-1], 1)
    per_server = (room[:-1] * parts // size).min(axis=1, initial=int(LARGEST_WHOLE))
    per_task = -(-taken * parts // size).min(axis=1, initial=0)
    return per_server.astype(np.int64), per_task.astype(np.float64)


def _slot(problem: Problem, choice: Choice) -> tuple[FloatArray, int]:
    """Return a vector (m,) that is cut into slots, and the number of slots.

    It is the given one, uncut, or the largest server, by the sum of its shares of the pool.
    """
    given = choice.option("slot")
    if given is not None:
        for name in given:
            if name not in problem.resources:
                raise PolicyOptionsError(
                    "policy.options",
                    f"the pool has no resource {name!r}; it has {', '.join(problem.resources)}",
                    f"/policy/options/slot/{name}",
                )
        return np.array([float(given.get(name, 0)) for name in problem.resources]), 1
    if not problem.k or not (problem.totals > 0).any():
        return np.zeros(problem.m), 1
    share = problem.capacity / np.where(problem.totals > 0, problem.totals, 1.0)
    size = np.where(problem.contributed_only, -1.0, share[:, problem.totals > 0].sum(axis=1))
    largest: FloatArray = problem.capacity[int(size.argmax())]
    return largest, int(choice.option("slots_per_largest_server"))
