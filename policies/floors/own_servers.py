"""Whole tasks that run on their tenants' own servers before everything else.

Source: docs/policies/guarantees.md, docs/policies/kept-tasks.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.errors import SolveTimeoutError
from policies.floors.placed_tasks import PlacedTasks
from policies.floors.pools import FloorPool
from policies.model.allocation import Allocation
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.server_classes import each_row_alone
from policies.model.tolerance import DISCRETE_TOLERANCE
from policies.proofs.saturation import filling_reasons

# Servers fill up in order, so that the first ones with room are near those of the piece before.
_BATCH = 64


def alone_on_own_servers(
    problem: Problem,
    pools: Sequence[FloorPool],
    answers: Sequence[Allocation | None],
    deadline: float | None = None,
) -> PlacedTasks:
    """Return the tasks of tenants alone on their own servers, without those that a limit excludes.

    The answers of the pools of own servers have the tasks on each row. Workloads of higher priority come
    first, then the older ones.
    """
    if not problem.own_servers.any():
        return PlacedTasks.none()
    placing, allowed = (
        _Placing(problem, pools, np.full(problem.n, np.inf), deadline),
        _allowed_rows(problem),
    )
    first, tenants = len(problem.guarantees), np.flatnonzero(problem.own_servers).tolist()
    for tenant, pool, answer in zip(tenants, pools[first:], answers[first:], strict=True):
        assert answer is not None  # noqa: S101 - for mypy: the pools of own servers are solved
        own = (problem.contributed_by == tenant) & ~problem.contributed_only
        if answer.problem.gangs:
            # Where one task has several pieces, all are placed anew within limits.
            tasks_of = dict(zip(pool.workloads.tolist(), answer.tasks.tolist(), strict=True))
            for j in _in_order(problem, pool.workloads):
                placing.place(j, placing.servers_of(own & allowed[j]), tasks_of[j])
            continue
        rows, (number, at, tasks) = np.flatnonzero(own), answer.placements_by_row()
        workload = pool.workloads[number]
        for entry in np.lexsort((at, workload, -problem.priority[workload])).tolist():
            here = placing.servers_of(np.arange(problem.k) == rows[at[entry]])
            placing.place(int(workload[entry]), here, float(tasks[entry]))
    return placing.placed()


def beside_kept_tasks(
    problem: Problem,
    pools: Sequence[FloorPool],
    kept: PlacedTasks,
    missing: FloatArray,
    deadline: float | None = None,
) -> PlacedTasks:
    """Return the tasks for which own servers have room beside kept ones.

    Args:
        missing: (n,) tasks of each workload at most.
    """
    placing, allowed = _Placing(problem, pools, missing, deadline), _allowed_rows(problem)
    placing.take(kept)
    for tenant in np.flatnonzero(problem.own_servers).tolist():
        mine = np.flatnonzero((problem.workload_tenant == tenant) & (missing > 0))
        for j in _in_order(problem, mine):
            servers = placing.servers_of((problem.contributed_by == tenant) & allowed[j])
            placing.place(j, servers, np.inf)
    return placing.placed()


def _in_order(problem: Problem, workloads: IntArray) -> list[int]:
    """Return workloads of one tenant, those of higher priority first, then the older ones."""
    found: list[int] = workloads[np.lexsort((workloads, -problem.priority[workloads]))].tolist()
    return found


def _allowed_rows(problem: Problem) -> BoolArray:
    """Return the rows (n, k) on which a workload may run."""
    rows = each_row_alone(problem)
    allowed = np.zeros((problem.n, problem.k), dtype=np.bool_)
    allowed[:, rows.first_row] = rows.allowed
    return allowed


class _Placing:
    """Room on own servers and in limits while tasks are placed.

    The servers of all tenants with own servers are numbered from 0, those of a row one after the other.
    """

    def __init__(
        self,
        problem: Problem,
        pools: Sequence[FloorPool],
        missing: FloatArray,
        deadline: float | None,
    ) -> None:
        """Begin with empty servers. At most ``missing`` (n,) tasks of each workload are placed."""
        self._problem, self._missing, self._deadline = problem, missing.copy(), deadline
        tenants = np.flatnonzero(problem.own_servers).tolist()
        self._pool_of = dict(zip(tenants, pools[len(problem.guarantees) :], strict=True))
        self._whole = WholeServers.of(problem)
        owned = np.isin(problem.contributed_by, np.flatnonzero(problem.own_servers))
        servers = np.where(owned, problem.server_count, 0)
        self._first = np.cumsum(servers) - servers
        self._row = np.repeat(np.arange(problem.k), servers)
        self._left = self._whole.capacity[self._row]
        self._runs = filling_reasons(problem, self._whole, each_row_alone(problem)) == ""
        self._limits = self._whole.limits.copy()
        self._counted = np.zeros((len(self._limits), problem.n), dtype=np.bool_)
        for item, of_limit in zip(problem.limited, self._counted, strict=True):
            of_limit[item.workloads] = True
        # Kind, server, tasks or pieces, and number of the task of what was placed.
        self._placed: list[tuple[IntArray, IntArray, FloatArray, IntArray]] = []
        self._tasks = 0

    def placed(self) -> PlacedTasks:
        """Return all tasks that were placed."""
        none = np.zeros(0, dtype=np.int64)
        columns = zip((none, none, np.zeros(0), none), *self._placed, strict=True)
        kind, server, tasks, task = (np.concatenate(column) for column in columns)
        row = self._row[server]
        return PlacedTasks(kind, row, server - self._first[row], tasks, task)

    def servers_of(self, rows: BoolArray) -> IntArray:
        """Return the own servers of some rows (k,)."""
        return np.flatnonzero(rows[self._row])

    def take(self, kept: PlacedTasks) -> None:
        """Take what tasks use that run already."""
        need = kept.tasks[:, None] * self._whole.demand[kept.kind]
        workload = self._problem.pieces.workload[kept.kind]
        for item, of_limit, left in zip(
            self._problem.limited, self._counted, self._limits, strict=True
        ):
            left -= need[of_limit[workload] & item.rows[kept.row]].sum(axis=0)
        here = np.isin(kept.row, self._row)
        server = self._first[kept.row[here]] + kept.server[here]
        np.subtract.at(self._left, server, need[here])

    def place(self, j: int, servers: IntArray, most: float) -> None:
        """Place at most so many tasks of a workload on some servers, first-fit, if any can run."""
        most = min(most, float(self._missing[j]))
        if not len(servers) or not self._runs[j]:
            return
        if j in self._problem.gangs:
            self._place_gangs(j, servers, int(most))
        else:
            self._place_single(j, servers, most)

    def _place_single(self, j: int, servers: IntArray, most: float) -> None:
        where = np.zeros((0, len(servers)), dtype=np.bool_)
        if len(mine := np.flatnonzero(self._counted[:, j])):
            where = np.stack([self._problem.limited[q].rows[self._row[servers]] for q in mine])
        changes = np.flatnonzero((where[:, 1:] != where[:, :-1]).any(axis=0)) + 1
        for some in np.split(servers, changes):
            if most > 0 and len(some):
                most -= self._place_within(j, some, most)

    def _place_within(self, j: int, servers: IntArray, most: float) -> float:
        """Place tasks on servers that the same limits count. Returns how many."""
        demand, limits = self._whole.demand[j], self._limits_of(j, int(servers[0]))
        needed = demand > 0
        each = np.floor(self._left[servers][:, needed] / demand[needed]).min(axis=1)
        before = np.cumsum(each) - each
        room = np.floor(self._limits[limits][:, needed] / demand[needed]).min(initial=most)
        taken: FloatArray = np.clip(room - before, 0.0, each)
        some = np.flatnonzero(taken)
        number = self._tasks + np.arange(len(some))
        self._placed.append((np.full(len(some), j), servers[some], taken[some], number))
        self._tasks += len(some)
        self._left[servers] -= taken[:, None] * demand
        self._limits[limits] -= taken.sum() * demand
        self._missing[j] -= taken.sum()
        return float(taken.sum())

    def _place_gangs(self, j: int, servers: IntArray, most: int) -> None:
        """Place tasks of several pieces one by one, on servers with one value of their label."""
        gang, kinds = self._problem.gangs[j], self._larger_first(j)
        zone = self._problem.zones[gang.together][self._row[servers]]
        fits = np.flatnonzero((zone >= 0) & (self._room(kinds[0][0], servers) > 0))
        values, first = np.unique(zone[fits], return_index=True)
        # The value of the first server with room for the first piece is tried first.
        waiting = list(zip(fits[first].tolist(), values.tolist(), strict=True))
        heapify(waiting)
        tried: dict[int, tuple[IntArray, dict[int, int]]] = {}
        while most and waiting:
            if self._deadline is not None and time.monotonic() > self._deadline:
                raise SolveTimeoutError("solve.timeout", "the time limit passed on own servers")
            value = waiting[0][1]
            if value not in tried:
                tried[value] = np.flatnonzero(zone == value), dict.fromkeys(dict(kinds), 0)
            at, begin = tried[value]
            if not self._place_gang(kinds, servers[at], begin, gang.per_server):
                heappop(waiting)  # room only shrinks
                continue
            most -= 1
            self._missing[j] -= 1
            for kind in begin:
                begin[kind], _ = self._find(kind, servers[at], begin[kind])
            if (first_at := begin[kinds[0][0]]) < len(at):
                heapreplace(waiting, (int(at[first_at]), value))
            else:
                heappop(waiting)

    def _place_gang(
        self,
        kinds: Sequence[tuple[int, int]],
        servers: IntArray,
        begin: dict[int, int],
        per_server: int,
    ) -> bool:
        """Place all pieces of one task, or none. Returns whether they have room.

        Args:
            begin: position of the first server that can have room for a piece of each kind.
        """
        here, placed = np.zeros(len(servers)), list[tuple[int, int, float]]()
        for kind, pieces in kinds:
            missing, at = float(pieces), begin[kind]
            while missing:
                at, room = self._find(kind, servers, at, here, per_server)
                if not room:
                    for earlier, server, number in placed:
                        self._take(earlier, server, -number)
                    return False
                number = min(missing, room)
                self._take(kind, int(servers[at]), number)
                placed.append((kind, int(servers[at]), number))
                here[at] += number
                missing -= number
        columns = np.array(placed).T
        used = columns[:2].astype(np.int64)
        self._placed.append((used[0], used[1], columns[2], np.full(len(placed), self._tasks)))
        self._tasks += 1
        return True

    def _find(
        self,
        kind: int,
        servers: IntArray,
        begin: int,
        here: FloatArray | None = None,
        per_server: int = 0,
    ) -> tuple[int, float]:
        """Return the position of the first server with room for a piece, and for how many it has.

        Args:
            begin: position from which on servers are looked at.
            here: (s,) pieces of the same task on each server, of which it may have ``per_server``.
        """
        for first in range(begin, len(servers), _BATCH):
            some = slice(first, first + _BATCH)
            room = self._room(kind, servers[some])
            if here is not None and per_server:
                room = np.minimum(room, per_server - here[some])
            at = int(np.argmax(room > 0))
            if room[at] > 0:
                return first + at, float(room[at])
        return len(servers), 0.0

    def _larger_first(self, j: int) -> list[tuple[int, int]]:
        """Return kind and number of pieces, the larger kind of the tenant's own servers first."""
        problem = self._problem
        kinds = [(kind, int(problem.pieces.count[kind])) for kind in problem.pieces.kinds(j)]
        pool = self._pool_of[int(problem.workload_tenant[j])]
        assert pool.problem is not None  # noqa: S101 - for mypy: own servers are a problem
        whole = WholeServers.of(pool.problem)
        of_pool = pool.problem.pieces.kinds(int(np.searchsorted(pool.workloads, j)))
        size = (whole.demand * whole.share_of_unit)[list(of_pool)].max(axis=1, initial=0.0)
        larger_last = len(kinds) > 1 and size[1] > size[0] * (1 + DISCRETE_TOLERANCE)
        return kinds[::-1] if larger_last else kinds

    def _limits_of(self, kind: int, server: int) -> list[int]:
        """Return the limits that count pieces of a kind on a server."""
        counted = np.flatnonzero(self._counted[:, self._problem.pieces.workload[kind]])
        row = self._row[server]
        return [number for number in counted.tolist() if self._problem.limited[number].rows[row]]

    def _room(self, kind: int, servers: IntArray) -> FloatArray:
        """Return the pieces (s,) of a kind for which each server by itself has room.

        Limits must have room as well.
        """
        demand = self._whole.demand[kind]
        needed = demand > 0
        room: FloatArray = np.floor(self._left[servers][:, needed] / demand[needed]).min(axis=1)
        counted = np.flatnonzero(self._counted[:, self._problem.pieces.workload[kind]])
        for number in counted.tolist():
            most = np.floor(self._limits[number, needed] / demand[needed]).min()
            here = self._problem.limited[number].rows[self._row[servers]]
            room = np.where(here, np.minimum(room, most), room)
        return room

    def _take(self, kind: int, server: int, pieces: float) -> None:
        need = pieces * self._whole.demand[kind]
        self._left[server] -= need
        self._limits[self._limits_of(kind, server)] -= need
