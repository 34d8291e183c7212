"""Limits and guarantees of a problem for the verifier.

Sources: docs/policies/limits.md, docs/policies/guarantees.md.
The module shares no code with policies.model.limits, so that an error
there cannot hide itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.problem import Problem
from policies.model.problem_fields import Guarantee, Limit, Selector

# An amount below this part of the pool counts as 0.
SMALLEST_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class StatedLimit:
    """One limit or guarantee, as the problem states it.

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


def shares_of(limits: list[StatedLimit], totals: FloatArray) -> FloatArray:
    """Return the amounts (l, m) of limits as shares of the pool, 0 for shares that are too small."""
    amounts = np.array([limit.amount for limit in limits]).reshape(-1, len(totals))
    part = np.full(amounts.shape, np.inf)
    np.divide(amounts, totals, out=part, where=(amounts < np.inf) & (totals > 0))
    return np.where(part < SMALLEST_SHARE, 0.0, part)


def stated_limits(problem: Problem) -> list[StatedLimit]:
    """Return the limits of a problem, in the problem's order."""
    if not problem.limits:
        return []
    owner = owners(problem)
    below_group, matching = _BelowGroups(problem, owner), _Rows(problem)
    found = []
    for limit, demands in zip(problem.limits, _demanding(problem, problem.limits), strict=True):
        rows = matching(limit.where)
        if limit.scope == "workload":
            below = (np.arange(problem.n) == limit.node) | (problem.part_of == limit.node)
            reason = "limit:workload"
        elif limit.scope == "tenant":
            below = owner == limit.node
            reason = "limit:tenant"
        elif limit.scope == "lend":
            below = owner != limit.node
            rows = rows & (problem.contributed_by == limit.node)
            reason = "limit:lend"
        else:
            below = below_group(limit.node)
            reason = f"limit:group:{problem.groups[limit.node]}"
        found.append(StatedLimit(below & demands, rows, limit.amount, reason))
    return found


def stated_guarantees(problem: Problem) -> list[StatedLimit]:
    """Return the guarantees of a problem, in the problem's order."""
    if not problem.guarantees:
        return []
    owner = owners(problem)
    below_group, matching = _BelowGroups(problem, owner), _Rows(problem)
    found = []
    demanding = _demanding(problem, problem.guarantees)
    for each, demands in zip(problem.guarantees, demanding, strict=True):
        below = below_group(each.node) if each.scope == "group" else owner == each.node
        found.append(StatedLimit(below & demands, matching(each.where), each.amount, ""))
    return found


def rows_of_guarantees(problem: Problem) -> list[BoolArray]:
    """Return the servers (k,) of each guarantee, with one array for each selector."""
    matching = _Rows(problem)
    return [matching(each.where) for each in problem.guarantees]


def owners(problem: Problem) -> IntArray:
    """Return the tenant (n,) whose workload each is, or is a guaranteed part of."""
    whole = np.where(problem.part_of >= 0, problem.part_of, np.arange(problem.n))
    tenants: IntArray = problem.workload_tenant[whole]
    return tenants


def _demanding(problem: Problem, amounts: Sequence[Limit | Guarantee]) -> Iterator[BoolArray]:
    """Yield the workloads (n,) that demand a resource that each amount names."""
    demand = problem.demand > 0
    known: dict[bytes, BoolArray] = {}
    for named in np.array([each.amount for each in amounts]) < np.inf:
        key = named.tobytes()
        if key not in known:
            known[key] = demand[:, named].sum(axis=1) > 0
        yield known[key]


class _Rows:
    """Rows of servers (k,) that selectors match, found once for each selector."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._known: dict[tuple[tuple[str, tuple[str, ...]], ...], BoolArray] = {}
        self._everywhere = np.ones(problem.k, dtype=np.bool_)

    def __call__(self, where: Selector) -> BoolArray:
        if not where:
            return self._everywhere
        key = tuple((label, tuple(values)) for label, values in where.items())
        if key not in self._known:
            self._known[key] = rows_matching(self._problem, where)
        return self._known[key]


def rows_matching(problem: Problem, where: Selector) -> BoolArray:
    """Return the rows of servers (k,) that a selector matches."""
    rows = np.ones(problem.k, dtype=np.bool_)
    for label, values in where.items():
        rows &= np.array([row.get(label) in values for row in problem.server_labels], np.bool_)
    return rows


class _BelowGroups:
    """Workloads (n,) below groups, each found once."""

    def __init__(self, problem: Problem, owner: IntArray) -> None:
        self._parent = np.append(problem.group_parent, -1)  # position -1 stands for no group
        self._group = problem.tenant_group[owner]
        self._known: dict[int, BoolArray] = {}

    def __call__(self, group: int) -> BoolArray:
        if group not in self._known:
            inside = np.zeros(len(self._parent), dtype=np.bool_)
            inside[group] = True
            found = 0
            while found < np.count_nonzero(inside):
                found = int(np.count_nonzero(inside))
                inside |= inside[self._parent]
            self._known[group] = inside[self._group]
        return self._known[group]


def sets_of_limits(limits: list[StatedLimit], workloads: IntArray) -> list[frozenset[int]]:
    """Return the numbers of the limits that count each of these workloads."""
    sets: list[set[int]] = [set() for _ in workloads]
    for number, limit in enumerate(limits):
        for position in np.flatnonzero(limit.counted[workloads]).tolist():
            sets[position].add(number)
    return [frozenset(each) for each in sets]
