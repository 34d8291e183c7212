"""Choice among a tenant's workloads when several answers give the same shares.

A level determines what a tenant gets, often not through which workloads: with one full resource,
two workloads that need the same amount of it are interchangeable. Then the preferred one (higher
priority, then older) takes over from the others what the room left on the servers allows, without a
move of any other workload (policies §1.6).
"""

from __future__ import annotations

import time

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.compiled import (
    Bools2,
    Floats1,
    Floats2,
    OutFloats1,
    OutFloats2,
    compiled_in_order,
)
from policies.errors import SolveTimeoutError
from policies.model.tolerance import DUST
from policies.proofs.alike import alike_workloads
from policies.proofs.normal_form import LeximinProblem

# Shares below this part of a workload's own are rounding; nothing is moved for them.
WORTH_MOVING = 1e-9
# Demands that differ by less, relative, are the same but for rounding.
ALIKE = 1e-14


def preferred_tasks(
    on_server: IntArray, demand: FloatArray, allowed: BoolArray, owner: IntArray, limit: FloatArray
) -> IntArray:
    """Return the same whole tasks (L, q), with workloads that are alike in priority order.

    Args:
        on_server: (L, q) tasks on each server; each tenant's workloads in priority order.
        demand: (q, m), allowed: (q, K), owner: (q,) what makes workloads of a tenant alike.
        limit: (q,) tasks at most.
    """
    merged, first = alike_workloads(
        demand, allowed, np.arange(len(owner)), owner, np.zeros(len(owner), dtype=np.int64)
    )
    if len(first) == len(owner):
        return on_server
    tasks = on_server.copy()
    for group in np.flatnonzero(np.bincount(merged) > 1).tolist():
        alike = np.flatnonzero(merged == group)
        left = on_server[:, alike].sum(axis=1)
        for j in alike.tolist():
            # Those of the tasks left that the workload requests, on the servers in order.
            before = np.concatenate([[0], np.cumsum(left)[:-1]])
            taken = np.clip(limit[j] - before, 0, left).astype(np.int64)
            tasks[:, j] = taken
            left -= taken
    return tasks


def preferred_workloads(
    problem: LeximinProblem,
    x: FloatArray,
    deadline: float | None,
    tenants: BoolArray | None = None,
) -> FloatArray:
    """Return the same tenant shares (n, K), more of them through preferred workloads.

    Args:
        problem: each tenant's workloads are in priority order.
        x: (n, K) feasible dominant shares.
        deadline: ``time.monotonic`` seconds.
        tenants: (t,) whose workloads it is about; None: of all.

    Raises:
        SolveTimeoutError: the deadline passed.
    """
    if problem.n == problem.t:
        return x
    x = np.ascontiguousarray(x).copy()
    slack = np.maximum(problem.capacity_share - x.T @ problem.demand, 0.0)
    # Without a floor, what rounding leaves of a resource goes from tenant to tenant for ever: one turns
    # what is left of a resource into what is left of another, and the next one turns it back.
    floor = DUST * problem.capacity_share
    limits = _Limits(problem, x)
    demand, allowed = np.ascontiguousarray(problem.demand), np.ascontiguousarray(problem.allowed)
    chosen = np.diff(problem.first) > 1
    several = np.flatnonzero(chosen if tenants is None else chosen & tenants).tolist()
    moved = True
    while moved:  # what a workload leaves can be what a preferred one was waiting for
        moved = False
        for i in several:
            first, last = int(problem.first[i]), int(problem.first[i + 1])
            rows, use, where = limits.of_tenant(i)
            left, least = limits.left[rows], DUST * limits.amount[rows]
            for j in range(first, last - 1):
                if deadline is not None and time.monotonic() > deadline:
                    raise SolveTimeoutError(
                        "solve.timeout", "the time limit passed between workloads"
                    )
                moved |= bool(
                    _take_over(
                        x,
                        slack,
                        floor,
                        demand,
                        allowed,
                        use,
                        where,
                        left,
                        least,
                        float(problem.limit[j]),
                        first,
                        j,
                        last,
                    )
                )
            limits.left[rows] = left
    return x


