"""Compiled passes of the interior-point method.

Each pass takes arrays and calls next to nothing. Arrays per variable are (K, n), demands are (m, n)
and prices (m, K), C-contiguous, so that the innermost loops run over workloads and vectorise.
``allowed`` is a mask of 0 and 1; outside it ``x`` and ``theta`` are 0, ``z`` is 1, and no step is
taken. Slacks and their prices are one vector (W,): those of the class rows, resource by resource,
then those of the limit rows of the workloads ``limited``.

A loop that adds up into a number writes to no array. If it did, the compiler would vectorise the
sum only after a run-time check that the arrays do not overlap, and add in another order otherwise:
the last bits of an answer would depend on the addresses of its arrays.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import Floats1, Floats2, Ints1, OutFloats1, OutFloats2, compiled


@compiled
def write_rests(
    first: Ints1, rise: Floats1, keep: Floats1, bounds: Floats1, slacks: Floats1, prices: Floats1,
    used: Floats1, placed: Floats1, y: Floats1, tau: float, slack_rest: OutFloats1,
    row_rest: OutFloats1,
) -> tuple[float, float]:  # fmt: skip
    """Write what the slacks' rows (W,) and tenant rows miss.

    Returns the gap between both levels, or what the rows miss if that is more, and what the level
    row misses.
    """
    dual, missed = 0.0, 0.0
    for k in range(len(bounds)):
        slack_rest[k] = bounds[k] - used[k] - slacks[k]
        missed = max(missed, abs(slack_rest[k]) / bounds[k])
    # A loop of its own: the one before writes to an array.
    for k in range(len(bounds)):
        dual += bounds[k] * prices[k]
    paid = 0.0
    for i in range(len(rise)):
        share = keep[i] + tau * rise[i]
        total = 0.0
        for j in range(first[i], first[i + 1]):
            total += placed[j]
        row_rest[i] = share - total
        missed = max(missed, abs(row_rest[i]) / share)
    # Apart from the loop that writes, as above.
    for i in range(len(rise)):
        dual -= keep[i] * y[i]
        paid += rise[i] * y[i]
    gap = abs(dual - tau) / max(abs(tau), 1e-12)
    worst = max(gap, max(missed, abs(1.0 - paid))) if np.isfinite(gap) else np.inf
    return worst, 1.0 - paid


@compiled
def begin(
    x: Floats2, z: Floats2, placed: Floats1, theta: OutFloats2, total: OutFloats1,
    push: OutFloats2, aim_placed: OutFloats1,
) -> None:  # fmt: skip
    """Write theta (K, n) = x / z, its sums over classes (n,), and the predictor's push, -x."""
    classes, n = x.shape
    for j in range(n):
        total[j] = 0.0
        aim_placed[j] = -placed[j]
    for c in range(classes):
        for j in range(n):
            theta[c, j] = x[c, j] / z[c, j]
            total[j] += theta[c, j]
            push[c, j] = -x[c, j]


@compiled
def write_sides(
    first: Ints1, prices: Floats1, slack_rest: Floats1, row_rest: Floats1, aim_slacks: Floats1,
    aim_used: Floats1, aim_placed: Floats1, of_slacks: OutFloats1, of_rows: OutFloats1,
) -> None:  # fmt: skip
    """Write the right-hand sides of the slacks' rows (W,) and tenant rows for the current aims."""
    for k in range(len(prices)):
        of_slacks[k] = aim_used[k] + aim_slacks[k] / prices[k] - slack_rest[k]
    for i in range(len(of_rows)):
        total = 0.0
        for j in range(first[i], first[i + 1]):
            total += aim_placed[j]
        of_rows[i] = row_rest[i] - total


@compiled
def direction(
    allowed: Floats2, demand: Floats2, x: Floats2, z: Floats2, theta: Floats2, push: Floats2,
    slacks: Floats1, prices: Floats1, aim_slacks: Floats1, dprices: Floats1, offset: Floats1,
    dx: OutFloats2, dz: OutFloats2, dslacks: OutFloats1,
) -> tuple[float, float]:  # fmt: skip
    """Steps dx, dz and dslacks of x, z and the slacks for given steps of their prices (W,).

    offset (n,) is dh - dy. Returns the longest primal and dual steps. Non-negative floats are in
    the order of their bits, and integers have a greatest in one pass of vectors.
    """
    classes, n = theta.shape
    primal, dual = 1e-300, 1e-300
    for k in range(len(slacks)):
        dslacks[k] = (aim_slacks[k] - slacks[k] * dprices[k]) / prices[k]
        primal = max(primal, -dslacks[k] / slacks[k])
        dual = max(dual, -dprices[k] / prices[k])
    ratio, peak = np.empty(n), np.zeros(2)
    bits, most = ratio.view(np.int64), peak.view(np.int64)
    for c in range(classes):
        for j in range(n):
            dz[c, j] = offset[j]
        for r in range(demand.shape[0]):
            price = dprices[r * classes + c]
            for j in range(n):
                dz[c, j] += demand[r, j] * price
        for j in range(n):
            dz[c, j] *= allowed[c, j]
            dx[c, j] = push[c, j] - theta[c, j] * dz[c, j]
            ratio[j] = -dz[c, j] / z[c, j]
        most[1] = greatest(bits, most[1])
        # Outside the mask x is 0, and 0 / 0 would be NaN.
        for j in range(n):
            ratio[j] = -dx[c, j] / x[c, j] if dx[c, j] < 0.0 else 0.0
        most[0] = greatest(bits, most[0])
    return 1.0 / max(primal, peak[0]), 1.0 / max(dual, peak[1])


