"""Limits that stop pieces of whole tasks, whatever room servers have left.

Source: docs/policies/limits.md, "Reasons".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.verification.servers import LimitsLeft
from policies.verification.stated import Stated


class LargeEnough:
    """Rows of servers on which pieces may run and fit while these are empty."""

    def __init__(self, stated: Stated, rows: IntArray, allowed: BoolArray) -> None:
        """Use the rows (R,) of the problem and whether pieces may run there (q, R)."""
        self._capacity = stated.on_servers.capacity[rows]
        self._demand, self._allowed = stated.on_servers.demand, allowed

    def __call__(self, piece: int) -> BoolArray:
        """Return the rows (R,) of a piece."""
        fits = (self._capacity >= self._demand[piece]).all(axis=1)
        able: BoolArray = fits & self._allowed[piece]
        return able


def closed_everywhere(
    stated: Stated, limits: LimitsLeft, large: LargeEnough, waiting: IntArray
) -> Iterator[tuple[int, str]]:
    """Yield the pieces that limits exclude from all servers that are large enough, with the reason.

    It is that of the first such limit in the problem's order.

    Args:
        waiting: pieces that are looked at.
    """
    owner, demand = stated.pieces.owner[waiting], stated.on_servers.demand[waiting]
    exhausted = [
        limit.counted[owner] & (demand > left).any(axis=1)
        for limit, left in zip(limits.limits, limits.left, strict=True)
    ]
    # Most limits are of all servers, and then nothing is asked of each piece.
    for position in np.flatnonzero(np.logical_or.reduce(exhausted)).tolist():
        mine = [number for number, found in enumerate(exhausted) if found[position]]
        piece, first = int(waiting[position]), mine[0]
        if not limits.rows[first].all():
            able = large(piece)
            if not np.logical_or.reduce([limits.rows[number] for number in mine])[able].all():
                continue
            first = next(number for number in mine if limits.rows[number][able].any())
        yield piece, limits.limits[first].reason


def short_everywhere(
    limits: LimitsLeft, large: LargeEnough, kinds: list[int], need: FloatArray
) -> str | None:
    """Return the reason by the first limit of all servers that has too little left for one more task.

    Args:
        kinds: pieces of the task; need: (m,) of all its pieces.
    """
    able = np.logical_or.reduce([large(kind) for kind in kinds])
    for number in limits.mine(kinds[0]):
        if (need > limits.left[number]).any() and limits.rows[number][able].all():
            return limits.limits[number].reason
    return None
