"""Rounds of a division whose search ended early, with a bound for each tenant left open.

Proven rounds stay, as long as no tenant in them has more than a later one. Each stage has one open
round, with all other tenants that have tasks left. A tenant that runs all its tasks below that round's
level comes before it. The round's bound is then about the least that any of its tenants can have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.certificate import Round
from policies.model.tolerance import LEVEL_TOLERANCE, SMALLEST_PART

# Part of the prices of an open round that is spread evenly where they leave out a tenant.
SPREAD = 1e-3
# Levels that are equal but for rounding.
_EQUAL = 1e-12

Prices = Callable[[BoolArray, IntArray, int], tuple[FloatArray, float]]


def with_open_rounds(
    rounds: Sequence[Round],
    frozen_in: IntArray,
    level: FloatArray,
    full: BoolArray,
    stage: BoolArray,
    weight: FloatArray,
    best_prices: Prices,
) -> tuple[list[Round], IntArray]:
    """Return the rounds, with one that is open per stage at most, and (t',) the round of each tenant.

    Args:
        rounds: as the search left them; frozen_in: (t',) the round of each.
        level: (t',) that each has; full: (t',) those that run all their tasks.
        stage: (t',) those served last; weight: (t',).
        best_prices: of a round with these rising tenants, and its bound.
    """
    result: list[Round] = []
    new_frozen = np.full(len(frozen_in), -1, dtype=np.int64)
    for last in (False, True):
        rest = stage == last
        for number, item in enumerate(rounds):
            mine = frozen_in == number
            if item.stage != last or not mine.any():
                continue
            least = float(level[rest & ~mine & ~full].min(initial=np.inf))
            if not item.proven or level[mine].max() > least * (1 + _EQUAL):
                break
            new_frozen[mine] = len(result)
            result.append(item)
            rest = rest & ~mine
        least = float(level[rest & ~full].min(initial=np.inf))
        below = rest & full & (level < least)
        for frozen in (below, rest & ~below):
            if not frozen.any():
                continue
            rising = (stage == last) & (new_frozen < 0)
            prices, bound = best_prices(rising, new_frozen, len(result))
            prices = _spread(prices, weight, rising, frozen & ~full)
            new_frozen[frozen] = len(result)
            result.append(Round(int(last), float(level[frozen].min()), bound, prices, False))
    return result, new_frozen


def _spread(
    prices: FloatArray, weight: FloatArray, rising: BoolArray, wanting: BoolArray
) -> FloatArray:
    """Prices (t',) that count every tenant that wants more."""
    even = np.where(rising, 1.0 / (rising.sum() * weight), 0.0)
    together = float((prices * weight)[rising].sum())
    if together <= 0:
        return even
    part = prices * weight / together
    if (part[wanting] > SMALLEST_PART).all():
        return prices
    return (1 - SPREAD) * prices / together + SPREAD * even


def widest_gap(rounds: Sequence[Round]) -> float:
    """Return the largest gap between level and bound of open rounds, relative to the bound."""
    gaps = [
        (item.bound - item.level) / max(item.bound, LEVEL_TOLERANCE)
        for item in rounds
        if not item.proven
    ]
    return max(gaps, default=0.0)
