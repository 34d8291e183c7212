"""Time division by column generation.

Pricing generates slots as long as they help. The program over the slots known gives prices of
shares; the slot that is worth most at these prices is the next column. Prices between the program's
and the best so far make better columns (smoothing). When the work budget is spent, the mixture of
the slots known is the answer, and the best prices give its bound.

Sources: the TDA thesis (2015), problem (3.1); smoothing: Wentges, "Weighted Dantzig-Wolfe
decomposition for linear mixed-integer programming", 1997.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.errors import SolveTimeoutError
from policies.model.certificate import Round
from policies.model.problem import Problem
from policies.model.tolerance import LEVEL_TOLERANCE, SMALLEST_PART
from policies.proofs.equations import nearest_solution
from policies.proofs.slots.knapsack import MOST_NODES
from policies.proofs.slots.rounds import round_bound, satisfied_at, stuck_tenants
from policies.proofs.slots.slot_pool import Slot, SlotPool
from policies.proofs.slots.work_budget import WorkBudget, WorkBudgetSpentError
from policies.time_division.fewest_slots import fewest_slots
from policies.time_division.open_rounds import with_open_rounds
from policies.time_division.program import Mixture, ScheduleProgram
from policies.time_division.rounds import Division, restated

# Slots shorter than this part of the period are rounding.
SHORTEST_SLOT = 1e-9
# By how much levels may be lower than in their rounds, and the shortest slots: tried in this order.
TRIED = tuple((lower, slot) for lower in (1e-12, 1e-9, 1.0) for slot in (1e-6, 1e-8, SHORTEST_SLOT))
ARRIVED = LEVEL_TOLERANCE / 10
# A slot is worth more than the mixture if it is by this much, relative.
BETTER = 1e-14
# Part of the best prices in those that a slot is made for, and nodes of a search for it: what is
# tried first, and then, where that finds no better slot.
TRIES = ((0.5, 20_000), (0.0, 20_000), (0.0, MOST_NODES))
# Steps of innermost loops until the best mixture so far is taken: about six seconds.
WORK = 6e9


def divide(
    problem: Problem, pool: SlotPool, budget: WorkBudget, first_prices: FloatArray
) -> Division:
    """Return the weighted leximin of average shares over mixtures of saturated slots.

    Args:
        problem: for weights and stages.
        pool: what a slot may run.
        budget: work that may be done; see ``WORK``.
        first_prices: (t',) of shares; any will do, good ones bound the first level well.

    Returns:
        At most as many slots as there are tenants (a basic optimum); one empty slot where
        no tenant can run anything. If the budget ran out, rounds are left open.

    Raises:
        SolveTimeoutError: before there was any mixture. SolveFailedError.
    """
    if not len(pool.tenants):
        nothing = Slot(np.zeros((len(pool.kind), 0), dtype=np.int64))
        none = np.zeros(0)
        return Division((nothing,), np.ones(1), none, (), none.astype(np.int64), 1, True)
    return _Rounds(problem, pool, budget, first_prices).run()


class _Rounds:
    def __init__(
        self, problem: Problem, pool: SlotPool, budget: WorkBudget, first_prices: FloatArray
    ) -> None:
        self.problem = problem
        self.pool = pool
        self.budget = budget
        self.t = len(pool.tenants)
        self.weight = problem.effective_weight[pool.tenants]
        self.stage = problem.second_stage[pool.tenants]
        self.cap = satisfied_at(pool)
        self.program = ScheduleProgram(self.t, budget)
        self.slots: list[Slot] = []
        self.known: dict[bytes, int] = {}
        self.priced: list[tuple[FloatArray, float]] = []
        self.share = np.zeros(self.t)
        self.frozen_in = np.full(self.t, -1, dtype=np.int64)
        self.rounds: list[Round] = []
        self.full = np.zeros(self.t, dtype=np.bool_)
        # First of all a mixture that will do as an answer if the time passes.
        self.mixture = self._first_slots()
        slot = pool.best(first_prices)
        self._add(slot)
        self.priced.append((first_prices, slot.bound))

    def run(self) -> Division:
        for stage in (False, True):
            rising = self.stage == stage
            while rising.any():
                rising &= ~self._round(stage, rising)
        slots, fractions = self._refined(self.mixture.fractions)
        share = self._average(slots, fractions)
        rounds = restated(self.problem, self.pool, self.rounds, self.frozen_in, share)
        if not all(item.proven for item in rounds):
            rounds = self._left_open_alone(rounds, share)
        fewest = False
        if all(item.proven for item in rounds):
            slots, fractions, fewest = fewest_slots(self.pool, slots, fractions, share, rounds)
        return Division(
            slots,
            fractions,
            share,
            rounds,
            self.frozen_in,
            len(self.slots),
            fewest,
            self.budget.stopped,
        )

    def _left_open_alone(self, rounds: Sequence[Round], share: FloatArray) -> tuple[Round, ...]:
        """Return the rounds with one open per stage, of all tenants that are not proven stuck."""

        def best_prices(
            rising: BoolArray, frozen_in: IntArray, number: int
        ) -> tuple[FloatArray, float]:
            self.share = np.where((frozen_in >= 0) & (frozen_in < number), share, 0.0)
            best = _BestPrices(self, rising)
            return best.prices, best.bound

        self.rounds, self.frozen_in = with_open_rounds(
            rounds,
            self.frozen_in,
            share / self.weight,
            share >= self.cap * (1 - LEVEL_TOLERANCE),
            self.stage,
            self.weight,
            best_prices,
        )
        return restated(self.problem, self.pool, self.rounds, self.frozen_in, share)

    def _first_slots(self) -> Mixture:
        """Return a mixture of as many slots as tenants, all equally long.

        Each slot is for the tenants with the least share so far.
        """
        weighted = self.pool.prior_share * self.t / self.weight
        times: list[int] = []
        try:
            for _ in range(self.t):
                self.budget.seconds_left()
                slot = self.pool.in_turn(weighted, self.weight, self.stage)
                if self._add(slot):
                    times.append(1)
                else:
                    times[self.known[slot.tasks.tobytes()]] += 1
        except WorkBudgetSpentError:
            raise SolveTimeoutError(
                "solve.timeout", "the time limit passed before a first answer"
            ) from None
        return Mixture(0.0, np.array(times) / self.t, np.zeros(self.t))

    def _average(self, slots: tuple[Slot, ...], fractions: FloatArray) -> FloatArray:
        shares = np.array([self.pool.shares(slot.tasks) for slot in slots])
        average: FloatArray = np.minimum(fractions @ shares, self.cap)
        return average

    def _add(self, slot: Slot) -> bool:
        """Add a slot and return whether it was new."""
        key = slot.tasks.tobytes()
        if key in self.known:
            return False
        self.known[key] = len(self.slots)
        self.slots.append(slot)
        self.program.add(self.pool.shares(slot.tasks) * self.t)
        return True

    def _round(self, stage: bool, rising: BoolArray) -> BoolArray:
        """Raise the level of a round and return the tenants frozen at it."""
        best = _BestPrices(self, rising)
        try:
            self.budget.seconds_left()
            mixture = self._best_mixture(rising, best)
        except WorkBudgetSpentError:
            return self._left_open(stage, rising, best)
        level = min(self._exact_level(mixture, rising), best.bound)
        reached = level * self.weight
        full = rising & (self.cap <= reached * (1 + LEVEL_TOLERANCE))
        frozen = full if full.any() else self._stuck(rising, best.prices, best.bound - level, level)
        self.share[frozen] = np.minimum(self.cap, reached)[frozen]
        self.full |= full
        self._close(stage, frozen, level, best)
        return frozen

    def _best_mixture(self, rising: BoolArray, best: _BestPrices) -> Mixture:
        """Add slots until none is worth more than the mixture, or the level is at its bound."""
        self.program.set_round(self.weight, rising, self.share * self.t)
        smallest = 1e-2 / float(self.weight[rising].sum())
        while True:
            mixture = self.mixture = self.program.solve()
            level = mixture.level / self.t
            if not self._improved(mixture, best, level, ARRIVED / self.t * max(level, smallest)):
                return mixture

    def _improved(
        self, mixture: Mixture, best: _BestPrices, level: float, tolerance: float
    ) -> bool:
        """Add a slot that is worth more than the mixture, and return whether there was one.

        There is none once the mixture is optimal.
        """
        average = float(mixture.prices @ self.share) + level * float(
            (mixture.prices * self.weight)[best.rising].sum()
        )
        for smooth, nodes in TRIES:
            # Between the program's prices and the best so far, because the former oscillate from
            # slot to slot.
            slot = best.slot(smooth * best.prices + (1 - smooth) * mixture.prices, nodes)
            if best.bound - level <= tolerance:
                return False
            worth = float(mixture.prices @ self.pool.shares(slot.tasks))
            if self._add(slot) and worth > average * (1 + BETTER):
                return True
        return False

    def _left_open(self, stage: bool, rising: BoolArray, best: _BestPrices) -> BoolArray:
        """Freeze all rising tenants at their shares in the mixture.

        If some run all their tasks at no higher level than the others have, only those are frozen.
        """
        fractions = self.mixture.fractions
        used = np.flatnonzero(fractions > SHORTEST_SLOT)
        fractions = fractions[used] / fractions[used].sum()
        share = self._average(tuple(self.slots[c] for c in used.tolist()), fractions)
        full = rising & (share >= self.cap * (1 - LEVEL_TOLERANCE))
        least = float((share / self.weight)[rising & ~full].min(initial=np.inf))
        full &= share <= least * self.weight
        frozen = full if full.any() else rising
        self.share[frozen] = share[frozen]
        self._close(stage, frozen, float((share / self.weight)[frozen].min()), best)
        return frozen

    def _close(self, stage: bool, frozen: BoolArray, level: float, best: _BestPrices) -> None:
        self.frozen_in[frozen] = len(self.rounds)
        prices = best.prices
        # Prices of 0 would bound nothing.
        if not prices.any():
            prices = np.where(best.rising, 1.0 / (best.rising.sum() * self.weight), 0.0)
        self.rounds.append(Round(int(stage), level, best.bound, prices))

    def _exact_level(self, mixture: Mixture, rising: BoolArray) -> float:
        """Return the level to the last digit, from the equations of the tight tenants.

        Tenants with a price are tight: rising ones at the level, frozen ones at their shares.
        Without a solution, the level is the program's.
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
        solution = nearest_solution(
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
        """Return the rising tenants whose own lift is proven to be next to nothing.

        If there are none, return those with a price.
        """
        part = np.where(rising, prices * self.weight, 0.0)
        part /= max(float(part.sum()), 1e-300)
        stuck = stuck_tenants(part, level, unproven)
        return stuck if stuck.any() else rising & (part >= min(SMALLEST_PART, float(part.max())))

    def _refined(self, fractions: FloatArray) -> tuple[tuple[Slot, ...], FloatArray]:
        """Return the slots in use, and fractions to the last digit.

        The program's answer is right to its tolerance only, and may have slots of that size. The
        equations that were found (tenants of one round have its level, the full all their tasks)
        are solved with the fewest slots with which they have a solution nearby.
        """
        reached = np.array([item.level for item in self.rounds])
        level_of = np.zeros((self.t, len(reached)))
        level_of[np.arange(self.t), self.frozen_in] = -self.weight
        level_of[self.full] = 0.0
        right = np.append(np.where(self.full, self.cap, 0.0), 1.0)
        for lower, shortest in () if self.budget.stopped else TRIED:
            used = np.flatnonzero(fractions > shortest)
            slots = tuple(self.slots[c] for c in used.tolist())
            shares = np.array([self.pool.shares(slot.tasks) for slot in slots]).T
            ones = np.ones((1, len(slots)))
            rows = np.block([[shares, level_of], [ones, np.zeros((1, len(reached)))]])
            solution = nearest_solution(rows, right, np.append(fractions[used], reached))
            better, levels = np.split(solution, [len(slots)])
            if (
                np.abs(rows @ solution - right).max() <= 1e-13
                and bool((better > 0).all())
                and bool((levels >= reached * (1 - lower) - 1e-15).all())
            ):
                return slots, better / better.sum()
        used = np.flatnonzero(fractions > SHORTEST_SLOT)
        slots = tuple(self.slots[c] for c in used.tolist())
        return slots, fractions[used] / fractions[used].sum()


class _BestPrices:
    """Prices (t',) of a round that bound its level best.

    They add up to 1 with the weights.
    """

    def __init__(self, rounds: _Rounds, rising: BoolArray) -> None:
        self._of = rounds
        self.rising = rising
        self.bound = float("inf")
        self.prices = np.zeros(rounds.t)
        # The worth of a slot is bounded whatever the round, so that earlier prices count as well.
        for prices, value in rounds.priced:
            self._try(prices, value)

    def slot(self, prices: FloatArray, nodes: int) -> Slot:
        """Return the slot that is worth most at these prices, and keep their bound if it is better."""
        of = self._of
        slot = of.pool.best(prices, nodes=nodes, budget=of.budget)
        of.priced.append((prices, slot.bound))
        self._try(prices, slot.bound)
        return slot

    def _try(self, prices: FloatArray, value: float) -> None:
        of = self._of
        bound = round_bound(value, prices, of.weight, self.rising, of.share)
        if bound < self.bound:
            together = float((prices * of.weight)[self.rising].sum())
            self.bound, self.prices = bound, prices / together
