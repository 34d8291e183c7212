"""Tasks on their tenants' own servers, placed for the verifier."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.tolerance import DISCRETE_TOLERANCE
from policies.verification.kept_gangs import Placed
from policies.verification.replay import every_server
from policies.verification.servers import LimitsLeft
from policies.verification.stated import Stated
from policies.verification.whole_tasks import server_reasons


class Placing:
    """Room on servers and in limits while tasks are placed.

    Attributes:
        found: what was placed.
    """

    def __init__(self, stated: Stated) -> None:
        problem = stated.problem
        self.found = Placed()
        self._stated = stated
        self._row = np.repeat(np.arange(problem.k), problem.server_count)
        self._first_of = np.cumsum(problem.server_count) - problem.server_count
        self._left: FloatArray = stated.on_servers.capacity[self._row].astype(np.float64)
        self._limits = LimitsLeft(
            stated.limits, stated.on_servers, np.arange(problem.k), stated.pieces.owner
        )
        # Tasks by workload and the rows that have their pieces.
        self._tasks: Counter[tuple[int, frozenset[int]]] = Counter()
        self._rank = np.full(problem.k, -1, dtype=np.int64)
        self._rank[stated.rows.row] = np.arange(stated.rows.count)
        self._runs = server_reasons(stated) == ""

    def tasks_on(self, rows: BoolArray) -> FloatArray:
        """Return the tasks (n,) that were placed with all pieces on some rows (k,)."""
        tasks, some = np.zeros(self._stated.problem.n), set(np.flatnonzero(rows).tolist())
        for (j, used), number in self._tasks.items():
            if used <= some:
                tasks[j] += number
        return tasks

    def take(self, kind: int, row: int, server: int, number: int) -> None:
        """Take what so many tasks, or pieces, use."""
        self._left[self._first_of[row] + server] -= number * self._stated.on_servers.demand[kind]
        self._limits.take(kind, row, number)

    def place(self, j: int, rows: list[int], tasks: int) -> None:
        """Place at most so many tasks on the servers of some rows, in order, if any can run at all."""
        if self._runs[j] and j in self._stated.problem.gangs:
            self._gangs(j, rows, tasks)
        elif self._runs[j]:
            self._single(j, rows, tasks)

    def _single(self, j: int, rows: list[int], tasks: int) -> None:
        """Place at most so many tasks of one piece on the servers of some rows, in order."""
        servers = self._servers(rows)
        # One test of all servers first, because a look at each by itself costs more.
        fits = (self._left[servers] >= self._stated.on_servers.demand[j]).all(axis=1)
        for server in servers[fits].tolist():
            if not tasks:
                return
            row = int(self._row[server])
            if number := self._most(j, server, tasks):
                self._found(j, row, server, number)
                self._tasks[j, frozenset([row])] += number
                tasks -= number

    def _gangs(self, j: int, rows: list[int], tasks: int) -> None:
        """Place at most so many tasks of several pieces on some rows, piece by piece."""
        gang, pieces = self._stated.problem.gangs[j], self._larger_first(j, rows)
        # Servers with one value of the label, and the first of these that can have room for a kind.
        together: dict[int, list[int]] = {}
        for server in self._servers(rows).tolist():
            value = 0
            if gang.together:
                value = int(self._stated.pieces.values[gang.together][self._row[server]])
            if value >= 0:
                together.setdefault(value, []).append(server)
        begin = {value: dict.fromkeys(pieces, 0) for value in together}
        waiting = [(servers[0], value) for value, servers in together.items()]
        # A heap, because the next task starts on the first server with room, whatever its value.
        while tasks and waiting:
            _, value = waiting[0]
            servers = together[value]
            for kind, at in begin[value].items():
                begin[value][kind] = self._first(kind, servers, at)
            if (at := begin[value][pieces[0]]) == len(servers):
                heapq.heappop(waiting)
            elif waiting[0][0] < servers[at]:
                heapq.heapreplace(waiting, (servers[at], value))
            elif placed := self._pieces(pieces, gang.per_server, servers, dict(begin[value])):
                self._tasks[j, frozenset(int(self._row[server]) for server in placed)] += 1
                tasks -= 1
            else:
                heapq.heappop(waiting)  # room only shrinks

    def _pieces(
        self, pieces: Sequence[int], per_server: int, servers: list[int], begin: dict[int, int]
    ) -> list[int]:
        """Place all pieces of one task, or none. Returns the server of each.

        Args:
            pieces: kind of each; begin: position of the first server that can have room for a kind.
        """
        placed: list[int] = []
        here: Counter[int] = Counter()
        for kind in pieces:
            at = self._first(kind, servers, begin[kind])
            while at < len(servers) and here[servers[at]] == per_server > 0:
                at = self._first(kind, servers, at + 1)
            if at == len(servers):
                for earlier, where in zip(pieces, placed, strict=False):
                    self._found(earlier, int(self._row[where]), where, -1)
                return []
            begin[kind] = at
            self._found(kind, int(self._row[servers[at]]), servers[at], 1)
            placed.append(servers[at])
            here[servers[at]] += 1
        return placed

    def _first(self, kind: int, servers: list[int], begin: int) -> int:
        """Return the position of the first server, from one on, with room for a piece."""
        at = begin
        while at < len(servers) and not self._most(kind, servers[at], 1):
            at += 1
        return at

    def _found(self, kind: int, row: int, server: int, number: int) -> None:
        at = int(server - self._first_of[row])
        self.found[kind, row, at] += number
        if not self.found[kind, row, at]:
            del self.found[kind, row, at]
        self.take(kind, row, at, number)

    def _larger_first(self, j: int, rows: list[int]) -> list[int]:
        """Return the kinds of all pieces of a task, those with the larger share of some rows first."""
        amounts, pieces = self._stated.on_servers, self._stated.pieces
        total = self._stated.problem.server_count[rows] @ amounts.capacity[rows]
        share = np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)
        kinds = pieces.of(j)
        size = [float((amounts.demand[q] * share).max(initial=0.0)) for q in kinds]
        if len(kinds) > 1 and size[1] > size[0] * (1 + DISCRETE_TOLERANCE):
            kinds = kinds[::-1]
        return [q for q in kinds for _ in range(int(pieces.count[q]))]

    def _servers(self, rows: list[int]) -> IntArray:
        """Return the servers of some rows that offer something."""
        here = np.array(rows, dtype=np.int64)
        here = here[self._rank[here] >= 0]
        return every_server(self._first_of[here], self._stated.problem.server_count[here])[1]

    def _most(self, kind: int, server: int, tasks: int) -> int:
        """Return how many tasks of a kind, at most so many, fit on a server and within limits."""
        demand, row = self._stated.on_servers.demand[kind], int(self._row[server])
        if not self._stated.rows.allowed[kind, self._rank[row]]:
            return 0
        rooms = [self._left[server]]
        rooms += [
            self._limits.left[q] for q in self._limits.mine(kind) if self._limits.rows[q][row]
        ]
        bounds = [
            int(amount // needed)
            for room in rooms
            for amount, needed in zip(room.tolist(), demand.tolist(), strict=True)
            if needed > 0 and amount < np.inf
        ]
        return max(0, min([tasks, *bounds]))
