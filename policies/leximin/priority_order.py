"""Which of a tenant's workloads runs, where several answers give the same shares.

A level says what a tenant gets, often not through which workloads: with one full resource,
two workloads that need the same of it are interchangeable. Then the preferred one (higher
priority, then older) takes over from the others what the room left on the servers allows,
without moving anybody else (policies §1.6).
"""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.proofs.normal_form import LeximinProblem, alike_workloads

# Shares below this part of a workload's own are rounding; nothing is moved for them.
WORTH_MOVING = 1e-9


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


def preferred_workloads(problem: LeximinProblem, x: FloatArray) -> FloatArray:
    """(n, K) the same tenant shares, more of them through preferred workloads.

    Args:
        problem: each tenant's workloads are in priority order.
        x: (n, K) feasible dominant shares.
    """
    if problem.n == problem.t:
        return x
    x = x.copy()
    slack = np.maximum(problem.capacity_share - x.T @ problem.demand, 0.0)
    for i in range(problem.t):
        first, last = int(problem.first[i]), int(problem.first[i + 1])
        for j in range(first, last - 1):
            for other in range(last - 1, j, -1):
                _take_over(problem, x, slack, j, other)
    return x


def _take_over(
    problem: LeximinProblem, x: FloatArray, slack: FloatArray, j: int, other: int
) -> None:
    """Move share of ``other`` to ``j``: in the same class first, then wherever there is room."""
    worth = WORTH_MOVING * float(x[j].sum() + x[other].sum())
    for source in np.flatnonzero(x[other] > worth).tolist():
        targets = np.flatnonzero(problem.allowed[j])
        for target in sorted(targets.tolist(), key=lambda c: (c != source, c)):
            needed = problem.demand[j] - problem.demand[other] * (target == source)
            takes = needed > 0
            room = float((slack[target, takes] / needed[takes]).min(initial=np.inf))
            missing = float(problem.limit[j] - x[j].sum())
            moved = min(float(x[other, source]), missing, room)
            if moved <= worth:
                continue
            x[other, source] -= moved
            x[j, target] += moved
            slack[source] += moved * problem.demand[other]
            slack[target] -= moved * problem.demand[j]
            np.maximum(slack, 0.0, out=slack)
