"""Whole tasks on the pool as one server, with their demands and the order of their launches.

The tenant with the least share launches its next task, so the answer alone determines the order of
all launches: by the share that a tenant has before each, then by position. The answer is that of
the policy exactly if all its tasks fit, and each workload that runs fewer than it has did not fit
when its turn came; by then the others had launched the tasks before that turn. Nothing is filled
again.

Source: Ghodsi et al., NSDI 2011, Algorithm 1, §4.2, §4.3 and §6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, TextArray
from policies.model.policy import ShareDefinition
from policies.model.tolerance import DISCRETE_TOLERANCE
from policies.verification.amounts import LARGEST_WHOLE, read_amounts
from policies.verification.names import position_of
from policies.verification.reasons import NO_SERVER_LARGE_ENOUGH, TASK_LIMIT, by_resource
from policies.verification.stated import Stated
from policies.verification.stops import NOTHING, Room

# (workload that stopped, workload) pairs that are looked at together.
PAIRS_AT_ONCE = 4_000_000


@dataclass(frozen=True, eq=False)
class PoolTasks:
    """Demands of whole tasks on the pool, and what they add to shares.

    Attributes:
        columns: (n, c) what one task adds to each column of its tenant's share, which is the largest.
        demand: (n, q) of one task; room: (q,) of the pool: resources and amounts of limits, or one
            column of slots; full: (q) the reason of a workload that lacks it.
        names: (n,) the resource to name where the only column is full; None where columns are resources.
        reasons: (n,) why a workload cannot run at all; empty where it can.
    """

    columns: FloatArray
    demand: FloatArray
    room: FloatArray
    full: tuple[str, ...]
    names: IntArray | None
    reasons: TextArray

    def stops(self, stated: Stated, tasks: FloatArray) -> tuple[str | None, ...]:
        """Return what stopped each workload (n), given the tasks that run.

        None for a workload of which one more task would fit.
        """
        problem = stated.problem
        pool = Room(
            left=(self.room - tasks @ self.demand)[None, :],
            kind=np.zeros(1, dtype=np.int64),
            allowed=np.ones((problem.n, 1), dtype=np.bool_),
            unit=np.ones(len(self.room)),
        )
        blocking = pool.blocking(self.demand)
        if self.names is None and len(self.room) > problem.m:
            # A limit that is used up is the reason, whatever else is.
            over = self.demand[:, problem.m :] > pool.left[0, problem.m :]
            used_up = over.any(axis=1)
            blocking[used_up] = problem.m + over[used_up].argmax(axis=1)
        stops: list[str | None] = []
        for j, (reason, r) in enumerate(zip(self.reasons.tolist(), blocking.tolist(), strict=True)):
            if reason or tasks[j] >= problem.tasks[j]:
                stops.append(reason or TASK_LIMIT)
                continue
            if r == NOTHING:
                stops.append(None)
            elif self.names is None:
                stops.append(self.full[r])
            else:
                stops.append(by_resource(problem.resources[int(self.names[j])]))
        return tuple(stops)


def pool_tasks(stated: Stated) -> PoolTasks:
    """Return the demands and shares that the policy counts.

    Raises:
        PolicyOptionsError: an option names a resource or a tenant that the problem does not have.
    """
    problem, share = stated.problem, stated.choice.policy.share
    reasons = stated.unserved(stated.places())
    if share is ShareDefinition.SLOTS:
        return _in_slots(stated, reasons)
    amounts = stated.in_pool
    room = problem.server_count @ amounts.capacity
    reasons[(reasons == "") & (amounts.demand > room).any(axis=1)] = NO_SERVER_LARGE_ENOUGH
    columns = stated.columns
    if share is ShareDefinition.SINGLE_RESOURCE:
        name = stated.choice.options.get("resource", problem.resources[0])
        columns = stated.task_shares[:, position_of(name, problem.resources, "resource"), None]
    demand, full = amounts.demand, [by_resource(name) for name in problem.resources]
    for limit, bounds in zip(stated.limits, amounts.limits, strict=True):
        # Nothing is placed: an amount of a limit is a resource that the workloads in it demand.
        for r in np.flatnonzero(bounds < np.inf).tolist():
            demand = np.c_[demand, np.where(limit.counted, amounts.demand[:, r], 0.0)]
            room = np.append(room, bounds[r])
            full.append(limit.reason)
    return PoolTasks(columns, demand, room, tuple(full), None, reasons)


def _in_slots(stated: Stated, reasons: TextArray) -> PoolTasks:
    """Return the slots of the servers and the tasks.

    A server has ``min_r floor(c / slot)`` slots, a task takes ``ceil(max_r D / slot)``.
    """
    problem = stated.problem
    slot, parts = _slot(stated)
    cut = np.flatnonzero(slot > 0)
    slots, taken = 0, np.zeros(problem.n)
    if len(cut):
        amounts = read_amounts(
            problem.demand[:, cut],
            np.vstack([stated.offered, slot])[:, cut],
            np.maximum(stated.totals, slot)[cut],
        )
        sizes = [Fraction(max(int(size), 1), parts) for size in amounts.capacity[-1]]
        for row, count in zip(amounts.capacity[:-1], problem.server_count.tolist(), strict=True):
            fitting = [int(c) // size for c, size in zip(row, sizes, strict=True)]
            slots += count * min([*fitting, int(LARGEST_WHOLE)])
        taken = np.array(
            [
                float(max(math.ceil(int(d) / size) for d, size in zip(row, sizes, strict=True)))
                for row in amounts.demand
            ]
        )
    misfit = (problem.demand[:, slot <= 0] > 0).any(axis=1) | (taken > slots)
    reasons[(reasons == "") & misfit] = NO_SERVER_LARGE_ENOUGH
    return PoolTasks(
        columns=(taken / max(float(slots), 1.0))[:, None],
        demand=taken[:, None],
        room=np.array([float(slots)]),
        full=(),
        names=(problem.demand / np.where(slot > 0, slot, 1.0)).argmax(axis=1),
        reasons=reasons,
    )


def _slot(stated: Stated) -> tuple[FloatArray, int]:
    """Return the amounts (m,) that are cut into slots, and the number of slots.

    They are those of the slot that is given, or of the largest server, by the sum of its shares of
    the pool.
    """
    problem, given = stated.problem, stated.choice.option("slot")
    if given is not None:
        for name in given:
            position_of(name, problem.resources, f"slot/{name}")
        return np.array([float(given.get(name, 0)) for name in problem.resources]), 1
    if not problem.k or not (stated.totals > 0).any():
        return np.zeros(problem.m), 1
    share = problem.capacity / np.where(stated.totals > 0, stated.totals, 1.0)
    size = np.where(problem.contributed_only, -1.0, share[:, stated.totals > 0].sum(axis=1))
    return problem.capacity[int(size.argmax())], int(
        stated.choice.option("slots_per_largest_server")
    )


@dataclass(frozen=True, eq=False)
class _Launches:
    """Every workload's launches, in the order in which its tenant makes them.

    Attributes:
        workload: (q,) those that can run, each tenant's by priority, then age; owner: (q,) tenant.
        before: (q, c) the tenant's columns when its first task comes; each: (q, c) what one task adds.
        count: (q,) how many there are; weight: (q,) of the tenant.
    """

    workload: IntArray
    owner: IntArray
    before: FloatArray
    each: FloatArray
    count: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, stated: Stated, pool: PoolTasks, tasks: FloatArray) -> _Launches:
        problem = stated.problem
        runs = np.flatnonzero(pool.reasons == "")
        owner = problem.workload_tenant[runs]
        order = np.lexsort((runs, -problem.priority[runs], owner))
        workload, owner = runs[order], owner[order]
        added = tasks[workload, None] * pool.columns[workload]
        before = np.zeros_like(added)
        for q in range(1, len(workload)):
            if owner[q] == owner[q - 1]:
                before[q] = before[q - 1] + added[q - 1]
        weight = stated.weight[owner]
        return cls(workload, owner, before, pool.columns[workload], tasks[workload], weight)

    @property
    def stop(self) -> FloatArray:
        """Weighted share (q,) of the tenant once the workload has launched all tasks that it runs."""
        stop: FloatArray = (self.before + self.count[:, None] * self.each).max(axis=1) / self.weight
        return stop

    def before_turn(self, level: FloatArray, position: IntArray) -> FloatArray:
        """Return the launches (s, q) of each before the turns of tenants (s,) at ``level`` (s,)."""
        # Of equal shares the first by position goes: tenants before this one launch at its level
        # too.
        first = self.owner < position[:, None]
        edge = np.where(first, level[:, None] * (1 + DISCRETE_TOLERANCE), level[:, None])
        edge = np.where(first, edge, edge * (1 - DISCRETE_TOLERANCE)) * self.weight
        launched = np.broadcast_to(self.count, edge.shape).copy()
        for c in range(self.each.shape[1]):
            begin, step = self.before[:, c], self.each[:, c]
            ahead = np.where(first, begin <= edge, begin < edge)
            grows = step > 0
            steps = np.zeros(edge.shape)
            np.divide(edge - begin, step, out=steps, where=grows)
            most = np.where(first, np.floor(steps) + 1, np.ceil(steps))
            launched = np.where(ahead, np.where(grows, np.minimum(launched, most), launched), 0.0)
        return launched


def out_of_turn(stated: Stated, pool: PoolTasks, tasks: FloatArray) -> BoolArray:
    """Return the workloads (n,) that run fewer tasks than they have, although one more fitted in turn.

    Args:
        stated: the problem; pool: what its policy counts; tasks: (n,) whole, all of which fit.
    """
    problem = stated.problem
    launches = _Launches.of(stated, pool, tasks)
    stage = stated.late[launches.owner]
    stop, result = launches.stop, np.zeros(problem.n, dtype=np.bool_)
    turns = np.flatnonzero(launches.count < problem.tasks[launches.workload])
    demand = pool.demand[launches.workload]
    at_once = max(1, PAIRS_AT_ONCE // max(len(launches.workload), 1))
    for begin in range(0, len(turns), at_once):
        some = turns[begin : begin + at_once]
        tenant = launches.owner[some]
        launched = launches.before_turn(stop[some], tenant)
        mine = launches.owner == tenant[:, None]
        earlier = np.arange(len(launches.workload)) <= some[:, None]
        launched = np.where(mine, np.where(earlier, launches.count, 0.0), launched)
        launched = np.where(stage < stage[some, None], launches.count, launched)
        launched = np.where(stage > stage[some, None], 0.0, launched)
        fits = (launched @ demand + demand[some] <= pool.room).all(axis=1)
        result[launches.workload[some[fits]]] = True
    return result
