"""Costs of levels at given prices, on which every bound in this package relies.

At prices ``p`` of the servers' resources, one unit of dominant share of workload ``j`` costs at
least ``kappa_j = min over its servers l of d[j] . p[l]``. A tenant that must reach share ``G_i``
runs its cheapest workloads first, each up to its task limit, so ``cost_i(G_i)`` is convex and
piecewise linear. Any feasible allocation pays for itself:
``sum_i cost_i(G_i) <= sum_lr c_hat[l, r] p[l, r]``. With one unlimited workload per tenant
``cost_i(G) = G * pi_i``, and this is the bound of policies §3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.allocation import PaidShares

# A tenant this close to the end of a segment, relative, is past it.
AT_THE_END = 1e-10


def unit_costs(demand: FloatArray, allowed: BoolArray, prices: FloatArray) -> FloatArray:
    """Return the lowest price (n,) of one unit of dominant share.

    Infinite if no class is allowed.

    Args:
        demand: (n, m) normalised demands ``d``.
        allowed: (n, K) eligibility on server classes.
        prices: (K, m) prices of shares of the pool.
    """
    if not len(prices):
        return np.full(len(demand), np.inf)
    cost = demand @ prices.T
    cost[~allowed] = np.inf
    cheapest: FloatArray = cost.min(axis=1)
    return cheapest


@dataclass(frozen=True, eq=False)
class CostCurve:
    """Each tenant's workloads, cheapest first, as segments of its share.

    Attributes:
        owner: (n,) tenant of each segment; cost: (n,) price of one unit of share in it.
        start, end: (n,) the share of the tenant at which the segment begins and ends.
        tenants: number of tenants.
    """

    owner: IntArray
    cost: FloatArray
    start: FloatArray
    end: FloatArray
    tenants: int

    @classmethod
    def of(cls, owner: IntArray, limit: FloatArray, cost: FloatArray, tenants: int) -> CostCurve:
        """Sort the segments.

        Args:
            owner: (n,) tenant of each workload; limit: (n,) its greatest share (inf: none);
            cost: (n,) from :func:`unit_costs`; tenants: number of tenants.
        """
        # One workload for each tenant, in order: the usual case needs no sorting.
        if len(owner) == tenants and (owner[1:] > owner[:-1]).all():
            return cls(owner, cost, np.zeros(tenants), limit, tenants)
        order = np.lexsort((cost, owner))
        owner, limit, cost = owner[order], limit[order], cost[order]
        first = np.r_[True, owner[1:] != owner[:-1]] if len(owner) else np.zeros(0, np.bool_)
        end = np.empty_like(limit)
        reached = 0.0
        for j, (is_first, length) in enumerate(zip(first.tolist(), limit.tolist(), strict=True)):
            reached = length if is_first else reached + length
            end[j] = reached
        start = np.where(first, 0.0, np.r_[0.0, end[:-1]]) if len(owner) else end
        return cls(owner, cost, start, end, tenants)

    def cost_of(self, share: FloatArray) -> FloatArray:
        """Return the least cost (t,) at which each tenant reaches ``share`` (t,)."""
        part = np.clip(share[self.owner], self.start, self.end)
        part[part == self.start] = 0.0
        inside = part > 0
        # Only inside: where nothing is allowed the cost is infinite, and 0 times it would be NaN.
        part[inside] = (part - self.start)[inside] * self.cost[inside]
        return grouped_sum(part, self.owner, self.tenants)

    def paid(self, tenants: BoolArray) -> PaidShares:
        """Return the segments of some tenants (t,)."""
        mine = tenants[self.owner]
        return PaidShares(self.owner[mine], self.cost[mine], self.start[mine], self.end[mine])

    def marginal(self, share: FloatArray) -> FloatArray:
        """Return the price ``pi_i`` (t,) of a little more share.

        Infinite if all tasks are placed.
        """
        reached = share[self.owner] * (1 + AT_THE_END)
        beyond = np.where(self.end > reached, self.cost, np.inf)
        price = np.full(self.tenants, np.inf)
        np.minimum.at(price, self.owner, beyond)
        return price

    def highest_level(self, weight: FloatArray, rising: BoolArray, budget: float) -> float:
        """Return the weighted level at which ``rising`` tenants use up ``budget``.

        Infinite if they never do.

        Args:
            weight: (t,) level × weight is the share that a rising tenant reaches;
            rising: (t,) tenants that rise (each until its tasks are all placed);
            budget: what they may pay together, >= 0.
        """
        mine = rising[self.owner] & (self.start < self.end)
        w = weight[self.owner[mine]]
        slope = self.cost[mine] * w
        start, end = self.start[mine] / w, self.end[mine] / w
        # All segments are endless and begin at 0: the cost is one straight line.
        if not np.isfinite(end).any() and not start.any():
            total = float(slope.sum())
            return budget / total if total > 0 else np.inf
        finite = np.isfinite(end)
        at = np.r_[start, end[finite]]
        change = np.r_[slope, -slope[finite]]
        order = np.argsort(at, kind="stable")
        at, change = at[order], change[order]
        # Slopes that leave are subtracted again, and rounding may put the rest below 0.
        steepness = np.maximum(np.cumsum(change), 0.0)
        value = np.r_[0.0, np.cumsum(steepness[:-1] * np.diff(at))]
        i = int(np.searchsorted(value, budget, side="right")) - 1
        # What rounding leaves of slopes that have all ended is not a slope.
        if i == len(at) - 1 and steepness[i] <= 1e-15 * slope.max(initial=0.0):
            return np.inf
        level = float(at[i])
        if steepness[i] > 0:
            level += (budget - float(value[i])) / float(steepness[i])
        return self._corrected(level, slope, start, end, budget)

    @staticmethod
    def _corrected(
        level: float, slope: FloatArray, start: FloatArray, end: FloatArray, budget: float
    ) -> float:
        """Return a level after one Newton step, without the rounding of the cumulative sums."""
        spent = float((slope * (np.clip(level, start, end) - start)).sum())
        steep = float(slope[(start <= level) & (level < end)].sum())
        return level + (budget - spent) / steep if steep > 0 else level
