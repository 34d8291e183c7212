"""Quantities of a problem on a whole-number scale, read by the verifier itself.

A quantity is the decimal that is written: the shortest one whose nearest float64 it is. Where the
decimals of a resource are too fine for whole numbers, it is a fraction with a denominator up to
1,000 or a power of 2, and where that is too fine as well, the float64 number itself
(docs/policies/numbers.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from policies.arrays import BoolArray, FloatArray

LARGEST_WHOLE = 2.0**52
# More than any server has.
FITS_NOWHERE = 2.0**53
_LARGEST_DENOMINATOR = 1000
_DENOMINATORS = np.arange(1.0, _LARGEST_DENOMINATOR + 1)
_MOST_DIGITS = 340
_SHORT_DIGITS = 15
# The largest power of 10 that float64 holds.
_EXACT_POWER = 22


@dataclass(frozen=True, eq=False)
class Amounts:
    """Demands, capacities and amounts of limits in one unit per resource.

    Attributes:
        demand: (n, m) of one task; capacity: (k, m) of one server; limits: (l, m): whole numbers.
            Without a unit of which all are multiples, tasks are rounded up, servers and limits down.
        exact_demand, exact_capacity, exact_limits: the same, but without a unit as they are given.
    """

    demand: FloatArray
    capacity: FloatArray
    exact_demand: FloatArray
    exact_capacity: FloatArray
    limits: FloatArray
    exact_limits: FloatArray


def read_amounts(
    demand: FloatArray,
    capacity: FloatArray,
    largest: FloatArray,
    limits: FloatArray | None = None,
) -> Amounts:
    """Read demands (n, m) and capacities (k, m), of which at most ``largest`` (m,) is added up.

    Args:
        limits: (l, m) amounts that sums may not exceed; inf: any.
    """
    servers = len(capacity)
    bounds = np.zeros((0, demand.shape[1])) if limits is None else limits
    capacity = np.concatenate([capacity, np.where(bounds < np.inf, bounds, 0.0)])
    whole_demand, whole_capacity = np.zeros(demand.shape), np.zeros(capacity.shape)
    common: BoolArray = np.ones(demand.shape[1], dtype=np.bool_)
    for r in range(demand.shape[1]):
        fits = demand[:, r] <= largest[r]
        values = np.concatenate([demand[fits, r], capacity[:, r]])
        whole = whole_multiples(values, float(largest[r]))
        whole_demand[:, r] = FITS_NOWHERE
        if whole is None:
            common[r] = False
            # A power of 2 scales without rounding, up to the 53 bits that the largest sum leaves.
            up = 53 - math.frexp(float(largest[r]))[1]
            whole_demand[fits, r] = np.ceil(np.ldexp(demand[fits, r], up))
            whole_capacity[:, r] = np.floor(np.ldexp(capacity[:, r], up))
            continue
        whole_demand[fits, r] = whole[: int(fits.sum())]
        whole_capacity[:, r] = whole[int(fits.sum()) :]
    exact = np.where(common, whole_capacity, capacity)
    return Amounts(
        whole_demand,
        whole_capacity[:servers],
        np.where(common, whole_demand, demand),
        exact[:servers],
        np.where(bounds < np.inf, whole_capacity[servers:], np.inf),
        np.where(bounds < np.inf, exact[servers:], np.inf),
    )


def whole_multiples(values: FloatArray, largest: float) -> FloatArray | None:
    """Return the values (v,) as whole numbers of a common unit, or None if no unit fits."""
    distinct, where = np.unique(values, return_inverse=True)
    some = distinct[distinct > 0]
    if not len(some):
        return np.zeros(len(values))
    most = max(largest, float(some[-1]))
    whole = _decimals(some, most)
    if whole is None:
        whole = _fractions(some.tolist(), most)
    if whole is None:
        return None
    table = np.zeros(len(distinct))
    table[len(distinct) - len(some) :] = whole
    return table[where]


def _decimals(values: FloatArray, most: float) -> FloatArray | None:
    finest = math.floor(math.log10(LARGEST_WHOLE) - math.log10(most))
    found = _short_decimals(values)
    if found is None and _may_end(values, finest):
        found = _long_decimals(values.tolist(), finest)
    if found is None:
        return None
    digits, whole = found
    if digits > finest or abs(finest) > _MOST_DIGITS or max(whole) > LARGEST_WHOLE:
        return None
    return np.array([float(number) for number in whole])


def _short_decimals(values: FloatArray) -> tuple[int, list[int]] | None:
    """Return the digits after the point that all values have, and the values in units of the last.

    No two decimals of up to 15 digits have one nearest float64, and a quotient of two numbers that
    float64 holds is the float64 nearest to it: what passes is what is written. None for longer ones.
    """
    for digits in range(_SHORT_DIGITS + 1):
        scale = 10.0**digits
        with np.errstate(over="ignore"):
            whole = np.rint(values * scale)
        # Values are sorted: the last is the largest.
        if whole[-1] >= 10.0**_SHORT_DIGITS:
            return None
        if (whole / scale == values).all():
            numbers = whole.astype(np.int64)
            while digits <= 0 and not (numbers % 10).any():
                numbers //= 10
                digits -= 1
            return digits, numbers.tolist()
    return None


def _may_end(values: FloatArray, finest: int) -> bool:
    """Return False if a value certainly has more than ``finest`` digits after the point.

    A decimal that has no more is the quotient of a whole number and a power of 10. While float64 holds
    both, the quotient of their floats is the value, and the whole number is that nearest to a product
    or one beside it. Where it does not, the answer is True.
    """
    if not 0 <= finest <= _EXACT_POWER:
        return True
    scale = 10.0**finest
    nearest = np.rint(values * scale)
    if nearest[-1] >= LARGEST_WHOLE:
        return True
    ends = np.zeros(len(values), dtype=np.bool_)
    for beside in (0.0, -1.0, 1.0):
        ends |= (nearest + beside) / scale == values
    return bool(ends.all())


def _long_decimals(values: list[float], finest: int) -> tuple[int, list[int]] | None:
    """Return the digits and values for decimals of any length.

    None for more than ``finest`` digits after the point.
    """
    # repr is the shortest decimal that reads back as the number, which is the one that was
    # written.
    written = [Decimal(repr(value)).normalize() for value in values]
    digits = max(-int(number.as_tuple().exponent) for number in written)
    if digits > finest or abs(digits) > _MOST_DIGITS:
        return None
    return digits, [int(Fraction(number) * Fraction(10) ** digits) for number in written]


def _fractions(values: list[float], most: float) -> FloatArray | None:
    common = 1
    for value in values:
        common = math.lcm(common, _denominator(value))
        # Before the next one: common denominators of many numbers grow without end.
        if common > LARGEST_WHOLE / max(most, 1.0):
            return None
    return np.array([float(round(Fraction(value) * common)) for value in values])


def _denominator(value: float) -> int:
    """Return the least denominator up to 1,000 whose fraction is nearest to the float64, or its own."""
    found = np.flatnonzero(np.rint(value * _DENOMINATORS) / _DENOMINATORS == value)
    return int(_DENOMINATORS[found[0]]) if len(found) else Fraction(value).denominator
