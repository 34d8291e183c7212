"""Compiled loops that find how far along the path of a tree rows of costs pay."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.compiled import compiled_in_order
from policies.proofs.group_polygons import shares_at

# Positions closer than this, as a part of a straight part, are equal.
SMALLEST_PART = 1e-15
# As far beyond the last part that is paid for, what ends it is seen through rounding.
BEYOND = 1e-12
# Shares that cost nothing beyond this position never do.
ENDLESS = 1e30


class Costs(NamedTuple):
    """Rows of costs, each the prices of parts of shares, and what they may amount to.

    Attributes:
        row_first: (q + 1,) entries of row ``q`` are those from ``row_first[q]`` to ``row_first[q + 1]``.
        tenant, price, begin, end: (e,) part of the tenant's share, and its price.
        budget: (q,).
    """

    row_first: IntArray
    tenant: IntArray
    price: FloatArray
    begin: FloatArray
    end: FloatArray
    budget: FloatArray


@compiled_in_order
def furthest_paid(tree, built, corners, rest, rows, near):
    """Find the last position at which no row of costs exceeds its budget.

    Costs are nowhere falling along the path.

    Args:
        corners: (c,) positions between which shares change at constant rates, where the last may be
            followed by a ray; rest: the shares of tenants that do not rise.
        rows: ``Costs``.
        near: a position, to which the one that is found may be near; inf for none.

    Returns:
        The position, which is inf if nothing stops it, and a row that stops it there, or -1.
    """
    start = tree.start
    at_low, row, _ = _excess(start, start, 0.0, rows)
    if at_low > 0.0:
        return corners[0], row
    low, high, at_high, by_chord = 0, len(corners), np.inf, False
    guessed = np.searchsorted(corners, near, side="right")
    for middle in (guessed, guessed - 1):
        if low < middle < high and near < np.inf:
            share = _shares_on_path(tree, built, corners[middle] - rest)
            value, _, _ = _excess(share, share, 0.0, rows)
            if value <= 0.0:
                low, at_low = middle, value
            else:
                high, at_high = middle, value
    while high - low > 1:
        # Costs are near to linear along long parts: the crossing of a chord and the middle take turns.
        by_chord = not by_chord and at_high < np.inf
        middle = (low + high) // 2
        if by_chord:
            length = corners[high] - corners[low]
            guess = corners[low] - at_low * length / (at_high - at_low)
            nearest = np.searchsorted(corners, guess)
            middle = min(max(nearest, low + 1), high - 1)
        # The last corner first: it is paid for, or it is the other end of the first chord.
        elif at_high == np.inf and high == len(corners) and low == 0:
            middle = high - 1
        share = _shares_on_path(tree, built, corners[middle] - rest)
        value, _, _ = _excess(share, share, 0.0, rows)
        if value <= 0.0:
            low, at_low = middle, value
        else:
            high, at_high = middle, value
    before = _shares_on_path(tree, built, corners[low] - rest) if low > 0 else start
    if high < len(corners):
        after = _shares_on_path(tree, built, corners[high] - rest)
        part, row = _last_paid(before, after, rows)
        return corners[low] + part * (corners[high] - corners[low]), row
    if not built.endless[tree.bottom_up[-1]]:
        return corners[low], -1
    # A ray has no end to bisect towards.
    step = max(corners[low], 1.0)
    while step <= ENDLESS:
        after = _shares_on_path(tree, built, corners[low] + step - rest)
        value, _, _ = _excess(after, after, 0.0, rows)
        if value > 0.0:
            part, row = _last_paid(before, after, rows)
            return corners[low] + part * step, row
        step *= 2
    return np.inf, -1


@compiled_in_order
def _shares_on_path(tree, built, target):
    share = shares_at(tree, built, target)
    for i in range(len(share)):
        share[i] = min(share[i], tree.cap[i]) if tree.moving[i] else tree.start[i]
    return share


@compiled_in_order
def _last_paid(before, after, rows):
    """Find the last part of the way between two shares that all rows pay for.

    Costs grow along it. Where they are convex, the crossing of a tangent is not passed; where the
    last part of a tenant's share that a row counts has ended, they are not.

    Returns:
        The part, and a row that ends it.
    """
    left, right = 0.0, 1.0
    at_left, _, length = _excess(before, after, 0.0, rows)
    at_right, row, _ = _excess(before, after, 1.0, rows)
    while right - left > SMALLEST_PART and at_left <= 0.0 < at_right:
        crossing = max(left + length, left)
        if crossing < right:
            value, by, ahead = _excess(before, after, crossing, rows)
            if value > 0.0:
                right, at_right, row = crossing, value, by
            elif crossing > left:
                left, at_left, length = crossing, value, ahead
                # The tangent is the cost but for rounding, unless what it was of has ended before.
                beyond = min(left + BEYOND, right)
                value, by, _ = _excess(before, after, beyond, rows)
                if value > 0.0:
                    row = by
                    break
        # A chord alone may creep up from one side; halving makes sure that the interval shrinks.
        for middle in (
            left - at_left * (right - left) / (at_right - at_left), left + (right - left) / 2
        ):  # fmt: skip
            if left < middle < right:
                value, by, ahead = _excess(before, after, middle, rows)
                if value <= 0.0:
                    left, at_left, length = middle, value, ahead
                else:
                    right, at_right, row = middle, value, by
    return left, row


@compiled_in_order
def _excess(before, after, part, rows):
    """Add up the costs of shares on the straight way between two, each row less its budget.

    Returns:
        The largest excess, the row whose tangent pays no more first, and where on the way that is.
    """
    row_first, tenant, price, begin, end, budget = rows
    worst, row, length = -np.inf, -1, np.inf
    for q in range(len(budget)):
        total, lost, slope = 0.0, 0.0, 0.0
        for e in range(row_first[q], row_first[q + 1]):
            i = tenant[e]
            rate = after[i] - before[i]
            share = before[i] + part * rate
            if share >= begin[e] and share < end[e] and rate > 0.0:
                slope += rate * price[e]
            if share <= begin[e]:
                continue
            paid = (min(share, end[e]) - begin[e]) * price[e]
            # Neumaier's sum keeps what rounding loses.
            sum_ = total + paid
            lost += (total - sum_) + paid if total >= paid else (paid - sum_) + total
            total = sum_
        over = (total + lost) - budget[q]
        worst = max(worst, over)
        if over > 0.0 and length > 0.0:
            length, row = 0.0, q
        elif slope > 0.0 and -over / slope < length:
            length, row = -over / slope, q
    return worst, row, length
