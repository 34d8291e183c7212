"""The normalised problem that leximin rounds work on, and the answer of one round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies import catalogue
from policies.arrays import BoolArray, FloatArray, IntArray, TextArray, grouped_sum
from policies.model.group_tree import GroupTree
from policies.model.limits import LimitedWorkloads
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.reasons import unserved_reasons
from policies.model.server_classes import ServerClasses
from policies.model.share_definition import ShareUnits, share_units

DRFH_DIVISIBLE = Choice(catalogue.DRFH, "divisible")


@dataclass(frozen=True, eq=False)
class Groups:
    """The tree of the tenants that take part, and in which proportions they use resources.

    Attributes:
        trees: with the weights of the first and of the second stage.
        direction: (t, m) shares of the pool per unit of share, the largest 1.
        part: (t,) part of the pool that each tenant is entitled to among those of its stage.
    """

    trees: tuple[GroupTree, GroupTree]
    direction: FloatArray
    part: FloatArray


@dataclass(frozen=True, eq=False)
class LimitRow:
    """A limit of the normalised problem.

    Attributes:
        workloads: (w,) that count; classes: (K,) on which they count.
        amount: (m,) share of the pool; inf of resources without a limit.
        is_cap: one workload alone counts, wherever it runs. Its ``limit`` in shares says the same.
    """

    workloads: IntArray
    classes: BoolArray
    amount: FloatArray
    is_cap: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class LeximinProblem:
    """Shares on server classes, without anything that cannot run.

    Attributes
    ----------
    demand : (n, m) float array
        Normalised demands ``d``: amount per unit of dominant share.
    allowed : (n, K) bool array
        On which classes each workload may run; every row has one.
    limit : (n,) float array
        Greatest dominant share of each workload (tasks × ``s``), above 0; inf without a limit.
    owner : (n,) int array
        Tenant of each workload, ascending. Every tenant has one, and each tenant's workloads are
        in priority order.
    weight : (t,) float array
        Above 0, within its stage.
    stage : (t,) int array
        0 is served first, 1 from what is left.
    capacity_share : (K, m) float array
        Capacity of each class as a share of the pool.
    groups : Groups or None
        The tree of groups and what counts in it; None of a flat pool.
    limits : tuple of LimitRow
        All limits of the problem. Tables of prices have a row for each, after those of the classes.

    Examples
    --------
    >>> from policies import Problem, normalise, one_class
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> normalise(problem, one_class(problem)).leximin.demand.round(4).tolist()
    [[0.5, 1.0], [1.0, 0.1667]]
    """

    demand: FloatArray
    allowed: BoolArray
    limit: FloatArray
    owner: IntArray
    weight: FloatArray
    stage: IntArray
    capacity_share: FloatArray
    groups: Groups | None = None
    limits: tuple[LimitRow, ...] = ()

    @property
    def n(self) -> int:
        """Number of workloads."""
        return len(self.demand)

    @property
    def t(self) -> int:
        """Number of tenants."""
        return len(self.weight)

    @property
    def m(self) -> int:
        """Number of resources."""
        return int(self.capacity_share.shape[1])

    @property
    def K(self) -> int:  # noqa: N802 - the number of classes, as in the performance notes
        """Number of server classes."""
        return int(self.capacity_share.shape[0])

    @cached_property
    def first(self) -> IntArray:
        """(t + 1,) workloads of tenant ``i`` are ``first[i]`` to ``first[i + 1]``."""
        return np.searchsorted(self.owner, np.arange(self.t + 1)).astype(np.int64)

    @cached_property
    def cap(self) -> FloatArray:
        """(t,) share at which all of the tenant's tasks are placed; inf: never."""
        return grouped_sum(self.limit, self.owner, self.t)

    @property
    def progressive_filling(self) -> bool:
        """One pool and one workload per tenant: a resource that fills gives the exact prices."""
        return self.K == 1 and self.n == self.t

    @cached_property
    def rooms(self) -> FloatArray:
        """(K + l, m) capacities of classes, then amounts of limits.

        It is 0 for resources that a limit does not name: they cannot have a price.
        """
        if not self.limits:
            return self.capacity_share
        amounts = np.array([limit.amount for limit in self.limits])
        return np.vstack([self.capacity_share, np.where(np.isfinite(amounts), amounts, 0.0)])

    @property
    def couples(self) -> bool:
        """True if a limit couples workloads or classes, so that its amount is shared or spread."""
        return not all(limit.is_cap for limit in self.limits)

    @cached_property
    def memberships(self) -> IntArray:
        """(n,) number of the set of limits that each workload counts in."""
        return number_of_sets(self.n, [limit.workloads for limit in self.limits])

    def costs(self, prices: FloatArray, workloads: IntArray | None = None) -> FloatArray:
        """(q, K) cost of one unit of share of each workload, or of these (q,), on each class.

        It is inf where the workload is not allowed.

        Args:
            prices: (K + l, m).
        """
        demand, allowed = self.demand, self.allowed
        if workloads is not None:
            demand, allowed = demand[workloads], allowed[workloads]
        cost: FloatArray = demand @ prices[: self.K].T
        for limit, price in zip(self.limits, prices[self.K :], strict=True):
            if price.any():
                counted = np.zeros(self.n, dtype=np.bool_)
                counted[limit.workloads] = True
                mine = counted if workloads is None else counted[workloads]
                cost[mine] += (demand[mine] @ price)[:, None] * limit.classes
        cost[~allowed] = np.inf
        return cost

    def unit_costs(self, prices: FloatArray) -> FloatArray:
        """(n,) cheapest of these costs."""
        if not self.K:
            return np.full(self.n, np.inf)
        cheapest: FloatArray = self.costs(prices).min(axis=1)
        return cheapest

    def worth(self, prices: FloatArray) -> float:
        """Return what all servers and limits are worth."""
        return float((self.rooms * prices).sum())

    def limits_used(self, x: FloatArray) -> FloatArray:
        """(l, m) used parts of the amounts of limits in ``x`` (n, K).

        It is 0 for amounts of 0 of which nothing is used.
        """
        parts = np.zeros((len(self.limits), self.m))
        for part, limit in zip(parts, self.limits, strict=True):
            used = x[limit.workloads][:, limit.classes].sum(axis=1) @ self.demand[limit.workloads]
            np.divide(used, limit.amount, out=part, where=limit.amount > 0)
            part[(limit.amount <= 0) & (used > 0)] = np.inf
        return parts

    def used_parts(self, x: FloatArray) -> FloatArray:
        """(K, m) used parts of each class's resources in ``x`` (n, K); 0 of what there is none of."""
        size = np.where(self.capacity_share > 0, self.capacity_share, np.inf)
        used: FloatArray = (x.T @ self.demand) / size
        return used

    def tenant_sums(self, x: FloatArray) -> FloatArray:
        """(t,) share of each tenant in ``x`` (n, K)."""
        return grouped_sum(x.sum(axis=1), self.owner, self.t)

    @cached_property
    def needs_limit_row(self) -> BoolArray:
        """(n,) limited workloads of tenants with several: one alone is limited by its share."""
        several = np.diff(self.first)[self.owner] > 1
        limited: BoolArray = several & np.isfinite(self.limit)
        return limited

    @cached_property
    def interchangeable(self) -> IntArray:
        """(t,) group of tenants that can hand any gain on to each other (``certificates``).

        Same set of (resources demanded, classes allowed, limits) over their workloads; a tenant
        with a limited number of tasks among several workloads is a group of its own.
        """
        alike = (self.demand > 0).all() and self.allowed.all() and not self.memberships.any()
        if self.n == self.t and alike:
            return np.zeros(self.t, dtype=np.int64)
        kind = np.packbits(np.concatenate([self.demand > 0, self.allowed], axis=1), axis=1)
        if self.limits:
            kind = np.concatenate(
                [kind, self.memberships.view(np.uint8).reshape(self.n, -1)], axis=1
            )
        _, kind_of = np.unique(kind, axis=0, return_inverse=True)
        if self.n == self.t:
            return kind_of.reshape(-1).astype(np.int64)
        alone = np.zeros(self.t, dtype=np.bool_)
        alone[self.owner[self.needs_limit_row]] = True
        index: dict[object, int] = {}
        group = np.empty(self.t, dtype=np.int64)
        for i in range(self.t):
            kinds = frozenset(kind_of[self.first[i] : self.first[i + 1]].tolist())
            group[i] = index.setdefault((i,) if alone[i] else kinds, len(index))
        return group


