"""A market of shares at given prices, and the bound that prices put on its Nash product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.proofs.cost_curve import CostCurve
from policies.proofs.normal_form import LeximinProblem


@dataclass(frozen=True, eq=False)
class Market:
    """Tenants with budgets ``weight`` that buy shares of resources.

    Attributes:
        demand: (n, m) what one unit of share takes of the pool; limit: (n,) share at most.
        owner: (n,) buyer of each workload, ascending; every buyer has one.
        weight: (t,) > 0.
        capacity: (m,) > 0 for each resource that a workload demands.
    """

    demand: FloatArray
    limit: FloatArray
    owner: IntArray
    weight: FloatArray
    capacity: FloatArray

    def shares(self, x: FloatArray) -> FloatArray:
        """Return the share (t,) of each buyer, of workloads with shares ``x`` (n,)."""
        return grouped_sum(x, self.owner, len(self.weight))

    def nash_welfare(self, share: FloatArray) -> float:
        """Return the logarithm of the weighted geometric mean of shares (t,)."""
        return float((self.weight * np.log(share)).sum() / self.weight.sum())

    def bound(self, prices: FloatArray) -> float:
        """Return a bound on ``nash_welfare`` of any shares, proven by prices (m,).

        Infinite if the prices prove nothing.
        """
        cost = self.demand @ prices
        curve = CostCurve.of(self.owner, self.limit, cost, len(self.weight))
        optimum = np.full(len(cost), np.inf)
        np.divide(self.weight[curve.owner], curve.cost, out=optimum, where=curve.cost > 0)
        reached = np.where(optimum > curve.start, np.minimum(optimum, curve.end), 0.0)
        share = np.zeros(len(self.weight))
        np.maximum.at(share, curve.owner, reached)
        # What costs nothing and has no limit is bought without end.
        if not np.isfinite(share).all():
            return float("inf")
        spent = float((self.capacity * prices).sum() - curve.cost_of(share).sum())
        return self.nash_welfare(share) + spent / float(self.weight.sum())


# A resource with no more than this part of the pool left is full for the second stage: as much
# as the first one leaves by rounding where a price is next to nothing.
ROOM = 1e-6


@dataclass(frozen=True, eq=False)
class Stage:
    """The market of one stage.

    Attributes:
        market: of the workloads that can have anything at all; None if there are none.
        workloads: (n',) those workloads, as indices of the normalised problem.
        blocked: (m,) resources that are used up.
    """

    market: Market | None
    workloads: IntArray
    blocked: FloatArray


def stage_of(form: LeximinProblem, stage: int, x: FloatArray) -> Stage:
    """Return the market of a stage when the shares ``x`` (n,) of earlier ones are taken."""
    # Rounding may overfill by a little.
    left = np.maximum(form.capacity_share[0] - x @ form.demand, 0.0)
    present = form.capacity_share[0] > 0
    blocked = present & (left <= ROOM)
    stops = (form.demand[:, blocked] > 0).any(axis=1)
    workloads = np.flatnonzero((form.stage[form.owner] == stage) & ~stops)
    if not len(workloads):
        return Stage(None, workloads, blocked.astype(np.float64))
    buyers, owner = np.unique(form.owner[workloads], return_inverse=True)
    market = Market(
        demand=form.demand[workloads],
        limit=form.limit[workloads],
        owner=owner.astype(np.int64),
        weight=form.weight[buyers],
        capacity=left,
    )
    return Stage(market, workloads, blocked.astype(np.float64))
