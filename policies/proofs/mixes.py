"""Bounds on the mix of workloads in which the first stage reaches its shares.

At any prices each tenant pays at least for the cheapest mix that gives its share. The cost of the
running mix beyond that is the most that another one could save, and leave to a later stage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.tolerance import HIDDEN_PRODUCT, LEVEL_TOLERANCE, NEXT_TO_NOTHING, SAME_AMOUNT
from policies.proofs.cost_curve import CostCurve
from policies.proofs.market import Stage, stage_of
from policies.proofs.normal_form import LeximinProblem

# Rounding in the sums that prove a resource to be full, relative to what the whole pool costs.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Mix:
    """The mix that earlier stages run.

    Attributes:
        form: the problem; number: the later stage.
        x: (n,) shares, 0 from the later stage on.
        later: what the later stage can buy.
        left: (m,) of the pool, beside the mix.
    """

    form: LeximinProblem
    number: int
    x: FloatArray
    later: Stage
    left: FloatArray

    @classmethod
    def of(cls, form: LeximinProblem, number: int, x: FloatArray) -> Mix:
        """Return the mix of the stages before one.

        x (n,) are the shares of all workloads.
        """
        x = np.where(form.stage[form.owner] < number, x, 0.0)
        left = np.maximum(form.capacity_share[0] - x @ form.demand, 0.0)
        return cls(form, number, x, stage_of(form, number, x), left)

    @property
    def is_chosen(self) -> bool:
        """True if an earlier tenant has several workloads."""
        form = self.form
        return bool(((form.stage < self.number) & (np.diff(form.first) > 1)).any())

    def saving(self, prices: FloatArray) -> float:
        """Return the cost of the mix at prices (m,) beyond that of the cheapest one."""
        form = self.form
        kept = form.stage < self.number
        cost = form.demand @ prices
        share = grouped_sum(self.x, form.owner, form.t)
        least = CostCurve.of(form.owner, form.limit, cost, form.t).cost_of(share)[kept].sum()
        return float(self.x @ cost) - float(least)

    def full(self, prices: FloatArray) -> BoolArray:
        """Return the resources (m,) of which prices (m,) prove that no mix leaves any."""
        unsold = float(self.left @ prices) + self.saving(prices) + ROUNDING * float(prices.sum())
        return (self.later.blocked > 0) & (prices > 0) & (unsold <= NEXT_TO_NOTHING * prices)

    def blocked(self, full: BoolArray) -> IntArray:
        """Workloads of the later stage that need what is used up, but nothing that is full (m,)."""
        form = self.form
        late = form.stage[form.owner] == self.number
        late[self.later.workloads] = False
        return np.flatnonzero(late & ~(form.demand[:, full] > 0).any(axis=1))

    def gap(self, prices: FloatArray, log_level: float) -> float:
        """Return the gap to the greatest product at prices (m,), relative to the tolerance.

        Infinite if the prices prove nothing.

        Args:
            prices: of the pool; log_level: logarithm of the product that the later stage reaches.
        """
        market = self.later.market
        if market is None:
            return 0.0
        budget = float(market.weight.sum())
        gap = market.bound(prices) + self.saving(prices) / budget - log_level
        hidden = min(SAME_AMOUNT * float(prices.sum()) / budget, HIDDEN_PRODUCT)
        return gap / (LEVEL_TOLERANCE + hidden)
