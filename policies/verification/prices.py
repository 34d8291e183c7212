"""Bounds that prices prove, since no feasible shares cost more than the servers are worth.

At prices ``p`` of what servers offer, and of the amounts of limits, one unit of share of a workload
costs at least what the cheapest of its places asks, with the price of each limit in which it counts
there. A tenant that reaches a share pays at least for its cheapest workloads first, each up to all
its tasks. The worth of servers and limits pays for every feasible answer, so shares that cost more
are not feasible: this bounds the level of a round, and the lift of tenants that are stuck in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.allocation import PaidShares
from policies.model.certificate import Round
from policies.model.tolerance import BUDGET_ROUNDING, SMALLEST_LEVEL_SCALE
from policies.verification.form import Form


@dataclass(frozen=True, eq=False)
class Costs:
    """Every tenant's workloads, the cheapest first, as pieces of its share.

    Attributes:
        owner: (n,) tenant of each piece; price: (n,) of one unit of share in it.
        start, end: (n,) the tenant's share where it begins and ends; tenants: how many there are.
    """

    owner: IntArray
    price: FloatArray
    start: FloatArray
    end: FloatArray
    tenants: int

    @classmethod
    def of(cls, owner: IntArray, limit: FloatArray, price: FloatArray, tenants: int) -> Costs:
        """Return the costs of pieces in order.

        limit (n,) is the length of each piece, inf for an endless one.
        """
        order = np.lexsort((price, owner))
        owner, limit, price = owner[order], limit[order], price[order]
        start = np.zeros(len(owner))
        begun = np.zeros(tenants)
        # One piece for each tenant, which begins at 0: the usual case.
        if len(owner) == tenants:
            return cls(owner, price, start, limit.copy(), tenants)
        for position, i in enumerate(owner.tolist()):
            start[position] = begun[i]
            begun[i] += limit[position]
        return cls(owner, price, start, start + limit, tenants)

    @classmethod
    def at(cls, form: Form, prices: FloatArray) -> Costs:
        """Return the costs at prices (K + l, m) of shares of the pool."""
        cheapest = form.costs(prices).min(axis=1, initial=np.inf)
        return cls.of(form.owner, form.limit, cheapest, form.t)

    def of_shares(self, share: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least costs (t,) of shares (t,), and the size that rounding is relative to."""
        reached = share[self.owner]
        begun = reached > self.start
        end = np.where(begun, np.minimum(reached, self.end), 0.0)
        price = np.where(begun, self.price, 0.0)
        part = end - np.where(begun, self.start, 0.0)
        return (
            grouped_sum(part * price, self.owner, self.tenants),
            grouped_sum(end * price, self.owner, self.tenants),
        )

    def paid(self, tenants: BoolArray) -> PaidShares:
        """Return the pieces of some tenants (t,)."""
        mine = tenants[self.owner]
        return PaidShares(self.owner[mine], self.price[mine], self.start[mine], self.end[mine])

    def level_paid(self, weight: FloatArray, rising: BoolArray, budget: float) -> float:
        """Return the level at which rising tenants, each up to all its tasks, cost ``budget``.

        Infinite if they never do.
        """
        mine = rising[self.owner] & (self.start < self.end)
        weights = weight[self.owner[mine]]
        slope = self.price[mine] * weights
        start, end = self.start[mine] / weights, self.end[mine] / weights

        def cost(level: float) -> float:
            return float((slope * (np.clip(level, start, end) - start)).sum())

        stops = np.unique(np.concatenate([start, end[np.isfinite(end)]]))
        low, high = 0, len(stops)  # cost(stops[low]) <= budget; beyond high it is more
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if cost(float(stops[middle])) <= budget else (low, middle)
        level = float(stops[low]) if len(stops) else 0.0
        steep = float(slope[(start <= level) & (end > level)].sum())
        if steep <= 1e-15 * slope.max(initial=0.0):
            return np.inf
        for _ in range(2):  # the second step takes away what rounding left of the first
            level += (budget - cost(level)) / steep
        return level


def worth(form: Form, prices: FloatArray) -> float:
    """Return the worth of all servers and limits."""
    return float((form.rooms * prices).sum())


def budget_rounding(form: Form, prices: FloatArray) -> float:
    """Rounding allowance of a budget, also where an amount is next to nothing."""
    return BUDGET_ROUNDING * (worth(form, prices) + float(prices[len(form.capacity) :].sum()))


def bound_on_level(form: Form, prices: FloatArray, share: FloatArray, rising: BoolArray) -> float:
    """Return the highest level that prices leave open.

    Args:
        form: the problem; prices: (K + l, m), at least 0.
        share: (t',) of the tenants that keep theirs; rising: (t',) those that rise instead.
    """
    costs = Costs.at(form, prices)
    spent, _ = costs.of_shares(np.where(rising, 0.0, share))
    all_ = worth(form, prices)
    budget = max(all_ - float(spent.sum()), 0.0) + budget_rounding(form, prices)
    saturated = float((form.cap / form.weight)[rising].max(initial=0.0))
    return min(costs.level_paid(form.weight, rising, budget), saturated)


def part_lifted(
    form: Form, prices: FloatArray, rising: BoolArray, at: FloatArray, above: FloatArray
) -> float:
    """Return the cost of lifting shares (t',) from a level to its bound.

    It is a part of the resources that it is taken from.

    These are what rising tenants would take of the places that are cheapest for them: prices of anything
    else could make every lift a small part of the whole.
    """
    costs = Costs.at(form, prices)
    reached, _ = costs.of_shares(np.where(rising, np.minimum(form.cap, at), 0.0))
    lifted, _ = costs.of_shares(np.where(rising, np.minimum(form.cap, above), 0.0))
    mine = rising[form.owner]
    cost = form.costs(prices, mine)
    # Prices are a solver's: places that cost the same differ in their last digits.
    cheapest = cost <= cost.min(axis=1, initial=np.inf, keepdims=True) * (1 + 1e-9)
    taken = (cheapest.T.astype(np.float64) @ (form.demand[mine] > 0)) > 0
    source = float((form.capacity * prices[: len(form.capacity)])[taken].sum())
    for number, (counted, _, _) in enumerate(form.limits, start=len(form.capacity)):
        if counted[mine].any():
            source += float((form.rooms[number] * prices[number]).sum())
    more = float((lifted - reached).sum())
    return more / source if source > 0 else np.inf


def rising_in(form: Form, rounds: tuple[Round, ...], frozen_in: IntArray, number: int) -> BoolArray:
    """Return the tenants (t',) whose level is still rising in a round."""
    rising: BoolArray = (form.stage == rounds[number].stage) & (frozen_in >= number)
    return rising


def level_size(form: Form, rising: BoolArray, level: float) -> float:
    """Return the size to which a level's tolerance is relative.

    It is the level itself, unless that is next to nothing.
    """
    weights = float(form.weight[rising].sum())
    return max(level, SMALLEST_LEVEL_SCALE / weights if weights > 0 else 0.0)
