"""Which of a tenant's workloads runs, where several answers give the same shares.

A level says what a tenant gets, often not through which workloads: with one full resource,
two workloads that need the same of it are interchangeable. Then the preferred one (higher
priority, then older) takes over from the others what the room left on the servers allows,
without moving anybody else (policies §1.6).
"""

from __future__ import annotations

import numpy as np

from policies.arrays import FloatArray
from policies.leximin_problem import LeximinProblem

# Shares below this part of a workload's own are rounding; nothing is moved for them.
WORTH_MOVING = 1e-9


def preferred_workloads(problem: LeximinProblem, x: FloatArray) -> FloatArray:
    """(n, K) the same tenant shares, more of them through preferred workloads.

    Args:
        problem: each tenant's workloads are in order of preference.
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
