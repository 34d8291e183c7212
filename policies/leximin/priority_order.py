"""Which of a tenant's workloads runs, where several answers give the same shares.

A level says what a tenant gets, often not through which workloads: with one full resource,
two workloads that need the same of it are interchangeable. Then the preferred one (higher
priority, then older) takes over from the others what the room left on the servers allows,
without moving anybody else (policies §1.6).
"""

from __future__ import annotations

import time

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.compiled import Bools2, Floats2, OutFloats2, compiled_in_order
from policies.errors import SolveTimeoutError
from policies.proofs.normal_form import LeximinProblem, alike_workloads

# Shares below this part of a workload's own are rounding; nothing is moved for them.
WORTH_MOVING = 1e-9
# Demands that differ by less, relative, are the same but for rounding.
ALIKE = 1e-14


def preferred_tasks(
    on_server: IntArray, demand: FloatArray, allowed: BoolArray, owner: IntArray, limit: FloatArray
) -> IntArray:
    """(L, q) the same whole tasks, those of workloads that are alike by priority order.

    Args:
        on_server: (L, q) tasks on each server; each tenant's workloads in priority order.
        demand: (q, m), allowed: (q, K), owner: (q,) what makes workloads of a tenant alike.
        limit: (q,) tasks at most.
    """
    merged, first = alike_workloads(demand, allowed, np.arange(len(owner)), owner)
    if len(first) == len(owner):
        return on_server
    tasks = on_server.copy()
    for group in np.flatnonzero(np.bincount(merged) > 1).tolist():
        alike = np.flatnonzero(merged == group)
        left = on_server[:, alike].sum(axis=1)
        for j in alike.tolist():
            # As many as are left and wanted, on the servers in order.
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
    """(n, K) the same tenant shares, more of them through preferred workloads.

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
    demand, allowed = np.ascontiguousarray(problem.demand), np.ascontiguousarray(problem.allowed)
    chosen = np.diff(problem.first) > 1
    several = np.flatnonzero(chosen if tenants is None else chosen & tenants).tolist()
    moved = True
    while moved:  # what a workload leaves can be what a preferred one was waiting for
        moved = False
        for i in several:
            first, last = int(problem.first[i]), int(problem.first[i + 1])
            for j in range(first, last - 1):
                if deadline is not None and time.monotonic() > deadline:
                    raise SolveTimeoutError(
                        "solve.timeout", "the time limit passed between workloads"
                    )
                moved |= bool(
                    _take_over(x, slack, demand, allowed, float(problem.limit[j]), j, last)
                )
    return x


@compiled_in_order
def _take_over(
    x: OutFloats2,
    slack: OutFloats2,
    demand: Floats2,
    allowed: Bools2,
    limit: float,
    j: int,
    last: int,
) -> bool:
    """Move share to j from its tenant's workloads after it, from the last one on.

    x (n, K) and slack (K, m) are changed in place. What leaves a class goes to the same class first,
    then wherever there is room; j takes ``limit`` at most. Returns whether anything moved.
    """
    classes = slack.shape[0]
    has = _sum(x[j])
    changed = False
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
                room = _room(slack[target], demand[j], demand[other], target == source)
                moved = min(x[other, source], limit - has, room)
                if moved > worth:
                    x[other, source] -= moved
                    x[j, target] += moved
                    _use(slack[source], demand[other], -moved)
                    _use(slack[target], demand[j], moved)
                    has = _sum(x[j])
                    changed = True
    return changed


@compiled_in_order
def _sum(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for value in values:
        total += value
    return total


@compiled_in_order
def _room(slack, needs, frees, same):  # type: ignore[no-untyped-def]
    """How much share of a workload fits into a class, in place of another one if that runs there."""
    room = np.inf
    for r in range(len(slack)):
        needed = needs[r] - frees[r] if same else needs[r]
        if needed > ALIKE * needs[r]:
            room = min(room, slack[r] / needed)
    return room


@compiled_in_order
def _use(slack, demand, share):  # type: ignore[no-untyped-def]
    for r in range(len(slack)):
        slack[r] = max(slack[r] - share * demand[r], 0.0)
