"""Kept tasks of several pieces that count for a floor, for the verifier.

Source: docs/policies/kept-tasks.md. The module shares no code with policies.floors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from policies.arrays import BoolArray
from policies.verification.stated import Stated

# Whole tasks, or pieces, by kind, row and server of the row.
Placed = Counter[tuple[int, int, int]]
# Least and most pieces of the first kind, of the second, and of both together.
Ranges = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
NOTHING: Ranges = ((0, 0), (0, 0), (0, 0))


@dataclass(frozen=True)
class _Server:
    """Kept pieces of a gang on one server, and how many of them the chosen tasks can have.

    Attributes:
        first, second: pieces of each kind; least, most: pieces of the chosen tasks.
    """

    first: int
    second: int
    least: int
    most: int

    def ranges(self, chosen: int | None = None) -> Ranges:
        """Return what the chosen tasks can have, once the number of the first kind is given."""
        if chosen is not None:
            second = max(0, self.least - chosen), min(self.second, self.most - chosen)
            both = chosen + second[0], chosen + second[1]
            return (chosen, chosen), second, both
        first = max(0, self.least - self.second), min(self.first, self.most)
        second = max(0, self.least - self.first), min(self.second, self.most)
        return first, second, (self.least, self.most)


def _sum(one: Ranges, other: Ranges, sign: int = 1) -> Ranges:
    """Return the ranges of two sets of servers together, or of the first without the second."""
    first, second, both = (
        (a[0] + sign * b[0], a[1] + sign * b[1]) for a, b in zip(one, other, strict=True)
    )
    return first, second, both


def _reach(ranges: Ranges, first: int, second: int) -> bool:
    """Return whether so many pieces of each kind are within ranges."""
    totals = (first, second, first + second)
    return all(low <= total <= high for (low, high), total in zip(ranges, totals, strict=True))


def pieces_of_tasks_on(
    stated: Stated, workload: int, kept: Placed, rows: BoolArray, most: int | None = None
) -> tuple[int, Placed]:
    """Return how many kept tasks of a gang run on some rows (k,), and the pieces that count for them.

    All pieces of such a task run there, and the pieces of the others still are tasks. The pieces are on
    the first servers possible, those of the first kind before the second.

    Args:
        kept: pieces of the workload; most: number of tasks at most.
    """
    gang, kinds = stated.problem.gangs[workload], stated.pieces.of(workload)
    value = [0] * stated.problem.k
    if gang.together:
        value = stated.pieces.values[gang.together].tolist()
    of_value: dict[int, dict[tuple[int, int], list[int]]] = {}
    for kind, row, server in sorted(kept, key=lambda place: place[1:]):
        number = kept[kind, row, server]
        if number:
            servers = of_value.setdefault(value[row], {})
            servers.setdefault((row, server), [0, 0])[kinds.index(kind)] += number
    count = [*gang.count.tolist(), 0][:2]
    tasks, found = 0, Placed()
    for servers in of_value.values():
        part = _Zone(servers, rows, count, gang.per_server)
        here = part.most_tasks(None if most is None else most - tasks)
        tasks += here
        for (row, server), numbers in zip(servers, part.pieces_of(here), strict=True):
            for kind, number in zip(kinds, numbers, strict=False):
                found[kind, row, server] += number
    return tasks, +found


class _Zone:
    """Kept pieces of a gang on servers with one value of its label."""

    def __init__(
        self,
        servers: Mapping[tuple[int, int], Sequence[int]],
        rows: BoolArray,
        count: Sequence[int],
        per_server: int,
    ) -> None:
        self._pieces = [(*numbers, bool(rows[row])) for (row, _), numbers in servers.items()]
        self._count, self._per_server = count, per_server
        self._tasks = sum(first for first, _, _ in self._pieces) // count[0]

    def most_tasks(self, most: int | None) -> int:
        """Return the most tasks that run on the rows beside the others."""
        low, high = 0, self._tasks if most is None else min(most, self._tasks)
        while low < high:  # a task that counts may always be one of the others
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._are_there(middle) else (low, middle - 1)
        return low

    def _are_there(self, tasks: int) -> bool:
        servers = self._servers(tasks)
        return all(each.least <= each.most for each in servers) and _reach(
            _total(servers), self._count[0] * tasks, self._count[1] * tasks
        )

    def pieces_of(self, tasks: int) -> list[tuple[int, int]]:
        """Return the pieces of each kind of so many tasks on each server."""
        servers, missing = self._servers(tasks), [each * tasks for each in self._count]
        ranges, firsts = _total(servers), list[int]()
        for each in servers:
            others = _sum(ranges, each.ranges(), -1)
            first = min(each.first, each.most)
            while not _reach(_sum(others, each.ranges(first)), *missing):
                first -= 1
            ranges = _sum(others, each.ranges(first))
            firsts.append(first)
        chosen, spare = [], missing[1] - ranges[1][0]
        for each, first in zip(servers, firsts, strict=True):
            low, high = each.ranges(first)[1]
            more = min(high - low, spare)
            spare -= more
            chosen.append((first, low + more))
        return chosen

    def _servers(self, tasks: int) -> list[_Server]:
        others, found = self._tasks - tasks, []
        for first, second, counts in self._pieces:
            both = first + second
            least = max(0, both - self._per_server * others) if self._per_server else 0
            most = min(both, self._per_server * tasks) if self._per_server else both
            found.append(_Server(first, second, least, most if counts else 0))
        return found


def _total(servers: Sequence[_Server]) -> Ranges:
    total = NOTHING
    for each in servers:
        total = _sum(total, each.ranges())
    return total
