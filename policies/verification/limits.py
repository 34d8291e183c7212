"""The limits of a problem as the verifier reads them.

Written from docs/policies/limits.md; it shares no code with what solvers read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.problem import Problem

SMALLEST_AMOUNT = 1e-9


@dataclass(frozen=True, eq=False)
class StatedLimit:
    """One limit.

    Attributes:
        counted: (n,) workloads below its node that demand a limited resource.
        rows: (k,) servers on which they count.
        amount: (m,) in the resources' own units; inf of those that are not named.
        reason: of a workload that it stops.
    """

    counted: BoolArray
    rows: BoolArray
    amount: FloatArray
    reason: str

    def shares(self, totals: FloatArray) -> FloatArray:
        """(m,) amounts as shares of the pool, 0 for those that are too small."""
        part = np.full(len(totals), np.inf)
        named = (self.amount < np.inf) & (totals > 0)
        part[named] = self.amount[named] / totals[named]
        return np.where(part < SMALLEST_AMOUNT, 0.0, part)


def stated_limits(problem: Problem) -> list[StatedLimit]:
    """Return the limits of a problem, in order."""
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
    """(t) groups that each tenant is below."""
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
    """Return the limits in which each of these workloads counts."""
    sets: list[set[int]] = [set() for _ in workloads]
    for number, limit in enumerate(limits):
        for position in np.flatnonzero(limit.counted[workloads]).tolist():
            sets[position].add(number)
    return [frozenset(each) for each in sets]
