"""Best-fitting server by slope, for two resources.

With two resources ``H`` (``best_fit``) is the distance of two slopes, or one over the server's
slope where the task demands the second resource only. So servers are kept in buckets ordered by
slope, and a query walks outwards from the task's own slope until the next bucket is farther away
than the best server found. A bucket that is full splits in two, so buckets stay small wherever the
slopes gather. Each knows an upper bound of what any of its servers has left and is skipped when
that is too little, and so are whole groups of buckets at once. Servers on which no waiting task can
fit are removed. Of a row of identical servers only the first untouched one is in the index: the
others tie with it and come later.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE, better, tie_at

CAPACITY = 48
# Servers per bucket of an index that is new.
FILLED = 36
# Buckets per group.
GROUP = 32


class SlopeIndex(NamedTuple):
    """Servers in buckets by slope. Buckets have a place, in order, and a number, for ever.

    Attributes:
        size: (1,) buckets in use.
        lowest: (B,) by place: slopes in a bucket are from this to the next one's, inclusive.
        most: (2, B) by place: at least what any server of the bucket has left.
        number: (B,) by place; place: (B,) by number.
        held: (B,) by number: servers in the bucket.
        server, slope: (B, CAPACITY); left: (B, 2, CAPACITY), by number.
        bucket, slot: (S,) where each server is; bucket -1: not in the index.
    """

    size: IntArray
    lowest: FloatArray
    most: FloatArray
    number: IntArray
    place: IntArray
    held: IntArray
    server: IntArray
    slope: FloatArray
    left: FloatArray
    bucket: IntArray
    slot: IntArray


def slope_index(servers: int) -> SlopeIndex:
    """Return an empty index with room for ``servers``."""
    buckets = 3 * servers // CAPACITY + 16
    whole: Any = np.int64
    return SlopeIndex(
        size=np.ones(1, dtype=whole),
        lowest=np.zeros(buckets),
        most=np.zeros((2, buckets)),
        number=np.zeros(buckets, dtype=whole),
        place=np.zeros(buckets, dtype=whole),
        held=np.zeros(buckets, dtype=whole),
        server=np.zeros((buckets, CAPACITY), dtype=whole),
        slope=np.zeros((buckets, CAPACITY)),
        left=np.zeros((buckets, 2, CAPACITY)),
        bucket=np.full(servers, NOWHERE),
        slot=np.zeros(servers, dtype=whole),
    )


@compiled
def build(servers, slopes, left, index):
    """Rebuild the index from servers (A,) with ``slopes`` (A,).

    left is (S, 2).
    """
    index.size[0] = 1
    # The first bucket begins at 0, so that every slope has a place.
    index.lowest[0] = 0.0
    index.most[:] = 0.0
    index.held[:] = 0
    index.bucket[:] = NOWHERE
    index.number[0] = index.place[0] = 0
    p = slot = 0
    for position in np.argsort(slopes):
        if slot == FILLED:
            p, slot = p + 1, 0
            index.size[0] = p + 1
            index.lowest[p] = slopes[position]
            index.number[p] = index.place[p] = p
        server = servers[position]
        index.server[p, slot] = server
        index.bucket[server], index.slot[server] = p, slot
        _write(p, p, slot, slopes[position], left[server], index)
        slot += 1
        index.held[p] = slot


@compiled
def place_of(slope, index):
    """Return the last bucket that begins at or below a slope."""
    low, high = 0, index.size[0]
    while high - low > 1:
        middle = (low + high) // 2
        if index.lowest[middle] <= slope:
            low = middle
        else:
            high = middle
    return low


@compiled
def insert(server, slope, left, index):
    """Add a server.

    Return False if there is no bucket left to split.
    """
    p = place_of(slope, index)
    if index.held[index.number[p]] == CAPACITY:
        if index.size[0] == len(index.lowest):
            return False
        _split(p, index)
        if slope >= index.lowest[p + 1]:
            p += 1
    number = index.number[p]
    slot = index.held[number]
    index.held[number] += 1
    index.server[number, slot] = server
    index.bucket[server], index.slot[server] = number, slot
    _write(p, number, slot, slope, left, index)
    return True


@compiled
def _write(p, number, slot, slope, left, index):
    index.slope[number, slot] = slope
    for r in range(2):
        index.left[number, r, slot] = left[r]
        index.most[r, p] = max(index.most[r, p], left[r])


@compiled
def remove(server, index):
    """Remove a server if it is in the index.

    The bounds of its bucket stay valid.
    """
    number, slot = index.bucket[server], index.slot[server]
    if number == NOWHERE:
        return
    last = index.held[number] - 1
    index.held[number] = last
    # Servers of a bucket are in no order: the last one may fill the gap.
    _move(number, last, number, slot, index)
    index.bucket[server] = NOWHERE


@compiled
def _move(number, slot, to, to_slot, index):
    server = index.server[number, slot]
    index.server[to, to_slot] = server
    index.slope[to, to_slot] = index.slope[number, slot]
    for r in range(2):
        index.left[to, r, to_slot] = index.left[number, r, slot]
    index.bucket[server], index.slot[server] = to, to_slot


@compiled
def update(server, slope, left, index):
    """Update what a server in the index has left.

    Return False if there is no bucket left to split.
    """
    number = index.bucket[server]
    p = index.place[number]
    inside = index.lowest[p] <= slope
    # Inclusive at both ends, because a split may put equal slopes on both sides.
    if inside and (p + 1 == index.size[0] or slope <= index.lowest[p + 1]):
        _write(p, number, index.slot[server], slope, left, index)
        return True
    remove(server, index)
    return insert(server, slope, left, index)


@compiled
def _split(p, index):
    """Move the upper half of a full bucket into a new one behind it."""
    size = index.size[0]
    # Only places move up. Servers refer to numbers, which are for ever, and are not rewritten.
    for later in range(size, p + 1, -1):
        index.lowest[later] = index.lowest[later - 1]
        index.number[later] = index.number[later - 1]
        index.place[index.number[later]] = later
        for r in range(2):
            index.most[r, later] = index.most[r, later - 1]
    old, new = index.number[p], size
    index.size[0] = size + 1
    index.number[p + 1], index.place[new] = new, p + 1
    for r in range(2):
        index.most[r, p + 1] = index.most[r, p]
    middle = np.sort(index.slope[old])[CAPACITY // 2]
    index.lowest[p + 1] = middle
    kept = moved = 0
    # Slopes equal to the middle are split too, so that exactly half of the bucket moves.
    equal = CAPACITY // 2 - (index.slope[old] > middle).sum()
    for slot in range(CAPACITY):
        slope = index.slope[old, slot]
        equal -= slope == middle
        if slope > middle or (slope == middle and equal >= 0):
            _move(old, slot, new, moved, index)
            moved += 1
        else:
            _move(old, slot, old, kept, index)
            kept += 1
    index.held[old], index.held[new] = kept, moved


@compiled
def _tighten(p, number, index):
    """Bring the bounds of a bucket down to what its servers have."""
    for r in range(2):
        most = 0.0
        for slot in range(index.held[number]):
            most = max(most, index.left[number, r, slot])
        index.most[r, p] = most


@compiled
def _group_has_room(first, demand, index):
    """Return whether some bucket of the group that begins at place ``first`` may have room."""
    first_most, second_most = index.most[0], index.most[1]
    with_room = 0
    for p in range(first, min(first + GROUP, len(first_most))):
        with_room += (first_most[p] >= demand[0]) & (second_most[p] >= demand[1])
    return with_room > 0


@compiled
def _distance(task, reference, slope):
    """Return ``H`` of a task on a server with room, or of the edge of a bucket."""
    if reference == 0:
        return abs(slope - task[1])
    return 1.0 / slope if slope > 0.0 else np.inf


@compiled
def nearest(demand, task, reference, size, allowed, row_of, index):
    """Return the server with the least ``H``, the first by position among equal ones.

    Args:
        demand, task: (2,) of one task, whole, and as ratios to the reference resource.
        reference, size: the first resource it demands; the sum of ``task``.
        allowed: (rows,) may it run there; row_of: (S,).
        index: the index; bounds of buckets without room are tightened.

    Returns:
        The server, -1 if none has room; and how many servers were looked at.
    """
    buckets = index.size[0]
    # Without a demand of the first resource the steepest slope is nearest.
    start = place_of(task[1], index) if reference == 0 else buckets - 1
    best, chosen, its_distance = np.inf, NOWHERE, np.inf
    looked = 0
    # Ties are not transitive: once the least H is known, the first that ties with it is looked up.
    for again in range(2):
        unsure = False
        low, high = start, start + 1
        reach = tie_at(best, size)
        below, above = 0.0, np.inf
        if high < buckets:
            above = _distance(task, reference, index.lowest[high])
        while min(below, above) <= reach:
            if low >= 0 and below <= above:
                p = low
                # A group's bounds are asked where the walk enters it; inside, the buckets' own are
                # as cheap.
                passes = p % GROUP != GROUP - 1 or _group_has_room(p - p % GROUP, demand, index)
                low -= 1 if passes else GROUP
                below = np.inf
                if low >= 0:
                    below = _distance(task, reference, index.lowest[low + 1])
            else:
                p = high
                passes = p % GROUP != 0 or _group_has_room(p - p % GROUP, demand, index)
                high += 1 if passes else GROUP
                above = np.inf
                if high < buckets:
                    above = _distance(task, reference, index.lowest[high])
            passes = passes and index.most[0, p] >= demand[0]
            if not passes or index.most[1, p] < demand[1]:
                if low < 0 and high >= buckets:
                    break
                continue
            number = index.number[p]
            room = False
            looked += index.held[number]
            for slot in range(index.held[number]):
                if index.left[number, 0, slot] < demand[0]:
                    continue
                if index.left[number, 1, slot] < demand[1]:
                    continue
                room = True
                distance = _distance(task, reference, index.slope[number, slot])
                if distance > reach or not allowed[row_of[index.server[number, slot]]]:
                    continue
                server = index.server[number, slot]
                if again == 1:
                    chosen = server if chosen == NOWHERE else min(chosen, server)
                    continue
                best, chosen, its_distance, doubt = better(
                    distance, server, best, chosen, its_distance, size
                )
                unsure = unsure or doubt
                reach = tie_at(best, size)
            # Launches leave bounds too high. They are brought down only where that misled a search.
            if not room:
                _tighten(p, number, index)
            if low < 0 and high >= buckets:
                break
        if not unsure:
            break
        chosen = NOWHERE
    return chosen, looked
