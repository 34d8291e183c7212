"""Best-fitting server by a scan of chunks, for three and more resources.

The slope of two resources determines little of ``H`` when there are more. The amounts left are stored
resource by resource, so that a few vector instructions measure a chunk of servers. ``H`` is the sum of
the absolute differences of two vectors of ratios. For any choice of signs, it is at least the difference
between the signed sums of the two. The range of a chunk's signed sums therefore bounds ``H`` from below,
and a chunk whose bound exceeds the best ``H`` so far is not measured. Servers with like ratios are put
into the same chunk, anew from time to time because ratios change as servers fill up. Of a row of
identical servers only the first untouched one is in the list.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE, better, tie_at

CHUNK = 64
# A scan of so few chunks costs less than a look at their bounds.
FEW_CHUNKS = 4
# Chunks of least bounds that are measured first, so that a good server excludes most of the others.
FIRST_CHUNKS = 2
# A signed sum and ``H`` have at most 2m + 5 rounded operations on ratios of totals T and X that are not
# negative, so that each is off by less than (2m + 5) 2^-53 (T + X): 1.5e-14 (T + X) for 64 resources.
ROUNDING_ALLOWANCE = 1e-13
# From so many changes on, beside half the list, servers are put in order again.
FEWEST_CHANGES = 256


class Columns(NamedTuple):
    """Columns of servers in any order, of which the positions beyond ``size`` are free.

    A position without a server has no room for anything.

    Attributes:
        size: (1,) positions in use; changes: (1,) number of changes since the servers were put in order.
        server: (A,) which, or -1; left: (m, A) whole; inverse: (m, A) one over the share left.
        position: (S,) where each server is; -1: not in the list.
        low, high: (m, m, chunks) bounds of the signed sums of the servers of each chunk, by the resource
            that ratios refer to (``_signed_sums``).
        bound: (chunks,), sums: (m,) and distance: (CHUNK,) scratch.
    """

    size: IntArray
    changes: IntArray
    server: IntArray
    left: FloatArray
    inverse: FloatArray
    position: IntArray
    low: FloatArray
    high: FloatArray
    bound: FloatArray
    sums: FloatArray
    distance: FloatArray


def columns_of(servers: int, resources: int) -> Columns:
    """Return an empty list with room for ``servers``."""
    whole: Any = np.int64
    chunks = -(-servers // CHUNK)
    return Columns(
        size=np.zeros(1, dtype=whole),
        changes=np.zeros(1, dtype=whole),
        server=np.zeros(servers, dtype=whole),
        left=np.zeros((resources, servers)),
        inverse=np.zeros((resources, servers)),
        position=np.full(servers, NOWHERE),
        low=np.full((resources, resources, chunks), np.inf),
        high=np.full((resources, resources, chunks), -np.inf),
        bound=np.zeros(chunks),
        sums=np.zeros(resources),
        distance=np.zeros(CHUNK),
    )


@compiled
def clear(columns):
    """Empty the list."""
    columns.position[:] = NOWHERE
    columns.size[0] = columns.changes[0] = 0
    columns.low[:] = np.inf
    columns.high[:] = -np.inf


@compiled
def append(server, left, share_of_unit, columns):
    """Add a server that has ``left`` (m,)."""
    if columns.size[0] == len(columns.server):
        _put_in_order(share_of_unit, columns)
    columns.position[server] = columns.size[0]
    columns.server[columns.size[0]] = server
    columns.size[0] += 1
    rewrite(server, left, share_of_unit, columns)


@compiled
def rewrite(server, left, share_of_unit, columns):
    """Change what a server in the list has left."""
    position = columns.position[server]
    columns.changes[0] += 1
    for r in range(len(left)):
        columns.left[r, position] = left[r]
        columns.inverse[r, position] = 1.0 / max(left[r] * share_of_unit[r], 1e-300)
    _widen(position, share_of_unit, columns)


@compiled
def _widen(position, share_of_unit, columns):
    """Let the bounds of a chunk hold for one of its servers."""
    chunk, sums = position // CHUNK, columns.sums
    for reference in range(len(columns.left)):
        # No task that demands the reference fits here, and ratios to nothing have no bounds.
        if columns.left[reference, position] <= 0.0:
            continue
        inverse = columns.inverse[reference, position]
        for r in range(len(columns.left)):
            sums[r] = columns.left[r, position] * share_of_unit[r] * inverse
        _signed_sums(sums, reference)
        for r in range(len(columns.left)):
            columns.low[reference, r, chunk] = min(columns.low[reference, r, chunk], sums[r])
            columns.high[reference, r, chunk] = max(columns.high[reference, r, chunk], sums[r])


@compiled
def _signed_sums(ratios, reference):
    """Replace the ratios (m,) by signed sums.

    The place of the reference, whose ratio is 1 everywhere, gets the sum of all others, and each other
    place that sum with the sign of its own ratio reversed.
    """
    total = 0.0
    for r in range(len(ratios)):
        if r != reference:
            total += ratios[r]
    for r in range(len(ratios)):
        ratios[r] = total - 2.0 * ratios[r]
    ratios[reference] = total


@compiled
def drop(server, columns):
    """Remove a server. Its position stays empty until the servers are put in order."""
    position = columns.position[server]
    columns.changes[0] += 1
    columns.server[position] = NOWHERE
    columns.position[server] = NOWHERE
    columns.left[:, position] = -1.0


@compiled
def _put_in_order(share_of_unit, columns):
    """Put servers with like ratios into the same chunks, and close the positions without a server."""
    m = len(columns.left)
    order = np.flatnonzero(columns.server[: columns.size[0]] != NOWHERE)
    size = len(order)
    sums = np.empty((m, size))
    for entry in range(size):
        for r in range(m):
            ratio = columns.left[r, order[entry]] * share_of_unit[r]
            columns.sums[r] = ratio * columns.inverse[0, order[entry]]
        _signed_sums(columns.sums, 0)
        sums[:, entry] = columns.sums
    entries = _halved(sums)
    order = order[entries]
    columns.server[:size] = columns.server[order]
    for r in range(m):
        columns.left[r, :size] = columns.left[r][order]
        columns.inverse[r, :size] = columns.inverse[r][order]
    columns.low[:] = np.inf
    columns.high[:] = -np.inf
    columns.size[0], columns.changes[0] = size, 0
    for position in range(size):
        columns.position[columns.server[position]] = position
        _widen(position, share_of_unit, columns)


@compiled
def _halved(sums):
    """Return the columns of ``sums`` (m, A) in an order in which those of a chunk are near each other.

    Columns are halved by the sum in which they are farthest apart until a chunk has room for the half.
    """
    entries = np.arange(sums.shape[1])
    begins, ends = [0], [len(entries)]
    while begins:
        begin, end = begins.pop(), ends.pop()
        if end - begin <= CHUNK:
            continue
        widest, width = 0, -1.0
        for r in range(len(sums)):
            least, most = np.inf, -np.inf
            for at in range(begin, end):
                least, most = min(least, sums[r, entries[at]]), max(most, sums[r, entries[at]])
            if most - least > width:
                widest, width = r, most - least
        # A multiple of the size of chunks, so that no chunk has servers of both halves.
        middle = begin + (end - begin + CHUNK) // (2 * CHUNK) * CHUNK
        _select(sums[widest], entries, begin, end, middle)
        begins += [begin, middle]
        ends += [middle, end]
    return entries


@compiled
def _select(key, entries, begin, end, middle):
    """Move the entries with the least keys of ``begin`` to ``end`` before ``middle`` (quickselect)."""
    first, last = begin, end - 1
    while first < last:
        pivot = key[entries[(first + last) // 2]]
        up, down = first, last
        while up <= down:
            while key[entries[up]] < pivot:
                up += 1
            while key[entries[down]] > pivot:
                down -= 1
            if up <= down:
                entries[up], entries[down] = entries[down], entries[up]
                up += 1
                down -= 1
        if middle <= down:
            last = down
        elif middle >= up:
            first = up
        else:
            return


@compiled
def least_misfit(demand, task, reference, size, allowed, row_of, share_of_unit, columns):
    """Return the server with the least ``H``, the one with the least number among equal ones.

    -1 if the task fits on none.

    Args:
        demand, task: (m,) of one task, whole, and as ratios to the reference resource.
        reference, size: the first resource it demands; the sum of ``task``.
        allowed: (rows,) may it run there; row_of: (S,).
        share_of_unit: (m,) one unit as a share of the pool.
        columns: the list.
    """
    if columns.changes[0] > columns.size[0] // 2 + FEWEST_CHANGES:
        _put_in_order(share_of_unit, columns)
    chunks = -(-columns.size[0] // CHUNK)
    if chunks == 0:
        return NOWHERE
    distance, bound = columns.distance, columns.bound[:chunks]
    best, chosen, its_distance = np.inf, NOWHERE, np.inf
    # Ties are not transitive: once the least H is known, the first that ties with it is looked up.
    for again in range(2):
        unsure = False
        reach = tie_at(best, size)
        _bound_chunks(task, reference, columns, bound)
        # Chunks of least bounds come first, and then all others that may still have the best server.
        for turn in range(FIRST_CHUNKS + chunks):
            chunk = np.argmin(bound) if turn < FIRST_CHUNKS else turn - FIRST_CHUNKS
            if bound[chunk] > reach or bound[chunk] == np.inf:
                continue
            bound[chunk] = np.inf
            start = chunk * CHUNK
            stop = min(start + CHUNK, columns.size[0])
            if _measure(demand, task, reference, share_of_unit, columns, start, stop, reach) == 0:
                continue
            for position in range(start, stop):
                its = distance[position - start]
                if its > reach or its == np.inf:
                    continue
                server = columns.server[position]
                if not allowed[row_of[server]]:
                    continue
                if again == 1:
                    chosen = server if chosen == NOWHERE else min(chosen, server)
                    continue
                best, chosen, its_distance, doubt = better(
                    its, server, best, chosen, its_distance, size
                )
                unsure = unsure or doubt
                reach = tie_at(best, size)
        if not unsure:
            break
        chosen = NOWHERE
    return chosen


@compiled
def _bound_chunks(task, reference, columns, bound):
    """Write a lower bound of the computed ``H`` of each chunk, 0 if there are few chunks."""
    bound[:] = 0.0
    if len(bound) <= FEW_CHUNKS:
        return
    sums = columns.sums
    sums[:] = task
    _signed_sums(sums, reference)
    for r in range(len(task)):
        own, low, high = sums[r], columns.low[reference, r], columns.high[reference, r]
        for chunk in range(len(bound)):
            bound[chunk] = max(bound[chunk], low[chunk] - own, own - high[chunk])
    # The rounding error is relative to the sum of all ratios.
    total, high = sums[reference], columns.high[reference, reference]
    for chunk in range(len(bound)):
        bound[chunk] -= ROUNDING_ALLOWANCE * (total + high[chunk])


@compiled
def _measure(demand, task, reference, share_of_unit, columns, start, stop, reach):
    """Write ``H`` of a chunk of servers and return the number of servers within reach.

    ``H`` is infinite for a server without room.
    """
    distance = columns.distance[: stop - start]
    inverse = columns.inverse[reference, start:stop]
    distance[:] = 0.0
    for r in range(len(demand)):
        left = columns.left[r, start:stop]
        needed, ratio, unit = demand[r], task[r], share_of_unit[r]
        # Infinity for a lack instead of a branch, so that the loop vectorises.
        for i in range(len(distance)):
            apart = abs(ratio - left[i] * unit * inverse[i])
            distance[i] += apart if left[i] >= needed else np.inf
    within = 0
    for i in range(len(distance)):
        within += distance[i] <= reach and distance[i] < np.inf
    return within
