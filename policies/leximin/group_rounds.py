"""Rounds in a tree of groups.

A round ends at the last feasible point of the path on which shares rise. Its level is a position on the
path, the sum of the shares of all tenants. The point is found from above: prices of a position that is
not feasible bound the true one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.leximin.interior_point.method import NoConvergenceError
from policies.leximin.level_program import LevelSolution
from policies.leximin.rounds import ARRIVED, Attempt, Leximin, Maximise, Rounds
from policies.model.allocation import PaidShares
from policies.model.certificate import Round
from policies.model.tolerance import DUST, OPEN_GAP, SOLVER_TOLERANCE
from policies.proofs.group_bounds import (
    lifts,
    paid_on_path,
    path_bound,
    path_scale,
    prove_on_path,
)
from policies.proofs.group_path import GroupPath
from policies.proofs.level_bounds import normalised_prices
from policies.proofs.normal_form import Groups

MOST_PROGRAMS = 200
# Bounds by prices, before the corners between what is feasible and the bound are halved instead.
NEWTON_STEPS = 6


class GroupRounds(Rounds):
    """The rounds of a pool with groups."""

    groups: Groups
    now: FloatArray  # (t,) shares at the beginning of the round
    path: GroupPath

    def run(self) -> Leximin:
        """Solve all rounds."""
        assert self.problem.groups is not None  # noqa: S101 - for mypy
        self.groups = self.problem.groups
        self.now = self.problem.kept.copy()
        return super().run()

    def _refined(self, x: FloatArray) -> tuple[FloatArray, FloatArray, tuple[Round, ...]]:
        return x, self.share, tuple(self.rounds)

    def _round(self, stage: int, rising: BoolArray) -> BoolArray:
        self.path = GroupPath(
            self.groups.trees[stage],
            self.groups.direction,
            self.now,
            self.problem.cap,
            rising.copy(),
        )
        return super()._round(stage, rising)

    def _scale(self, rising: BoolArray, level: float) -> float:  # noqa: ARG002 - as of flat pools
        return path_scale(level)

    def _attempt(self, rising: BoolArray, maximise: Maximise) -> Attempt:
        problem, path = self.problem, self.path
        level, solution = self._furthest(maximise)
        prices = normalised_prices(problem, solution.prices, rising)
        proof = prove_on_path(problem, path, prices, level, self.groups.part)
        nothing = path.first + SOLVER_TOLERANCE * path_scale(path.first)
        if level > proof.bound or path.first < level <= nothing:
            # Only rounding error is left of the pool.
            level = path.first if proof.bound <= nothing else proof.bound
            proof = prove_on_path(problem, path, prices, level, self.groups.part)
        reached = path.shares(level)
        satisfied = rising & (problem.cap <= reached * (1 + SOLVER_TOLERANCE))
        return Attempt(level, self._held_back(solution.x, reached), prices, proof, satisfied)

    def _held_back(self, x: FloatArray, reached: FloatArray) -> FloatArray:
        """Take from tenants what a program gave them beyond the shares that are reached."""
        sums = self.problem.tenant_sums(x)
        part = np.divide(reached, sums, out=np.ones_like(sums), where=sums > reached)
        held: FloatArray = x * part[self.problem.owner, None]
        return held

    def _freeze(
        self, stage: int, attempt: Attempt, frozen: BoolArray, *, proven: bool
    ) -> BoolArray:
        reached = self.path.shares(attempt.level)
        # Rises within the rounding error of the entitlement are ignored.
        dust = DUST * lifts(reached, self.groups.part, attempt.level)
        self.now = np.where(reached - self.now > dust, reached, self.now)
        self.share[frozen] = self.now[frozen]
        self.frozen_in[frozen] = len(self.rounds)
        bound = max(attempt.proof.bound, attempt.level)
        self.paths.append(self.path)
        self.rounds.append(Round(stage, attempt.level, bound, attempt.prices, proven))
        self.x = attempt.x
        return frozen

    def _furthest(self, maximise: Maximise) -> tuple[float, LevelSolution]:
        """Return the last feasible position of the path and the solution of its program."""
        problem, path = self.problem, self.path
        upper, prices = self._bound_at_pool_prices()
        close = ARRIVED * path_scale(upper)
        if problem.progressive_filling:
            return upper, LevelSolution(path.shares(upper)[:, None], prices, tau=1.0, steps=0)
        if upper <= path.first + close:
            # At the prices of what is full, shares may rise at no price.
            upper = path_bound(problem, path, prices, reached=np.inf)
        if upper <= path.first + close:
            return path.first, LevelSolution(x=self._placed(), prices=prices, tau=0.0, steps=0)
        lower, share = path.first, self.now
        progress = np.inf
        for step in range(MOST_PROGRAMS):
            between = path.corners[(path.corners > lower) & (path.corners < upper)]
            # Prices that no longer lower the bound seldom do so when they are computed again.
            stalled = step >= NEWTON_STEPS or progress <= close
            halves = stalled and len(between) > 0
            trial = float(between[len(between) // 2]) if halves else upper
            aim = path.shares(trial)
            solution = maximise(np.maximum(aim - share, 0.0), share)
            self.programs += 1
            reached = lower + max(solution.tau, 0.0) * (trial - lower)
            # Between two corners shares change in proportion, so that the program's point is on
            # the path.
            is_straight = not ((between > lower) & (between < trial)).any()
            bound = np.inf
            # Where the aim is reached nothing binds, and prices bound nothing.
            if solution.tau < 1:
                feasible = reached if is_straight else lower
                bound = path_bound(problem, path, solution.prices, reached=feasible)
            if solution.tau >= 1 - ARRIVED:
                if not halves:
                    if bound > upper:
                        return upper, replace(solution, prices=prices)
                    # Rows that fill up so near to each other are distinguished by their prices.
                    return lower + solution.tau * (upper - lower), solution
                lower, share = trial, aim
                continue
            progress = upper - bound
            if bound < upper:
                upper, prices = bound, solution.prices
            if is_straight and reached >= upper - close:
                return min(reached, upper), solution
            if upper <= lower + close:
                return lower, solution
            if progress <= close and not halves and step >= NEWTON_STEPS:
                if upper <= lower + OPEN_GAP * path_scale(upper):
                    # What is between them may be rounding alone, as proofs of an open round decide.
                    return lower, solution
                raise NoConvergenceError("prices do not bound the end of a round")
        raise NoConvergenceError(f"no end of a round after {MOST_PROGRAMS} programs")

    def _bound_at_pool_prices(self) -> tuple[float, FloatArray]:
        """Return the least bound of a few simple prices, and these prices."""
        problem, path = self.problem, self.path
        tables = list(self._simple_prices())
        parts, budgets = zip(*(paid_on_path(problem, path, each) for each in tables), strict=True)
        firsts = np.cumsum([0, *(len(part.owner) for part in parts)])
        bounds = problem.share_limits
        if len(bounds.amount):
            of_limits, begins, left = bounds.paid(path.rising, path.start)
            parts, firsts = (*parts, of_limits), np.r_[firsts[:-1], firsts[-1] + begins]
            budgets = (*budgets, *left)
        # All rows at once, because each step of the search works out shares.
        paid = PaidShares(*map(np.concatenate, zip(*parts, strict=True)))
        level, worst = path.first_exceeded(paid, firsts, np.array(budgets))
        if worst < 0 or level >= path.last:
            return path.last, np.zeros_like(problem.rooms)
        if worst < len(tables):
            return level, tables[worst]
        # With what rounding may hide, as in all bounds by prices.
        prices = self._price_of_amount(worst - len(tables))
        return path_bound(problem, path, prices, path.last), prices
