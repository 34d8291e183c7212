"""Rounds of a time division, and what their prices prove.

Raise the least weighted average share of the rising tenants, freeze who cannot rise or has all its
tasks all the time, repeat: the weighted leximin over mixtures of saturated slots. The value of the
best slot at a round's prices of shares bounds the round's level.

Source: the TDA thesis (2015), problem (3.1), for two users; n tenants, weights, limits and the
leximin are ours (policies §5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.problem import Problem
from policies.proofs.level_bounds import LEVEL_TOLERANCE, SOLVER_NOISE, Round
from policies.time_division.columns import Slot, SlotPool
from policies.verification.checks import AGREEMENT

# A tenant whose share has less than this part in a round's prices is left to a later round.
SMALLEST_PART = 1e-7
# Levels below it are as good as this one: what they are relative to.
SMALLEST_LEVEL = 1e-3


@dataclass(frozen=True, eq=False)
class Division:
    """The leximin over mixtures of slots.

    Attributes:
        slots: those in use; fractions: (s,) of the period.
        share: (t',) average share of the pool's tenants.
        rounds: in order; frozen_in: (t',) the round of each tenant.
        slots_made: how many were made on the way.
        fewest: is it proven that no mixture with these shares has fewer slots?
        stopped: what ended the search for better slots early (``time``, ``work``), or None.
    """

    slots: tuple[Slot, ...]
    fractions: FloatArray
    share: FloatArray
    rounds: tuple[Round, ...]
    frozen_in: IntArray
    slots_made: int
    fewest: bool
    stopped: str | None = None


def satisfied_at(pool: SlotPool) -> FloatArray:
    """(t',) share, with what it had already, of a tenant that runs all its tasks all the time."""
    everything = grouped_sum(pool.limit * pool.share, pool.owner, len(pool.tenants))
    return everything + pool.already


def round_bound(
    value: float, prices: FloatArray, weight: FloatArray, rising: BoolArray, share: FloatArray
) -> float:
    """No schedule lifts the rising tenants' level above it, the others keeping their shares.

    Every slot's shares are worth at most ``value`` at the prices (t',), hence every average.

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
    """The bound of the first round that freezes somebody who wants more; NaN if none does.

    Whoever was frozen before runs all its tasks, so the bound holds for every schedule.

    Args:
        problem, pool: what is scheduled.
        rounds: in order; frozen_in: (t',) the round of each of the pool's tenants.
        share: (t',) their average shares.
    """
    wanting = share < satisfied_at(pool) * (1 - LEVEL_TOLERANCE)
    wanting &= ~problem.second_stage[pool.tenants]
    return rounds[int(frozen_in[wanting].min())].bound if wanting.any() else float("nan")


def stuck_tenants(part: FloatArray, level: float, unproven: float) -> BoolArray:
    """(t',) tenants that prices prove to be stuck: their own lift is next to nothing.

    A round whose level is ``unproven`` below its bound can lift a tenant by no more than
    ``unproven / part``, relative to its weight.

    Args:
        part: (t',) prices × weights of the rising tenants, adding up to 1; 0 for the others.
    """
    lift = max(unproven, 0.0) + SOLVER_NOISE * level
    stuck: BoolArray = part > SMALLEST_PART
    return stuck & (lift <= LEVEL_TOLERANCE * max(level, SMALLEST_LEVEL) * part)


def restated(
    problem: Problem,
    pool: SlotPool,
    rounds: Sequence[Round],
    frozen_in: IntArray,
    share: FloatArray,
) -> tuple[Round, ...]:
    """The rounds with the levels that were reached, and what their prices prove of these.

    Args:
        problem, pool: what is scheduled; rounds: in order; frozen_in: (t',) the round of each.
        share: (t',) the averages.
    """
    weight = problem.effective_weight[pool.tenants]
    result = []
    for number, item in enumerate(rounds):
        mine = frozen_in == number
        level = float((share / weight)[mine].min())
        reached = replace(item, level=level)
        bound, stuck = proof_of_round(problem, pool, number, reached, frozen_in, share)
        result.append(replace(reached, bound=bound, proven=bool(stuck[mine].all())))
    return tuple(result)


def proof_of_round(
    problem: Problem,
    pool: SlotPool,
    number: int,
    item: Round,
    frozen_in: IntArray,
    share: FloatArray,
) -> tuple[float, BoolArray]:
    """What a round's prices prove: a bound on its level, and who cannot have more.

    Args:
        problem, pool: what is scheduled; item: the round, ``number``th of all.
        frozen_in: (t',) the round of each; share: (t',) the averages.

    Returns:
        The bound, at least the level, and (t',) who runs all its tasks, or is at the level and
        proven to be stuck there while those frozen earlier, at lower levels, keep their shares.
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