@dataclass(frozen=True, eq=False)
class Normalised:
    """A problem's leximin form and the way back.

    Attributes:
        leximin: what the rounds work on.
        tenants: (t',) tenants with something to run, as indices of the problem.
        merged: (n'') index of the leximin workload that each runnable workload is part of.
        workloads: (n'') runnable workloads, each tenant's in priority order.
        reasons: (n,) why the others have no share at all.
    """

    leximin: LeximinProblem
    tenants: IntArray
    workloads: IntArray
    merged: IntArray
    reasons: TextArray


def normalise(
    problem: Problem,
    classes: ServerClasses,
    units: ShareUnits | None = None,
    *,
    adjacent: bool = False,
) -> Normalised:
    """Leave out what cannot run and merge workloads of a tenant that are alike.

    Workloads of one tenant with the same normalised demand and the same eligible classes are one
    workload as far as shares go; their priority order decides afterwards.

    Parameters
    ----------
    problem : Problem
        The problem.
    classes : ServerClasses
        Where it runs.
    units : ShareUnits, optional
        What counts as a share; dominant shares by default.
    adjacent : bool, default False
        Merge only workloads that follow each other in their tenant's priority order.

    Returns
    -------
    Normalised
        The leximin problem, and which tenants and workloads it is about.

    Examples
    --------
    >>> from policies import Problem, normalise, one_class
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]], tasks=[0, 5])
    >>> normalise(problem, one_class(problem)).tenants.tolist()
    [1]
    """
    units = units or share_units(problem, DRFH_DIVISIBLE)
    allowed = classes.allowed
    reasons = unserved_reasons(problem, allowed)
    runnable = np.flatnonzero(reasons == "")
    order = np.lexsort((runnable, -problem.priority[runnable], problem.workload_tenant[runnable]))
    workloads = runnable[order]
    tenants, owner = np.unique(problem.workload_tenant[workloads], return_inverse=True)
    merged, first = alike_workloads(
        units.demand, allowed, workloads, owner, problem.own_limits, adjacent=adjacent
    )
    limit = units.limit[workloads]
    caps = _caps_of_limits(problem, classes, units, workloads)
    chosen = workloads[first]
    return Normalised(
        leximin=LeximinProblem(
            demand=np.ascontiguousarray(units.demand[chosen]),
            allowed=np.ascontiguousarray(allowed[chosen]),
            limit=grouped_sum(np.minimum(limit, caps), merged, len(chosen)),
            owner=owner[first].astype(np.int64),
            weight=problem.effective_weight[tenants],
            stage=problem.second_stage[tenants].astype(np.int64),
            capacity_share=np.ascontiguousarray(classes.capacity_share),
            groups=_groups_of(problem, tenants, units.demand[workloads], limit, owner),
            limits=_limits_of(problem, classes, allowed, workloads, merged),
        ),
        tenants=tenants,
        workloads=workloads,
        merged=merged,
        reasons=reasons,
    )


