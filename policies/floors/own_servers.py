"""Whole tasks that run on their tenants' own servers before everything else.

Source: docs/policies/guarantees.md, docs/policies/kept-tasks.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.floors.placed_tasks import PlacedTasks
from policies.floors.pools import FloorPool
from policies.model.allocation import Allocation
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.server_classes import each_row_alone
from policies.model.tolerance import DISCRETE_TOLERANCE

# Servers that are looked at together. They fill up in order, so that few are looked at in vain.
_LOOKED_AT = 64


def alone_on_own_servers(
    problem: Problem, pools: Sequence[FloorPool], answers: Sequence[Allocation | None]
) -> PlacedTasks:
    """Return the tasks of tenants alone on their own servers, without those that a limit excludes.

    The answers of the pools of own servers have the tasks on each row. Workloads of higher priority come
    first, then the older ones.
    """
    placing = _Placing(problem, pools, np.full(problem.n, np.inf))
    allowed = _allowed_rows(problem)
    first, tenants = len(problem.guarantees), np.flatnonzero(problem.own_servers).tolist()
    for tenant, pool, answer in zip(tenants, pools[first:], answers[first:], strict=True):
        assert answer is not None  # noqa: S101 - for mypy: the pools of own servers are solved
        own = (problem.contributed_by == tenant) & ~problem.contributed_only
        rows, workloads = np.flatnonzero(own), pool.workloads
        kind, at, tasks = answer.placements_by_row()
        order = np.lexsort((at, kind))
        edges = np.searchsorted(kind[order], np.arange(len(workloads) + 1))
        for number in np.lexsort((workloads, -problem.priority[workloads])).tolist():
            j = int(workloads[number])
            if j in problem.gangs:
                servers = placing.servers_of(own & allowed[j])
                placing.place_gangs(j, servers, float(answer.tasks[number]))
                continue
            for entry in order[edges[number] : edges[number + 1]].tolist():
                here = placing.servers_of(np.arange(problem.k) == rows[at[entry]])
                placing.place(j, here, float(tasks[entry]))
    return placing.placed()


def beside_kept_tasks(
    problem: Problem, pools: Sequence[FloorPool], kept: PlacedTasks, missing: FloatArray
) -> PlacedTasks:
    """Return the tasks for which own servers have room beside kept ones.

    Args:
        missing: (n,) tasks of each workload at most.
    """
    placing, allowed = _Placing(problem, pools, missing), _allowed_rows(problem)
    placing.take(kept)
    for tenant in np.flatnonzero(problem.own_servers).tolist():
        mine = np.flatnonzero((problem.workload_tenant == tenant) & (missing > 0))
        for j in mine[np.lexsort((mine, -problem.priority[mine]))].tolist():
            servers = placing.servers_of((problem.contributed_by == tenant) & allowed[j])
            place = placing.place_gangs if j in problem.gangs else placing.place
            place(j, servers, np.inf)
    return placing.placed()


def _allowed_rows(problem: Problem) -> BoolArray:
    """(n, k) rows on which a workload may run."""
    rows = each_row_alone(problem)
    allowed = np.zeros((problem.n, problem.k), dtype=np.bool_)
    allowed[:, rows.first_row] = rows.allowed
    return allowed


class _Together:
    """Own servers on which all pieces of one task may run, in order.

    Attributes:
        first: position of the first server that had room for a piece of each kind before the task.
        here: (s,) pieces of the task on each server.
    """

    def __init__(self, servers: IntArray, kinds: Sequence[tuple[int, int]]) -> None:
        self.servers, self.here = servers, np.zeros(len(servers))
        self.first = {kind: 0 for kind, _ in kinds}


class _Placing:
    """Room on own servers and in limits while tasks are placed.

    The servers of all tenants with own servers are numbered from 0, those of a row one after the other.
    """

    def __init__(self, problem: Problem, pools: Sequence[FloorPool], missing: FloatArray) -> None:
        """Begin with empty servers. At most ``missing`` (n,) tasks of each workload are placed."""
        self._problem, self._missing = problem, missing.copy()
        self._pools = pools[len(problem.guarantees) :]
        self._whole = WholeServers.of(problem)
        owned = np.isin(problem.contributed_by, np.flatnonzero(problem.own_servers))
        servers = np.where(owned, problem.server_count, 0)
        self._first = np.cumsum(servers) - servers
        self._row = np.repeat(np.arange(problem.k), servers)
        self._left = self._whole.capacity[self._row]
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
        """Place at most so many tasks of one piece on some servers, one after the other."""
        where = np.zeros((0, len(servers)), dtype=np.bool_)
        if len(mine := np.flatnonzero(self._counted[:, j])):
            where = np.stack([self._problem.limited[q].rows[self._row[servers]] for q in mine])
        changes = np.flatnonzero((where[:, 1:] != where[:, :-1]).any(axis=0)) + 1
        most = min(most, float(self._missing[j]))
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

    def place_gangs(self, j: int, servers: IntArray, most: float) -> None:
        """Place at most so many tasks of several pieces on some servers, first-fit, one by one."""
        gang, kinds = self._problem.gangs[j], self._larger_first(j)
        zone = self._problem.zones[gang.together][self._row[servers]]
        apart = [_Together(servers[zone == value], kinds) for value in np.unique(zone[zone >= 0])]
        for _ in range(int(min(most, self._missing[j]))):
            for each in apart:
                for kind, _ in kinds:
                    each.first[kind], _ = self._find(kind, each, gang.per_server)
            # Those with the first server for the first piece come first.
            open_ = [each for each in apart if each.first[kinds[0][0]] < len(each.servers)]
            open_.sort(key=lambda each: int(each.servers[each.first[kinds[0][0]]]))
            if not any(self._place_gang(kinds, each, gang.per_server) for each in open_):
                return
            self._missing[j] -= 1

    def _place_gang(self, kinds: Sequence[tuple[int, int]], on: _Together, per_server: int) -> bool:
        """Place all pieces of one task, or none. Returns whether they have room."""
        placed: list[tuple[int, int, float]] = []
        on.here[:] = 0.0
        for kind, pieces in kinds:
            missing = float(pieces)
            while missing:
                at, room = self._find(kind, on, per_server)
                if room <= 0:
                    on.here[:] = 0.0
                    for earlier, server, number in placed:
                        self._take(earlier, server, -number)
                    return False
                number = min(missing, room)
                self._take(kind, int(on.servers[at]), number)
                placed.append((kind, int(on.servers[at]), number))
                on.here[at] += number
                missing -= number
        on.here[:] = 0.0
        columns = np.array(placed).T
        used = columns[:2].astype(np.int64)
        self._placed.append((used[0], used[1], columns[2], np.full(len(placed), self._tasks)))
        self._tasks += 1
        return True

    def _find(self, kind: int, on: _Together, per_server: int) -> tuple[int, float]:
        """Return the position of the first server with room for a piece, and for how many it has."""
        for begin in range(on.first[kind], len(on.servers), _LOOKED_AT):
            some = slice(begin, begin + _LOOKED_AT)
            room = self._room(kind, on.servers[some])
            if per_server:
                room = np.minimum(room, per_server - on.here[some])
            at = int(np.argmax(room > 0))
            if room[at] > 0:
                return begin + at, float(room[at])
        return len(on.servers), 0.0

    def _larger_first(self, j: int) -> list[tuple[int, int]]:
        """Return kind and number of pieces, the larger kind of the tenant's own servers first."""
        problem = self._problem
        kinds = [(kind, int(problem.pieces.count[kind])) for kind in problem.pieces.kinds(j)]
        pool = next(each for each in self._pools if j in each.workloads)
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
        """(s,) pieces of a kind for which each server by itself has room, and limits."""
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
