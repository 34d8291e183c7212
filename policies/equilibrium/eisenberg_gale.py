"""Competitive equilibrium from equal incomes, as a convex program and its dual.

Source: Eisenberg, Gale, "Consensus of subjective probabilities", 1959; Varian, 1974. With shares
``g`` the program maximises ``sum_i w_i log G_i`` subject to the capacities and task limits. Its
dual in the resources' prices alone bounds it: at any prices ``p >= 0``

    sum_i w_i log G_i <= sum_r b_r p_r + sum_i max over G of (w_i log G - cost_i(G)),

where ``cost_i`` is the least price of a share ``G`` within the tenant's limits (``cost_curve``).
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.compiled import compiled, compiled_in_order
from policies.errors import SolveFailedError, SolveTimeoutError
from policies.leximin.interior_point.loops import greatest
from policies.proofs.market import Market

STEPS_BETWEEN_LOOKS = 25
MOST_LOOKS = 12
# Complementarity left at the end, relative to the sum of weights; far below the gap asked for.
CENTRED = 1e-10
SHORT_OF_BOUNDARY = 0.99
# A gap proven to be this small is optimal even where rounding keeps the steps from centring.
ENOUGH = 2e-10
CENTRING = 0.1
# ... and after a step that went nearly all the way.
CENTRING_AFTER_LONG = 0.01
LONG_STEP = 0.9
# Two resources that are full for the same tasks only have no prices of their own.
REGULAR = 1e-13


def equilibrium(market: Market, deadline: float | None) -> tuple[FloatArray, FloatArray]:
    """Shares (n,) that fill the limits or the capacities, and prices (m,), close to optimal.

    Raises:
        SolveTimeoutError: ``deadline`` (``time.monotonic`` seconds) passed.
        SolveFailedError: no convergence.
    """
    used = market.demand.any(axis=0)
    size = np.where(used, market.capacity, 1.0)
    demand = np.ascontiguousarray((market.demand / size).T)
    budget = float(market.weight.sum())
    weight: FloatArray = (market.weight / budget)[market.owner]
    alone = len(market.weight) == len(weight)
    part = weight if alone else weight / np.bincount(market.owner)[market.owner]
    # Half of what each buyer's part pays for: strictly inside the capacities, as the steps need.
    x = np.minimum(0.5 * part / demand.max(axis=0), 0.5 * market.limit)
    prices = np.where(used, 1.0, 0.0)
    slack = 1.0 - demand @ x
    level = 1.0 / (2 * len(x) + len(prices))
    limited = np.isfinite(market.limit).astype(np.float64)
    room = np.where(limited > 0, market.limit - x, 1.0)
    reduced, at_limit = level / x, limited * level / room
    program = _Program(demand, limited, market.owner, weight, len(market.weight))
    point = _Point(x, prices, slack, reduced, at_limit, room)
    for _ in range(MOST_LOOKS):
        if deadline is not None and time.monotonic() > deadline:
            raise SolveTimeoutError("solve.timeout", "the time limit passed")
        left = _advance(program, point)
        # The point may miss its rows by rounding; shares that are returned fit.
        shares = np.minimum(x, market.limit)
        shares /= max(float((demand @ shares).max()), 1.0)
        charged = prices * budget / size
        if left <= CENTRED:
            return shares, charged
        reached = market.nash_welfare(market.shares(shares))
        if market.bound(charged) <= reached + ENOUGH:
            return shares, charged
    raise SolveFailedError("solve.failed", "the equilibrium prices did not converge")


class _Program(NamedTuple):
    """Constants of the program.

    Attributes:
        demand: (m, n); limited: (n,) 0 or 1; owner: (n,); weight: (n,) of the workload's buyer.
        buyers: their number.
    """

    demand: FloatArray
    limited: FloatArray
    owner: IntArray
    weight: FloatArray
    buyers: int


class _Point(NamedTuple):
    """Current point.

    Attributes:
        x, reduced: (n,) shares and their reduced costs; prices, slack: (m,).
        at_limit, room: (n,) prices of the limits, and what is left up to them. Where there is no
            limit, they are 0 and 1.
    """

    x: FloatArray
    prices: FloatArray
    slack: FloatArray
    reduced: FloatArray
    at_limit: FloatArray
    room: FloatArray


# In order: beside arrays that are written, how a sum is vectorised depends on where these lie in memory.
@compiled_in_order
def _advance(program, point):
    """Take some primal-dual steps towards the optimum, which change ``point``.

    Buyers are eliminated one by one: their part of the Hessian is diagonal plus rank one, which leaves
    a system in the prices' steps. Loops run over workloads and vectorise. Returns the remaining
    complementarity, or the residual of the prices if that is larger.
    """
    demand, limited, owner, weight, buyers = program
    x, prices, slack, reduced, at_limit, room = point
    m, n = demand.shape
    pairs = n + m + limited.sum()
    theta, right, own = np.empty(n), np.empty(n), np.empty(n)
    push, dx, ratio = np.empty(n), np.empty(n), np.empty(n)
    per_share, per_room = np.empty(n), np.empty(n)
    share, total, pushed = np.empty(n), np.empty(n), np.empty(n)
    gathered, used, sums = np.empty((m, n)), np.empty(m), np.empty(buyers)
    matrix, column = np.empty((m, m)), np.empty(m)
    peak = np.zeros(1)
    most = peak.view(np.int64)
    step = 0.0
    # Residuals first: an early end, and the right-hand side of the Newton system.
    for _ in range(STEPS_BETWEEN_LOOKS):
        _together(x, owner, sums, share)
        left = 0.0
        for j in range(n):
            left += x[j] * reduced[j] + limited[j] * room[j] * at_limit[j]
            right[j] = weight[j] / share[j] + reduced[j] - at_limit[j]
        missed = 0.0
        for r in range(m):
            for j in range(n):
                right[j] -= demand[r, j] * prices[r]
            used[r] = _product(demand[r], x)
            left += slack[r] * prices[r]
            if prices[r] > 0.0:
                missed += abs(1.0 - used[r] - slack[r]) * prices[r]
        for j in range(n):
            missed += abs(right[j]) * x[j]
        if max(left, missed) <= CENTRED:
            return max(left, missed)
        # Never quite to the boundary, where the steps would lose their digits.
        centring = CENTRING if step < LONG_STEP else CENTRING_AFTER_LONG
        centre = max(centring * left, 0.01 * CENTRED) / pairs
        for j in range(n):
            per_share[j], per_room[j] = 1.0 / x[j], limited[j] / room[j]
            theta[j] = 1.0 / (reduced[j] * per_share[j] + at_limit[j] * per_room[j])
            right[j] += at_limit[j] - reduced[j] + centre * (per_share[j] - per_room[j])
            push[j] = theta[j] * right[j]
        # A buyer's logarithm adds a rank-one term to a diagonal: Sherman-Morrison inverts the sum.
        _together(theta, owner, sums, total)
        _together(push, owner, sums, pushed)
        for j in range(n):
            own[j] = weight[j] / (share[j] * share[j] + weight[j] * total[j])
            push[j] -= theta[j] * own[j] * pushed[j]
        for r in range(m):
            for j in range(n):
                ratio[j] = theta[j] * demand[r, j]
            _together(ratio, owner, sums, gathered[r])
            for j in range(n):
                gathered[r, j] = demand[r, j] - own[j] * gathered[r, j]
                ratio[j] = theta[j] * gathered[r, j]
            column[r] = _product(demand[r], push)
            for q in range(m):
                matrix[q, r] = _product(demand[q], ratio)
        for r in range(m):
            if prices[r] > 0.0:
                matrix[r, r] += slack[r] / prices[r]
                column[r] += used[r] + centre / prices[r] - 1.0
                matrix[r, r] *= 1.0 + REGULAR
            # A resource without demand has no price. An identity row keeps the matrix regular.
            else:
                matrix[r, r], column[r] = 1.0, 0.0
        dp = np.linalg.solve(matrix, column)
        dx[:] = 0.0
        for r in range(m):
            for j in range(n):
                dx[j] += gathered[r, j] * dp[r]
        for j in range(n):
            dx[j] = push[j] - theta[j] * dx[j]
            dz = (centre - reduced[j] * dx[j]) * per_share[j] - reduced[j]
            dh = (centre + at_limit[j] * dx[j]) * per_room[j] - at_limit[j]
            # Both are read no more in this step, and spare two arrays.
            share[j], total[j] = dz, dh
            shrink = max(-dx[j] * per_share[j], -dz / reduced[j])
            pinch = -dh / at_limit[j] if limited[j] > 0.0 else 0.0
            ratio[j] = max(max(shrink, dx[j] * per_room[j]), max(pinch, 0.0))
        peak[0] = 0.0
        # Ratios are not below 0, where floats are ordered as their bits; integer maxima vectorise.
        most[0] = greatest(ratio.view(np.int64), most[0])
        fastest = peak[0]
        for r in range(m):
            if prices[r] > 0.0:
                ds = (centre - slack[r] * dp[r]) / prices[r] - slack[r]
                fastest = max(fastest, max(-dp[r] / prices[r], -ds / slack[r]))
        step = min(1.0, SHORT_OF_BOUNDARY / max(fastest, 1e-300))
        for j in range(n):
            reduced[j] += step * share[j]
            at_limit[j] += step * total[j]
            x[j] += step * dx[j]
            room[j] -= step * limited[j] * dx[j]
        for r in range(m):
            if prices[r] > 0.0:
                slack[r] += step * ((centre - slack[r] * dp[r]) / prices[r] - slack[r])
                prices[r] += step * dp[r]
    return np.inf


@compiled
def _product(one, other):
    """Return the inner product of one (n,) and other (n,)."""
    total = 0.0
    for j in range(len(one)):
        total += one[j] * other[j]
    return total


@compiled
def _together(values, owner, sums, out):
    """Write out (n,) the sum of values (n,) over the workloads of the same buyer."""
    if len(sums) == len(values):
        out[:] = values
        return
    sums[:] = 0.0
    for j in range(len(values)):
        sums[owner[j]] += values[j]
    for j in range(len(values)):
        out[j] = sums[owner[j]]
