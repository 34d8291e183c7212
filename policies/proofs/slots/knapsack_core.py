"""Good packings of a server whose grid is too large for the programme.

Most of the server is filled as the divisible relaxation fills it; what then is left, and a few tasks
taken back, is filled by a programme over one or two resources, those that are dear. The amounts of
the others are kept beside each cell's best tasks: what does not fit is not taken, so the packing is
feasible, and the best of all where its worth reaches the relaxation's.

Source: the core of a knapsack, Balas and Zemel 1980.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.compiled import compiled

# Cells × pieces of workloads of the programme.
CORE_TABLE = 6_000_000
# More than this is not allocated: what is left is then as the relaxation's whole tasks leave it.
LARGEST_TABLE = 2 * CORE_TABLE
# Part of the dearest resource's worth from which on another one counts.
DEAR = 1e-7


def packing_of_core(
    prices: FloatArray,
    demand: IntArray,
    capacity: IntArray,
    most: IntArray,
    worth: FloatArray,
    divisible: FloatArray,
) -> IntArray:
    """Return whole tasks (q,) near those of the divisible relaxation.

    Args:
        prices: (q,) of one task; demand: (q, m); capacity: (m,); most: (q,) tasks alone.
        worth: (m,) prices of the whole resources; divisible: (q,) tasks of the relaxation.
    """
    tasks = np.floor(divisible + 1e-9).astype(np.int64)
    left = capacity - tasks @ demand
    if (left < 0).any():  # a whole number but for less than the relaxation's rounding
        tasks = np.maximum(tasks - 1, 0)
        left = capacity - tasks @ demand
    # An optimum mostly differs from the relaxation in workloads that are nearly worth their price.
    gain = np.abs(prices - demand @ (worth / np.maximum(capacity, 1)))
    order = np.argsort(gain, kind="stable")
    some = prices > 0
    dear = np.flatnonzero(worth > DEAR * worth.max(initial=0.0))
    dear = dear[np.argsort(-worth[dear], kind="stable")][:2]
    pieces = max(int(np.count_nonzero(some)), 1)
    # Those that the relaxation divides, whose reduced price is 0.
    basic = int(np.count_nonzero(gain <= 1e-9 * prices.max(initial=0.0)))
    _release(tasks, left, demand, order, basic, dear, CORE_TABLE // pieces)
    cut = pieces_of(most - tasks, _room(left, demand), some)
    shape = [1, 1]
    for position, r in enumerate(dear.tolist()):
        shape[1 - position] = int(left[r]) + 1
    if float(shape[0]) * float(shape[1]) * pieces > LARGEST_TABLE:
        # A worse packing costs a weaker bound, no wrong answer.
        return tasks
    others = np.setdiff1d(np.arange(len(capacity)), dear)
    across = np.zeros((len(prices), 2), dtype=np.int64)
    for position, r in enumerate(dear.tolist()):
        across[:, 1 - position] = demand[:, r]
    table = _Table(
        np.zeros(shape),
        np.zeros((*shape, len(others)), dtype=np.int64),
        np.zeros((len(cut.item), *shape), dtype=np.bool_),
    )
    other = np.ascontiguousarray(demand[:, others])
    _fill(table, across, other, left[others], cut, prices, tasks)
    return tasks


class _Table(NamedTuple):
    """Best worth (rows, columns) by what two resources have left, of the others' ``load`` in that cell.

    ``taken`` (P, rows, columns) marks the pieces.
    """

    value: FloatArray
    load: IntArray
    taken: BoolArray


class Pieces(NamedTuple):
    """Workload and tasks of each piece (P,), and whether it may be taken repeatedly."""

    item: IntArray
    size: IntArray
    again: BoolArray


def pieces_of(most: IntArray, room: IntArray, some: BoolArray) -> Pieces:
    """Return the pieces of workloads.

    A workload whose limit binds is cut into pieces of 1, 2, 4, ... tasks and a rest.

    Args:
        most: (q,) tasks at most; room: (q,) for how many there is room; some: (q,) which to cut.
    """
    item, size, again = [], [], []
    for j in np.flatnonzero(some & (most > 0) & (room > 0)).tolist():
        if most[j] >= room[j]:
            item.append(j)
            size.append(1)
            again.append(True)
            continue
        piece, left = 1, int(most[j])
        while left > 0:
            item.append(j)
            size.append(min(piece, left))
            again.append(False)
            left -= size[-1]
            piece *= 2
    return Pieces(np.array(item, np.int64), np.array(size, np.int64), np.array(again, np.bool_))


def _room(left: IntArray, demand: IntArray) -> IntArray:
    """Return the tasks (q,) of each workload for which ``left`` (m,) is enough."""
    room = np.where(demand > 0, left // np.maximum(demand, 1), np.iinfo(np.int64).max)
    result: IntArray = room.min(axis=1)
    return result


@compiled
def _release(tasks, left, demand, order, basic, dear, cells):
    """Take tasks back, first those that the relaxation divides, while the table has room."""
    position = 0
    while position < len(order):
        last = basic if position < basic else position + 1
        going = False
        for k in range(position, last):
            j = order[k]
            if tasks[j] == 0:
                continue
            size = 1
            for r in dear:
                size *= left[r] + demand[j, r] + 1
            if size > cells:
                return
            going = True
            tasks[j] -= 1
            for r in range(len(left)):
                left[r] += demand[j, r]
        if not going:
            position = last


@compiled
def _fill(table, across, other, left, pieces, prices, tasks):
    """Fill the table piece by piece, then add the tasks of the fullest cell to ``tasks``."""
    value, load, taken = table
    item, size, again = pieces
    rows, columns = value.shape
    others = len(left)
    for piece in range(len(item)):
        j, count = item[piece], size[piece]
        price = prices[j] * count
        down, right = across[j, 0] * count, across[j, 1] * count
        # It would read the cell that it writes.
        if down == 0 and right == 0:
            continue
        for step in range(rows - down):
            # As in the exact programme: upwards with repetition, downwards without.
            row = down + step if again[piece] else rows - 1 - step
            for step_right in range(columns - right):
                y = right + step_right if again[piece] else columns - 1 - step_right
                worth = value[row - down, y - right] + price
                if worth <= value[row, y]:
                    continue
                fits = True
                for r in range(others):
                    fits = fits and load[row - down, y - right, r] + other[j, r] * count <= left[r]
                if fits:
                    value[row, y] = worth
                    for r in range(others):
                        load[row, y, r] = load[row - down, y - right, r] + other[j, r] * count
                    taken[piece, row, y] = True
    row, y = rows - 1, columns - 1
    for piece in range(len(item) - 1, -1, -1):
        j, count = item[piece], size[piece]
        while taken[piece, row, y]:
            tasks[j] += count
            row -= across[j, 0] * count
            y -= across[j, 1] * count
            if not again[piece]:
                break