@compiled
def greatest(bits: Ints1, most: int) -> int:
    """Return the greatest of ``most`` and of ``bits`` (n,), the bits of floats.

    Bits of negative floats count as less.
    """
    for j in range(len(bits)):
        most = max(most, bits[j])
    return most


@compiled
def predicted(
    x: Floats2, z: Floats2, dx: Floats2, dz: Floats2, slacks: Floats1, prices: Floats1,
    dslacks: Floats1, dprices: Floats1, primal: float, dual: float,
) -> float:  # fmt: skip
    """Sum of (x + primal dx)(z + dual dz), and of the slacks' products."""
    total = 0.0
    for k in range(len(slacks)):
        total += (slacks[k] + primal * dslacks[k]) * (prices[k] + dual * dprices[k])
    classes, n = x.shape
    for c in range(classes):
        for j in range(n):
            total += (x[c, j] + primal * dx[c, j]) * (z[c, j] + dual * dz[c, j])
    return total


@compiled
def second_order(
    allowed: Floats2, demand: Floats2, limited: Ints1, x: Floats2, z: Floats2, dx: Floats2,
    dz: Floats2, centre: float, push: OutFloats2, used: OutFloats1, placed: OutFloats1,
) -> None:  # fmt: skip
    """Write Mehrotra's corrector, push (K, n) = (centre - x z - dx dz) / z.

    Also writes what push uses of the slacks' rows (W,) and its sums (n,).
    """
    classes, n = x.shape
    placed[:] = 0.0
    for c in range(classes):
        for j in range(n):
            target = (centre - dx[c, j] * dz[c, j]) * allowed[c, j]
            push[c, j] = target / z[c, j] - x[c, j]
            placed[j] += push[c, j]
        _use(demand, push, c, used)
    for k in range(len(limited)):
        used[demand.shape[0] * classes + k] = placed[limited[k]]


@compiled
def recentre(
    allowed: Floats2, demand: Floats2, limited: Ints1, x: Floats2, z: Floats2, dx: Floats2,
    dz: Floats2, primal: float, dual: float, centre: float, push: OutFloats2, used: OutFloats1,
    placed: OutFloats1,
) -> None:  # fmt: skip
    """Gondzio's corrector (Comput. Optim. Appl. 6, 1996), added to push (K, n).

    It pulls products that a longer step would leave outside [centre / 10, 10 centre] into it, but
    no further down than by 10 centre. Writes what push uses (W,) and its sums (n,).
    """
    classes, n = x.shape
    low, high = 0.1 * centre, 10.0 * centre
    placed[:] = 0.0
    for c in range(classes):
        for j in range(n):
            product = (x[c, j] + primal * dx[c, j]) * (z[c, j] + dual * dz[c, j])
            change = max(min(max(product, low), high) - product, -high)
            push[c, j] += change * allowed[c, j] / z[c, j]
            placed[j] += push[c, j]
        _use(demand, push, c, used)
    for k in range(len(limited)):
        used[demand.shape[0] * classes + k] = placed[limited[k]]


@compiled
def move(
    demand: Floats2, limited: Ints1, x: OutFloats2, z: OutFloats2, dx: Floats2, dz: Floats2,
    primal: float, dual: float, used: OutFloats1, placed: OutFloats1,
) -> float:  # fmt: skip
    """Move x and z, and return the sum of x z.

    Also writes what x uses of the slacks' rows (W,) and its sums (n,).
    """
    classes, n = x.shape
    placed[:] = 0.0
    complementarity = 0.0
    for c in range(classes):
        for j in range(n):
            x[c, j] += primal * dx[c, j]
            z[c, j] += dual * dz[c, j]
            placed[j] += x[c, j]
        # Apart from the loop that writes, as in write_rests.
        for j in range(n):
            complementarity += x[c, j] * z[c, j]
        _use(demand, x, c, used)
    for k in range(len(limited)):
        used[demand.shape[0] * classes + k] = placed[limited[k]]
    return complementarity


@compiled
def _use(demand, values, c, used):
    """Write what one class's values (K, n) use of its rows."""
    for r in range(demand.shape[0]):
        total = 0.0
        for j in range(values.shape[1]):
            total += values[c, j] * demand[r, j]
        used[r * values.shape[0] + c] = total
