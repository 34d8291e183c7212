"""The tenants that take part in a leximin or a market, and what their shares take of the servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, TextArray, grouped_sum, rows_as_bytes
from policies.verification.limits import sets_of_limits
from policies.verification.places import Places
from policies.verification.stated import Stated


@dataclass(frozen=True, eq=False, kw_only=True)
class Form:
    """Problem in shares instead of tasks.

    A tenant's workloads that are alike in all but number count as one.

    Attributes:
        tenants: (t',) those with a workload that can run, ascending.
        workloads: (q,) what can run, as indices of the problem; kind: (q,) which of the ``n`` it is.
        reasons: (n_all,) why the other workloads can have nothing.
        owner: (n,) tenant of each, ascending, as a position in ``tenants``.
        demand: (n, m) shares of the pool that one unit of share takes.
        allowed: (n, K) places; limit: (n,) share of all tasks; inf: no limit.
        weight: (t',) above 0; stage: (t',) 0 is served before 1, -1 has all its tasks before that.
        capacity: (K, m) shares of the pool; per_task: (n_all,) share of one task.
        limits: (l) which of the n count, (n,), on which places, (K,), and amounts (m,), shares of the
            pool.
    """

    tenants: IntArray
    workloads: IntArray
    kind: IntArray
    reasons: TextArray
    owner: IntArray
    demand: FloatArray
    allowed: BoolArray
    limit: FloatArray
    weight: FloatArray
    stage: IntArray
    capacity: FloatArray
    per_task: FloatArray
    limits: tuple[tuple[BoolArray, BoolArray, FloatArray], ...] = ()

    @property
    def t(self) -> int:
        """Number of tenants."""
        return len(self.tenants)

    @cached_property
    def cap(self) -> FloatArray:
        """Share of each tenant (t',) with all its tasks, infinite if their number is unbounded."""
        return grouped_sum(self.limit, self.owner, self.t)

    @property
    def kept(self) -> BoolArray:
        """Guaranteed parts (t',), all of which run in any case."""
        kept: BoolArray = self.stage < 0
        return kept

    @cached_property
    def several(self) -> BoolArray:
        """True for each workload (n,) whose tenant has others beside it."""
        count = np.bincount(self.owner, minlength=self.t)
        several: BoolArray = (count > 1)[self.owner]
        return several

    @cached_property
    def rooms(self) -> FloatArray:
        """Capacities (K + l, m), then amounts of limits, 0 of resources that are not named."""
        # Not infinite: it is multiplied by prices that are 0 there.
        amounts = [np.where(amount < np.inf, amount, 0.0) for _, _, amount in self.limits]
        return np.concatenate([self.capacity, *(amount[None, :] for amount in amounts)])

    def costs(self, prices: FloatArray, some: IntArray | BoolArray | None = None) -> FloatArray:
        """Return the price (q, K) of one unit of share of each workload, or of some, on each place.

        It is inf where the workload may not run.
        """
        places = len(self.capacity)
        which = slice(None) if some is None else some
        demand = self.demand[which]
        cost: FloatArray = demand @ prices[:places].T
        # Limits without a price add nothing.
        for number in np.flatnonzero((prices[places:] > 0).any(axis=1)).tolist():
            counted, where, _ = self.limits[number]
            price = prices[places + number]
            cost += np.outer(np.where(counted[which], demand @ price, 0.0), where)
        cost[~self.allowed[which]] = np.inf
        return cost

    @cached_property
    def group(self) -> IntArray:
        """Group of interchangeable tenants (t',), any of which can hand a gain on to another.

        The workloads of a group have the same resources, places and limits. A tenant with a limited
        number of tasks among several workloads is alone in its group.
        """
        alone = np.zeros(self.t, dtype=np.bool_)
        alone[self.owner[self.several & np.isfinite(self.limit)]] = True
        counted = np.array([counted for counted, _, _ in self.limits], dtype=np.bool_)
        counted = counted.reshape(len(self.limits), len(self.owner))
        # Packed, because keys of a bit each are compared and hashed faster than bytes.
        pattern = np.packbits(
            np.concatenate([self.demand > 0, self.allowed, counted.T], axis=1), axis=1
        )
        of_tenant: list[set[bytes]] = [set() for _ in range(self.t)]
        for i, row in zip(self.owner.tolist(), rows_as_bytes(pattern), strict=True):
            of_tenant[i].add(row)
        number: dict[object, int] = {}
        keys = (i if alone[i] else frozenset(kinds) for i, kinds in enumerate(of_tenant))
        return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)

    def shares_of(self, tasks: FloatArray) -> FloatArray:
        """Return the share (n,) of each workload, of tasks (n_all,)."""
        mine = (tasks * self.per_task)[self.workloads]
        return grouped_sum(mine, self.kind, len(self.owner))

    def tenant_sums(self, shares: FloatArray) -> FloatArray:
        """Return the share (t',) of each tenant, of shares (n,)."""
        return grouped_sum(shares, self.owner, self.t)


def _alike(
    owner: IntArray, direction: FloatArray, allowed: BoolArray, limits: Sequence[frozenset[int]]
) -> tuple[IntArray, IntArray]:
    """Return the kind of each workload, and the first workload of each kind.

    Workloads of one tenant that are alike are one kind.
    """
    alike: dict[tuple[int, bytes, bytes, frozenset[int]], int] = {}
    kind = np.empty(len(owner), dtype=np.int64)
    first: list[int] = []
    for position, i in enumerate(owner.tolist()):
        key = (i, direction[position].tobytes(), allowed[position].tobytes(), limits[position])
        kind[position] = alike.setdefault(key, len(alike))
        if kind[position] == len(first):
            first.append(position)
    return kind, np.array(first, dtype=np.int64)


def alone_in_limits(stated: Stated, places: Places, runs: BoolArray) -> Iterator[tuple[int, int]]:
    """Yield workloads that alone count in a limit, on all their places, with the limit's number.

    Args:
        runs: (n,) workloads that can run.
    """
    if not stated.limits or not runs.any():
        return
    counted = np.array([limit.counted for limit in stated.limits]) & runs
    numbers = np.flatnonzero(counted.sum(axis=1) == 1)
    workloads = counted[numbers].argmax(axis=1)
    rows = np.array([limit.rows for limit in stated.limits])[numbers][:, places.row]
    everywhere = np.logical_and.reduce(rows | ~places.allowed[workloads], axis=1)
    yield from zip(workloads[everywhere].tolist(), numbers[everywhere].tolist(), strict=True)


def form_of(stated: Stated, places: Places) -> Form:
    """Return the runnable part of a problem, in shares as its policy counts them.

    With weights per resource a tenant's share is the sum over its workloads, each by the resource
    that is dominant in it.
    """
    problem = stated.problem
    reasons = stated.unserved(places)
    per_task = stated.columns.max(axis=1, initial=0.0)
    direction = stated.task_shares / np.where(per_task > 0, per_task, 1.0)[:, None]
    limit = np.full(problem.n, np.inf)
    np.multiply(problem.tasks, per_task, out=limit, where=np.isfinite(problem.tasks))
    runnable = np.flatnonzero(reasons == "")
    for j, number in alone_in_limits(stated, places, reasons == ""):
        most = stated.limit_shares[number]
        needs = direction[j] > 0
        cap = float((most[needs] / direction[j, needs]).min())
        if cap > 0:
            limit[j] = min(limit[j], cap)
    workloads = runnable[np.argsort(problem.workload_tenant[runnable], kind="stable")]
    tenants, owner = np.unique(problem.workload_tenant[workloads], return_inverse=True)
    kind = first = np.arange(len(workloads))
    if len(tenants) < len(workloads):
        of_limits = sets_of_limits(stated.limits, workloads)
        kind, first = _alike(owner, direction[workloads], places.allowed[workloads], of_limits)
    chosen = workloads[first]
    return Form(
        tenants=tenants,
        workloads=workloads,
        kind=kind,
        reasons=reasons,
        owner=owner[first].astype(np.int64),
        demand=direction[chosen],
        allowed=places.allowed[chosen],
        limit=grouped_sum(limit[workloads], kind, len(first)),
        weight=stated.weight[tenants],
        stage=np.where(problem.kept, -1, stated.late)[tenants].astype(np.int64),
        capacity=places.capacity,
        per_task=per_task,
        limits=tuple(
            (limit.counted[chosen], limit.rows[places.row], share)
            for limit, share in zip(stated.limits, stated.limit_shares, strict=True)
        ),
    )
