"""Competitive equilibrium from equal incomes, as a convex program and its dual.

Source: Eisenberg, Gale, "Consensus of subjective probabilities", 1959; Varian, 1974. With shares
``g`` the program maximises ``sum_i w_i log G_i`` subject to the capacities and task limits. Its
dual in the resources' prices alone bounds it: at any prices ``p >= 0``

    sum_i w_i log G_i <= sum_r b_r p_r + sum_i max over G of (w_i log G - cost_i(G)),

where ``cost_i`` is the least price of a share ``G`` within the tenant's limits (``merit_order``).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.compiled import compiled
from policies.errors import SolveFailedError, SolveTimeoutError
from policies.merit_order import MeritOrder

STEPS_BETWEEN_LOOKS = 10
MOST_LOOKS = 30
# Complementarity left at the end, relative to the sum of weights; far below the gap asked for.
CENTRED = 1e-10
SHORT_OF_BOUNDARY = 0.99
# A gap proven to be this small is optimal even where rounding keeps the steps from centring.
ENOUGH = 2e-10
CENTRING = 0.1
# Two resources that are full for the same tasks only have no prices of their own.
REGULAR = 1e-13


@dataclass(frozen=True, eq=False)
class Market:
    """Tenants with budgets ``weight`` that buy shares of resources.

    Attributes:
        demand: (n, m) what one unit of share takes of the pool; limit: (n,) share at most.
        owner: (n,) buyer of each workload, ascending; every buyer has one.
        weight: (t,) > 0.
        capacity: (m,) > 0 where somebody demands it.
    """

    demand: FloatArray
    limit: FloatArray
    owner: IntArray
    weight: FloatArray
    capacity: FloatArray

    def nash_welfare(self, share: FloatArray) -> float:
        """The logarithm of the weighted geometric mean of shares (t,)."""
        return float((self.weight * np.log(share)).sum() / self.weight.sum())

    def bound(self, prices: FloatArray) -> float:
        """No shares have a greater ``nash_welfare``, whatever the prices (m,); inf proves nothing."""
        cost = self.demand @ prices
        order = MeritOrder.of(self.owner, self.limit, cost, len(self.weight))
        wanted = np.full(len(cost), np.inf)
        np.divide(self.weight[order.owner], order.cost, out=wanted, where=order.cost > 0)
        reached = np.where(wanted > order.start, np.minimum(wanted, order.end), 0.0)
        share = np.zeros(len(self.weight))
        np.maximum.at(share, order.owner, reached)
        if not np.isfinite(share).all():
            return float("inf")
        spent = float((self.capacity * prices).sum() - order.cost_of(share).sum())
        return self.nash_welfare(share) + spent / float(self.weight.sum())


def equilibrium(market: Market, deadline: float | None) -> tuple[FloatArray, FloatArray]:
    """Shares (n,) that fill the limits or the capacities, and prices (m,), close to optimal.

    Raises:
        SolveTimeoutError: ``deadline`` (``time.monotonic`` seconds) passed.
        SolveFailedError: no convergence.
    """
    used = market.demand.any(axis=0)
    size = np.where(used, market.capacity, 1.0)
    demand = np.ascontiguousarray(market.demand / size)
    weight = market.weight / market.weight.sum()
    workloads = np.bincount(market.owner, minlength=len(weight))
    part = 0.5 * (weight / workloads)[market.owner] / demand.max(axis=1)
    x = np.minimum(part, 0.5 * market.limit)
    prices = np.where(used, 1.0, 0.0)
    slack = 1.0 - x @ demand
    level = 1.0 / (2 * len(x) + len(prices))
    reduced, at_limit = level / x, np.where(np.isfinite(market.limit), level, 0.0)
    at_limit /= np.where(at_limit > 0, market.limit - x, 1.0)
    for _ in range(MOST_LOOKS):
        if deadline is not None and time.monotonic() > deadline:
            raise SolveTimeoutError("solve.timeout", "the time limit passed")
        left = _advance(
            demand, market.limit, market.owner, weight, x, prices, slack, reduced, at_limit
        )
        shares = x / max(float((x @ demand).max()), 1.0)
        charged = prices * market.weight.sum() / size
        reached = market.nash_welfare(shares_of(market, shares))
        if left <= CENTRED or market.bound(charged) <= reached + ENOUGH:
            return shares, charged
    raise SolveFailedError("solve.failed", "the equilibrium prices did not settle")


def shares_of(market: Market, x: FloatArray) -> FloatArray:
    """(t,) share of each buyer."""
    return grouped_sum(x, market.owner, len(market.weight))


@compiled
def _advance(demand, limit, owner, weight, x, prices, slack, reduced, at_limit):  # type: ignore[no-untyped-def]
    """Some primal-dual steps towards the optimum; updates the five last in place.

    Buyers are eliminated one by one: their part of the Hessian is diagonal plus rank one, which
    leaves a system in the prices' steps. Returns what is left of complementarity, or of what the
    prices miss if that is more.
    """
    n, m = demand.shape
    t = len(weight)
    pairs = n + m
    for j in range(n):
        pairs += limit[j] < np.inf
    theta, right = np.empty(n), np.empty(n)
    push, dx = np.empty(n), np.empty(n)
    share, total, pushed = np.empty(t), np.empty(t), np.empty(t)
    gathered, used = np.empty((t, m)), np.empty(m)
    for _ in range(STEPS_BETWEEN_LOOKS):
        share[:] = 0.0
        left = 0.0
        for j in range(n):
            share[owner[j]] += x[j]
            left += x[j] * reduced[j]
            if limit[j] < np.inf:
                left += (limit[j] - x[j]) * at_limit[j]
        for r in range(m):
            left += slack[r] * prices[r]
        missed = 0.0
        for j in range(n):
            apart = weight[owner[j]] / share[owner[j]] + reduced[j] - at_limit[j]
            for r in range(m):
                apart -= demand[j, r] * prices[r]
            missed += abs(apart) * x[j]
        used[:] = 0.0
        for j in range(n):
            for r in range(m):
                used[r] += demand[j, r] * x[j]
        for r in range(m):
            if prices[r] > 0.0:
                missed += abs(1.0 - used[r] - slack[r]) * prices[r]
        if max(left, missed) <= CENTRED:
            return max(left, missed)
        # Never quite to the boundary, where the steps would lose their digits.
        centre = max(CENTRING * left, 0.01 * CENTRED) / pairs
        total[:] = 0.0
        pushed[:] = 0.0
        gathered[:] = 0.0
        for j in range(n):
            i = owner[j]
            stiff = reduced[j] / x[j]
            wanted = weight[i] / share[i] + centre / x[j]
            if limit[j] < np.inf:
                stiff += at_limit[j] / (limit[j] - x[j])
                wanted -= centre / (limit[j] - x[j])
            for r in range(m):
                wanted -= demand[j, r] * prices[r]
            theta[j], right[j] = 1.0 / stiff, wanted
            total[i] += theta[j]
            pushed[i] += theta[j] * wanted
            for r in range(m):
                gathered[i, r] += theta[j] * demand[j, r]
        matrix, column = np.zeros((m, m)), np.zeros(m)
        for j in range(n):
            i = owner[j]
            own = 1.0 / (share[i] * share[i] / weight[i] + total[i])
            push[j] = theta[j] * (right[j] - own * pushed[i])
            for r in range(m):
                column[r] += demand[j, r] * push[j]
                spread = theta[j] * (demand[j, r] - own * gathered[i, r])
                for q in range(m):
                    matrix[q, r] += demand[j, q] * spread
        for r in range(m):
            if prices[r] > 0.0:
                matrix[r, r] += slack[r] / prices[r]
                column[r] += used[r] + centre / prices[r] - 1.0
                matrix[r, r] *= 1.0 + REGULAR
            else:
                matrix[r, r], column[r] = 1.0, 0.0
        dp = np.linalg.solve(matrix, column)
        longest = 1e300
        for j in range(n):
            i = owner[j]
            own = 1.0 / (share[i] * share[i] / weight[i] + total[i])
            both = 0.0
            for r in range(m):
                both += (demand[j, r] - own * gathered[i, r]) * dp[r]
            dx[j] = push[j] - theta[j] * both
            dz = (centre - reduced[j] * dx[j]) / x[j] - reduced[j]
            longest = min(longest, _until_zero(x[j], dx[j]), _until_zero(reduced[j], dz))
            if limit[j] < np.inf:
                room = limit[j] - x[j]
                dh = (centre + at_limit[j] * dx[j]) / room - at_limit[j]
                longest = min(longest, _until_zero(room, -dx[j]), _until_zero(at_limit[j], dh))
        for r in range(m):
            if prices[r] > 0.0:
                ds = (centre - slack[r] * dp[r]) / prices[r] - slack[r]
                longest = min(longest, _until_zero(prices[r], dp[r]), _until_zero(slack[r], ds))
        step = min(1.0, SHORT_OF_BOUNDARY * longest)
        for j in range(n):
            dz = (centre - reduced[j] * dx[j]) / x[j] - reduced[j]
            if limit[j] < np.inf:
                dh = (centre + at_limit[j] * dx[j]) / (limit[j] - x[j]) - at_limit[j]
                at_limit[j] += step * dh
            reduced[j] += step * dz
            x[j] += step * dx[j]
        for r in range(m):
            if prices[r] > 0.0:
                slack[r] += step * ((centre - slack[r] * dp[r]) / prices[r] - slack[r])
                prices[r] += step * dp[r]
    return np.inf


@compiled
def _until_zero(value, change):  # type: ignore[no-untyped-def]
    return -value / change if change < 0.0 else 1e300
