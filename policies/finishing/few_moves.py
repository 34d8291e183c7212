"""Placing decided tasks so that few leave their servers, where not all of them can stay.

Where what is missing does not fit beside the tasks that stay, some of these must move. In small pools an
integer program decides which, and moves the fewest unless its search ends early. In larger ones servers
of a row exchange what a fresh placement gives them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linear_sum_assignment, milp
from scipy.sparse import coo_array

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.errors import SolveTimeoutError
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.server_classes import ServerClasses
from policies.model.tasks_on_servers import TasksOnServers

# Larger programs take seconds, and so do programs of few servers and many workloads.
MOST_SERVERS = 16
LARGEST_PROGRAM = 2000  # variables
# Nodes end the search at the same placement on every machine. Seconds end it where nodes are slow.
NODES = 500
SECONDS = 2.0
# Servers of a row that are compared with each other.
COMPARED = 200
# Pairs of what runs and what ran that are compared at a time.
MOST_PAIRS = 1_000_000


@dataclass(frozen=True, eq=False)
class Placing:
    """Conditions on a placement.

    Attributes:
        tasks: (n,) of each workload, in all.
        open: (n,) whether a workload wants more, for which no server may have room.
        running: tasks as they run; kept: those of them that must stay.
    """

    tasks: FloatArray
    open: BoolArray
    running: TasksOnServers
    kept: TasksOnServers


def few_moves(
    problem: Problem, rows: ServerClasses, placing: Placing, deadline: float | None
) -> TasksOnServers | None:
    """Return a placement that moves few tasks, or None if none is found or the pool is too large.

    Args:
        problem: without gangs; rows: each row of its servers alone.
        deadline: ``time.monotonic()`` seconds.
    """
    whole, servers = WholeServers.of(problem), int(rows.servers.sum())
    runs, wants = np.flatnonzero(placing.tasks > 0), np.flatnonzero(placing.open)
    most = (LARGEST_PROGRAM - 2 * len(runs) * servers) // max(servers * problem.m, 1)
    if servers > MOST_SERVERS or most < 0:
        return None
    row_of = np.repeat(np.arange(rows.count), rows.servers)
    capacity, allowed = whole.capacity[rows.first_row][row_of], rows.allowed[:, row_of]
    # If one of these has no room, none does that is at least as large on the same servers.
    wants = _smallest(wants, whole.demand, allowed, most + 1)
    if len(wants) > most:
        return None
    table = _Program(capacity, whole.demand, allowed, runs, wants).solve(placing, deadline)
    if table is None or (table.T @ whole.demand[runs] > capacity).any():
        return None  # the program has tolerances, and servers have none
    if (table.sum(axis=1) != placing.tasks[runs]).any():
        return None
    i, at = np.nonzero(table)
    return TasksOnServers.of(at, runs[i], table[i, at], len(whole.demand))


def _smallest(wants: IntArray, demand: FloatArray, allowed: BoolArray, most: int) -> IntArray:
    """Return at most so many workloads of which one has room wherever any workload has."""
    found: list[int] = []
    # The smallest first, since only a smaller one can stand for others.
    for j in wants[np.lexsort(demand[wants].T)].tolist():
        if len(found) == most:
            break
        covered = any(
            (demand[i] <= demand[j]).all() and (allowed[i] >= allowed[j]).all() for i in found
        )
        if not covered:
            found.append(j)
    return np.array(found, dtype=np.int64)


class _Program:
    """Integer program over the tasks that stay and come, by workload and server.

    Its columns are tasks that stay (n, S), tasks that come (n, S), and whether a server has too little
    left of a resource for a workload that wants more (w, S, m).
    """

    def __init__(
        self,
        capacity: FloatArray,
        demand: FloatArray,
        allowed: BoolArray,
        runs: IntArray,
        wants: IntArray,
    ) -> None:
        self._capacity, self._demand, self._allowed = capacity, demand, allowed
        self._runs, self._wants = runs, wants
        self._servers, m = capacity.shape
        self._cells = len(runs) * self._servers
        self.columns = 2 * self._cells + len(wants) * self._servers * m
        self._entries: list[tuple[IntArray, FloatArray]] = []
        self._bounds: list[tuple[float, float]] = []

    def solve(self, placing: Placing, deadline: float | None) -> FloatArray | None:
        """Return the tasks (n, S) of each workload on each server, or None if none are found."""
        runs, shape = self._runs, (len(self._runs), self._servers)
        before = _table(placing.running, runs, self._servers)
        kept = _table(placing.kept, runs, self._servers)
        most = np.where(self._allowed[runs], placing.tasks[runs][:, None], 0.0)
        switches = self.columns - 2 * self._cells
        lower = np.r_[kept.ravel(), np.zeros(self._cells + switches)]
        upper = np.r_[np.minimum(before, most).ravel(), most.ravel(), np.ones(switches)]
        if (lower > upper).any():
            return None
        self._add_tasks(placing.tasks[runs])
        self._add_servers()
        left = np.inf if deadline is None else max(0.0, deadline - time.monotonic())
        limits = {"node_limit": NODES, "time_limit": min(left, SECONDS), "mip_rel_gap": 0.0}
        found = milp(
            np.r_[-np.ones(self._cells), np.zeros(self._cells + switches)],
            integrality=np.ones(self.columns),
            bounds=Bounds(lower, upper),
            constraints=self._constraints(),
            options=limits,
        ).x
        if found is None:
            return None
        # Whole only up to the tolerance of the program.
        tasks = np.round(found[: self._cells] + found[self._cells : 2 * self._cells])
        return np.asarray(tasks.reshape(shape), dtype=np.float64)

    def _add_tasks(self, tasks: FloatArray) -> None:
        """Demand that each workload runs its number of tasks (n,)."""
        for of_workload, number in zip(self._columns_of_tasks(), tasks.tolist(), strict=True):
            self._add(of_workload.ravel(), np.ones(2 * self._servers), number, number)

    def _add_servers(self) -> None:
        """Demand that tasks fit on each server, and that no workload that wants more has room there."""
        # Shares of the largest server, as the tolerances of the program are absolute.
        unit = np.maximum(self._capacity.max(axis=0, initial=0.0), 1.0)
        size, demand = self._capacity / unit, self._demand / unit
        columns, m = self._columns_of_tasks(), len(unit)
        short = 2 * self._cells + np.arange(self.columns - 2 * self._cells)
        short = short.reshape(len(self._wants), self._servers, m)
        used = [np.repeat(demand[self._runs, r], 2) for r in range(m)]
        for at in range(self._servers):
            mine = columns[:, :, at].ravel()
            for r in range(m):
                self._add(mine, used[r], -np.inf, size[at, r])
            for w, j in enumerate(self._wants.tolist()):
                if not self._allowed[j, at] or (demand[j] > size[at]).any():
                    continue
                self._add(short[w, at], np.ones(m), 1.0, np.inf)
                for r in range(m):
                    # Of a short resource at least one unit less is left than the task needs.
                    least = size[at, r] - demand[j, r] + 1.0 / unit[r]
                    self._add(np.r_[mine, short[w, at, r]], np.r_[-used[r], least], -np.inf, 0.0)

    def _columns_of_tasks(self) -> IntArray:
        """Return the columns (n, 2, S) of tasks that stay and come."""
        both = np.arange(2 * self._cells).reshape(2, len(self._runs), self._servers)
        return both.transpose(1, 0, 2)

    def _add(self, columns: IntArray, values: FloatArray, lower: float, upper: float) -> None:
        self._entries.append((columns, values))
        self._bounds.append((lower, upper))

    def _constraints(self) -> LinearConstraint:
        columns, values = zip(*self._entries, strict=True)
        row = np.repeat(np.arange(len(columns)), [len(each) for each in columns])
        matrix = coo_array(
            (np.concatenate(values), (row, np.concatenate(columns))),
            shape=(len(columns), self.columns),
        )
        return LinearConstraint(matrix.tocsr(), *np.array(self._bounds).T)


def _table(tasks: TasksOnServers, runs: IntArray, servers: int) -> FloatArray:
    """Return the tasks (n, S) of the workloads that run, by server."""
    table = np.zeros((tasks.kinds, servers))
    table[tasks.kind, tasks.server] = tasks.tasks
    mine: FloatArray = table[runs]
    return mine


def exchange_in_rows(
    rows: ServerClasses, fresh: TasksOnServers, placing: Placing, deadline: float | None = None
) -> TasksOnServers:
    """Exchange what servers of a row run, so that most of it ran there before.

    Args:
        rows: each row of servers alone; fresh: any placement.
        deadline: ``time.monotonic()`` seconds.

    Raises:
        SolveTimeoutError: the deadline passed.
    """
    first = np.cumsum(rows.servers) - rows.servers
    server = np.arange(int(rows.servers.sum()))
    for begin, count in zip(first.tolist(), rows.servers.tolist(), strict=True):
        for part in range(begin, begin + count, COMPARED):
            if deadline is not None and time.monotonic() > deadline:
                raise SolveTimeoutError("solve.timeout", "the time limit passed while placing")
            end = min(part + COMPARED, begin + count)
            server[part:end] = part + _exchange(part, end, fresh, placing)
    return TasksOnServers.of(server[fresh.server], fresh.kind, fresh.tasks, fresh.kinds)


def _exchange(begin: int, end: int, fresh: TasksOnServers, placing: Placing) -> IntArray:
    """Return which server (s,) runs what the fresh placement has on each of them."""
    now, before, kept = (
        _by_kind(each, begin, end) for each in (fresh, placing.running, placing.kept)
    )
    stay = _in_common(now, before, end - begin)
    # What has to stay on a server is worth more than all else.
    for j in np.unique(kept.kind).tolist():
        has, mine, least = np.zeros(end - begin), now.of_kind(j), kept.of_kind(j)
        has[now.server[mine]] = now.tasks[mine]
        lacks = has[:, None] < kept.tasks[least]
        stay[:, kept.server[least]] -= np.where(lacks, 1.0 + placing.tasks.sum(), 0.0)
    if not stay.any():
        return np.arange(end - begin)
    chosen: IntArray = linear_sum_assignment(stay, maximize=True)[1]
    return chosen


def _in_common(now: _ByKind, before: _ByKind, servers: int) -> FloatArray:
    """Return how many tasks (s, s) of what runs on a server now ran on another before."""
    first, last = (np.searchsorted(before.kind, now.kind, side=side) for side in ("left", "right"))
    pairs = np.cumsum(last - first)
    common = np.zeros(servers * servers)
    begin = 0
    while begin < len(pairs):
        # A kind that runs everywhere has as many pairs as there are of servers: some kinds at a time.
        end = int(np.searchsorted(pairs, (pairs[begin - 1] if begin else 0) + MOST_PAIRS)) + 1
        count = (last - first)[begin:end]
        here = np.repeat(np.arange(begin, begin + len(count)), count)
        within = np.arange(len(here)) - np.repeat(np.cumsum(count) - count, count)
        there = first[here] + within
        common += np.bincount(
            now.server[here] * servers + before.server[there],
            weights=np.minimum(now.tasks[here], before.tasks[there]),
            minlength=servers * servers,
        )
        begin = end
    return common.reshape(servers, servers)


class _ByKind(NamedTuple):
    """Tasks (p,) on some servers, numbered from 0, in the order of their kinds."""

    kind: IntArray
    server: IntArray
    tasks: FloatArray

    def of_kind(self, kind: int) -> slice:
        """Return the entries of a kind."""
        return slice(*np.searchsorted(self.kind, [kind, kind + 1]))


def _by_kind(tasks: TasksOnServers, begin: int, end: int) -> _ByKind:
    some = slice(*np.searchsorted(tasks.server, [begin, end]))
    order = np.argsort(tasks.kind[some], kind="stable")
    return _ByKind(
        tasks.kind[some][order], tasks.server[some][order] - begin, tasks.tasks[some][order]
    )
