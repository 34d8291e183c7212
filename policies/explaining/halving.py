"""Halving of loads between two groups of servers, so that few of the loads are divided."""

import numpy as np

from policies.compiled import compiled


@compiled
def _exchange(load, working, count, direction):
    """Write a direction in which loads can move against each other with the same sum.

    Return False if there is none. Gauss-Jordan elimination with full pivoting; a column left over
    moves by 1.

    Args:
        load: (n, m). working: the loads, in its first ``count`` entries. direction: written to.
    """
    m = load.shape[1]
    table = np.empty((m, count))
    pivot = np.empty(m, dtype=np.int64)
    used = np.zeros(count, dtype=np.bool_)
    scale = 0.0
    for c in range(count):
        for r in range(m):
            table[r, c] = load[working[c], r]
            scale = max(scale, table[r, c])
    rank = 0
    while rank < min(m, count):
        best, row, column = 1e-12 * scale, -1, -1
        for r in range(rank, m):
            for c in range(count):
                if not used[c] and abs(table[r, c]) > best:
                    best, row, column = abs(table[r, c]), r, c
        if row < 0:
            break
        for c in range(count):
            table[rank, c], table[row, c] = table[row, c], table[rank, c]
        used[column] = True
        pivot[rank] = column
        for r in range(m):
            if r != rank:
                times = table[r, column] / table[rank, column]
                for c in range(count):
                    table[r, c] -= times * table[rank, c]
        rank += 1
    if rank == count:
        return False
    free = 0
    while used[free]:
        free += 1
    direction[:count] = 0.0
    direction[free] = 1.0
    for r in range(rank):
        direction[pivot[r]] = -table[r, free] / table[r, pivot[r]]
    return True


@compiled
def halve(load, part, lean, order):
    """Fractions of loads that go to the left half, all but ``m`` of them 0 or 1.

    They add up to ``part`` of all, in each resource: from all fractions at ``part``, loads are moved
    against each other, ``m + 1`` at a time, until one of them is whole.

    Args:
        load: (n, m). part: of the servers that are in the left half.
        lean: (n,) 1 for who has servers in the left half, -1 in the right, 0 for others.
        order: (n,) in which order loads are decided.
    """
    n, m = load.shape
    fraction = np.full(n, part)
    working = np.empty(m + 1, dtype=np.int64)
    direction = np.empty(m + 1)
    count, following = 0, 0
    while True:
        while following < n and count <= m:
            working[count] = order[following]
            count += 1
            following += 1
        if not _exchange(load, working, count, direction):
            return fraction
        gain = 0.0
        for c in range(count):
            gain += direction[c] * lean[working[c]]
        # Of both directions the one that brings more loads to where their owners have servers.
        sign = 1.0 if gain >= 0 else -1.0
        step, last = np.inf, 0
        for c in range(count):
            moved = sign * direction[c]
            at = fraction[working[c]]
            room = (1.0 - at) / moved if moved > 0 else at / -moved if moved < 0 else np.inf
            if room < step:
                step, last = room, c
        kept = 0
        for c in range(count):
            k = working[c]
            moved = sign * direction[c]
            # Exactly whole, which the step may miss by rounding.
            if c == last:
                fraction[k] = 1.0 if moved > 0 else 0.0
            else:
                fraction[k] = min(1.0, max(0.0, fraction[k] + step * moved))
                if 0.0 < fraction[k] < 1.0:
                    working[kept] = k
                    kept += 1
        count = kept
