"""Rounds of a time division: the highest average shares, proven by prices.

Raise the least weighted average share of the rising tenants, freeze who cannot rise or has all its
tasks all the time, repeat: the weighted leximin over mixtures of saturated slots. Slots are made by
pricing: the best slot at a round's prices of shares is the next column, and its value is the proof.

Source: the TDA thesis (2015), problem (3.1), for two users; n tenants, weights, limits and the
leximin are ours (policies §5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.certificates import LEVEL_TOLERANCE, SOLVER_NOISE, Round
from policies.fewest_slots import fewest_slots
from policies.problem import Problem
from policies.schedule_program import Mixture, ScheduleProgram
from policies.slot_columns import Slot, SlotPool

# A tenant whose share has less than this part in a round's prices is left to a later round.
SMALLEST_PART = 1e-7
# Levels below it are as good as this one: what they are relative to.
SMALLEST_LEVEL = 1e-3
# Slots shorter than this part of the period are rounding.
SHORTEST_SLOT = 1e-9
# By how much levels may be lower than in their rounds, and the shortest slots: tried in this order.
TRIED = tuple((lower, slot) for lower in (1e-12, 1e-9, 1.0) for slot in (1e-6, 1e-8, SHORTEST_SLOT))
ARRIVED = LEVEL_TOLERANCE / 10


@dataclass(frozen=True, eq=False)
class Division:
    """The leximin over mixtures of slots.

    Attributes:
        slots: those in use; fractions: (s,) of the period.
        share: (t',) average share of the pool's tenants.
        rounds: in order; frozen_in: (t',) the round of each tenant.
        slots_made: how many were made on the way.
        fewest: is it proven that no mixture with these shares has fewer slots?
    """

    slots: tuple[Slot, ...]
    fractions: FloatArray
    share: FloatArray
    rounds: tuple[Round, ...]
    frozen_in: IntArray
    slots_made: int
    fewest: bool


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
    """The rounds with the levels that were reached and the bounds that follow from their prices.

    Args:
        problem, pool: what is scheduled; rounds: in order; frozen_in: (t',) the round of each.
        share: (t',) the averages.
    """
    weight, stage = problem.effective_weight[pool.tenants], problem.second_stage[pool.tenants]
    result = []
    for number, item in enumerate(rounds):
        mine = frozen_in == number
        rising = (stage == bool(item.stage)) & (frozen_in >= number)
        before = np.where(frozen_in < number, share, 0.0)
        bound = round_bound(pool.bound(item.prices), item.prices, weight, rising, before)
        level = float((share / weight)[mine].min())
        result.append(replace(item, level=level, bound=max(bound, level)))
    return tuple(result)


def divide(problem: Problem, pool: SlotPool, deadline: float | None) -> Division:
    """The weighted leximin of average shares over mixtures of saturated slots.

    Args:
        problem: for weights and stages.
        pool: what a slot may run.
        deadline: ``time.monotonic()`` seconds at which to give up, or None.

    Returns:
        At most as many slots as there are tenants (a basic optimum); one empty slot where
        nobody can run anything.

    Raises:
        SolveTimeoutError, SolveFailedError.
    """
    if not len(pool.tenants):
        nothing = Slot(np.zeros((len(pool.kind), 0), dtype=np.int64))
        none = np.zeros(0)
        return Division((nothing,), np.ones(1), none, (), none.astype(np.int64), 1, True)
    return _Rounds(problem, pool, deadline).run()


class _Rounds:
    def __init__(self, problem: Problem, pool: SlotPool, deadline: float | None) -> None:
        self.problem = problem
        self.pool = pool
        self.t = len(pool.tenants)
        self.weight = problem.effective_weight[pool.tenants]
        self.stage = problem.second_stage[pool.tenants]
        self.cap = satisfied_at(pool)
        self.program = ScheduleProgram(self.t, deadline)
        self.slots: list[Slot] = []
        self.known: dict[bytes, int] = {}
        self.share = np.zeros(self.t)
        self.frozen_in = np.full(self.t, -1, dtype=np.int64)
        self.rounds: list[Round] = []
        self.full = np.zeros(self.t, dtype=np.bool_)

    def run(self) -> Division:
        for prices in np.eye(self.t):
            self.program.check_time()
            self._add(self.pool.best(prices))
        mixture = Mixture(0.0, np.zeros(0), np.zeros(self.t))
        for stage in (False, True):
            rising = self.stage == stage
            while rising.any():
                mixture, frozen = self._round(stage, rising)
                rising &= ~frozen
        slots, fractions = self._polished(mixture.fractions)
        shares = np.array([self.pool.shares(slot.tasks) for slot in slots])
        share = np.minimum(fractions @ shares, self.cap)
        rounds = restated(self.problem, self.pool, self.rounds, self.frozen_in, share)
        slots, fractions, fewest = fewest_slots(self.pool, slots, fractions, share, rounds)
        return Division(slots, fractions, share, rounds, self.frozen_in, len(self.slots), fewest)

    def _add(self, slot: Slot) -> bool:
        """Make a slot known; was it new?"""
        key = slot.tasks.tobytes()
        if key in self.known:
            return False
        self.known[key] = len(self.slots)
        self.slots.append(slot)
        self.program.add(self.pool.shares(slot.tasks) * self.t)
        return True

    def _round(self, stage: bool, rising: BoolArray) -> tuple[Mixture, BoolArray]:
        """One level, and who is frozen at it."""
        self.program.set_round(self.weight, rising, self.share * self.t)
        least, best_prices = np.inf, np.zeros(self.t)
        scale = 1e-2 / float(self.weight[rising].sum())
        while True:
            mixture = self.program.solve()
            level = mixture.level / self.t
            slot = self.pool.best(mixture.prices)
            bound = round_bound(slot.bound, mixture.prices, self.weight, rising, self.share)
            if bound < least:
                least, best_prices = bound, mixture.prices
            if least - level <= ARRIVED / self.t * max(level, scale) or not self._add(slot):
                break
        level = min(self._exact_level(mixture, rising), least)
        reached = level * self.weight
        full = rising & (self.cap <= reached * (1 + LEVEL_TOLERANCE))
        frozen = full if full.any() else self._stuck(rising, best_prices, least - level, level)
        self.share[frozen] = np.minimum(self.cap, reached)[frozen]
        self.full |= full
        self.frozen_in[frozen] = len(self.rounds)
        together = float((best_prices * self.weight)[rising].sum())
        prices = best_prices / together if together > 0 else best_prices
        self.rounds.append(Round(int(stage), level, least, prices))
        return mixture, frozen

    def _exact_level(self, mixture: Mixture, rising: BoolArray) -> float:
        """The level to the last digit, from the equations of who is tight; else the program's.

        Who has a price is tight: the rising at the level, the frozen at their shares.
        """
        used = np.flatnonzero(mixture.fractions > SHORTEST_SLOT)
        shares = np.array([self.pool.shares(self.slots[c].tasks) for c in used.tolist()]).T
        tight = mixture.prices * self.weight > SMALLEST_PART / self.t
        rows = np.block(
            [
                [shares[tight], -np.where(rising, self.weight, 0.0)[tight, None]],
                [np.ones((1, len(used))), np.zeros((1, 1))],
            ]
        )
        right = np.append(np.where(rising, 0.0, self.share)[tight], 1.0)
        solution = _nearest_solution(
            rows, right, np.append(mixture.fractions[used], mixture.level / self.t)
        )
        level, average = float(solution[-1]), shares @ solution[:-1]
        floor = np.where(rising, level * self.weight, self.share)
        holds = (
            np.abs(rows @ solution - right).max() <= 1e-14
            and bool((solution[:-1] >= 0).all())
            and bool((average >= floor * (1 - 1e-13)).all())
        )
        return level if holds else mixture.level / self.t

    def _stuck(
        self, rising: BoolArray, prices: FloatArray, unproven: float, level: float
    ) -> BoolArray:
        """Rising tenants whose own lift is proven to be next to nothing."""
        part = np.where(rising, prices * self.weight, 0.0)
        part /= max(float(part.sum()), 1e-300)
        stuck = stuck_tenants(part, level, unproven)
        return stuck if stuck.any() else rising & (part >= part.max())

    def _polished(self, fractions: FloatArray) -> tuple[tuple[Slot, ...], FloatArray]:
        """The slots in use, and fractions to the last digit.

        The program's answer is right to its tolerance only, and may have slots of that size. The
        equations that were found (tenants of one round have its level, the full all their tasks)
        are solved with the fewest slots with which they have a solution nearby.
        """
        reached = np.array([item.level for item in self.rounds])
        level_of = np.zeros((self.t, len(reached)))
        level_of[np.arange(self.t), self.frozen_in] = -self.weight
        level_of[self.full] = 0.0
        right = np.append(np.where(self.full, self.cap, 0.0), 1.0)
        for lower, shortest in TRIED:
            used = np.flatnonzero(fractions > shortest)
            slots = tuple(self.slots[c] for c in used.tolist())
            shares = np.array([self.pool.shares(slot.tasks) for slot in slots]).T
            ones = np.ones((1, len(slots)))
            rows = np.block([[shares, level_of], [ones, np.zeros((1, len(reached)))]])
            solution = _nearest_solution(rows, right, np.append(fractions[used], reached))
            better, levels = np.split(solution, [len(slots)])
            if (
                np.abs(rows @ solution - right).max() <= 1e-13
                and bool((better > 0).all())
                and bool((levels >= reached * (1 - lower) - 1e-15).all())
            ):
                return slots, better / better.sum()
        return slots, fractions[used] / fractions[used].sum()


def _nearest_solution(rows: FloatArray, right: FloatArray, start: FloatArray) -> FloatArray:
    """The solution of ``rows @ x = right`` nearest to ``start``, which nearly is one."""
    solution = start
    for _ in range(2):  # the second step takes away what rounding left of the first
        correction, *_ = np.linalg.lstsq(rows, right - rows @ solution, rcond=1e-13)
        solution = solution + correction
    return solution
