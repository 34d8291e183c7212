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

from policies.arrays import FloatArray, IntArray
from policies.model.certificate import Round
from policies.model.problem import Problem
from policies.model.solver_status import SolverStatus
from policies.proofs.slots.rounds import proof_of_round
from policies.proofs.slots.slot_pool import Slot, SlotPool


@dataclass(frozen=True, eq=False)
class Division:
    """The leximin over mixtures of slots.

    Attributes:
        slots: those in use; fractions: (s,) of the period.
        share: (t',) average share of the pool's tenants.
        rounds: in order; frozen_in: (t',) the round of each tenant.
        slots_made: how many were made on the way.
        fewest: is it proven that no mixture with these shares has fewer slots?
        stopped: the limit that ended the search for better slots early, or None.
    """

    slots: tuple[Slot, ...]
    fractions: FloatArray
    share: FloatArray
    rounds: tuple[Round, ...]
    frozen_in: IntArray
    slots_made: int
    fewest: bool
    stopped: SolverStatus | None = None


def restated(
    problem: Problem,
    pool: SlotPool,
    rounds: Sequence[Round],
    frozen_in: IntArray,
    share: FloatArray,
) -> tuple[Round, ...]:
    """Return the rounds with the levels that were reached, and the bounds that their prices prove.

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
