"""Order of slots with the fewest tasks started and stopped over the cyclic period.

Exact for up to 12 slots (Held and Karp's dynamic programme over sets of slots). Beyond, a
heuristic: the nearest next slot and then exchanges of two arcs (2-opt) until none moves fewer
tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.arrays import IntArray
from policies.compiled import compiled

MOST_EXACT = 12


def order_of_slots(on_server: Sequence[IntArray]) -> list[int]:
    """Positions of the slots in the order in which they shall run.

    The slot whose tasks are lexicographically greatest is the first; of several best orders the
    lexicographically first one is taken, so that the same slots always run in the same order.

    Args:
        on_server: (s) tasks (L, q) of each slot on each server.
    """
    canonical = sorted(range(len(on_server)), key=lambda p: on_server[p].ravel().tolist())[::-1]
    moved = tasks_moved([on_server[position] for position in canonical])
    if len(canonical) <= 3:
        tour = list(range(len(canonical)))
    elif len(canonical) <= MOST_EXACT:
        tour = _shortest_tour(moved)
    else:
        tour = _short_tour(moved)
    return [canonical[position] for position in tour]


def tasks_moved(on_server: Sequence[IntArray]) -> IntArray:
    """Return the tasks (s, s) that stop or start between two slots."""
    where = [np.flatnonzero(tasks) for tasks in on_server]
    first = np.concatenate([[0], np.cumsum([len(places) for places in where])]).astype(np.int64)
    count = [tasks.ravel()[places] for tasks, places in zip(on_server, where, strict=True)]
    moved: IntArray = _moved(first, np.concatenate(where), np.concatenate(count))
    return moved


@compiled
def _moved(first, place, count):
    """Return the tasks (s, s) moved, by merging the slots' places.

    Those of slot k begin at ``first[k]``.
    """
    size = len(first) - 1
    moved = np.zeros((size, size), dtype=np.int64)
    for a in range(size):
        for b in range(a):
            i, j, total = first[a], first[b], 0
            while i < first[a + 1] and j < first[b + 1]:
                if place[i] == place[j]:
                    total += abs(count[i] - count[j])
                    i += 1
                    j += 1
                elif place[i] < place[j]:
                    total += count[i]
                    i += 1
                else:
                    total += count[j]
                    j += 1
            for k in range(i, first[a + 1]):
                total += count[k]
            for k in range(j, first[b + 1]):
                total += count[k]
            moved[a, b] = moved[b, a] = total
    return moved


def _shortest_tour(moved: IntArray) -> list[int]:
    size = len(moved)
    others = size - 1
    to = moved[1:, 1:]
    everybody = (1 << others) - 1
    # left[visited, last]: the least that is still moved once ``visited`` slots are behind.
    # A quarter of the largest number, so that sums do not overflow.
    left = np.full((1 << others, others), np.iinfo(np.int64).max // 4)
    left[everybody] = moved[1:, 0]
    for visited in range(everybody - 1, 0, -1):
        ahead = [slot for slot in range(others) if not visited >> slot & 1]
        after = np.array([left[visited | 1 << slot, slot] for slot in ahead])
        left[visited] = (to[:, ahead] + after).min(axis=1)
    tour, visited, last = [0], 0, 0
    while visited != everybody:
        ahead = [slot for slot in range(others) if not visited >> slot & 1]
        costs = [int(moved[last, slot + 1] + left[visited | 1 << slot, slot]) for slot in ahead]
        slot = ahead[costs.index(min(costs))]
        visited |= 1 << slot
        last = slot + 1
        tour.append(last)
    return tour


def _short_tour(moved: IntArray) -> list[int]:
    tour: list[int] = _improved(moved).tolist()
    return tour


@compiled
def _improved(moved):
    """Return a tour (s,) of nearest next slots, with pairs of arcs exchanged until none moves less."""
    size = len(moved)
    tour = np.zeros(size, dtype=np.int64)
    waiting = np.ones(size, dtype=np.bool_)
    waiting[0] = False
    for position in range(1, size):
        nearest = -1
        for slot in range(size):
            if waiting[slot] and (
                nearest < 0 or moved[tour[position - 1], slot] < moved[tour[position - 1], nearest]
            ):
                nearest = slot
        tour[position] = nearest
        waiting[nearest] = False
    improved = True
    while improved:
        improved = False
        for i in range(size - 2):
            # Without the arc that closes the tour beside the first one: both meet in one slot.
            for j in range(i + 2, size - (i == 0)):
                a, b, c, d = tour[i], tour[i + 1], tour[j], tour[(j + 1) % size]
                if moved[a, c] + moved[b, d] < moved[a, b] + moved[c, d]:
                    tour[i + 1 : j + 1] = tour[i + 1 : j + 1][::-1].copy()
                    improved = True
    return tour
