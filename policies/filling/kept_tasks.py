"""Tasks that stay on their servers before any other task is handed out.

Source: docs/policies/kept-tasks.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.current_placements import CurrentPlacements
from policies.model.gangs import Gang
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.server_classes import ServerClasses, allowed_pieces, each_row_alone
from policies.model.tasks_on_servers import TasksOnServers
from policies.proofs.saturation import filling_reasons

UNBOUNDED = 1e300


def kept_tasks(problem: Problem) -> TasksOnServers:
    """Return the stated tasks that stay, by server of the rows that offer something.

    Workloads are looked at in their order, and the servers of a workload in theirs. A task stays if its
    server has room beside those that stay already, and its workload has no more tasks and no less left
    of its limits than it needs.
    """
    if problem.kept_placements is None:
        none = np.zeros(0, dtype=np.int64)
        return TasksOnServers(none, np.zeros(0), len(problem.pieces.demand))
    return _kept_tasks(problem, problem.kept_placements)


# An answer is first decided and then placed. Problems without kept tasks are not held in memory.
@lru_cache(maxsize=1)
def _kept_tasks(problem: Problem, placements: CurrentPlacements) -> TasksOnServers:
    rows = each_row_alone(problem)
    stated = TasksOnServers.of_placements(problem, rows, placements)
    whole = WholeServers.of(problem)
    keeping = _Keeping(problem, whole, rows, stated)
    # The usual case: one look at all servers instead of one at each task.
    if not problem.gangs and keeping.all_stay():
        return stated
    return stated.only(keeping.tasks_that_stay())


class _Keeping:
    """Room on servers, in limits and in workloads, while tasks are kept one after the other."""

    def __init__(
        self,
        problem: Problem,
        whole: WholeServers,
        rows: ServerClasses,
        stated: TasksOnServers,
    ) -> None:
        self._problem, self._rows, self._stated = problem, rows, stated
        self._demand = whole.demand
        self._row_of = np.repeat(np.arange(rows.count), rows.servers)
        self._left = whole.capacity[rows.first_row][self._row_of]
        # Amounts that cannot bind stay far above all that is subtracted from them.
        self._limits = np.where(np.isinf(whole.limits), UNBOUNDED, whole.limits)
        self._runs = filling_reasons(problem, whole, rows) == ""
        self._allowed: BoolArray = allowed_pieces(problem, rows)

    def all_stay(self) -> bool:
        """Return True if no server, workload or limit has less room than what is stated needs."""
        stated, problem = self._stated, self._problem
        kind, row = stated.kind, self._row_of[stated.server]
        need = stated.tasks[:, None] * self._demand[kind]
        left, limits = self._left.copy(), self._limits.copy()
        np.subtract.at(left, stated.server, need)
        for number, limit in enumerate(problem.limited):
            counted = np.isin(kind, limit.workloads) & limit.rows[self._rows.first_row][row]
            limits[number] -= need[counted].sum(axis=0)
        return bool(
            self._runs[kind].all()
            and self._allowed[kind, row].all()
            and (left >= 0).all()
            and (limits >= 0).all()
            and (stated.per_kind() <= problem.tasks).all()
        )

    def tasks_that_stay(self) -> FloatArray:
        """Return the number of each stated entry (p,) that stays."""
        stated, problem = self._stated, self._problem
        owner = problem.pieces.workload[stated.kind]
        order = np.lexsort((stated.server, stated.kind, owner))
        begins = np.searchsorted(owner[order], np.arange(problem.n + 1))
        stays = np.zeros(len(order))
        for j in np.unique(owner).tolist():
            if not self._runs[j]:
                continue
            entries = order[begins[j] : begins[j + 1]]
            gang = problem.gangs.get(j)
            if gang is None:
                stays[entries] = self._single_tasks(j, entries)
            else:
                stays[entries] = self._whole_gangs(j, gang, entries)
        return stays

    def _limits_of(self, j: int) -> list[tuple[int, BoolArray]]:
        """Return the limits that count a workload, each with the rows (R,) on which it does."""
        return [
            (number, limit.rows[self._rows.first_row])
            for number, limit in enumerate(self._problem.limited)
            if np.isin(j, limit.workloads)
        ]

    def _single_tasks(self, j: int, entries: IntArray) -> FloatArray:
        """Keep tasks of one piece, server by server."""
        demand, limits = self._demand[j], self._limits_of(j)
        needed = np.flatnonzero(demand > 0)
        missing, stays = float(self._problem.tasks[j]), np.zeros(len(entries))
        servers = self._stated.server[entries].tolist()
        for at, (entry, server) in enumerate(zip(entries.tolist(), servers, strict=True)):
            row = int(self._row_of[server])
            if not self._allowed[j, row]:
                continue
            # Views, so that what is taken below is taken from the servers and limits themselves.
            rooms = [self._left[server]]
            rooms += [self._limits[number] for number, where in limits if where[row]]
            most = min(float((room[needed] // demand[needed]).min()) for room in rooms)
            stays[at] = max(0.0, min(float(self._stated.tasks[entry]), missing, most))
            missing -= stays[at]
            for room in rooms:
                room -= stays[at] * demand
        return stays

    def _whole_gangs(self, j: int, gang: Gang, entries: IntArray) -> FloatArray:
        """Keep as many tasks of several pieces as the pieces that have room make."""
        stated = self._stated
        kinds, server = stated.kind[entries], stated.server[entries]
        room = self._pieces_with_room(kinds, server, stated.tasks[entries])
        zone = self._problem.zones[gang.together][self._rows.first_row][self._row_of[server]]
        values = list(dict.fromkeys(zone[np.argsort(server, kind="stable")].tolist()))
        count = gang.count.tolist()
        # One row for each kind, one column for each server, so that pieces of both are seen together.
        columns, column = np.unique(server, return_inverse=True)
        second = (kinds != j).astype(np.int64)
        table = np.zeros((len(count), len(columns)))
        table[second, column] = room
        zones = np.full(len(columns), -1, dtype=np.int64)
        zones[column] = zone
        most: dict[int, int] = {
            value: most_tasks(table[:, zones == value], count, gang.per_server)
            for value in values
            if value >= 0
        }
        tasks = int(min(sum(most.values()), self._problem.tasks[j]))
        # Downwards: whether limits hold is known only once the pieces are chosen.
        while tasks >= gang.at_least:
            chosen = np.zeros_like(table)
            left = tasks
            for value, here in most.items():
                mine = zones == value
                chosen[:, mine] = pieces_of_tasks(
                    table[:, mine], count, gang.per_server, min(here, left)
                )
                left -= min(here, left)
            stays: FloatArray = chosen[second, column]
            if self._taken(j, kinds, server, stays):
                return stays
            tasks -= 1
        return np.zeros(len(entries))

    def _pieces_with_room(
        self, kinds: IntArray, server: IntArray, stated: FloatArray
    ) -> FloatArray:
        """Return how many of the stated pieces of one workload (p,) their servers have room for."""
        room, left = np.zeros(len(kinds)), dict[int, FloatArray]()
        for at, (kind, where) in enumerate(zip(kinds.tolist(), server.tolist(), strict=True)):
            if not self._allowed[kind, self._row_of[where]]:
                continue
            demand = self._demand[kind]
            here = left.setdefault(where, self._left[where].copy())
            needed = demand > 0
            room[at] = max(0.0, min(stated[at], float((here[needed] // demand[needed]).min())))
            here -= room[at] * demand
        return room

    def _taken(self, j: int, kinds: IntArray, server: IntArray, stays: FloatArray) -> bool:
        """Take what pieces (p,) use, unless a limit has less left."""
        need = stays[:, None] * self._demand[kinds]
        row = self._row_of[server]
        used = [(number, need[where[row]].sum(axis=0)) for number, where in self._limits_of(j)]
        if any((amount > self._limits[number]).any() for number, amount in used):
            return False
        for number, amount in used:
            self._limits[number] -= amount
        np.subtract.at(self._left, server, need)
        return True


def most_tasks(pieces: FloatArray, count: Sequence[int], per_server: int) -> int:
    """Return the most tasks of which pieces on servers are all pieces.

    Args:
        pieces: (c, S) of each kind on each server; count: (c) of one task.
        per_server: most pieces of one task on one server, 0 for any number.
    """
    tasks = int(min(row.sum() // each for row, each in zip(pieces, count, strict=True)))
    while tasks > 0 and not all(
        np.minimum(rows.sum(axis=0), per_server * tasks if per_server else np.inf).sum()
        >= each * tasks
        for rows, each in _kinds_together(pieces, count)
    ):
        tasks -= 1
    return tasks


def _kinds_together(pieces: FloatArray, count: Sequence[int]) -> Iterator[tuple[FloatArray, int]]:
    """Yield the sets of kinds of pieces to examine, with the pieces per task of each set.

    By Gale's theorem pieces make tasks if those of each set do.
    """
    for at, each in enumerate(count):
        yield pieces[at : at + 1], each
    if len(count) > 1:
        yield pieces, sum(count)


def pieces_of_tasks(
    pieces: FloatArray, count: Sequence[int], per_server: int, tasks: int
) -> FloatArray:
    """Return the pieces (c, S) of so many tasks, the first kind first, on the first servers possible.

    Args:
        pieces, count, per_server: as for ``most_tasks``, which is at least ``tasks``.
    """
    most = per_server * tasks if per_server else np.inf
    if len(count) == 1:
        return first_of(np.minimum(pieces[0], most), count[0] * tasks)[None, :]
    # As many pieces of the first kind take places of the second as this one can spare.
    free = np.minimum(pieces[0], np.maximum(0.0, most - pieces[1]))
    spare = np.minimum(pieces[1], most).sum() - count[1] * tasks
    more = first_of(np.minimum(pieces[0], most) - free, spare)
    first = first_of(free + more, count[0] * tasks)
    second = first_of(np.minimum(pieces[1], most - first), count[1] * tasks)
    return np.stack([first, second])


def first_of(pieces: FloatArray, number: float) -> FloatArray:
    """Return the first so many of pieces on servers (S,)."""
    before = np.cumsum(pieces) - pieces
    return np.clip(number - before, 0.0, pieces)
