"""Limits and guarantees, with the workloads and servers that they count.

Sources: docs/policies/limits.md, docs/policies/guarantees.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Literal, TypeVar

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.problem_fields import Guarantee, Limit, ProblemFields

Amount = TypeVar("Amount", Limit, Guarantee)
Scope = Literal["group", "tenant", "workload", "lend"]
SCOPES: tuple[Scope, ...] = ("group", "tenant", "workload", "lend")
GUARANTEED: tuple[Literal["group", "tenant"], ...] = ("group", "tenant")
_RANK = {scope: rank for rank, scope in enumerate(SCOPES)}
# An amount below this part of the pool counts as 0: a demand of that size is out of range as well.
SMALLEST_LIMIT_SHARE = 1e-9
# Each may cost a linear program, and a constraint that every task is compared with.
MOST_LIMITS = 1_000
# Different selectors of guarantees: the verifier looks at each union of the servers of one workload's.
MOST_SELECTORS = 10


@dataclass(frozen=True, eq=False)
class CountedWorkloads(Generic[Amount]):
    """A limit or guarantee of a problem, with the workloads and servers that it counts.

    Attributes:
        limit: the limit or guarantee.
        workloads: (w,) workloads below its node that demand a resource that it names, ascending.
        rows: (k,) rows of servers that its selector matches.
        limited: (m,) resources that it names.
    """

    limit: Amount
    workloads: IntArray
    rows: BoolArray
    limited: BoolArray


def in_order(amounts: Iterable[Amount]) -> tuple[Amount, ...]:
    """Return limits in the order of documents.

    Those of groups come first, then those of tenants and of workloads, each by index.
    """
    return tuple(sorted(amounts, key=lambda each: (_RANK.get(each.scope, 0), each.node)))


def counted_workloads(
    problem: ProblemFields, amounts: tuple[Amount, ...]
) -> tuple[CountedWorkloads[Amount], ...]:
    """Return limits or guarantees with their workloads and servers, in the same order."""
    if not amounts:
        return ()
    nodes = _WorkloadsOfNodes(problem)
    matching: dict[tuple[int, tuple[tuple[str, tuple[str, ...]], ...]], BoolArray] = {}
    demanding: dict[bytes, BoolArray] = {}
    positive: BoolArray = problem.demand > 0
    found = []
    for each in amounts:
        lender = each.node if each.scope == "lend" else -1
        key = lender, tuple(sorted(each.where.items()))
        if key not in matching:
            matching[key] = _matching_rows(problem, each)
            if lender >= 0:
                matching[key] &= problem.contributed_by == lender
        limited = np.isfinite(each.amount)
        if each.scope == "workload":
            is_part = problem.part_of == each.node
            below = np.r_[each.node, np.flatnonzero(is_part)].astype(np.int64)
        elif each.scope == "lend":
            below = np.flatnonzero(problem.owner != each.node).astype(np.int64)
        else:
            below = (
                nodes.of_group(each.node) if each.scope == "group" else nodes.of_tenant(each.node)
            )
        resources = limited.tobytes()
        if resources not in demanding:
            demanding[resources] = np.asarray(positive[:, limited].any(axis=1), dtype=np.bool_)
        demands = demanding[resources][below]
        found.append(CountedWorkloads(each, below[demands], matching[key], limited))
    return tuple(found)


class _WorkloadsOfNodes:
    """Workloads of tenants and groups, ascending, of which few have an amount."""

    def __init__(self, problem: ProblemFields) -> None:
        self._problem, self._owner = problem, problem.owner
        self._order = np.argsort(self._owner, kind="stable").astype(np.int64)
        self._edges = np.searchsorted(self._owner[self._order], np.arange(problem.t + 1)).tolist()
        self._groups: dict[int, IntArray] = {}

    def of_tenant(self, tenant: int) -> IntArray:
        """Return the workloads of a tenant."""
        return self._order[self._edges[tenant] : self._edges[tenant + 1]]

    def of_group(self, group: int) -> IntArray:
        """Return the workloads of the tenants below a group."""
        if group not in self._groups:
            # The last one stands for tenants without a group.
            inside = np.zeros(len(self._problem.groups) + 1, dtype=np.bool_)
            below = [group]
            # The list grows while it is walked.
            for each in below:
                inside[each] = True
                below += self._children[each]
            mine = inside[self._problem.tenant_group[self._owner]]
            self._groups[group] = np.flatnonzero(mine).astype(np.int64)
        return self._groups[group]

    @cached_property
    def _children(self) -> list[list[int]]:
        children: list[list[int]] = [[] for _ in self._problem.groups]
        for group, parent in enumerate(self._problem.group_parent.tolist()):
            if parent >= 0:
                children[parent].append(group)
        return children


def _matching_rows(problem: ProblemFields, amount: Limit | Guarantee) -> BoolArray:
    rows = np.ones(problem.k, dtype=np.bool_)
    for label, values in amount.where.items():
        matching = [labels.get(label) in values for labels in problem.server_labels]
        rows &= np.array(matching, dtype=np.bool_)
    return rows


def limit_shares(problem: ProblemFields, totals: FloatArray) -> FloatArray:
    """Return the amounts (l, m) of a problem's limits as shares of the pool.

    A share is inf for a resource that a limit does not name or that the pool does not have.
    """
    if not problem.limits:
        return np.zeros((0, problem.m))
    amounts = np.array([limit.amount for limit in problem.limits])
    share = np.full(amounts.shape, np.inf)
    named = np.isfinite(amounts) & (totals > 0)
    np.divide(amounts, totals, out=share, where=named)
    share[share < SMALLEST_LIMIT_SHARE] = 0.0
    return share
