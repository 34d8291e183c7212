"""Prices that prove that no mix of the first stage's workloads leaves more to the second one.

Those of the rounds mostly do. Where they do not, what resources that are full keep from other mixes is
added to the second stage's (``mixes.completed_prices``), or to those of the program in which mix and
later shares are chosen together (``best_mix.joint_prices``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from policies.arrays import FloatArray
from policies.equilibrium.best_mix import joint_prices
from policies.equilibrium.mixes import completed_prices
from policies.errors import SolveFailedError
from policies.model.certificate import Round
from policies.proofs.mixes import Mix
from policies.proofs.normal_form import LeximinProblem

# The solver asks more of its prices than the verifier does: this part of the gap that is allowed.
ENOUGH = 0.5


def mix_prices(
    form: LeximinProblem, x: FloatArray, rounds: list[Round], deadline: float | None
) -> FloatArray | None:
    """Return the prices (k, m) that prove the first stage's mix beside those of the rounds.

    None if none are needed.

    Args:
        form: the normalised problem on one pool; x: (n,) shares of all workloads.
        rounds: one per stage; deadline: ``time.monotonic()`` seconds.

    Raises:
        SolveTimeoutError: the deadline passed.
    """
    if len(rounds) < 2:
        return None
    mix = Mix.of(form, 1, x)
    if not mix.is_chosen:
        return None
    found = [
        *_prices_of_full(mix, rounds[0].prices[0], deadline),
        *_prices_of_product(mix, rounds[1], deadline),
    ]
    return np.array(found) if found else None


def _prices_of_full(mix: Mix, first: FloatArray, deadline: float | None) -> Iterator[FloatArray]:
    """Prices that prove of resources that are used up that they are so in every mix."""
    full = mix.full(first)
    for r in np.flatnonzero((mix.later.blocked > 0) & ~full).tolist():
        # What is used up in this mix alone keeps nothing from workloads that lack another resource.
        if full[r] or not (mix.form.demand[mix.blocked(full), r] > 0).any():
            continue
        alone = (np.arange(mix.form.m) == r).astype(np.float64)
        for prices in _completed(mix, alone, deadline):
            proven = mix.full(prices)
            if proven[r]:
                full |= proven
                yield prices


def _prices_of_product(mix: Mix, item: Round, deadline: float | None) -> Iterator[FloatArray]:
    """Prices that prove that no mix gives the second stage a greater product, as well as any do."""
    if mix.later.market is None:
        return
    level, own = math.log(item.level), item.prices[0]
    best, least = None, mix.gap(own, level)
    if least <= ENOUGH:
        return
    for prices in _candidates(mix, own, deadline):
        gap = mix.gap(prices, level)
        if gap < least:
            best, least = prices, gap
        if gap <= ENOUGH:
            break
    if best is not None:
        yield best


def _candidates(mix: Mix, own: FloatArray, deadline: float | None) -> Iterator[FloatArray]:
    """Prices of the market, then those at which mix and shares are chosen together."""
    prices = np.where(mix.later.blocked > 0, 0.0, own)
    yield from _completed(mix, prices, deadline)
    with suppress(SolveFailedError):
        joint = joint_prices(mix.form, 1, mix.x, deadline)
        if joint is not None:
            yield from _completed(mix, joint, deadline)


def _completed(mix: Mix, prices: FloatArray, deadline: float | None) -> Iterator[FloatArray]:
    """Return the prices with those of full resources, without any if the program has no answer."""
    if prices.any():
        with suppress(SolveFailedError):
            yield completed_prices(mix.form, mix.x, 1, prices, deadline)
