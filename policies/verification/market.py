"""A market of shares, and what prices prove of the greatest weighted product of shares in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.verification.form import Form
from policies.verification.prices import Costs

# Of the pool: a resource with no more than it left counts as used up in the second stage.
ROOM = 1e-6


@dataclass(frozen=True, eq=False)
class Market:
    """Market of a stage, with the buyers of the shares left for it.

    Attributes:
        workloads: (q,) of the form's workloads, those that can have anything.
        owner: (q,) buyer of each, ascending; weight: (b,) the buyers' budgets.
        demand: (q, m) of one unit of share; limit: (q,) share at most; left: (m,) shares of the pool.
    """

    workloads: IntArray
    owner: IntArray
    weight: FloatArray
    demand: FloatArray
    limit: FloatArray
    left: FloatArray

    @classmethod
    def of(cls, form: Form, stage: int, shares: FloatArray) -> Market:
        """Return the market of a stage.

        shares (n,) are those of the answer.
        """
        late = form.stage[form.owner]
        taken = np.where(late < stage, shares, 0.0) @ form.demand
        size = form.capacity[0]
        # Amounts may exceed the capacity by a rounding, of which a check of its own judges.
        left = np.maximum(size - taken, 0.0)
        used_up = (size > 0) & (left <= ROOM)
        stopped = (form.demand[:, used_up] > 0).any(axis=1)
        workloads = np.flatnonzero((late == stage) & ~stopped)
        buyers, owner = np.unique(form.owner[workloads], return_inverse=True)
        return cls(
            workloads,
            owner.astype(np.int64),
            form.weight[buyers],
            form.demand[workloads],
            form.limit[workloads],
            left,
        )

    def shares(self, shares: FloatArray) -> FloatArray:
        """Return the share (b,) of each buyer, of shares (n,) of the form's workloads."""
        return grouped_sum(shares[self.workloads], self.owner, len(self.weight))

    def log_mean(self, share: FloatArray) -> float:
        """Return the logarithm of the weighted geometric mean of shares (b,)."""
        return float((self.weight * np.log(share)).sum() / self.weight.sum())

    def log_bound(self, prices: FloatArray) -> float:
        """Return a bound on ``log_mean`` of any shares, proven by prices (m,).

        Infinite if the prices prove nothing. Every buyer takes what it would at these prices, and
        pays for it from what is left.
        """
        costs = Costs.of(self.owner, self.limit, self.demand @ prices, len(self.weight))
        optimum = np.full(len(costs.price), np.inf)
        np.divide(self.weight[costs.owner], costs.price, out=optimum, where=costs.price > 0)
        reached = np.where(optimum > costs.start, np.minimum(optimum, costs.end), 0.0)
        share = np.zeros(len(self.weight))
        np.maximum.at(share, costs.owner, reached)
        if not np.isfinite(share).all():
            return math.inf
        spent, _ = costs.of_shares(share)
        unspent = float((self.left * prices).sum() - spent.sum())
        return self.log_mean(share) + unspent / float(self.weight.sum())


def with_room(form: Form, shares: FloatArray) -> Form:
    """Return the form without workloads for which earlier stages used up a resource.

    Such workloads are not part of their stage's market. What rounding leaves of a resource that is used
    up could be next to nothing, and yet much of a share of what little is left of another one.

    Args:
        form: of one pool.
        shares: (n,) of the answer.
    """
    allowed = form.allowed.copy()
    for stage in np.unique(form.stage[form.stage > 0]).tolist():
        allowed[form.stage[form.owner] == stage] = False
        workloads = Market.of(form, stage, shares).workloads
        allowed[workloads] = form.allowed[workloads]
    return replace(form, allowed=allowed)
