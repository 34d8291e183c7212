"""Priority order by looking at every pair of workloads, one move at a time (policies §1.6)."""

import numpy as np


def preferred_workloads(problem, x):
    """(n, K) the same tenant shares; of each pair the preferred workload takes what it can."""
    x = x.copy()
    slack = np.maximum(problem.capacity_share - x.T @ problem.demand, 0.0)
    for i in range(problem.t):
        first, last = int(problem.first[i]), int(problem.first[i + 1])
        for j in range(first, last - 1):
            for other in range(last - 1, j, -1):
                _take_over(problem, x, slack, j, other)
    return x


def _take_over(problem, x, slack, j, other):
    """In the same class first, then wherever there is room."""
    worth = 1e-9 * float(x[j].sum() + x[other].sum())
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
