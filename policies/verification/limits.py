"""Limits of a problem for the verifier.

Source: docs/policies/limits.md. The module shares no code with policies.model.limits, so that an error
there cannot hide itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.problem import Problem

# An amount below this part of the pool counts as 0.
SMALLEST_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class StatedLimit:
    """One limit, as the problem states it.

    Attributes:
        counted: (n,) whether a workload is below its node and demands a resource that it names.
        rows: (k,) whether a row of servers matches its selector.
        amount: (m,) in the resources' own units; inf for a resource that it does not name.
        reason: ``limited_by`` of a workload that it stops.
    """

    counted: BoolArray
    rows: BoolArray
    amount: FloatArray
    reason: str

    def shares(self, totals: FloatArray) -> FloatArray:
        """Return the amounts (m,) as shares of the pool, 0 for shares that are too small."""
        part = np.full(len(totals), np.inf)
        named = (self.amount < np.inf) & (totals > 0)
        part[named] = self.amount[named] / totals[named]
        return np.where(part < SMALLEST_SHARE, 0.0, part)


def stated_limits(problem: Problem) -> list[StatedLimit]:
    """Return the limits of a problem, in the problem's order."""
    if not problem.limits:
        return []
    above = _groups_above(problem)
    owner = problem.workload_tenant
    found = []
    for limit in problem.limits:
        if limit.scope == "workload":
            below = np.arange(problem.n) == limit.node
            reason = "limit:workload"
        elif limit.scope == "tenant":
            below = owner == limit.node
            reason = "limit:tenant"
        else:
            tenants = np.array([limit.node in groups for groups in above], dtype=np.bool_)
            below = tenants[owner] if problem.n else np.zeros(0, dtype=np.bool_)
            reason = f"limit:group:{problem.groups[limit.node]}"
        named = limit.amount < np.inf
        rows = np.ones(problem.k, dtype=np.bool_)
        for label, values in limit.where.items():
            rows &= np.array([row.get(label) in values for row in problem.server_labels], np.bool_)
        demands = (problem.demand[:, named] > 0).sum(axis=1) > 0
        found.append(StatedLimit(below & demands, rows, limit.amount, reason))
    return found


def _groups_above(problem: Problem) -> list[set[int]]:
    """Return the groups above each tenant."""
    above = []
    for first in problem.tenant_group.tolist():
        groups: set[int] = set()
        group = first
        while group >= 0:
            groups.add(group)
            group = int(problem.group_parent[group])
        above.append(groups)
    return above


def sets_of_limits(limits: list[StatedLimit], workloads: IntArray) -> list[frozenset[int]]:
    """Return the numbers of the limits that count each of these workloads."""
    sets: list[set[int]] = [set() for _ in workloads]
    for number, limit in enumerate(limits):
        for position in np.flatnonzero(limit.counted[workloads]).tolist():
            sets[position].add(number)
    return [frozenset(each) for each in sets]
