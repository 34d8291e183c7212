"""Exact tests of whether an answer's numbers fit its problem's quantities.

Tasks are the float64 numbers that the answer has, and quantities are those that ``quantities``
reads; nothing is rounded or tolerated. The conditions are:

* one pool: all tasks together take at most what its servers have of each resource.
* placements of whole tasks: those on a row, or on a range of its servers, take at most what these
  servers have together. (On a range all run the same. What is stored of a row is its tasks per
  server; their whole number is the nearest.)
* placements of divisible tasks, which spread evenly over a class of identical servers, and averages
  over slots, taken over the servers of a row too: those on **one** server,
  ``placement_tasks / servers`` as it is printed and stored, take at most what it has. Then the class
  as a whole has enough too, whatever becomes of the sum by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.allocation import Allocation
from policies.model.problem import Problem
from policies.model.quantities import NOTHING, POOL, SERVER, as_read
from policies.model.server_classes import ServerClasses
from policies.proofs.exact_signs import exceeds


@dataclass(frozen=True, eq=False)
class Capacities:
    """The quantities of a problem as they are read for one answer, and the exact questions.

    Attributes:
        problem: the problem; classes: where the answer's placements are.
        demand: (q, m) of one piece of each kind; capacity: (k, m) offered by one server; one unit per
            resource.
        limits: (l, m) in the same units; inf of amounts that cannot bind.
        even: are placements spread evenly over the servers of a class (or averages over them)?
    """

    problem: Problem
    classes: ServerClasses
    demand: FloatArray
    capacity: FloatArray
    limits: FloatArray
    even: bool

    @classmethod
    def of(cls, problem: Problem, allocation: Allocation, classes: ServerClasses) -> Capacities:
        """Return the capacities for an answer.

        Whole tasks are counted as they are when they are placed.
        """
        sums = NOTHING
        if allocation.mode == "indivisible":
            sums = POOL if allocation.choice.sees_one_pool else SERVER
        demand, capacity, limits = as_read(problem, sums)
        return cls(problem, classes, demand, capacity, limits, not allocation.whole)

    @cached_property
    def _of_class(self) -> tuple[FloatArray, FloatArray]:
        """Capacity (K, m) of one server or class that is filled, and their number (K,)."""
        capacity = self.capacity[self.classes.first_row]
        servers = self.classes.servers.astype(np.float64)
        # Tasks that spread evenly are compared on one server, whose capacity is exact.
        return capacity, np.ones(len(servers)) if self.even else servers

    def _amounts(self, allocation: Allocation, tasks: FloatArray) -> FloatArray:
        """Return the tasks (p,) of placements that count against one capacity.

        They are those on one server if tasks spread evenly, and else all ``tasks``.
        """
        if not self.even:
            return np.round(tasks)
        each: FloatArray = tasks / self.classes.servers[allocation.placement_class]
        return each

    def pool_overfilled(self, tasks: FloatArray) -> BoolArray:
        """Return whether tasks (n,) take more of each resource (m,) than all servers have."""
        m = self.problem.m
        counts = np.repeat(self.problem.server_count.astype(np.float64), m)
        pieces = self.problem.pieces
        number = tasks[pieces.workload] * pieces.count
        runs = np.flatnonzero(number)
        resource = np.tile(np.arange(m), len(runs) + self.problem.k)
        return exceeds(
            # Capacities are terms of the sum, so that also the pool's total is added up exactly.
            np.concatenate([np.repeat(number[runs], m), -counts]),
            np.concatenate([self.demand[runs].ravel(), self.capacity.ravel()]),
            resource,
            np.zeros(m),
        )

    def servers_overfilled(self, allocation: Allocation, tasks: FloatArray) -> BoolArray:
        """Return where (K, m) placements of so many tasks (p,) take more than is there."""
        m = self.problem.m
        capacity, times = self._of_class
        cell = allocation.placement_class[:, None] * m + np.arange(m)
        over = exceeds(
            np.repeat(self._amounts(allocation, tasks), m),
            self.demand[allocation.placement_piece].ravel(),
            cell.ravel(),
            capacity.ravel(),
            np.repeat(times, m),
        )
        return over.reshape(capacity.shape)

    def beyond_limits(self, allocation: Allocation, tasks: FloatArray) -> BoolArray:
        """Return the kinds (q,) of which placements of so many tasks (p,) run more pieces than exist."""
        pieces = self.problem.pieces
        most = self.problem.tasks[pieces.workload] * pieces.count
        limited = np.isfinite(most)
        mine = limited[allocation.placement_piece]
        servers = self.classes.servers[allocation.placement_class[mine]].astype(np.float64)
        over = exceeds(
            self._amounts(allocation, tasks)[mine],
            servers if self.even else np.ones(len(servers)),
            allocation.placement_piece[mine],
            np.where(limited, most, 0.0),
        )
        return over & limited

    def limits_exceeded(self, allocation: Allocation, tasks: FloatArray) -> BoolArray:
        """Return where (l, m) tasks take more than a limit's amount.

        Args:
            tasks: (p,) of the answer's placements; (n,) of workloads where the pool is one server.
        """
        problem, m = self.problem, self.problem.m
        bounded = np.isfinite(self.limits)
        mine, kinds, first = self._all_counted(allocation)
        number = np.repeat(np.arange(len(problem.limits)), np.diff(first))
        over = exceeds(
            np.repeat(tasks[mine], m),
            self.demand[kinds].ravel(),
            (number[:, None] * m + np.arange(m)).ravel(),
            np.where(bounded, self.limits, 0.0).ravel(),
        )
        return over.reshape(self.limits.shape) & bounded

    def counted(self, allocation: Allocation, limit: int) -> tuple[IntArray, IntArray]:
        """Return the positions (c,) of placements that count in a limit, and their kinds (c,).

        Where the pool is one server, positions are those of the workloads.
        """
        mine, kinds, first = self._all_counted(allocation)
        these = slice(first[limit], first[limit + 1])
        return mine[these], kinds[these]

    def _all_counted(self, allocation: Allocation) -> tuple[IntArray, IntArray, IntArray]:
        """Return positions and kinds (c,) of all limits, and where those of each begin (l + 1,)."""
        key = id(allocation)
        if key not in self._known_counted:
            # The allocation as well, so that no other one has its id.
            self._known_counted[key] = allocation, self._find_counted(allocation)
        return self._known_counted[key][1]

    @cached_property
    def _known_counted(
        self,
    ) -> dict[int, tuple[Allocation, tuple[IntArray, IntArray, IntArray]]]:
        return {}

    def _find_counted(self, allocation: Allocation) -> tuple[IntArray, IntArray, IntArray]:
        limited = self.problem.limited
        size = np.array([len(item.workloads) for item in limited], dtype=np.int64)
        workload = np.concatenate(
            [np.zeros(0, dtype=np.int64), *(item.workloads for item in limited)]
        )
        number = np.repeat(np.arange(len(limited)), size)
        if allocation.choice.sees_one_pool:
            return workload, workload, np.searchsorted(number, np.arange(len(limited) + 1))
        placed = allocation.placement_workload
        order = np.argsort(placed, kind="stable")
        edges = np.searchsorted(placed[order], np.arange(self.problem.n + 1))
        begin, length = edges[workload], np.diff(edges)[workload]
        offset = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
        mine, number = order[np.repeat(begin, length) + offset], np.repeat(number, length)
        rows = np.array([item.rows[self.classes.first_row] for item in limited], dtype=np.bool_)
        here = rows.reshape(len(limited), -1)[number, allocation.placement_class[mine]]
        mine, number = mine[here], number[here]
        # Each limit's in the order of placements.
        order = np.lexsort((mine, number))
        mine = mine[order]
        first = np.searchsorted(number[order], np.arange(len(limited) + 1))
        return mine, allocation.placement_piece[mine], first
