"""Kept tasks of several pieces that count for a floor.

Source: docs/policies/kept-tasks.md. Which pieces form a task is not recorded. Those of some tasks can be
taken from those of all if the rest still forms tasks. By Hoffman's theorem this holds if, for the first
kind, for the second and for both together, the number to take lies between the sums of the least and of
the most that each server allows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.filling.kept_tasks import first_of
from policies.model.gangs import Gang


def pieces_inside(
    pieces: FloatArray, zone: IntArray, inside: BoolArray, gang: Gang, most: float = np.inf
) -> FloatArray:
    """Return the pieces (c, S) of as many tasks as have all pieces inside while the others stay whole.

    They are on the first servers possible, those of the first kind before the second.

    Args:
        pieces: (c, S) of each kind on each server, which form tasks in each zone.
        zone: (S,) of each server; inside: (S,) servers that count.
        most: number of tasks at most.
    """
    chosen = np.zeros_like(pieces)
    for value in dict.fromkeys(zone.tolist()):
        here = zone == value
        part = _Zone(pieces[:, here], inside[here], gang)
        tasks = part.most_tasks(most)
        chosen[:, here] = part.pieces_of(tasks)
        most -= tasks
    return chosen


class _Bounds(NamedTuple):
    """Numbers of pieces on each server (S,) that can belong to some tasks.

    Attributes:
        first, second: most pieces of a kind; least, most: pieces of both kinds together.
    """

    first: FloatArray
    second: FloatArray
    least: FloatArray
    most: FloatArray

    def holds(self, first: float, second: float) -> bool:
        """Return whether so many pieces can be taken from all servers."""
        totals = ((self.first, self.second, first), (self.second, self.first, second))
        return bool(
            (self.least <= self.most).all()
            and self.least.sum() <= first + second <= self.most.sum()
            and all(
                np.maximum(self.least - other, 0.0).sum() <= total <= mine.sum()
                for mine, other, total in totals
            )
        )


class _Zone:
    """Kept pieces on servers with one value of the label."""

    def __init__(self, pieces: FloatArray, inside: BoolArray, gang: Gang) -> None:
        self._first = pieces[0]
        self._second = pieces[1] if len(pieces) > 1 else np.zeros_like(pieces[0])
        self._inside, self._per_server = inside, gang.per_server
        count = gang.count.tolist()
        self._count = (count[0], count[1] if len(count) > 1 else 0)
        self._kinds, self._tasks = len(pieces), int(pieces[0].sum()) // count[0]

    def most_tasks(self, most: float) -> int:
        """Return the most tasks with all pieces inside while the others stay whole."""
        low, high = 0, int(min(most, self._tasks))
        while low < high:  # what holds for some tasks holds for fewer
            middle = (low + high + 1) // 2
            holds = self._bounds(middle).holds(*(each * middle for each in self._count))
            low, high = (middle, high) if holds else (low, middle - 1)
        return low

    def pieces_of(self, tasks: int) -> FloatArray:
        """Return the pieces (c, S) of so many tasks."""
        first, second, least, most = self._bounds(tasks)
        left, others = (float(each * tasks) for each in self._count)
        # What the servers after each one must take, and what they have room for.
        first_after = _after(np.maximum(least - second, 0.0))
        least_after, second_after = _after(least), _after(second)
        both_left, others_left, taken = left + others, others, np.zeros(len(first))
        for at in range(len(first)):
            taken[at] = min(
                first[at],
                left - first_after[at],
                most[at] - max(0.0, others_left - second_after[at]),
                both_left - least_after[at],
            )
            left -= taken[at]
            both_left -= max(taken[at], least[at])
            others_left -= min(second[at], most[at] - taken[at])
        if self._kinds == 1:
            return taken[None, :]
        more = np.maximum(least - taken, 0.0)
        free = np.minimum(second, most - taken) - more
        return np.stack([taken, more + first_of(free, others - more.sum())])

    def _bounds(self, tasks: int) -> _Bounds:
        both = self._first + self._second
        if not self._per_server:
            least, most = np.zeros(len(both)), both
        else:
            least = np.maximum(both - float(self._per_server * (self._tasks - tasks)), 0.0)
            most = np.minimum(both, float(self._per_server * tasks))
        most = np.where(self._inside, most, 0.0)
        return _Bounds(np.minimum(self._first, most), np.minimum(self._second, most), least, most)


def _after(amounts: FloatArray) -> FloatArray:
    """Return the sum of the amounts after each position."""
    after: FloatArray = amounts[::-1].cumsum()[::-1] - amounts
    return after
