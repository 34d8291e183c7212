"""Tasks of a workload that has the whole pool to itself.

Source: Wang, Li, Liang, Li, "Multi-Resource Fair Sharing for Datacenter Jobs with Placement
Constraints", SC 2016 (task share fairness).
"""

from __future__ import annotations

import numpy as np

from policies.arrays import FloatArray, grouped_sum
from policies.model.problem import Problem
from policies.model.quantities import WholeServers, offered_capacity

# (workload, kind of servers) pairs that are looked at together.
PAIRS_AT_ONCE = 4_000_000


def tasks_on_whole_pool(problem: Problem, *, whole: bool) -> FloatArray:
    """Return the tasks (n,) of each workload if it ran alone on all servers.

    Its selector, its number of tasks and limits do not count. The number is 0 if no server has all that
    a task demands, or if demands are out of range.

    Args:
        whole: count whole tasks, server by server; else servers run parts of tasks.
    """
    demand, capacity = problem.demand, offered_capacity(problem)
    if whole:
        quantities = WholeServers.of(problem)
        demand, capacity = quantities.demand, quantities.capacity
    kinds, kind_of = np.unique(capacity, axis=0, return_inverse=True)
    servers = grouped_sum(problem.server_count.astype(np.float64), kind_of.reshape(-1), len(kinds))
    alone = np.zeros(problem.n)
    served = np.flatnonzero(~(problem.resource_absent | problem.out_of_range))
    at_once = max(1, PAIRS_AT_ONCE // max(len(kinds), 1))
    for begin in range(0, len(served), at_once):
        some = served[begin : begin + at_once]
        fitting = np.full((len(some), len(kinds)), np.inf)
        for r in range(problem.m):
            needs = np.flatnonzero(demand[some, r] > 0)
            parts = kinds[:, r] / demand[some[needs], r][:, None]
            fitting[needs] = np.minimum(fitting[needs], parts)
        if whole:
            # Quotients of whole numbers below 2^53 never round up to a whole number from below.
            fitting = np.floor(fitting)
        # Rounded once, as the verifier does: reasons depend on which of two equal products is larger.
        alone[some] = _row_sums(fitting * servers)
    return alone


def _row_sums(table: FloatArray) -> FloatArray:
    """Return the sums (r,) of the rows of a table (r, c).

    They are added up in pairs with their rounding errors.
    """
    rest = np.zeros(len(table))
    while table.shape[1] > 1:
        if table.shape[1] % 2:
            table = np.pad(table, ((0, 0), (0, 1)))
        left, right = table[:, 0::2], table[:, 1::2]
        both = left + right
        back = both - left
        rest += ((left - (both - back)) + (right - back)).sum(axis=1)
        table = both
    total: FloatArray = table.sum(axis=1) + rest
    return total