def _groups_of(
    problem: Problem,
    tenants: IntArray,
    demand: FloatArray,
    limit: FloatArray,
    owner: IntArray,
) -> Groups | None:
    """Return the tree of tenants that take part, or None if the pool is flat.

    Args:
        tenants: (t',) of the problem; demand: (q, m), limit, owner: (q,) of their workloads.
    """
    if not problem.has_groups:
        return None
    t = len(tenants)
    endless = np.isin(owner, owner[np.isinf(limit)])
    total = np.zeros((t, problem.m))
    np.add.at(total, owner, np.where(endless, 1.0, limit)[:, None] * demand)
    second = problem.second_stage[tenants]
    trees = problem.tree(0).only(tenants), problem.tree(1).only(tenants)
    part = np.where(second, trees[1].parts(second), trees[0].parts(~second))
    return Groups(trees, total / total.max(axis=1, initial=0.0)[:, None], part)


def _caps_of_limits(
    problem: Problem, classes: ServerClasses, units: ShareUnits, workloads: IntArray
) -> FloatArray:
    """(q,) greatest share of each workload by the limits in which it counts alone."""
    caps = np.full(len(workloads), np.inf)
    position = np.full(problem.n, -1, dtype=np.int64)
    position[workloads] = np.arange(len(workloads))
    for item, share in zip(problem.limited, problem.limit_share, strict=True):
        alone = _alone_in(item, classes, classes.allowed, position)
        if alone is not None:
            demand = units.demand[alone]
            cap = float((share[demand > 0] / demand[demand > 0]).min())
            # A cap of 0 is left to the rounds, in which a share of 0 has its reason.
            if cap > 0:
                caps[position[alone]] = min(caps[position[alone]], cap)
    return caps


