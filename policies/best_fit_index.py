"""Finding the best-fitting server without looking at all of them.

Source: Wang et al., TPDS 2015, eq. 9: the task of workload ``j`` goes to the server with the
least ``H = sum_r | D[j,r]/D[j,ref] - left[l,r]/left[l,ref] |`` among those on which it fits.

The distance between the first two ratios alone is a lower bound of ``H`` (in two dimensions
it *is* ``H``). So servers are kept in buckets by the ratio of what is left of the first two
resources, with edges that are quantiles and follow the servers as these fill; a query
walks outwards from the task's own ratio and stops when the next bucket
is farther away than the best server found. A bucket remembers an upper bound of what any of
its servers has left of each resource and is passed over when that is too little, and so is a
whole block of buckets at once. Servers on
which nothing that still waits can fit are dropped, and of a row of identical servers only
the first untouched one is in the index: the others tie with it and come later.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.rounding import DISCRETE_TOLERANCE

NOWHERE = -1
BLOCK = 32


@compiled
def position_of(left, share_of_unit):  # type: ignore[no-untyped-def]
    """Where a server with ``left`` (m,) stands between all first and all second resource."""
    first, second = left[0] * share_of_unit[0], left[1] * share_of_unit[1]
    return second / (first + second) if first + second > 0.0 else 0.0


@compiled
def bucket_of(position, edges):  # type: ignore[no-untyped-def]
    """The last bucket that begins at or below a position from 0 to 1."""
    low, high = 0, len(edges) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if edges[middle] <= position:
            low = middle
        else:
            high = middle
    return low


@compiled
def insert(server, left, share_of_unit, edges, head, after, before, room, block, home):  # type: ignore[no-untyped-def]
    """Put a server into the bucket that its ``left`` (S, m) says."""
    bucket = bucket_of(position_of(left[server], share_of_unit), edges)
    home[server] = bucket
    before[server] = NOWHERE
    after[server] = head[bucket]
    if head[bucket] != NOWHERE:
        before[head[bucket]] = server
    head[bucket] = server
    for r in range(left.shape[1]):
        if left[server, r] > room[bucket, r]:
            room[bucket, r] = left[server, r]
        if left[server, r] > block[bucket // BLOCK, r]:
            block[bucket // BLOCK, r] = left[server, r]


@compiled
def remove(server, head, after, before, home):  # type: ignore[no-untyped-def]
    """Take a server out of its bucket; the bucket's bounds stay bounds."""
    if before[server] == NOWHERE:
        head[home[server]] = after[server]
    else:
        after[before[server]] = after[server]
    if after[server] != NOWHERE:
        before[after[server]] = before[server]


@compiled
def misfit(task, reference, left, share_of_unit):  # type: ignore[no-untyped-def]
    """``H`` of a task with ratios ``task`` (m,) to its reference resource on one server."""
    scale = 1.0 / (left[reference] * share_of_unit[reference])
    total = 0.0
    for r in range(len(task)):
        total += abs(task[r] - left[r] * share_of_unit[r] * scale)
    return total


@compiled
def nearest(  # type: ignore[no-untyped-def]
    demand, task, reference, size, allowed, row_of, least, left, share_of_unit,
    edges, head, after, before, room, block, home,
):  # fmt: skip
    """The server with the least ``H``, the first by position among equal ones; -1 if none.

    Args:
        demand, task: (m,) of one task, whole, and as ratios to the reference resource.
        reference, size: the first resource it demands; the sum of ``task``, which scales
            what counts as equal.
        allowed: (rows,) may it run there; row_of: (S,); least: (m,) below this nothing fits.
        The rest is the index.
    """
    m = len(demand)
    start = _start(task, reference, edges)
    best, chosen, tie = np.inf, NOWHERE, False
    for again in range(2):
        low, high = start, start + 1
        if again == 1:
            if not tie:
                break
            chosen = NOWHERE
        threshold = best + DISCRETE_TOLERANCE * (size + best)
        below = _below(task, reference, edges[low + 1])
        above = _above(task, edges[high]) if high < len(head) else np.inf
        while min(below, above) <= threshold and (low >= 0 or high < len(head)):
            downwards = below <= above
            bucket = low if downwards else high
            passes = True
            if bucket % BLOCK == (BLOCK - 1 if downwards else 0):
                passes = block_has_room(bucket // BLOCK, demand, room, block)
            if downwards:
                low = bucket - (1 if passes else BLOCK)
                below = _below(task, reference, edges[low + 1]) if low >= 0 else np.inf
            else:
                high = bucket + (1 if passes else BLOCK)
                above = _above(task, edges[high]) if high < len(head) else np.inf
            for r in range(m):
                passes = passes and room[bucket, r] >= demand[r]
            if not passes:
                continue
            room[bucket, :] = 0.0
            server = head[bucket]
            while server != NOWHERE:
                following = after[server]
                fits, alive = True, True
                for r in range(m):
                    amount = left[server, r]
                    fits = fits and amount >= demand[r]
                    alive = alive and amount >= least[r]
                if not alive:
                    remove(server, head, after, before, home)
                    server = following
                    continue
                for r in range(m):
                    if left[server, r] > room[bucket, r]:
                        room[bucket, r] = left[server, r]
                if fits and allowed[row_of[server]]:
                    distance = misfit(task, reference, left[server], share_of_unit)
                    if again == 1:
                        if distance <= threshold and (chosen == NOWHERE or server < chosen):
                            chosen = server
                    elif distance <= best + 2.0 * DISCRETE_TOLERANCE * (size + best):
                        if distance >= best - 2.0 * DISCRETE_TOLERANCE * (size + best):
                            tie = True
                        if distance < best:
                            best, chosen = distance, server
                            threshold = best + DISCRETE_TOLERANCE * (size + best)
                server = following
    return chosen


@compiled
def block_has_room(number, demand, room, block):  # type: ignore[no-untyped-def]
    """May some bucket of a block have room? Tightens the block's bounds where they say so."""
    for r in range(len(demand)):
        if block[number, r] < demand[r]:
            return False
    first, last = number * BLOCK, min((number + 1) * BLOCK, len(room))
    enough = True
    for r in range(len(demand)):
        most = 0.0
        for bucket in range(first, last):
            most = max(most, room[bucket, r])
        block[number, r] = most
        enough = enough and most >= demand[r]
    return enough


@compiled
def _start(task, reference, edges):  # type: ignore[no-untyped-def]
    """The bucket of the task's own ratio."""
    if reference >= 2:
        return len(edges) - 2
    return bucket_of(task[1] / (task[0] + task[1]), edges)


@compiled
def _below(task, reference, edge):  # type: ignore[no-untyped-def]
    """A lower bound of ``H`` on servers whose position is at most ``edge``."""
    if reference >= 2 or edge <= 0.0:
        return 0.0
    if reference == 1:
        return (1.0 - edge) / edge
    return max(task[1] - edge / (1.0 - edge), 0.0) if edge < 1.0 else 0.0


@compiled
def _above(task, edge):  # type: ignore[no-untyped-def]
    """A lower bound of ``H`` on servers whose position is at least ``edge``."""
    return max(edge / (1.0 - edge) - task[1], 0.0) if edge < 1.0 else 0.0
