"""Finding the best-fitting server without looking at all of them.

Source: Wang et al., TPDS 2015, eq. 9: the task of workload ``j`` goes to the server with the
least ``H = sum_r | D[j,r]/D[j,ref] - left[l,r]/left[l,ref] |`` among those on which it fits.

The distance between the first two ratios alone is a lower bound of ``H`` (in two dimensions
it *is* ``H``). So servers are kept in buckets by the ratio of what is left of the first two
resources; a query walks outwards from the task's own ratio and stops when the next bucket
is farther away than the best server found. A bucket remembers an upper bound of what any of
its servers has left of each resource and is passed over when that is too little. Servers on
which nothing that still waits can fit are dropped, and of a row of identical servers only
the first untouched one is in the index: the others tie with it and come later.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.rounding import DISCRETE_TOLERANCE

BUCKETS = 2048
NOWHERE = -1


@compiled
def bucket_of(left, share_of_unit):  # type: ignore[no-untyped-def]
    """The bucket of a server with ``left`` (m,): by the first resource against the second."""
    first, second = left[0] * share_of_unit[0], left[1] * share_of_unit[1]
    if first + second <= 0.0:
        return 0
    return min(int(second / (first + second) * BUCKETS), BUCKETS - 1)


@compiled
def insert(server, left, share_of_unit, head, after, before, room, home):  # type: ignore[no-untyped-def]
    """Put a server into the bucket that its ``left`` (S, m) says."""
    bucket = bucket_of(left[server], share_of_unit)
    home[server] = bucket
    before[server] = NOWHERE
    after[server] = head[bucket]
    if head[bucket] != NOWHERE:
        before[head[bucket]] = server
    head[bucket] = server
    for r in range(left.shape[1]):
        if left[server, r] > room[bucket, r]:
            room[bucket, r] = left[server, r]


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
    head, after, before, room, home,
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
    start = _start(task, reference)
    best, chosen, tie = np.inf, NOWHERE, False
    for again in range(2):
        low, high = start, start + 1
        if again == 1:
            if not tie:
                break
            chosen = NOWHERE
        threshold = best + DISCRETE_TOLERANCE * (size + best)
        while low >= 0 or high < BUCKETS:
            below = _below(task, reference, low) if low >= 0 else np.inf
            above = _above(task, high) if high < BUCKETS else np.inf
            if min(below, above) > threshold:
                break
            if below <= above:
                bucket = low
                low -= 1
            else:
                bucket = high
                high += 1
            passes = True
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
def _start(task, reference):  # type: ignore[no-untyped-def]
    """The bucket of the task's own ratio."""
    if reference >= 2:
        return BUCKETS - 1
    ratio = task[1] / (task[0] + task[1])
    return min(int(ratio * BUCKETS), BUCKETS - 1)


@compiled
def _below(task, reference, bucket):  # type: ignore[no-untyped-def]
    """A lower bound of ``H`` on servers of this bucket and those below it."""
    if reference >= 2:
        return 0.0
    edge = (bucket + 1.0) / BUCKETS
    if reference == 1:
        return (1.0 - edge) / edge
    return max(task[1] - edge / (1.0 - edge), 0.0) if edge < 1.0 else 0.0


@compiled
def _above(task, bucket):  # type: ignore[no-untyped-def]
    """A lower bound of ``H`` on servers of this bucket and those above it."""
    edge = bucket / BUCKETS
    return max(edge / (1.0 - edge) - task[1], 0.0)