def _alone_in(
    item: LimitedWorkloads, classes: ServerClasses, allowed: BoolArray, position: IntArray
) -> int | None:
    """Return the workload that alone counts in a limit wherever it may run, or None.

    Args:
        position: (n,) of each workload among those that can run, -1 for the others.
    """
    runs = item.workloads[position[item.workloads] >= 0]
    if len(runs) != 1:
        return None
    workload = int(runs[0])
    everywhere = bool((item.rows[classes.first_row] | ~allowed[workload]).all())
    return workload if everywhere else None


def _limits_of(
    problem: Problem,
    classes: ServerClasses,
    allowed: BoolArray,
    workloads: IntArray,
    merged: IntArray,
) -> tuple[LimitRow, ...]:
    """Return the limits of the normalised problem.

    Args:
        workloads: (q,) that can run; merged: (q,) which of the normalised problem's each is part of.
    """
    at = np.full(problem.n, -1, dtype=np.int64)
    at[workloads] = merged
    rows = []
    for item, share in zip(problem.limited, problem.limit_share, strict=True):
        counted = at[item.workloads]
        matching = item.rows[classes.first_row]
        is_cap = bool((share > 0).all()) and _alone_in(item, classes, allowed, at) is not None
        rows.append(LimitRow(np.unique(counted[counted >= 0]), matching, share, is_cap))
    return tuple(rows)


def number_of_sets(count: int, sets: Sequence[IntArray]) -> IntArray:
    """(count,) number of the sets that each element is in, 0 in none."""
    number = np.zeros(count, dtype=np.int64)
    known: dict[tuple[int, int], int] = {}
    for position, members in enumerate(sets):
        for element in members.tolist():
            key = int(number[element]), position
            number[element] = known.setdefault(key, len(known) + 1)
    return number


def alike_workloads(
    demand: FloatArray,
    allowed: BoolArray,
    workloads: IntArray,
    owner: IntArray,
    own_limits: IntArray,
    *,
    adjacent: bool = False,
) -> tuple[IntArray, IntArray]:
    """Which merged workload each is part of, and the first (preferred) of each.

    Args:
        demand: (n, m), allowed: (n, K), own_limits: (n,), of which ``workloads`` (q,) are rows: each
            tenant's together, in priority order. Workloads are alike only with equal ``own_limits``.
        owner: (q,) whose each is; adjacent: with no others between them in that order.
    """
    if len(owner) == 0 or (owner[1:] > owner[:-1]).all():
        identity = np.arange(len(workloads))
        return identity, identity
    index: dict[tuple[int, int, bytes, bytes], int] = {}
    first: list[int] = []
    merged = np.empty(len(workloads), dtype=np.int64)
    for position, j in enumerate(workloads.tolist()):
        key = (
            int(owner[position]),
            int(own_limits[j]),
            demand[j].tobytes(),
            allowed[j].tobytes(),
        )
        if adjacent and key not in index:
            index.clear()
        merged[position] = index.setdefault(key, len(first))
        if merged[position] == len(first):
            first.append(position)
    return merged, np.array(first, dtype=np.int64)
