"""The normalised problem that leximin rounds solve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies import catalogue
from policies.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    TextArray,
    grouped_sum,
    rows_as_bytes,
)
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.reasons import unserved_reasons
from policies.model.server_classes import ServerClasses
from policies.model.share_definition import ShareUnits, share_units
from policies.model.tolerance import OVERFILL
from policies.proofs.alike import Groups, alike_workloads, groups_of
from policies.proofs.limit_rows import (
    LimitRow,
    ShareLimits,
    alone_in_limits,
    caps_of_limits,
    limit_rows,
    number_of_sets,
    share_limits,
)

DRFH_DIVISIBLE = Choice(catalogue.DRFH, "divisible")


@dataclass(frozen=True, eq=False, kw_only=True)
class LeximinProblem:
    """Problem in shares on server classes, without tenants and workloads that cannot run.

    Attributes
    ----------
    demand : (n, m) float array
        Normalised demands ``d``: amount per unit of dominant share.
    allowed : (n, K) bool array
        Classes on which each workload may run, at least one.
    limit : (n,) float array
        Dominant share of all tasks of each workload (tasks × ``s``), above 0; inf for any number of
        tasks. Not to be confused with ``limits``.
    owner : (n,) int array
        Tenant of each workload, ascending. Every tenant has a workload, and each tenant's workloads
        are in priority order.
    weight : (t,) float array
        Weight of each tenant within its stage, above 0.
    stage : (t,) int array
        Stage of each tenant: 0 is served first, 1 with what stage 0 leaves; -1 for guaranteed parts,
        which have all their tasks before the first round.
    capacity_share : (K, m) float array
        Capacity of each class as a share of the pool.
    groups : Groups or None
        The tree of groups, None in a flat pool.
    limits : tuple of LimitRow
        Limits of groups, tenants and workloads, all of the problem's and in its order. Tables of
        prices have a row for each limit, after the rows of the classes.

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
    def K(self) -> int:  # noqa: N802 - K is the letter of the papers and of all shapes
        """Number of server classes."""
        return int(self.capacity_share.shape[0])

    @cached_property
    def first(self) -> IntArray:
        """(t + 1,) workloads of tenant ``i`` are ``first[i]`` to ``first[i + 1]``."""
        return np.searchsorted(self.owner, np.arange(self.t + 1)).astype(np.int64)

    @cached_property
    def cap(self) -> FloatArray:
        """Share of all of each tenant's tasks (t,), infinite for unbounded tasks."""
        return grouped_sum(self.limit, self.owner, self.t)

    @cached_property
    def kept(self) -> FloatArray:
        """Share (t,) of each tenant before the first round, 0 but for guaranteed parts."""
        return np.where(self.stage < 0, self.cap, 0.0)

    @property
    def progressive_filling(self) -> bool:
        """True if there is one class and one workload per tenant.

        The resource or limit that is full then gives the exact prices, without a linear program.
        """
        return self.K == 1 and self.n == self.t

    @cached_property
    def rooms(self) -> FloatArray:
        """Capacities (K + l, m) of the classes, then amounts of the limits.

        The amount is 0 for a resource that a limit does not name, because it cannot have a price.
        """
        if not self.limits:
            return self.capacity_share
        amounts = np.array([limit.amount for limit in self.limits])
        return np.vstack([self.capacity_share, np.where(np.isfinite(amounts), amounts, 0.0)])

    @property
    def couples(self) -> bool:
        """True if a limit couples workloads or classes, so that its amount is shared or spread."""
        return not all(limit.is_cap for limit in self.limits)

    @property
    def has_amounts(self) -> bool:
        """True if limits couple workloads or classes, or parts are guaranteed."""
        return self.couples or bool((self.stage < 0).any())

    @cached_property
    def share_limits(self) -> ShareLimits:
        """Amounts of limits that bound the shares of tenants, wherever their workloads run."""
        return share_limits(self.limits, self.demand, self.allowed, self.owner)

    @cached_property
    def memberships(self) -> IntArray:
        """Number (n,) of the set of limits that count each workload, 0 for no limit."""
        return number_of_sets(self.n, [limit.workloads for limit in self.limits])

    def costs(self, prices: FloatArray, workloads: IntArray | None = None) -> FloatArray:
        """Return the cost (q, K) of one unit of share of each workload on each class.

        It is inf where the workload is not allowed.

        Args:
            prices: (K + l, m) of the classes and limits.
            workloads: (q,) all by default.
        """
        demand, allowed = self.demand, self.allowed
        if workloads is not None:
            demand, allowed = demand[workloads], allowed[workloads]
        cost: FloatArray = demand @ prices[: self.K].T
        of_limits = prices[self.K :]
        # Most limits do not bind, and have no price.
        for number in np.flatnonzero(of_limits.any(axis=1)).tolist():
            limit, price = self.limits[number], of_limits[number]
            counted = np.zeros(self.n, dtype=np.bool_)
            counted[limit.workloads] = True
            mine = counted if workloads is None else counted[workloads]
            cost[mine] += (demand[mine] @ price)[:, None] * limit.classes
        cost[~allowed] = np.inf
        return cost

    def unit_costs(self, prices: FloatArray) -> FloatArray:
        """Return the cost (n,) of one unit of share of each workload on its cheapest class."""
        if not self.K:
            return np.full(self.n, np.inf)
        cheapest: FloatArray = self.costs(prices).min(axis=1)
        return cheapest

    def worth(self, prices: FloatArray) -> float:
        """Return the value of all capacities and amounts at these prices."""
        return float((self.rooms * prices).sum())

    def limits_used(self, x: FloatArray) -> FloatArray:
        """Return the parts (l, m) of the limits' amounts that ``x`` (n, K) uses.

        If the amount is 0, the part is 0 without use and inf with any use.
        """
        amounts = self.rooms[self.K :]
        used = self.limit_sums(x)
        parts = np.where(used > 0, np.inf, 0.0)
        np.divide(used, amounts, out=parts, where=amounts > 0)
        parts[np.isinf([limit.amount for limit in self.limits]).reshape(parts.shape)] = 0.0
        return parts

    def limit_sums(self, x: FloatArray) -> FloatArray:
        """Return what ``x`` (n, K) uses of each resource (l, m) where each limit counts it."""
        number, workload, classes = self._counted
        share = np.where(classes, x[workload], 0.0).sum(axis=1)
        sums = np.zeros((len(self.limits), self.m))
        for r in range(self.m):
            sums[:, r] = grouped_sum(share * self.demand[workload, r], number, len(self.limits))
        return sums

    @cached_property
    def _counted(self) -> tuple[IntArray, IntArray, BoolArray]:
        """Limit (e,), workload (e,) and classes (e, K) of each entry that a limit counts."""
        size = np.array([len(limit.workloads) for limit in self.limits], dtype=np.int64)
        number = np.repeat(np.arange(len(size)), size)
        workload = np.concatenate(
            [np.zeros(0, dtype=np.int64), *(q.workloads for q in self.limits)]
        )
        where = np.array([q.classes for q in self.limits], dtype=np.bool_)
        where = where.reshape(len(size), self.K)
        return number, workload, where[number]

    def used_parts(self, x: FloatArray) -> FloatArray:
        """Return the parts (K, m) of the classes' capacities that ``x`` (n, K) uses, 0 without any."""
        size = np.where(self.capacity_share > 0, self.capacity_share, np.inf)
        used: FloatArray = (x.T @ self.demand) / size
        return used

    def tenant_sums(self, x: FloatArray) -> FloatArray:
        """Return the share (t,) of each tenant in ``x`` (n, K)."""
        return grouped_sum(x.sum(axis=1), self.owner, self.t)

    @cached_property
    def needs_limit_row(self) -> BoolArray:
        """Workloads (n,) with a finite ``limit`` whose tenant has other workloads.

        The only workload of a tenant needs no constraint of its own: the tenant's share bounds it.
        These constraints have nothing to do with ``limits``.
        """
        several = np.diff(self.first)[self.owner] > 1
        limited: BoolArray = several & np.isfinite(self.limit)
        return limited

    @cached_property
    def interchangeable(self) -> IntArray:
        """Number (t,) of each tenant's set of tenants that can hand any gain on to each other.

        The workloads of tenants in a set have the same (resources demanded, classes allowed, limits).
        A tenant with several workloads, one of which has a finite number of tasks, is alone in its
        set. ``level_bounds`` explains what follows.
        """
        alike = (self.demand > 0).all() and self.allowed.all() and not self.memberships.any()
        if self.n == self.t and alike:
            return np.zeros(self.t, dtype=np.int64)
        # Rows of a few bytes are much faster to compare than rows of booleans.
        kind = np.packbits(np.concatenate([self.demand > 0, self.allowed], axis=1), axis=1)
        if self.limits:
            kind = np.concatenate(
                [kind, self.memberships.view(np.uint8).reshape(self.n, -1)], axis=1
            )
        # Hashed, because sorting rows takes several times as long.
        numbers: dict[bytes, int] = {}
        found = [numbers.setdefault(row, len(numbers)) for row in rows_as_bytes(kind)]
        kind_of = np.array(found, dtype=np.int64)
        if self.n == self.t:
            return kind_of
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
    """A problem's leximin form, with the indices that map it back to the problem.

    Attributes:
        leximin: the problem that the rounds solve.
        tenants: (t',) tenants with something to run, as indices of the problem.
        merged: (n'') index of the leximin workload that each runnable workload is part of.
        workloads: (n'') runnable workloads, each tenant's in priority order.
        reasons: (n,) why a workload cannot run, empty for runnable workloads.
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
    """Leave out tenants and workloads that cannot run, and merge alike workloads of a tenant.

    Workloads of one tenant are alike if they have the same normalised demand and the same eligible
    classes, and no limits of their own. Their shares are computed as those of one workload. Their
    priority order divides these shares afterwards.

    Parameters
    ----------
    problem : Problem
        The problem.
    classes : ServerClasses
        Its server classes.
    units : ShareUnits, optional
        Unit of shares; dominant shares by default.
    adjacent : bool, default False
        Merge only workloads that follow each other in their tenant's priority order.

    Returns
    -------
    Normalised
        The leximin problem, with the indices of its tenants and workloads in ``problem``.

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
    alone_in = alone_in_limits(problem, classes, workloads)
    caps = caps_of_limits(problem, units, workloads, alone_in)
    chosen = workloads[first]
    return Normalised(
        leximin=LeximinProblem(
            demand=np.ascontiguousarray(units.demand[chosen]),
            allowed=np.ascontiguousarray(allowed[chosen]),
            limit=grouped_sum(np.minimum(limit, caps), merged, len(chosen)),
            owner=owner[first].astype(np.int64),
            weight=problem.effective_weight[tenants],
            stage=np.where(problem.kept, -1, problem.second_stage)[tenants].astype(np.int64),
            capacity_share=np.ascontiguousarray(classes.capacity_share),
            groups=groups_of(problem, units, tenants, workloads, owner),
            limits=limit_rows(problem, classes, workloads, merged, alone_in),
        ),
        tenants=tenants,
        workloads=workloads,
        merged=merged,
        reasons=reasons,
    )


def exact_shares(problem: LeximinProblem, x: FloatArray, share: FloatArray) -> FloatArray:
    """Scale ``x`` so that every tenant has its exact share within limits and capacities."""
    x = _scaled(x, share[problem.owner], problem.tenant_sums(x)[problem.owner])
    reached = x.sum(axis=1)
    x = _scaled(x, np.minimum(reached, problem.limit), reached)
    used, of_limits = problem.used_parts(x), problem.limits_used(x)
    # Only what takes too much is taken back: less of any other share would leave prices unpaid.
    for c, r in np.argwhere(used > 1 + OVERFILL).tolist():
        x[problem.demand[:, r] > 0, c] /= used[c, r]
    for number, r in np.argwhere(of_limits > 1 + OVERFILL).tolist():
        limit = problem.limits[number]
        mine = limit.workloads[problem.demand[limit.workloads, r] > 0]
        x[np.ix_(mine, limit.classes)] /= of_limits[number, r]
    return x


def _scaled(x: FloatArray, target: FloatArray, reached: FloatArray) -> FloatArray:
    """Scale each row of ``x`` by target / reached (n,)."""
    factor = np.divide(target, reached, out=np.ones(len(reached)), where=reached > 0)
    return x * factor[:, None]
