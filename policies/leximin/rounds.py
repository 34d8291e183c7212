"""Weighted leximin of shares, in rounds.

Each round raises the least share and freezes the tenants that cannot rise further. The rounds are
those of Wang et al. (TPDS 2015, §5.1), made exact for task limits, zero demands and placement
constraints. Finite tasks cost no rounds of their own: within a round the answer is
``G_i = min(cap_i, level * w_i)`` with one scalar ``level``, found from above by Newton's method,
since the prices of any trial level bound the true one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.errors import SolveFailedError
from policies.leximin.crossover import few_placements
from policies.leximin.highs import SimplexLevels
from policies.leximin.interior_point.method import NoConvergenceError, maximise_level
from policies.leximin.level_program import LevelSolution, level_program
from policies.leximin.priority_order import preferred_workloads
from policies.leximin.realisation import place_shares
from policies.leximin.refinement import refined
from policies.model.certificate import Certificate, Round
from policies.model.tolerance import OPEN_GAP, SOLVER_TOLERANCE
from policies.proofs.cost_curve import CostCurve
from policies.proofs.group_path import GroupPath
from policies.proofs.level_bounds import (
    TOO_FAR_APART,
    RoundProof,
    budget_left,
    budget_rounding,
    curve_at,
    level_scale,
    normalised_prices,
    prove_round,
    prove_rounds,
    worth_left,
)
from policies.proofs.normal_form import LeximinProblem, exact_shares

Maximise = Callable[[FloatArray, FloatArray], LevelSolution]

# Newton's method ends when a level is below its trial by less than this, relative to the trial.
ARRIVED = 1e-11
MOST_NEWTON_STEPS = 60
# A level up to this, on the scale of levels, is rounding and counts as 0.
NOTHING = 1e-10
# Programs of at most this many variables go to the simplex method, whose answers are vertices.
SMALL = 200


@dataclass(frozen=True, eq=False)
class Leximin:
    """Answer of the rounds.

    Attributes:
        share: (t,) ``G_i``; level: (t,) weighted level at which each tenant was frozen.
        x: (n, K) dominant shares on the classes.
        certificate: rounds over the tenants, classes and limits of the ``LeximinProblem``.
        programs: number of linear programs solved.
        paths: path of each round in a pool with groups.
    """

    share: FloatArray
    level: FloatArray
    x: FloatArray
    certificate: Certificate
    programs: int
    paths: tuple[GroupPath, ...] = ()


@dataclass(frozen=True, eq=False)
class Attempt:
    """One engine's answer to a round.

    Attributes:
        level: level that all rising tenants reach; x: (n, K) shares on the classes that reach it, None
            if no program has looked for them yet.
        prices: (K + l, m) of classes and limits; proof: what these prices prove.
        satisfied: (t,) rising tenants that have all their tasks at the level.
    """

    level: float
    x: FloatArray | None
    prices: FloatArray
    proof: RoundProof
    satisfied: BoolArray


class Rounds:
    """The rounds of a flat pool, in which all rising tenants have one level."""

    def __init__(self, problem: LeximinProblem, deadline: float | None, *, interior: bool) -> None:
        self.problem = problem
        self.deadline = deadline
        self.share = problem.kept.copy()
        self.frozen_in = np.full(problem.t, -1)
        self.rounds: list[Round] = []
        self.x: FloatArray | None = None
        self.programs = 0
        self.paths: list[GroupPath] = []
        self.simplex: SimplexLevels | None = None
        # Whether a program may end at the shares at which it aims.
        self.aim_is_enough = False
        self.engines: tuple[Maximise, ...] = (self._by_simplex, self._by_interior_point)
        if problem.has_amounts:
            # A limit is a constraint over several classes. The interior point's equations have none.
            # Guaranteed parts may fill servers up, so that there is no interior.
            self.engines = (self._by_simplex,)
        elif interior:
            self.engines = self.engines[::-1]

    def run(self) -> Leximin:
        for stage in (0, 1):
            self._rise(stage)
        x = self._placed()
        if not self.problem.has_amounts:
            # The simplex method is the only engine with amounts, and its vertices have few placements.
            x = few_placements(self.problem, x, self.deadline)
        x = preferred_workloads(self.problem, x, self.deadline)
        x, share, rounds = self._refined(x)
        return Leximin(
            share,
            share / self.problem.weight,
            exact_shares(self.problem, x, share),
            Certificate(rounds, self.frozen_in),
            self.programs,
            tuple(self.paths),
        )

    def _rise(self, stage: int) -> None:
        """Solve all rounds of a stage."""
        rising = self.problem.stage == stage
        while rising.any():
            rising &= ~self._round(stage, rising)

    def _placed(self) -> FloatArray:
        """Return the shares on classes so far. Before the first round these are guaranteed parts."""
        problem = self.problem
        if self.x is None:
            self.x = np.zeros((problem.n, problem.K))
            if problem.kept.any() and problem.progressive_filling:
                self.x = problem.kept[:, None].copy()
            elif problem.kept.any():
                placed = place_shares(problem, problem.kept, self.deadline)
                self.x = exact_shares(problem, placed, problem.kept)
        return self.x

    def _refined(self, x: FloatArray) -> tuple[FloatArray, FloatArray, tuple[Round, ...]]:
        """Return shares on classes, shares and rounds without solver tolerances, where that is cheap."""
        share, rounds = self.share, tuple(self.rounds)
        # The equations are dense.
        small = bool(rounds) and (x > 0).sum() <= 2 * SMALL
        if small:
            x, share, rounds = refined(self.problem, x, share, rounds, self.frozen_in)
            rounds = self._without_empty_proofs(rounds, share)
        if small or not all(item.proven for item in rounds):
            proofs = prove_rounds(self.problem, rounds, self.frozen_in, share)
            rounds = tuple(
                replace(item, bound=max(proof.bound, item.level))
                for item, (_, proof) in zip(rounds, proofs, strict=True)
            )
        return x, share, rounds

    def _without_empty_proofs(
        self, rounds: tuple[Round, ...], share: FloatArray
    ) -> tuple[Round, ...]:
        """Leave out rounds that end because tenants have all their tasks just as a resource fills.

        Their prices prove the level only up to rounding if the others do not need the resource. These
        tenants have all their tasks in the following round as well.
        """
        problem, full = self.problem, share >= self.problem.cap * (1 - SOLVER_TOLERANCE)
        proofs = list(prove_rounds(problem, rounds, self.frozen_in, share))
        for number, (rising, proof) in enumerate(proofs[:-1]):
            item = rounds[number]
            gap = (proof.bound - item.level) / level_scale(problem, rising, item.level)
            goes_on = rounds[number + 1].stage == item.stage
            if gap > OPEN_GAP and goes_on and full[self.frozen_in == number].all():
                self.frozen_in[self.frozen_in > number] -= 1
                return self._without_empty_proofs(rounds[:number] + rounds[number + 1 :], share)
        return rounds

    def _round(self, stage: int, rising: BoolArray) -> BoolArray:
        """Solve one round with the first engine whose prices prove it, and return the frozen tenants.

        If quantities are so far apart that rounding hides what is left for a tenant, no engine's
        prices may prove the level. The round then stays open, with the best bound.
        """
        best: tuple[float, Attempt] | None = None
        for maximise in self.engines:
            try:
                attempt = self._attempt(rising, maximise)
            except NoConvergenceError:
                # What it could not solve, such as a full server, stays in all later rounds.
                self.engines = (*(each for each in self.engines if each != maximise), maximise)
                continue
            scale = self._scale(rising, attempt.level)
            unproven = (self._least_bound(attempt, rising) - attempt.level) / scale
            frozen = attempt.satisfied | attempt.proof.stuck
            # A round that freezes no tenant would come again without end.
            if frozen.any() and unproven <= SOLVER_TOLERANCE:
                return self._freeze(stage, attempt, frozen, proven=True)
            if best is None or unproven < best[0]:
                best = unproven, attempt
        if best is None or best[0] > OPEN_GAP:
            found = "no engine converged" if best is None else f"the gap is {best[0]:.1e}"
            raise SolveFailedError(
                "solve.failed",
                f"round {len(self.rounds)} is not proven: {found}; {TOO_FAR_APART}",
            )
        attempt = best[1]
        satisfied = attempt.satisfied
        frozen = satisfied if satisfied.any() else attempt.proof.stuck_but_for_rounding
        return self._freeze(stage, attempt, frozen, proven=False)

    def _least_bound(self, attempt: Attempt, rising: BoolArray) -> float:
        """Return the bound on a level, without the allowance for rounding where limits have prices.

        The allowance may be many times a small amount. Whether the level is proven is tested exactly
        before the answer is returned.
        """
        if not attempt.prices[self.problem.K :].any():
            return attempt.proof.bound
        end = max(self._end(attempt.prices, rising), attempt.level)
        return min(end, attempt.proof.bound)

    def _attempt(self, rising: BoolArray, maximise: Maximise) -> Attempt:
        problem = self.problem
        level, solution = self._highest_level(rising, maximise)
        if level <= NOTHING * level_scale(problem, rising, 0.0):
            level = 0.0
        prices = normalised_prices(problem, solution.prices, rising)
        proof = self._proof(prices, level, rising)
        # By rounding a level can be above what its own prices prove.
        if level > proof.bound:
            level = proof.bound
            proof = self._proof(prices, level, rising)
        if level > 0 and proof.bound <= SOLVER_TOLERANCE * level_scale(problem, rising, 0.0):
            # The pool is full: what is left of it is rounding.
            level = 0.0
            proof = self._proof(prices, level, rising)
        before = self._level_before(rising)
        if before <= proof.bound and (
            level < before or self._rises_by_rounding(before, level, proof.curve, prices, rising)
        ):
            # The tenants have that level already, and a small one may fall or rise by rounding alone.
            level = before
            proof = self._proof(prices, level, rising)
        satisfied = rising & (problem.cap <= level * problem.weight * (1 + SOLVER_TOLERANCE))
        return Attempt(level, solution.x, prices, proof, satisfied)

    def _level_before(self, rising: BoolArray) -> float:
        """Return the level that all rising tenants (t,) reached in the round before, 0 without one."""
        stage = int(self.problem.stage[rising][0])
        of_stage = bool(self.rounds) and self.rounds[-1].stage == stage
        return self.rounds[-1].level if of_stage else 0.0

    def _rises_by_rounding(
        self,
        before: float,
        level: float,
        curve: CostCurve,
        prices: FloatArray,
        rising: BoolArray,
    ) -> bool:
        """Return whether a rise has its full price, and costs no more than bounds allow for rounding."""
        # Prices are normalised: a whole level of all rising tenants costs 1.
        least, most = (level - before) / 2, budget_rounding(self.problem, prices)
        if not before > 0 or not 0 < least <= most:
            return False
        weight = np.where(rising, self.problem.weight, 0.0)
        held, reached = (np.minimum(self.problem.cap, each * weight) for each in (before, level))
        return least <= float((curve.cost_of(reached) - curve.cost_of(held)).sum()) <= most

    def _freeze(
        self, stage: int, attempt: Attempt, frozen: BoolArray, *, proven: bool
    ) -> BoolArray:
        level, bound = attempt.level, attempt.proof.bound
        self.share[frozen] = np.minimum(self.problem.cap, level * self.problem.weight)[frozen]
        self.frozen_in[frozen] = len(self.rounds)
        self.rounds.append(Round(stage, level, bound, attempt.prices, proven))
        self.x = attempt.x
        return frozen

    def _scale(self, rising: BoolArray, level: float) -> float:
        """Return the size that the tolerance of a round's level is relative to."""
        return level_scale(self.problem, rising, level)

    def _proof(self, prices: FloatArray, level: float, rising: BoolArray) -> RoundProof:
        return prove_round(self.problem, prices, level=level, share=self.share, rising=rising)

    def _highest_level(self, rising: BoolArray, maximise: Maximise) -> tuple[float, LevelSolution]:
        """Return the level of this round and the solution that reaches it."""
        problem = self.problem
        trial, pool_prices = self._level_at_pool_prices(rising)
        if problem.progressive_filling:
            share = np.where(rising, np.minimum(problem.cap, trial * problem.weight), self.share)
            return trial, LevelSolution(x=share[:, None], prices=pool_prices, tau=1.0, steps=0)
        if trial <= ARRIVED * level_scale(problem, rising, 0.0):
            return 0.0, LevelSolution(x=self._placed(), prices=pool_prices, tau=0.0, steps=0)
        for _ in range(MOST_NEWTON_STEPS):
            rise = np.where(rising, np.minimum(problem.cap, trial * problem.weight), 0.0)
            full = rising & (problem.cap <= trial * problem.weight * (1 + ARRIVED))
            # Beyond all tasks of all tenants there is nothing to reach, which takes long to find out.
            self.aim_is_enough = problem.allowed.size > SMALL and bool((full == rising).all())
            solution = maximise(rise, np.where(rising, 0.0, self.share))
            self.programs += 1
            capped = bool(full.any())
            bound = self._bound(solution.prices, rising)
            if capped and solution.tau >= 1 - ARRIVED:
                if bound <= trial * (1 + SOLVER_TOLERANCE) or not (rising & ~full).any():
                    return trial, self._scaled_back(solution, rising)
                # Some tenants have all their tasks at the level at which a resource fills. The
                # prices are about the other tenants only if these are kept at their share.
                kept = np.where(full, problem.cap, np.where(rising, 0.0, self.share))
                self.aim_is_enough = False
                solution = maximise(np.where(full, 0.0, rise), kept)
                return trial * min(solution.tau, 1.0), solution
            if bound <= ARRIVED * level_scale(problem, rising, 0.0):
                return 0.0, solution
            # While no tenant is full, shares are in proportion to the level and one program is
            # exact.
            if not capped or bound >= trial * (1 - ARRIVED):
                return trial * solution.tau, solution
            trial = bound
        raise SolveFailedError("solve.failed", "the level of a round did not converge")

    def _scaled_back(self, solution: LevelSolution, rising: BoolArray) -> LevelSolution:
        """Scale the shares of rising tenants back to the trial level."""
        if solution.tau > 1:
            solution.x[rising[self.problem.owner]] /= solution.tau
        return solution

    def _level_at_pool_prices(self, rising: BoolArray) -> tuple[float, FloatArray]:
        """Return the first trial level of a round, and prices.

        It is the least bound of a few simple prices, unless only the proportions of a trial matter.
        """
        problem = self.problem
        level = float((problem.cap / problem.weight)[rising].max())
        unbounded = not self.rounds and bool(np.isinf(problem.cap[rising]).all())
        if unbounded and not problem.progressive_filling:
            # No tenant is capped or frozen, so only the proportions of a trial matter.
            return 1.0 / float(problem.weight[rising].sum()), problem.rooms
        level, best = self._bound_by_one_resource(
            level, lambda prices, _: self._bound(prices, rising)
        )
        bounds = problem.share_limits
        for _ in bounds.amount:
            share = np.where(rising, np.minimum(problem.cap, level * problem.weight), self.share)
            used = bounds.used(share)
            worst = int(used.argmax())
            if used[worst] <= 1:
                break
            prices = self._price_of_amount(worst)
            end = self._end(prices, rising)
            if end >= level:
                break
            level, best = end, prices
        return level, best

    def _bound_by_one_resource(
        self, level: float, bound_of: Callable[[FloatArray, float], float]
    ) -> tuple[float, FloatArray]:
        """Return the least bound of prices of one resource, or of all, equal on every class.

        Args:
            level: a known bound; bound_of: returns the bound of prices, given the least so far.
        """
        problem = self.problem
        best = np.zeros_like(problem.rooms)
        for prices in self._simple_prices():
            bound = bound_of(prices, level)
            if bound < level:
                level, best = bound, prices
        return level, best

    def _simple_prices(self) -> Iterator[FloatArray]:
        """Yield prices of each resource, and of all, equal on every class."""
        several = [np.ones(self.problem.m)] if self.problem.m > 1 else []
        for priced in (*np.eye(self.problem.m), *several):
            prices = np.zeros_like(self.problem.rooms)
            prices[: self.problem.K] = priced
            yield prices

    def _price_of_amount(self, number: int) -> FloatArray:
        """Return prices of one of the amounts that bound shares alone."""
        bounds, prices = self.problem.share_limits, np.zeros_like(self.problem.rooms)
        prices[self.problem.K + bounds.limit[number], bounds.resource[number]] = 1.0
        return prices

    def _bound(self, prices: FloatArray, rising: BoolArray) -> float:
        """Return the upper bound on the round's level that prices prove."""
        problem = self.problem
        curve = curve_at(problem, prices)
        budget = budget_left(problem, prices, curve, np.where(rising, 0.0, self.share))
        return curve.highest_level(problem.weight, rising, budget)

    def _end(self, prices: FloatArray, rising: BoolArray) -> float:
        """Return the level or position at which the costs of all shares are the worth at prices.

        Unlike a bound, it allows for no rounding, which is more than some amounts of limits.
        """
        problem = self.problem
        curve = curve_at(problem, prices)
        budget = worth_left(problem, prices, curve, np.where(rising, 0.0, self.share))
        return curve.highest_level(problem.weight, rising, budget)

    def _by_interior_point(self, rise: FloatArray, keep: FloatArray) -> LevelSolution:
        program, workloads = level_program(self.problem, rise, keep)
        solution = maximise_level(program, self.deadline)
        x = np.zeros((self.problem.n, self.problem.K))
        x[workloads] = solution.x
        # Limits that are caps are no rows of the program, and have no price.
        prices = np.zeros_like(self.problem.rooms)
        prices[: self.problem.K] = solution.prices
        return replace(solution, x=x, prices=prices)

    def _by_simplex(self, rise: FloatArray, keep: FloatArray) -> LevelSolution:
        if self.simplex is None:
            problem = self.problem
            begins_near = problem.has_amounts and problem.allowed.size > SMALL
            self.simplex = SimplexLevels(problem, self.deadline, begins_near=begins_near)
            # In groups the position that a program aims at is a bound.
            self.aim_is_enough |= begins_near and problem.groups is not None
        return self.simplex.raise_level(rise, keep, most=1.0 if self.aim_is_enough else np.inf)
