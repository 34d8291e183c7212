"""Signs of sums of products, exactly, with NumPy alone.

Every question of feasibility is one: do the tasks on a server, times what each demands, add up to
more than its capacity? Most sums are further from 0 than rounding can reach. Of the others, a product
is split into what float64 holds of it and its rounding error, which is a float64 too (Dekker). All
these numbers are then cut into digits of 24 bits, relative to the largest of their sum, and digits are
added up without rounding. Where eight digits do not hold a sum, or a product is next to the ends of
float64, integers of any length are asked.
"""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray

# Half the distance from 1 to the next float64.
UNIT = 2.0**-53
# Splits a float64 into two of 26 bits (Veltkamp).
_SPLITTER = 2.0**27 + 1.0
# Between these a product's rounding error is a float64 itself, and nothing overflows.
_SMALLEST, _LARGEST = 1e-250, 1e290
_BITS, _DIGITS = 24, 8


def signs_of_sums(left: FloatArray, right: FloatArray, group: IntArray, groups: int) -> IntArray:
    """Return the exact sign (groups,) of the sum of ``left × right`` in each group.

    A sign is -1, 0 or 1.

    Args:
        left, right: (p,) factors; group: (p,) which sum each product belongs to.
        groups: how many sums there are; one without products is 0.

    Raises:
        ValueError: a factor is not finite.
    """
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        raise ValueError("the factors of an exact sum are finite")
    used = (left != 0) & (right != 0)
    left, right, group = left[used], right[used], group[used]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        product = left * right
        size = np.abs(product)
        safe = (size > _SMALLEST) & (size < _LARGEST)
        safe &= (np.abs(left) < _LARGEST) & (np.abs(right) < _LARGEST)
        sign, sure = _by_rounded_sums(product, size, group, groups)
    open_ = np.zeros(groups, dtype=np.bool_)
    open_[group[~safe]] = True
    sure &= ~open_
    mine = ~(open_ | sure)[group]
    if mine.any():
        lost = _rounding_error(left[mine], right[mine], product[mine])
        terms = np.concatenate([product[mine], lost])
        digits, unfinished = _by_digits(terms, np.tile(group[mine], 2), groups)
        sign[~sure] = digits[~sure]
        open_ |= unfinished
    if open_.any():
        rest = open_[group]
        sign[open_] = _by_integers(left[rest], right[rest], group[rest], groups)[open_]
    return sign


def exceeds(
    amounts: FloatArray,
    each: FloatArray,
    group: IntArray,
    limits: FloatArray,
    times: FloatArray | None = None,
) -> BoolArray:
    """Return whether the sum of ``amounts × each`` by group (g,) exceeds ``limits × times``, exactly.

    Args:
        amounts, each: (p,) finite; group: (p,).
        limits: (g,) finite; times: (g,), 1 unless given.
    """
    groups = len(limits)
    times = np.ones(groups) if times is None else times
    sign = signs_of_sums(
        np.concatenate([amounts, -limits]),
        np.concatenate([each, times]),
        np.concatenate([group, np.arange(groups)]),
        groups,
    )
    over: BoolArray = sign > 0
    return over


def _by_rounded_sums(
    product: FloatArray, size: FloatArray, group: IntArray, groups: int
) -> tuple[IntArray, BoolArray]:
    """Return the signs (groups,) of the rounded sums, and which of them are certain.

    Rounding changes a sum of n rounded products by at most ``(n + 1) UNIT`` of their sizes' sum, and
    that sum itself by as much; four times that leaves room for both (Higham, Accuracy and Stability of
    Numerical Algorithms, section 4.2). A sum that overflows is not certain.
    """
    terms = np.bincount(group, minlength=groups)
    rounded = np.bincount(group, weights=product, minlength=groups)
    sizes = np.bincount(group, weights=size, minlength=groups)
    sure = (np.abs(rounded) > 4.0 * (terms + 2) * UNIT * sizes) | (terms == 0)
    return np.nan_to_num(np.sign(rounded)).astype(np.int64), sure


def _rounding_error(left: FloatArray, right: FloatArray, product: FloatArray) -> FloatArray:
    """Return the excess (p,) of ``left × right`` over the float64 nearest to it."""
    left_high, right_high = _high(left), _high(right)
    left_low, right_low = left - left_high, right - right_high
    rest = ((product - left_high * right_high) - left_low * right_high) - left_high * right_low
    error: FloatArray = left_low * right_low - rest
    return error


def _high(values: FloatArray) -> FloatArray:
    wide = _SPLITTER * values
    high: FloatArray = wide - (wide - values)
    return high


def _by_digits(terms: FloatArray, group: IntArray, groups: int) -> tuple[IntArray, BoolArray]:
    """Return the signs (groups,), and which sums have more digits than are examined."""
    _, power = np.frexp(terms)
    # Less than the power of any float64, as a sign that a sum has no term.
    top = np.full(groups, -2000, dtype=np.int64)
    np.maximum.at(top, group[terms != 0], power[terms != 0].astype(np.int64))
    top[top == -2000] = 0
    digits = np.zeros((_DIGITS, groups))
    rest, most = terms.copy(), _DIGITS
    for place in range(_DIGITS):
        unit = np.ldexp(1.0, (top - _BITS * (place + 1)))[group]
        digit = np.trunc(rest / unit)
        rest -= digit * unit
        digits[place] = np.bincount(group, weights=digit, minlength=groups)
        if not rest.any():
            # All digits that follow are 0.
            most = place + 1
            break
    unfinished = np.zeros(groups, dtype=np.bool_)
    unfinished[group[rest != 0]] = True
    # Carried upwards, all digits but the first are from 0 on, so that the first has the sign.
    for place in range(most - 1, 0, -1):
        carry = np.floor(digits[place] / 2.0**_BITS)
        digits[place] -= carry * 2.0**_BITS
        digits[place - 1] += carry
    below = (digits[1:] > 0).any(axis=0)
    sign = np.where(digits[0] != 0, np.sign(digits[0]), below * 1.0)
    return sign.astype(np.int64), unfinished


def _by_integers(left: FloatArray, right: FloatArray, group: IntArray, groups: int) -> IntArray:
    """Return the signs of :func:`signs_of_sums`.

    Factors are whole multiples of the smallest power of 2 there is.
    """
    (left_part, left_power), (right_part, right_power) = np.frexp(left), np.frexp(right)
    power = left_power.astype(np.int64) + right_power
    shift = power - power.min(initial=0)
    sums = [0] * groups
    columns = (left_part * 2.0**53, right_part * 2.0**53, shift, group)
    for a, b, up, g in zip(*(column.tolist() for column in columns), strict=True):
        sums[g] += (int(a) * int(b)) << up
    return np.array([(value > 0) - (value < 0) for value in sums], dtype=np.int64)
