"""Slots of a schedule, with their workloads and a bound on the worth of their shares.

An average of slots is worth at most as much, at any prices, as the slot that is worth most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, TextArray, grouped_sum
from policies.verification.knapsack import Knapsack
from policies.verification.pool import pool_tasks
from policies.verification.stated import Stated
from policies.verification.stops import Room
from policies.verification.whole_tasks import server_reasons

# (server, workload) pairs of servers that limits tie together, looked at as one knapsack.
LARGEST_JOINT = 400
# Sums of the same numbers in another order.
_ROUNDING = 1e-12
_LOOSE = 1e-9


@dataclass(frozen=True, eq=False)
class Slots:
    """Servers of a slot and the workloads that can run there, in whole numbers.

    Attributes:
        workloads: (q,) of the problem, those that can run; owner: (q,) position in ``tenants`` (t',).
        share: (q,) dominant share of one task; demand: (q, m); limit: (q,) tasks at most.
        capacity: (L, m) of each server; kind: (L,) its position in ``knapsacks``.
        allowed: (q, K) True if it may run on servers of the kind.
        reasons: (n,) why a workload cannot run at all; empty where it can.
    """

    workloads: IntArray
    tenants: IntArray
    owner: IntArray
    share: FloatArray
    demand: FloatArray
    limit: FloatArray
    capacity: FloatArray
    kind: IntArray
    allowed: BoolArray
    knapsacks: tuple[Knapsack, ...]
    reasons: TextArray

    @classmethod
    def of(cls, stated: Stated) -> Slots:
        """Return the pool as one big server, or every server by itself."""
        problem = stated.problem
        if stated.choice.sees_one_pool:
            pool = pool_tasks(stated)
            reasons, demand, capacity = pool.reasons, pool.demand, pool.room[None, :]
            number = np.ones(1, dtype=np.int64)
            may = np.ones((problem.n, 1), dtype=np.bool_)
        else:
            rows = stated.rows
            reasons, demand = server_reasons(stated), stated.on_servers.demand
            capacity, number = stated.on_servers.capacity[rows.row], rows.servers
            may = rows.allowed
        workloads = np.flatnonzero(reasons == "")
        tenants, owner = np.unique(problem.workload_tenant[workloads], return_inverse=True)
        kinds: dict[tuple[bytes, bytes], int] = {}
        first: list[int] = []
        kind = np.empty(len(capacity), dtype=np.int64)
        for row in range(len(capacity)):
            key = (capacity[row].tobytes(), may[workloads, row].tobytes())
            kind[row] = kinds.setdefault(key, len(kinds))
            if kind[row] == len(first):
                first.append(row)
        limit, allowed = problem.tasks[workloads], may[workloads][:, first]
        return cls(
            workloads=workloads,
            tenants=tenants,
            owner=owner.astype(np.int64),
            share=stated.dominant[workloads],
            demand=demand[workloads],
            limit=limit,
            capacity=np.repeat(capacity, number, axis=0),
            kind=np.repeat(kind, number),
            allowed=allowed,
            knapsacks=tuple(
                Knapsack(demand[workloads], capacity[row], np.where(allowed[:, k], limit, 0.0))
                for k, row in enumerate(first)
            ),
            reasons=reasons,
        )

    @cached_property
    def unit(self) -> FloatArray:
        """One unit (m,) of each resource as a share of all servers."""
        total: FloatArray = self.capacity.sum(axis=0)
        return np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)

    def blocking(self, on_server: IntArray) -> IntArray:
        """Return the index (q,) of the resource that stops each workload in a slot.

        -1 if one more task fits.

        Args:
            on_server: (L, q) tasks of the slot on each server.
        """
        left = self.capacity - on_server @ self.demand
        return Room(left, self.kind, self.allowed, self.unit).blocking(self.demand)

    @cached_property
    def everything(self) -> FloatArray:
        """Share of each tenant (t',) that runs all its tasks all the time.

        Infinite for unbounded tasks.
        """
        return grouped_sum(self.limit * self.share, self.owner, len(self.tenants))

    @cached_property
    def _together(self) -> IntArray:
        """Tasks (q,) of each workload alone on all servers, whatever its limit."""
        counts = np.bincount(self.kind, minlength=len(self.knapsacks))
        total = np.zeros(len(self.workloads), dtype=np.int64)
        for knapsack, count in zip(self.knapsacks, counts.tolist(), strict=True):
            total += knapsack.most * count
        return total

    @cached_property
    def coupled(self) -> bool:
        """True if task limits tie the servers together."""
        return len(self.kind) > 1 and bool((self._together > self.limit).any())

    @cached_property
    def _joint(self) -> Knapsack | None:
        """One knapsack for a few servers that limits tie together.

        Limits count as resources.
        """
        servers, (q, m) = len(self.kind), self.demand.shape
        if not self.coupled or servers * q > LARGEST_JOINT:
            return None
        finite = np.flatnonzero(np.isfinite(self.limit))
        demand = np.zeros((servers, q, servers * m + len(finite)))
        for server in range(servers):
            demand[server, :, server * m : (server + 1) * m] = self.demand
        demand[:, finite, servers * m + np.arange(len(finite))] = 1.0
        return Knapsack(
            demand.reshape(servers * q, -1),
            np.concatenate([self.capacity.ravel(), self.limit[finite]]),
            np.array([k.limit for k in self.knapsacks])[self.kind].ravel(),
        )

    def worth(self, prices: FloatArray, given: float) -> float:
        """Return a bound on the worth of any slot's shares, at prices (t',) of shares.

        Args:
            prices: at least 0.
            given: the bound that is claimed. It is returned if it is proven and no looser than the
                one that the prices give.
        """
        per_task = prices[self.owner] * self.share
        counts = np.bincount(self.kind, minlength=len(self.knapsacks)).tolist()
        bounds = [np.inf]
        if not per_task[np.isinf(self.limit)].any():
            limited = np.isfinite(self.limit)
            bounds.append(float(per_task[limited] @ self.limit[limited]))
        parts = [knapsack.worth_of_parts(per_task)[0] for knapsack in self.knapsacks]
        bounds.append(sum(worth * count for worth, count in zip(parts, counts, strict=True)))
        if self.coupled:
            most = np.minimum(self._together, self.limit)
            whole = Knapsack(self.demand, self.capacity.sum(axis=0), most)
            bounds.append(whole.worth_of_parts(per_task)[0])
        every = np.tile(per_task, len(self.kind))
        if self._joint is not None:
            bounds.append(self._joint.worth_of_parts(every)[0])
        loose = min(bounds)
        if loose <= given * (1 + _ROUNDING):
            return given if given <= loose * (1 + _LOOSE) else loose
        exact = 0.0
        certain = not self.coupled
        for knapsack, count, part in zip(self.knapsacks, counts, parts, strict=True):
            worth: float | None
            if knapsack.has_table:
                worth = knapsack.worth_by_table(per_task)
            else:
                certain = False
                # With one kind of servers the claim, per server, cuts the search from the
                # beginning.
                known = given / count if len(self.knapsacks) == 1 else 0.0
                worth = knapsack.worth_beyond(per_task, known)
            exact += (part if worth is None else worth) * count
        loose = min(loose, exact)
        if self._joint is not None and loose > given * (1 + _ROUNDING):
            found = self._joint.worth_beyond(every, given)
            loose = loose if found is None else min(loose, found)
        if loose <= given * (1 + _ROUNDING) and (not certain or given <= loose * (1 + _LOOSE)):
            return given
        return loose
