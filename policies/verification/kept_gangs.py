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
        all_tasks = sum(first for first, _ in servers.values()) // count[0]
        for here in range(all_tasks if most is None else min(all_tasks, most - tasks), 0, -1):
            chosen = _chosen(servers, rows, count, gang.per_server, here, all_tasks - here)
            if chosen is not None:
                tasks += here
                for (row, server), numbers in chosen.items():
                    for kind, number in zip(kinds, numbers, strict=False):
                        found[kind, row, server] += number
                break
    return tasks, +found


def _chosen(
    servers: Mapping[tuple[int, int], Sequence[int]],
    rows: BoolArray,
    count: Sequence[int],
    per_server: int,
    tasks: int,
    others: int,
) -> dict[tuple[int, int], tuple[int, int]] | None:
    """Return the pieces of some tasks on each server beside those of others, None if there are none."""
    at_most = per_server or sum(sum(numbers) for numbers in servers.values())
    list_ = []
    for (row, _), (first, second) in servers.items():
        both = first + second
        least = max(0, both - at_most * others) if per_server else 0
        list_.append(_Server(first, second, least, min(both, at_most * tasks) if rows[row] else 0))
    ranges, missing = NOTHING, (count[0] * tasks, count[1] * tasks)
    for each in list_:
        ranges = _sum(ranges, each.ranges())
    if any(each.least > each.most for each in list_) or not _reach(ranges, *missing):
        return None
    firsts = []
    for each in list_:
        without = _sum(ranges, each.ranges(), -1)
        chosen = min(each.first, each.most)
        while not _reach(_sum(without, each.ranges(chosen)), *missing):
            chosen -= 1
        ranges = _sum(without, each.ranges(chosen))
        firsts.append(chosen)
    seconds, spare = [], missing[1] - ranges[1][0]
    for each, chosen in zip(list_, firsts, strict=True):
        low, high = each.ranges(chosen)[1]
        more = min(high - low, spare)
        spare -= more
        seconds.append(low + more)
    return dict(zip(servers, zip(firsts, seconds, strict=True), strict=True))
