"""The fewest slots that give few tenants their shares, by trying all that could take part.

A mixture with the optimal shares uses only slots that are worth most at the prices of every round
(complementary slackness). Those are listed, and groups of one, two, three slots are tried in order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.compiled import compiled
from policies.model.certificate import Round
from policies.model.tolerance import LEVEL_TOLERANCE
from policies.proofs.slots.slot_pool import Slot, SlotPool

MOST_TENANTS = 4
# Nodes of the search that lists slots, slots listed, and groups of slots tried.
MOST_NODES = 3_000_000
MOST_SLOTS = 100_000
MOST_GROUPS = 200_000


def fewest_slots(
    pool: SlotPool,
    slots: Sequence[Slot],
    fractions: FloatArray,
    share: FloatArray,
    rounds: Sequence[Round],
) -> tuple[tuple[Slot, ...], FloatArray, bool]:
    """Return the same shares with the fewest slots.

    Args:
        pool: one server; its prices are exact.
        slots, fractions: (s,) a mixture; share: (t',) what it gives on average.
        rounds: the proof of the shares, with prices (t',).

    Returns:
        Slots, fractions, and whether fewer were proven impossible (there may be too many slots
        or tenants to try them all).
    """
    if len(slots) == 1:
        return tuple(slots), fractions, True
    if len(pool.tenants) > MOST_TENANTS or len(pool.kind) != 1:
        return tuple(slots), fractions, False
    listed, complete = _list_saturated(
        pool.demand, pool.capacity[0], pool.limit, np.empty((MOST_SLOTS, len(pool.limit)), np.int64)
    )
    if not complete:
        return tuple(slots), fractions, False
    # By complementary slackness no other slot can have a part of an answer with these shares.
    columns = _worth_most(pool, listed, rounds)
    shares = np.array([pool.shares(tasks) for tasks in columns])
    right = np.append(share, 1.0)
    # Upwards, so that the first group that fits is a smallest one.
    for size in range(1, len(slots)):
        if math.comb(len(columns), size) > MOST_GROUPS:
            return tuple(slots), fractions, False
        groups = np.array(list(itertools.combinations(range(len(columns)), size)), dtype=np.int64)
        if not len(groups):
            continue
        rows = np.concatenate([shares[groups], np.ones((*groups.shape, 1))], axis=2)
        rows = rows.transpose(0, 2, 1)
        # All groups in one call; groups that are dependent have no inverse.
        parts = np.linalg.pinv(rows) @ right
        off = np.abs((rows @ parts[:, :, None])[:, :, 0] - right).max(axis=1)
        fits = (off <= LEVEL_TOLERANCE / 10 * max(1.0, float(share.max()))) & (parts > 0).all(
            axis=1
        )
        if fits.any():
            first = int(fits.argmax())
            chosen = tuple(Slot(columns[c][None, :]) for c in groups[first].tolist())
            return chosen, parts[first] / parts[first].sum(), True
    return tuple(slots), fractions, True


def _worth_most(pool: SlotPool, listed: IntArray, rounds: Sequence[Round]) -> list[IntArray]:
    """Listed slots (c, q) that are worth as much as any at every round's prices, greatest first."""
    worth = listed * pool.share
    best = np.ones(len(listed), dtype=np.bool_)
    for item in rounds:
        value = worth @ item.prices[pool.owner]
        best &= value >= float(value.max()) * (1 - LEVEL_TOLERANCE)
    return sorted(listed[best], key=lambda tasks: tasks.tolist(), reverse=True)


def _list_saturated(
    demand: FloatArray, capacity: FloatArray, limit: FloatArray, found: IntArray
) -> tuple[IntArray, bool]:
    count = int(_saturated(demand, capacity, limit, found, MOST_NODES))
    return found[: max(count, 0)].copy(), count >= 0


@compiled
def _saturated(demand, capacity, limit, found, nodes):
    """Write all saturated sets of tasks into ``found`` and return their number.

    No task can be added to a saturated set. The result is -1 if there are too many.
    """
    n, m = demand.shape
    count = np.zeros(n, dtype=np.int64)
    left = capacity.copy()
    listed, j = 0, 0
    down = True
    for _ in range(nodes):
        if down and j < n:
            fits = limit[j]
            for r in range(m):
                if demand[j, r] > 0.0:
                    fits = min(fits, np.floor(left[r] / demand[j, r]))
            count[j] = int(fits)
            for r in range(m):
                left[r] -= demand[j, r] * count[j]
            j += 1
            continue
        if down:
            full = True
            for i in range(n):
                room = count[i] < limit[i]
                for r in range(m):
                    room = room and demand[i, r] <= left[r]
                full = full and not room
            if full:
                if listed == len(found):
                    return -1
                found[listed] = count
                listed += 1
            down = False
            j -= 1
            continue
        if j < 0:
            return listed
        if count[j] == 0:
            j -= 1
            continue
        count[j] -= 1
        for r in range(m):
            left[r] += demand[j, r]
        down = True
        j += 1
    return -1