class _Limits:
    """Unused amounts of limits.

    A row is one resource of one limit.

    Attributes:
        left, amount: (r,) shares of the pool.
    """

    def __init__(self, problem: LeximinProblem, x: FloatArray) -> None:
        """Work out what shares ``x`` (n, K) leave."""
        self._problem = problem
        self._resource: list[int] = []
        self._where: list[BoolArray] = []
        self._mine: list[list[int]] = [[] for _ in range(problem.t)]
        self._workloads: list[IntArray] = []
        left: list[float] = []
        amounts: list[float] = []
        for limit in problem.limits:
            counted = x[limit.workloads][:, limit.classes].sum(axis=1)
            for resource in np.flatnonzero(np.isfinite(limit.amount)).tolist():
                used = float(counted @ problem.demand[limit.workloads, resource])
                for tenant in np.unique(problem.owner[limit.workloads]).tolist():
                    self._mine[tenant].append(len(left))
                amounts.append(float(limit.amount[resource]))
                left.append(max(amounts[-1] - used, 0.0))
                self._resource.append(resource)
                self._where.append(limit.classes)
                self._workloads.append(limit.workloads)
        self.left, self.amount = np.array(left), np.array(amounts)

    def of_tenant(self, tenant: int) -> tuple[IntArray, FloatArray, BoolArray]:
        """Return the numbers (q,) of a tenant's rows, use per share (q, w) and classes (q, K)."""
        problem, mine = self._problem, self._mine[tenant]
        first, last = int(problem.first[tenant]), int(problem.first[tenant + 1])
        use = np.zeros((len(mine), last - first))
        where = np.zeros((len(mine), problem.K), dtype=np.bool_)
        for position, row in enumerate(mine):
            counted = self._workloads[row]
            counted = counted[(counted >= first) & (counted < last)]
            use[position, counted - first] = problem.demand[counted, self._resource[row]]
            where[position] = self._where[row]
        return np.array(mine, dtype=np.int64), use, where


@compiled_in_order
def _take_over(
    x: OutFloats2,
    slack: OutFloats2,
    floor: Floats2,
    demand: Floats2,
    allowed: Bools2,
    use: Floats2,
    where: Bools2,
    left: OutFloats1,
    least: Floats1,
    limit: float,
    first: int,
    j: int,
    last: int,
) -> bool:
    """Move share to j from its tenant's workloads after it, from the last one on.

    x (n, K), slack (K, m) and what limits leave, left (q,), are changed in place. What leaves a class
    goes to the same class first, then wherever there is room; j takes ``limit`` at most. There is no
    room in slack or left that is no more than ``floor`` (K, m) and ``least`` (q,). Returns whether
    anything moved.
    """
    classes = slack.shape[0]
    has = _sum(x[j])
    changed = False
    # The least preferred one gives first.
    for other in range(last - 1, j, -1):
        worth = WORTH_MOVING * (has + _sum(x[other]))
        if limit - has <= worth:
            continue
        for source in range(classes):
            if x[other, source] <= worth:
                continue
            for turn in range(classes + 1):
                target = source if turn == 0 else turn - 1
                if not allowed[j, target] or (turn > 0 and target == source):
                    continue
                room = _room(
                    slack[target], floor[target], demand[j], demand[other], target == source
                )
                for row in range(len(left)):
                    needed = use[row, j - first] * where[row, target]
                    more = needed - use[row, other - first] * where[row, source]
                    if more > ALIKE * needed:
                        room = min(room, _above(left[row], least[row]) / more)
                moved = min(x[other, source], limit - has, room)
                if moved > worth:
                    x[other, source] -= moved
                    x[j, target] += moved
                    _use(slack[source], demand[other], -moved)
                    _use(slack[target], demand[j], moved)
                    for row in range(len(left)):
                        more = use[row, j - first] * where[row, target]
                        more -= use[row, other - first] * where[row, source]
                        left[row] = max(left[row] - moved * more, 0.0)
                    # Summed anew, so that the rounding of many moves does not add up.
                    has = _sum(x[j])
                    changed = True
    return changed


@compiled_in_order
def _sum(values):
    total = 0.0
    for value in values:
        total += value
    return total


@compiled_in_order
def _room(slack, floor, needs, frees, same):
    """Return how much share of a workload fits into a class.

    With ``same``, another workload runs there and makes room.
    """
    room = np.inf
    for r in range(len(slack)):
        needed = needs[r] - frees[r] if same else needs[r]
        if needed > ALIKE * needs[r]:
            room = min(room, _above(slack[r], floor[r]) / needed)
    return room


@compiled_in_order
def _above(amount, floor):
    return amount if amount > floor else 0.0


@compiled_in_order
def _use(slack, demand, share):
    for r in range(len(slack)):
        slack[r] = max(slack[r] - share * demand[r], 0.0)
