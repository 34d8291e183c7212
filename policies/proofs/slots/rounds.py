"""Bounds on the levels of a time division's rounds, proven by their prices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.certificate import Round
from policies.model.problem import Problem
from policies.model.tolerance import (
    AGREEMENT,
    LEVEL_TOLERANCE,
    SMALLEST_LEVEL,
    SMALLEST_PART,
    SOLVER_NOISE,
)
from policies.proofs.slots.slot_pool import SlotPool


def satisfied_at(pool: SlotPool) -> FloatArray:
    """Return the share (t',), prior share included, of a tenant that runs all its tasks all the time."""
    everything = grouped_sum(pool.limit * pool.share, pool.owner, len(pool.tenants))
    return everything + pool.prior_share


def round_bound(
    value: float, prices: FloatArray, weight: FloatArray, rising: BoolArray, share: FloatArray
) -> float:
    """Return a bound on the rising tenants' level in any schedule.

    The other tenants keep their shares. Every slot's shares are worth at most ``value`` at the
    prices (t',), hence every average.

    Args:
        value: of the best slot; share: (t',) of those frozen earlier, 0 for the rest.
        weight: (t',); rising: (t',) the tenants of the round.
    """
    together = float((prices * weight)[rising].sum())
    if together <= 0:
        return float("inf")
    return max(value - float(prices @ np.where(rising, 0.0, share)), 0.0) / together


def proven_bound(
    problem: Problem,
    pool: SlotPool,
    rounds: Sequence[Round],
    frozen_in: IntArray,
    share: FloatArray,
) -> float:
    """Return the bound of the first round that freezes a tenant with tasks left, or NaN.

    Tenants of the second stage do not count. All tenants frozen before run all their tasks, so the
    bound holds for every schedule.

    Args:
        problem, pool: what is scheduled.
        rounds: in order; frozen_in: (t',) the round of each of the pool's tenants.
        share: (t',) their average shares.
    """
    wanting = share < satisfied_at(pool) * (1 - LEVEL_TOLERANCE)
    wanting &= ~problem.second_stage[pool.tenants]
    return rounds[int(frozen_in[wanting].min())].bound if wanting.any() else float("nan")


def stuck_tenants(part: FloatArray, level: float, unproven: float) -> BoolArray:
    """Return the tenants (t',) that prices prove to be stuck, with a lift next to nothing.

    A round whose level is ``unproven`` below its bound can lift a tenant by no more than
    ``unproven / part``, relative to its weight.

    Args:
        part: (t',) prices × weights of the rising tenants, adding up to 1; 0 for the others.
    """
    lift = max(unproven, 0.0) + SOLVER_NOISE * level
    stuck: BoolArray = part > SMALLEST_PART
    return stuck & (lift <= LEVEL_TOLERANCE * max(level, SMALLEST_LEVEL) * part)


def proof_of_round(
    problem: Problem,
    pool: SlotPool,
    number: int,
    item: Round,
    frozen_in: IntArray,
    share: FloatArray,
) -> tuple[float, BoolArray]:
    """Return the bound on a round's level and the tenants that cannot have more, by its prices.

    Args:
        problem, pool: what is scheduled; item: the round, ``number``th of all.
        frozen_in: (t',) the round of each; share: (t',) the averages.

    Returns:
        The bound, at least the level, and the tenants (t',) that run all their tasks, or are at the
        level and proven to be stuck there while those frozen earlier, at lower levels, keep their
        shares.
    """
    weight = problem.effective_weight[pool.tenants]
    alike = problem.second_stage[pool.tenants] == bool(item.stage)
    rising = alike & (frozen_in >= number)
    before = np.where(frozen_in < number, share, 0.0)
    value = pool.bound(item.prices)
    bound = max(round_bound(value, item.prices, weight, rising, before), item.level)
    part = np.where(rising, item.prices * weight, 0.0)
    part /= max(float(part.sum()), 1e-300)
    stuck = stuck_tenants(part, item.level, bound - item.level)
    higher = share / weight - item.level > AGREEMENT * max(item.level, SMALLEST_LEVEL)
    stuck &= ~higher & ~(higher & alike & ~rising).any()
    return bound, stuck | (share >= satisfied_at(pool) * (1 - LEVEL_TOLERANCE))
