"""Tasks that stay on their servers, for the verifier.

Source: docs/policies/kept-tasks.md. The module shares no code with policies.filling.kept_tasks, so that
an error there cannot hide itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.arrays import FloatArray, IntArray, TextArray
from policies.model.current_placements import CurrentPlacements
from policies.model.gangs import Gang
from policies.verification.gangs import most_tasks
from policies.verification.replay import every_server, tasks_by_server
from policies.verification.servers import LimitsLeft
from policies.verification.stated import Stated

# (p,) ascending keys ``server × kinds + kind``, and (p,) tasks of each.
OnServers = tuple[IntArray, FloatArray]


def placed_on_servers(stated: Stated, placements: CurrentPlacements) -> OnServers:
    """Return what placements have on the servers that the problem offers."""
    first = np.full(stated.problem.k, -1, dtype=np.int64)
    servers = stated.rows.servers
    first[stated.rows.row] = np.cumsum(servers) - servers
    here = (placements.row >= 0) & (first[placements.row] >= 0)
    row = placements.row[here]
    room = np.maximum(stated.problem.server_count[row] - placements.offset[here], 0)
    position, server = every_server(
        first[row] + placements.offset[here], np.minimum(placements.servers[here], room)
    )
    kind, tasks = placements.workload[here][position], placements.tasks[here][position]
    return tasks_by_server(kind, server, tasks, len(stated.pieces.owner))


def tasks_that_stay(stated: Stated, reasons: TextArray) -> OnServers:
    """Return what every server keeps of the stated tasks.

    Args:
        reasons: (n,) why a workload cannot run at all, empty texts for those that can.
    """
    kept = stated.problem.kept_placements
    if kept is None:
        return np.zeros(0, np.int64), np.zeros(0)
    keys, tasks = placed_on_servers(stated, kept)
    kinds = max(len(stated.pieces.owner), 1)
    found: dict[int, dict[tuple[int, int], int]] = {}
    for key, number in zip(keys.tolist(), tasks.tolist(), strict=True):
        if number > 0:
            server, kind = divmod(key, kinds)
            found.setdefault(int(stated.pieces.owner[kind]), {})[kind, server] = int(number)
    room = _Room(stated)
    stays: dict[int, float] = {}
    for j in sorted(found):
        if reasons[j]:
            continue
        gang = stated.problem.gangs.get(j)
        entries = dict(sorted(found[j].items()))
        chosen = room.single(j, entries) if gang is None else room.gangs(j, gang, entries)
        for (kind, server), number in chosen.items():
            if number:
                stays[server * kinds + kind] = float(number)
    order = sorted(stays)
    return np.array(order, dtype=np.int64), np.array([stays[key] for key in order])


class _Room:
    """Room left on servers and in limits while tasks are kept."""

    def __init__(self, stated: Stated) -> None:
        rows = stated.rows
        self._stated = stated
        self._row_of = np.repeat(np.arange(rows.count), rows.servers)
        self._left: FloatArray = stated.on_servers.capacity[rows.row][self._row_of].copy()
        self._limits = LimitsLeft(stated.limits, stated.on_servers, rows.row, stated.pieces.owner)

    def _fits(self, kind: int, server: int) -> bool:
        demand = self._stated.on_servers.demand[kind]
        row = self._row_of[server]
        return bool(self._stated.rows.allowed[kind, row] and (demand <= self._left[server]).all())

    def _take(self, kind: int, server: int, number: int) -> None:
        self._left[server] -= number * self._stated.on_servers.demand[kind]
        self._limits.take(kind, int(self._row_of[server]), number)

    def _limits_open(self, kind: int, server: int) -> bool:
        row = self._row_of[server]
        return not any(self._limits.rows[q][row] for q in self._limits.exhausted(kind))

    def single(self, j: int, entries: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
        """Keep tasks of one piece, one by one."""
        chosen = dict.fromkeys(entries, 0)
        for kind, server in entries:
            while (
                chosen[kind, server] < entries[kind, server]
                and sum(chosen.values()) < self._stated.problem.tasks[j]
                and self._fits(kind, server)
                and self._limits_open(kind, server)
            ):
                self._take(kind, server, 1)
                chosen[kind, server] += 1
        return chosen

    def gangs(
        self, j: int, gang: Gang, entries: dict[tuple[int, int], int]
    ) -> dict[tuple[int, int], int]:
        """Keep as many whole tasks as there can be, all pieces of each."""
        room = self._pieces_with_room(entries)
        zone_of = {server: self._zone(gang, server) for _, server in entries}
        zones = [zone for zone in dict.fromkeys(zone_of[s] for s in sorted(zone_of)) if zone >= 0]
        kinds, count = self._stated.pieces.of(j), gang.count.tolist()
        parts = [
            {place: number for place, number in room.items() if zone_of[place[1]] == zone}
            for zone in zones
        ]
        most = [_most_tasks(part, kinds, count, gang.per_server) for part in parts]
        tasks = int(min(sum(most), self._stated.problem.tasks[j]))
        # Downwards, since limits are only known to hold once the pieces are chosen.
        for number in range(tasks, gang.at_least - 1, -1):
            chosen, left = dict.fromkeys(entries, 0), number
            for part, here in zip(parts, most, strict=True):
                chosen |= _pieces_of(part, kinds, count, gang.per_server, min(here, left))
                left -= min(here, left)
            for (kind, server), pieces in chosen.items():
                self._take(kind, server, pieces)
            if all((self._limits.left[q] >= 0).all() for q in self._limits.mine(kinds[0])):
                return chosen
            for (kind, server), pieces in chosen.items():
                self._take(kind, server, -pieces)
        return {}

    def _zone(self, gang: Gang, server: int) -> int:
        if not gang.together:
            return 0
        row = self._stated.rows.row[self._row_of[server]]
        return int(self._stated.pieces.values[gang.together][row])

    def _pieces_with_room(self, entries: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
        room = dict.fromkeys(entries, 0)
        for (kind, server), number in entries.items():
            while room[kind, server] < number and self._fits(kind, server):
                room[kind, server] += 1
                self._left[server] -= self._stated.on_servers.demand[kind]
        for (kind, server), number in room.items():
            self._left[server] += number * self._stated.on_servers.demand[kind]
        return room


def _most_tasks(
    room: dict[tuple[int, int], int], kinds: Sequence[int], count: Sequence[int], per_server: int
) -> int:
    """Return the most tasks that pieces make, at most ``per_server`` of a task on one server."""
    servers = sorted({server for _, server in room})
    pieces = [[float(room.get((kind, server), 0)) for server in servers] for kind in kinds]
    return most_tasks(np.array(pieces), np.ones(len(servers)), count, per_server)


def _pieces_of(
    room: dict[tuple[int, int], int],
    kinds: Sequence[int],
    count: Sequence[int],
    per_server: int,
    tasks: int,
) -> dict[tuple[int, int], int]:
    """Return the pieces of so many tasks, as many as possible on the first servers.

    Those of the first kind come first, as long as the second kind has places left.
    """
    chosen = dict.fromkeys(room, 0)
    servers = sorted({server for _, server in room})
    most = per_server * tasks if per_server else sum(room.values())
    spare = 0
    if len(kinds) > 1:
        second = [room.get((kinds[1], server), 0) for server in servers]
        spare = sum(min(number, most) for number in second) - count[1] * tasks
    missing = count[0] * tasks
    for server in servers:
        other = room.get((kinds[1], server), 0) if len(kinds) > 1 else 0
        for number in range(1, min(room.get((kinds[0], server), 0), most) + 1):
            takes_place = number > max(0, most - other)
            if not missing or (takes_place and not spare):
                break
            missing -= 1
            spare -= takes_place
            chosen[kinds[0], server] = number
    for kind, each in zip(kinds[1:], count[1:], strict=True):
        missing = each * tasks
        for server in servers:
            places = most - chosen.get((kinds[0], server), 0)
            taken = min(room.get((kind, server), 0), places, missing)
            if taken:
                chosen[kind, server] = taken
            missing -= taken
    return chosen
