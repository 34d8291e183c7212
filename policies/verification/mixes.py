"""Proof by prices that no mix of the first stage's workloads leaves more to the second one.

Tenants of the first stage keep their shares, and may reach them through any mix of their workloads. At
any prices ``p >= 0`` of the pool a tenant pays at least for its cheapest mix, so that no mix leaves more
worth than

    sum_r b_r p_r - sum over first-stage tenants of cost_i(G_i),

which is what this mix leaves and what it costs beyond the cheapest one. With that to spend, the bound of
the second stage's market (``market``) holds for all mixes together.

A workload that needs what is used up is not part of that market. Prices of that resource prove that no
mix leaves any of it: what is left of it costs no more than all that the cheapest mixes leave.

Source: Eisenberg, Gale, 1959, as the dual of both stages' program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.model.certificate import Certificate
from policies.model.tolerance import (
    HIDDEN_PRODUCT,
    LEVEL_TOLERANCE,
    NEXT_TO_NOTHING,
    SAME_AMOUNT,
)
from policies.verification.checks import Check
from policies.verification.exact import UNIT
from policies.verification.exact_levels import ROUNDINGS
from policies.verification.form import Form
from policies.verification.market import ROOM, Market
from policies.verification.prices import Costs

_DETAIL = "prices prove that no mix of the first stage's workloads, at the same shares, leaves more"


def check_mixes(
    form: Form, certificate: Certificate, shares: FloatArray, names: list[str]
) -> Check:
    """Check by prices that no other mix of the first stage's workloads leaves more to the second one.

    Args:
        form: its participants, on one pool; certificate: with a round per stage.
        shares: (n,) of the form's workloads; names: of the form's tenants.
    """
    rounds = certificate.rounds
    if len(rounds) < 2 or not (form.several & (form.stage[form.owner] == 0)).any():
        return Check("mixes_proven", True, "the first stage has no choice of workloads", 0.0)
    mix = _Mix.of(form, shares)
    first, second = rounds[0].prices, rounds[1].prices
    stated = rounds[1].mix_prices
    further = np.zeros((0, first.shape[1])) if stated is None else stated
    proven = np.logical_or.reduce([mix.proves_full(prices) for prices in (*first, *further)])
    unproven = mix.kept_out & ~(form.demand[:, proven] > 0).any(axis=1)
    if unproven.any():
        name = names[int(form.owner[int(unproven.argmax())])]
        return Check(
            "mixes_proven",
            False,
            f"not so for {name!r}: {_DETAIL} of what is used up",
            1.0,
        )
    beyond = min(mix.beyond(prices) for prices in (*second, *further))
    return Check(
        "mixes_proven",
        beyond <= 0,
        f"{_DETAIL} to the second"
        if beyond <= 0
        else f"not so for 'round 1': {_DETAIL} to the second",
        max(beyond, 0.0),
    )


@dataclass(frozen=True, eq=False)
class _Mix:
    """The first stage's mix, and the market of what it leaves.

    Attributes:
        form: its participants; paid: (n,) shares of the first stage, 0 in the second one.
        market: the second stage's; log_level: of the product that it reaches.
        used_up: (m,) resources of which next to nothing is left.
        kept_out: (n,) workloads of the second stage that are not part of the market.
    """

    form: Form
    paid: FloatArray
    market: Market
    log_level: float
    used_up: BoolArray
    kept_out: BoolArray

    @classmethod
    def of(cls, form: Form, shares: FloatArray) -> _Mix:
        late = form.stage[form.owner] == 1
        market = Market.of(form, 1, shares)
        kept_out = late.copy()
        kept_out[market.workloads] = False
        reached = market.shares(shares)
        # The logarithm of 0: any product is more.
        level = market.log_mean(reached) if len(reached) and (reached > 0).all() else -math.inf
        return cls(
            form,
            np.where(late, 0.0, shares),
            market,
            level,
            (form.capacity[0] > 0) & (market.left <= ROOM),
            kept_out,
        )

    def _beyond_cheapest(self, prices: FloatArray) -> tuple[float, float]:
        """Return the cost of the mix beyond the cheapest one, and its rounding error."""
        form = self.form
        cost = form.demand @ prices
        share = form.tenant_sums(self.paid)
        least, size = Costs.of(form.owner, form.limit, cost, form.t).of_shares(share)
        paid = self.paid * cost
        terms = ROUNDINGS + len(prices) + int(np.bincount(form.owner).max())
        error = UNIT * terms * (math.fsum(paid.tolist()) + math.fsum(size.tolist()))
        error += UNIT * terms * float((form.capacity[0] * prices).sum())
        # Exact sums, because the two are nearly equal and what is compared is their difference.
        return math.fsum([*paid.tolist(), *(-least).tolist()]), error

    def proves_full(self, prices: FloatArray) -> BoolArray:
        """Return for each used-up resource (m,) if prices (m,) prove that no mix leaves any."""
        beyond, error = self._beyond_cheapest(prices)
        unsold = float(self.market.left @ prices) + max(beyond, 0.0) + error
        return self.used_up & (prices > 0) & (unsold <= NEXT_TO_NOTHING * prices)

    def beyond(self, prices: FloatArray) -> float:
        """Return the part of the product that prices (m,) leave open beyond what is allowed.

        Nothing where it is at most 0.
        """
        market = self.market
        if not len(market.workloads):
            return 0.0
        weights = float(market.weight.sum())
        beyond, error = self._beyond_cheapest(prices)
        gap = market.log_bound(prices) + (max(beyond, 0.0) + error) / weights - self.log_level
        hidden = min(SAME_AMOUNT * float(prices.sum()) / weights, HIDDEN_PRODUCT)
        return gap - LEVEL_TOLERANCE - hidden
