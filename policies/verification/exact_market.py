"""Exact test of whether an equilibrium's prices prove its product of shares, as if in rationals.

At any prices ``p >= 0`` of what is left, with shares ``u`` reached, no shares ``G`` do better than

    sum_i w_i log(G_i / u_i) <= sum_r b_r p_r + sum_i max over G of (w_i log(G / u_i) - cost_i(G)),

and ``log(1 + d) <= d - d**2 / 2 + d**3 / 3`` makes the right-hand side a fraction. What floating point
finds is certain but for a bound on its rounding; only what is not is asked again in fractions.

Source: Eisenberg, Gale, 1959; the questions to quantities are those of ``exact_levels``.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate
from policies.model.tolerance import LEVEL_TOLERANCE
from policies.verification.exact import UNIT
from policies.verification.exact_costs import Fractions, product
from policies.verification.exact_levels import ROUNDINGS
from policies.verification.form import Form
from policies.verification.market import Market
from policies.verification.places import Places
from policies.verification.rounds import LevelRounds
from policies.verification.stated import Stated

# The logarithm of 1 + the tolerance is not less.
_LOG_TOLERANCE = Fraction(LEVEL_TOLERANCE) - Fraction(LEVEL_TOLERANCE) ** 2 / 2


def products_proven(
    stated: Stated,
    places: Places,
    form: Form,
    allocation: Allocation,
    certificate: Certificate,
) -> BoolArray:
    """Return whether each stage's (rounds,) product is proven within the tolerance of the greatest.

    Args:
        stated: the problem; places: its servers as one; form: its participants.
        allocation: a feasible answer; certificate: its own, whose rounds fit the problem.
    """
    shares = form.shares_of(allocation.tasks)
    result = np.ones(len(certificate.rounds), dtype=np.bool_)
    exact: Fractions | None = None
    for number, item in enumerate(certificate.rounds):
        market = Market.of(form, item.stage, shares)
        if not len(market.workloads):
            continue
        certain = _certainly(market, shares, item.prices[0])
        if certain is None:
            if exact is None:
                exact = Fractions.of(stated, places, LevelRounds(form, certificate), allocation)
            certain = _in_fractions(exact, market, item.stage, item.prices[0])
        result[number] = certain
    return result


def _certainly(market: Market, x: FloatArray, prices: FloatArray) -> bool | None:
    """Return whether the prices prove the shares ``x`` (n,), or None if rounding could hide it."""
    shares, weights = market.shares(x), float(market.weight.sum())
    bound = market.log_bound(prices)
    if not (shares > 0).all() or not math.isfinite(bound):
        return False
    logs = float(market.weight @ np.abs(np.log(shares))) / weights
    worth = float(prices.sum()) / weights  # of the whole pool, of which the rest was subtracted
    unit = UNIT * (ROUNDINGS + len(prices) + 2 * len(x).bit_length())
    unit += UNIT * int(np.bincount(market.owner).max(initial=0))
    gap = bound - market.log_mean(shares)
    error = 4 * unit * (logs + abs(bound) + worth + 2.0)
    if abs(gap - float(_LOG_TOLERANCE)) <= error:
        return None
    return gap < LEVEL_TOLERANCE


def _in_fractions(exact: Fractions, market: Market, number: int, prices: FloatArray) -> bool:
    form = exact.rounds.form
    here = np.isin(form.kind, market.workloads).tolist()
    price = [Fraction(p) for p in prices.tolist()]
    left = list(exact.capacity[0])
    segments: dict[int, list[tuple[Fraction, Fraction | None]]] = {}
    reached: dict[int, Fraction] = {}
    for j, owner in enumerate(exact.owner):
        if here[j]:
            segments.setdefault(owner, []).append((product(exact.demand(j), price), exact.limit[j]))
            reached[owner] = reached.get(owner, Fraction(0)) + exact.x[j]
        elif form.stage[owner] < number:
            left = [b - exact.x[j] * d for b, d in zip(left, exact.demand(j), strict=True)]
    gap = product([max(b, Fraction(0)) for b in left], price)
    weights = Fraction(0)
    for owner, mine in segments.items():
        weight = Fraction(float(form.weight[owner]))
        best = _best_share(mine, weight)
        if best is None or not reached[owner]:
            return False
        share, cost = best
        more = share / reached[owner] - 1
        gap += weight * (more - more**2 / 2 + more**3 / 3) - cost
        weights += weight
    return gap <= _LOG_TOLERANCE * weights


def _best_share(
    segments: list[tuple[Fraction, Fraction | None]], weight: Fraction
) -> tuple[Fraction, Fraction] | None:
    """Return the share and the cost at which ``weight * log(share) - cost(share)`` is greatest.

    None if it has no maximum.
    """
    share, cost = Fraction(0), Fraction(0)
    for price, limit in sorted(segments, key=lambda segment: segment[0]):
        if not price and limit is None:
            return None
        gain = None if not price else weight / price - share
        if gain is not None and gain <= 0:
            break
        part = min(part for part in (gain, limit) if part is not None)
        share += part
        cost += part * price
    return share, cost
