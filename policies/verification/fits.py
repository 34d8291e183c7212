"""Exact tests of whether an answer's tasks fit, without rounding or tolerance.

* One pool: all tasks together must take at most what its servers have of each resource.
* Whole tasks on a row or a range of its servers: they must take at most what these servers have
  together.
* Divisible tasks, which spread evenly over a class of servers, and averages over slots: those on
  **one** server, ``placement_tasks / servers``, must take at most what it has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.model.allocation import Allocation
from policies.verification.exact import exceeds
from policies.verification.places import Places
from policies.verification.stated import Stated

LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False)
class Fits:
    """The exact questions about one answer.

    Attributes:
        stated: the problem; places: where the answer's placements are; allocation: the answer.
        demand: (q, m) of one piece of each kind; capacity: (k, m) of one server; limits: (l, m), inf
            where they cannot bind; one unit per resource.
    """

    stated: Stated
    places: Places
    allocation: Allocation
    demand: FloatArray
    capacity: FloatArray
    limits: FloatArray

    @classmethod
    def of(cls, stated: Stated, places: Places, allocation: Allocation) -> Fits:
        """Return the amounts for an answer.

        Whole tasks are counted as they are when they are placed.
        """
        if allocation.mode != "indivisible":
            amounts = stated.as_they_are
        else:
            amounts = stated.in_pool if stated.choice.sees_one_pool else stated.on_servers
        return cls(
            stated,
            places,
            allocation,
            amounts.exact_demand,
            amounts.exact_capacity,
            amounts.exact_limits,
        )

    @property
    def _each(self) -> FloatArray:
        """Tasks (p,) of each placement, on one server or, of whole tasks, on all."""
        placed = self.allocation.placement_tasks
        if self.allocation.whole:
            return np.round(placed)
        each: FloatArray = placed / self.places.servers[self.allocation.placement_class]
        return each

    @property
    def _times(self) -> FloatArray:
        """Number (K,) of servers that these are on."""
        servers = self.places.servers.astype(np.float64)
        return servers if self.allocation.whole else np.ones(len(servers))

    def pool_overfilled(self) -> BoolArray:
        """Return whether all tasks take more of each resource (m,) than all servers have."""
        problem, pieces = self.stated.problem, self.stated.pieces
        tasks = self.allocation.tasks[pieces.owner] * pieces.count
        # A number of pieces beyond float64 is more than any pool has room for.
        tasks = np.clip(tasks, -LARGEST, LARGEST)
        runs = np.flatnonzero(tasks)
        counts = problem.server_count.astype(np.float64)
        return exceeds(
            np.concatenate([np.repeat(tasks[runs], problem.m), np.repeat(-counts, problem.m)]),
            np.concatenate([self.demand[runs].ravel(), self.capacity.ravel()]),
            np.tile(np.arange(problem.m), len(runs) + problem.k),
            np.zeros(problem.m),
        )

    def servers_overfilled(self) -> BoolArray:
        """Return where (K, m) the placements take more than is there."""
        m, answer = self.stated.problem.m, self.allocation
        capacity = self.capacity[self.places.row]
        over = exceeds(
            np.repeat(self._each, m),
            self.demand[answer.placement_piece].ravel(),
            (answer.placement_class[:, None] * m + np.arange(m)).ravel(),
            capacity.ravel(),
            np.repeat(self._times, m),
        )
        return over.reshape(capacity.shape)

    def beyond_limits(self) -> BoolArray:
        """Return the workloads (n,) whose placements run more tasks than they have."""
        pieces, answer = self.stated.pieces, self.allocation
        limit = self.stated.problem.tasks[pieces.owner] * pieces.count
        limited = np.isfinite(limit)
        mine = limited[answer.placement_piece]
        servers = self.places.servers[answer.placement_class[mine]].astype(np.float64)
        over = exceeds(
            self._each[mine],
            np.ones(len(servers)) if answer.whole else servers,
            answer.placement_piece[mine],
            np.where(limited, limit, 0.0),
        )
        beyond = np.zeros(self.stated.problem.n, dtype=np.bool_)
        beyond[pieces.owner[over & limited]] = True
        return beyond

    def limits_exceeded(self) -> BoolArray:
        """Return the limits (l,) whose tasks take more of a resource than the limit's amount."""
        answer, m = self.allocation, self.stated.problem.m
        bounded = self.limits < np.inf
        tasks, piece = answer.tasks, np.arange(len(answer.tasks))
        if not self.stated.choice.sees_one_pool:
            tasks, piece = answer.placement_tasks, answer.placement_piece
        if answer.whole:
            tasks = np.round(tasks)
        workload = self.stated.pieces.owner[piece]
        limits = self.stated.limits
        counted = np.array([limit.counted for limit in limits], np.bool_)
        counted = counted.reshape(len(limits), len(self.stated.problem.tasks))[:, workload]
        if not self.stated.choice.sees_one_pool:
            places = np.array([limit.rows for limit in limits], np.bool_)
            places = places.reshape(len(limits), self.stated.problem.k)[:, self.places.row]
            counted &= places[:, answer.placement_class]
        row, mine = np.nonzero(counted)
        over = exceeds(
            np.repeat(tasks[mine], m),
            self.demand[piece[mine]].ravel(),
            (row[:, None] * m + np.arange(m)).ravel(),
            np.where(bounded, self.limits, 0.0).ravel(),
        )
        exceeded: BoolArray = np.logical_or.reduce(over.reshape(bounded.shape) & bounded, axis=1)
        return exceeded
