"""Limits and guarantees, with the workloads and servers that they count.

Sources: docs/policies/limits.md, docs/policies/guarantees.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
    of_tenant = _positions_by_owner(problem.owner, problem.t)
    of_group = _workloads_below_groups(problem, of_tenant)
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
            below = (of_group if each.scope == "group" else of_tenant)[each.node]
        resources = limited.tobytes()
        if resources not in demanding:
            demanding[resources] = np.asarray(positive[:, limited].any(axis=1), dtype=np.bool_)
        demands = demanding[resources][below]
        found.append(CountedWorkloads(each, below[demands], matching[key], limited))
    return tuple(found)


def _positions_by_owner(owner: IntArray, count: int) -> list[IntArray]:
    """Return the positions (ascending) in ``owner`` of each of ``count`` owners."""
    order = np.argsort(owner, kind="stable").astype(np.int64)
    edges = np.searchsorted(owner[order], np.arange(count + 1))
    return [order[edges[i] : edges[i + 1]] for i in range(count)]


def _workloads_below_groups(problem: ProblemFields, of_tenant: list[IntArray]) -> list[IntArray]:
    """Return the workloads below each group, ascending."""
    parts: list[list[IntArray]] = [[] for _ in problem.groups]
    for tenant, first in enumerate(problem.tenant_group.tolist()):
        group = first
        while group >= 0:
            parts[group].append(of_tenant[tenant])
            group = int(problem.group_parent[group])
    nothing = np.zeros(0, dtype=np.int64)
    return [np.sort(np.concatenate(mine)) if mine else nothing for mine in parts]


def _matching_rows(problem: ProblemFields, amount: Limit | Guarantee) -> BoolArray:
    rows = (
        all(labels.get(label) in values for label, values in amount.where.items())
        for labels in problem.server_labels
    )
    return np.fromiter(rows, dtype=np.bool_, count=problem.k)


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
