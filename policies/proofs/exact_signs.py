"""Signs of sums of products, decided as if in rational arithmetic.

Every question of feasibility is one: do the tasks on a server, times what each demands, add up to
more than its capacity? Rounding hides a last unit of it; rational arithmetic does not, but is slow.
So a filter comes first: products and sums with their rounding errors kept beside them (Dekker's
product, Knuth's sum: Ogita, Rump, Oishi, "Accurate sum and dot product", 2005), which leaves an
error of some 1e-30 of the sum, for which there is a bound. Only where what is found is within the
bound are integers of any length asked (Shewchuk, "Adaptive precision floating-point arithmetic",
1997, calls such a predicate adaptive).
"""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.compiled import Floats1, Ints1, OutFloats2, OutInts1, compiled_in_order

# Half the distance from 1 to the next float64.
UNIT = 2.0**-53
# Splits a float64 into two of 26 bits (Veltkamp).
_SPLITTER = 2.0**27 + 1.0
# Between these a product's rounding error is a float64 itself, and nothing overflows.
_SMALLEST, _LARGEST = 1e-250, 1e290
UNDECIDED = 2


def signs_of_sums(left: FloatArray, right: FloatArray, group: IntArray, groups: int) -> IntArray:
    """Return the exact sign (groups,) of the sum of ``left × right`` in each group.

    A sign is -1, 0 or 1.

    Args:
        left, right: (p,) factors, finite; group: (p,) which sum each product belongs to.
        groups: how many sums there are; one without products is 0.

    Raises:
        ValueError: a factor is not finite.
    """
    sign = np.zeros(groups, dtype=np.int64)
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    _filter(left, right, group, np.zeros((4, groups)), sign)
    open_ = sign == UNDECIDED
    if open_.any():
        mine = open_[group]
        sign[open_] = _by_integers(left[mine], right[mine], group[mine], groups)[open_]
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
    over: BoolArray = (
        signs_of_sums(
            np.concatenate([amounts, -limits]),
            np.concatenate([each, times]),
            np.concatenate([group, np.arange(groups)]),
            groups,
        )
        > 0
    )
    return over


@compiled_in_order
def _filter(left: Floats1, right: Floats1, group: Ints1, work: OutFloats2, sign: OutInts1) -> None:
    """Write the signs (g,) that are certain, and UNDECIDED for the others.

    work (4, g) is 0. The sum is total + the sum of all errors, and only the latter is rounded: n
    terms e added up one after the other are off by at most n u sum |e| / (1 - n u). Twice that is
    allowed, since there are two for each product.
    """
    total, error, size, terms = work[0], work[1], work[2], work[3]
    for i in range(len(left)):
        a, b, g = left[i], right[i], group[i]
        if a == 0.0 or b == 0.0:
            # 0 times infinity is no number, which exact integers refuse.
            if not (abs(a) < np.inf and abs(b) < np.inf):
                sign[g] = UNDECIDED
            continue
        product = a * b
        if not (_SMALLEST < abs(product) < _LARGEST and abs(a) < _LARGEST and abs(b) < _LARGEST):
            sign[g] = UNDECIDED
            continue
        wide = _SPLITTER * a
        a_high = wide - (wide - a)
        a_low = a - a_high
        wide = _SPLITTER * b
        b_high = wide - (wide - b)
        b_low = b - b_high
        # Dekker's product: exactly what rounding took from a × b.
        lost = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
        # Knuth's sum: exactly what rounding took from the addition.
        before = total[g]
        after = before + product
        part = after - before
        missed = (before - (after - part)) + (product - part)
        total[g] = after
        error[g] = (error[g] + lost) + missed
        size[g] += abs(lost) + abs(missed)
        terms[g] += 1.0
    for g in range(len(sign)):
        if sign[g] == UNDECIDED:
            continue
        found = total[g] + error[g]
        if size[g] == 0.0 or abs(found) > 8.0 * UNIT * terms[g] * size[g]:
            sign[g] = int(found > 0.0) - int(found < 0.0)
        else:
            sign[g] = UNDECIDED


def _by_integers(left: FloatArray, right: FloatArray, group: IntArray, groups: int) -> IntArray:
    """Return the signs of :func:`signs_of_sums`.

    Factors are whole multiples of the smallest power of 2 there is.
    """
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        raise ValueError("the factors of an exact sum are finite")
    (left_part, left_power), (right_part, right_power) = np.frexp(left), np.frexp(right)
    power = left_power.astype(np.int64) + right_power
    shift = power - power.min(initial=0)
    sums = [0] * groups
    columns = (left_part * 2.0**53, right_part * 2.0**53, shift, group)
    for a, b, up, g in zip(*(column.tolist() for column in columns), strict=True):
        # Python's integers have as many digits as are needed.
        sums[g] += (int(a) * int(b)) << up
    return np.array([(value > 0) - (value < 0) for value in sums], dtype=np.int64)
