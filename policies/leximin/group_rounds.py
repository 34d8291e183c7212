"""Rounds in a tree of groups.

A round ends at the last feasible point of the path on which shares rise. Its level is a position on the
path, the sum of the shares of all tenants. The point is found from above: prices of a position that is
not feasible bound the true one.

Where many limits bind, most rounds end where the price of one limit bounds them. Such an end needs no
program of its own. Shares never fall in later rounds, so that one program confirms that the ends of
several rounds are feasible. If they are not, programs solve the first round whose end is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.leximin.highs import KEPT_WITHIN
from policies.leximin.interior_point.method import NoConvergenceError
from policies.leximin.level_program import LevelSolution
from policies.leximin.refinement import filled_up
from policies.leximin.rounds import ARRIVED, Attempt, Maximise, Rounds
from policies.model.allocation import PaidShares
from policies.model.certificate import Round
from policies.model.tolerance import (
    BUDGET_ROUNDING,
    DUST,
    MOST_TAKEN,
    OPEN_GAP,
    SOLVER_TOLERANCE,
)
from policies.proofs.alike import Groups
from policies.proofs.cost_curve import CostCurve
from policies.proofs.group_bounds import (
    lifts,
    paid_on_path,
    path_bound,
    path_end,
    path_scale,
    prove_on_path,
    without_noise,
)
from policies.proofs.group_path import GroupPath
from policies.proofs.level_bounds import budget_rounding, curve_at, normalised_prices
from policies.proofs.normal_form import LeximinProblem

MOST_PROGRAMS = 200
# Bounds by prices, before the corners between what is feasible and the bound are halved instead.
NEWTON_STEPS = 6
# Weights that differ by a larger factor leave little of some shares beside the rounding of others.
FAR_APART = 1e4


@dataclass(frozen=True, eq=False)
class _State:
    """The state of the rounds before one of them.

    Attributes:
        now, share: (t,) as of the rounds; frozen_in: (t,) round of each tenant, -1 while it rises.
        rounds: number of rounds.
    """

    now: FloatArray
    share: FloatArray
    frozen_in: IntArray
    rounds: int


class GroupRounds(Rounds):
    """The rounds of a pool with groups."""

    groups: Groups
    now: FloatArray  # (t,) shares at the beginning of the round
    path: GroupPath
    bounded: tuple[float, FloatArray] | None  # bound of the round's end by simple prices, and these

    def __init__(self, problem: LeximinProblem, deadline: float | None, *, interior: bool) -> None:
        super().__init__(problem, deadline, interior=interior)
        assert problem.groups is not None  # noqa: S101 - for mypy
        self.groups = problem.groups
        self.now = problem.kept.copy()
        # Shares (t,) that ``x`` has, or that kept parts have, and states before later rounds.
        self._feasible = self.now
        self._unconfirmed: list[_State] = []
        self._needs_program = False
        weights = self.groups.trees[0].weight[:-1]
        # Where rounding may decide, each round has programs of its own.
        self._weights_near = float(weights.max()) <= FAR_APART * float(weights.min())
        self._may_share_program = (
            self._weights_near and problem.couples and not problem.progressive_filling
        )

    def _rise(self, stage: int) -> None:
        mine = self.problem.stage == stage
        while True:
            rising = mine & (self.frozen_in < 0)
            if rising.any():
                self._round(stage, rising)
            elif self._confirm():
                return

    def _refined(self, x: FloatArray) -> tuple[FloatArray, FloatArray, tuple[Round, ...]]:
        if self.problem.has_amounts:
            # What limits that bind leave unused by rounding is much of the share of a small tenant.
            x = filled_up(self.problem, x, self.share)
        return x, self.share, tuple(self.rounds)

    def _round(self, stage: int, rising: BoolArray) -> BoolArray:
        self.path = GroupPath(
            self.groups.trees[stage],
            self.groups.direction,
            self.now,
            self.problem.cap,
            rising.copy(),
        )
        self.bounded = None
        level, prices = self._simple_end()
        at_limit = prices[self.problem.K :].any()
        shares = self._may_share_program and not self._needs_program
        if shares and (at_limit or self._unconfirmed):
            attempt = self._proven_attempt(level, prices)
            frozen = attempt.satisfied | attempt.proof.stuck
            gap = (attempt.proof.bound - attempt.level) / path_scale(attempt.level)
            ends = bool(frozen.any()) and gap <= SOLVER_TOLERANCE
            if ends and at_limit:
                before = _State(
                    self.now, self.share.copy(), self.frozen_in.copy(), len(self.rounds)
                )
                self._unconfirmed.append(before)
                return self._freeze(stage, attempt, frozen, proven=True)
            # An end at the price of a resource is less likely to be feasible, and is looked at first.
            if ends and self._is_feasible(self.path.shares(attempt.level)):
                self._unconfirmed = []
                return self._freeze(stage, attempt, frozen, proven=True)
        if not self._confirm():
            return np.zeros_like(rising)
        self._needs_program = False
        frozen = super()._round(stage, rising)
        self._feasible = self.now
        return frozen

    def _confirm(self) -> bool:
        """Return whether the ends of all rounds are feasible.

        Otherwise, go back to before the first round whose end is not, which then needs programs.
        """
        states = self._unconfirmed
        if not states:
            return True
        ends = [*(state.now for state in states[1:]), self.now]
        feasible, infeasible, step = -1, len(ends), 0
        while infeasible - feasible > 1:
            # Backwards in growing steps, as mostly none or only the last one is infeasible.
            middle = (feasible + infeasible) // 2
            trial = max(infeasible - max(step, 1), middle)
            if self._is_feasible(ends[trial]):
                feasible = trial
            else:
                infeasible = trial
                step = 2 * step or 1
        self._unconfirmed = []
        if infeasible == len(ends):
            return True
        state = states[infeasible]
        self.now, self.share, self.frozen_in = state.now, state.share, state.frozen_in
        del self.rounds[state.rounds :], self.paths[state.rounds :]
        self._needs_program = True
        return False

    def _is_feasible(self, shares: FloatArray) -> bool:
        """Return whether a program reaches shares (t,), from the last ones that are feasible."""
        rise = np.maximum(shares - self._feasible, 0.0)
        if rise.any():
            try:
                solution = self._by_simplex(rise, self._feasible)
            except NoConvergenceError:
                return False
            self.programs += 1
            missed = max(1.0 - solution.tau, 0.0) * rise
            size = lifts(shares, self.groups.part, float(shares.sum()))
            if (missed > KEPT_WITHIN * size).any():
                return False
            self.x = self._held_back(solution.x, shares)
        self._feasible = shares
        return True

    def _scale(self, rising: BoolArray, level: float) -> float:  # noqa: ARG002 - as of flat pools
        return path_scale(level)

    def _end(self, prices: FloatArray, rising: BoolArray) -> float:  # noqa: ARG002 - as of flat pools
        return path_end(self.problem, self.path, prices, self.path.first)

    def _attempt(self, rising: BoolArray, maximise: Maximise) -> Attempt:  # noqa: ARG002 - as of flat pools
        level, solution = self._furthest(maximise)
        level = self._at_end(path_end(self.problem, self.path, solution.prices, level), level)
        attempt = self._proven_attempt(level, solution.prices)
        if self.problem.has_amounts:
            attempt = self._without_noise(attempt)
            if not (attempt.satisfied | attempt.proof.stuck).any():
                attempt = self._at_last_paid(attempt)
            if not (attempt.satisfied | attempt.proof.stuck).any() and self._is_rounding(attempt):
                # Rounding alone decides how far such a rise comes, and what small tenants get by it.
                attempt = self._proven_attempt(self.path.first, attempt.prices)
        return replace(attempt, x=self._held_back(solution.x, self.path.shares(attempt.level)))

    def _proven_attempt(self, level: float, prices: FloatArray) -> Attempt:
        """Return what prices prove about a position that is, or may be, feasible."""
        problem, path = self.problem, self.path
        prices = normalised_prices(problem, prices, path.rising)
        proof = prove_on_path(problem, path, prices, level, self.groups.part)
        nothing = path.first + SOLVER_TOLERANCE * path_scale(path.first)
        if level > proof.bound or path.first < level <= nothing:
            # Only rounding error is left of the pool.
            level = path.first if proof.bound <= nothing else proof.bound
            proof = prove_on_path(problem, path, prices, level, self.groups.part)
        return Attempt(level, None, prices, proof, self._satisfied(level))

    def _satisfied(self, level: float) -> BoolArray:
        """Return the rising tenants (t,) that have all their tasks at a position."""
        reached, path = self.path.shares(level), self.path
        satisfied: BoolArray = path.rising & (self.problem.cap <= reached * (1 + SOLVER_TOLERANCE))
        return satisfied

    def _at_last_paid(self, attempt: Attempt) -> Attempt:
        """Return an attempt at the last position for which its worth pays, if tenants are stuck there.

        Prices of a limit may begin to count after a small part of a long straight way, which a search
        along it does not meet. Before it, no tenant is stuck.
        """
        problem, path = self.problem, self.path
        curve = curve_at(problem, attempt.prices)
        worth = problem.worth(attempt.prices)

        def is_paid(position: float) -> bool:
            share = np.where(path.rising, path.shares(position), path.start)
            return float(curve.cost_of(share).sum()) <= worth

        low, high = attempt.level, attempt.proof.bound
        if not np.isfinite(high) or not is_paid(low):
            return attempt
        high += SOLVER_TOLERANCE * path_scale(high)
        while low < (middle := low + (high - low) / 2) < high:
            low, high = (middle, high) if is_paid(middle) else (low, middle)
        proof = prove_on_path(problem, path, attempt.prices, low, self.groups.part)
        last = Attempt(low, None, attempt.prices, proof, self._satisfied(low))
        return last if (last.satisfied | proof.stuck).any() else attempt

    def _is_rounding(self, attempt: Attempt) -> bool:
        """Return whether a rise costs from its beginning, and no more than bounds allow for rounding."""
        path, curve = self.path, attempt.proof.curve
        middle = path.first + (attempt.level - path.first) / 2
        before, half, spent = (
            float(curve.cost_of(np.where(path.rising, path.shares(each), path.start)).sum())
            for each in (path.first, middle, attempt.level)
        )
        allowed = budget_rounding(self.problem, attempt.prices)
        return half - before >= allowed / 4 and spent <= before + 2 * allowed

    def _without_noise(self, attempt: Attempt) -> Attempt:
        """Return the attempt at prices without rounding errors if they prove as much.

        At prices of classes that differ in the last digits, tenants on the dearer class would seem to
        pay too little, by more than a lift of a small tenant costs.
        """
        prices = without_noise(self.problem, attempt.prices)
        proof = prove_on_path(self.problem, self.path, prices, attempt.level, self.groups.part)
        gap = proof.bound - attempt.level
        no_less = proof.stuck[attempt.proof.stuck].all()
        if no_less and 0 <= gap <= SOLVER_TOLERANCE * path_scale(attempt.level):
            return replace(attempt, prices=prices, proof=proof)
        return attempt

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
        if attempt.x is not None:
            self.x = attempt.x
        return frozen

    def _furthest(self, maximise: Maximise) -> tuple[float, LevelSolution]:
        """Return the last feasible position of the path and the solution of its program."""
        problem, path = self.problem, self.path
        upper, prices = self._simple_end()
        close = ARRIVED * path_scale(upper)
        if problem.progressive_filling:
            return upper, LevelSolution(path.shares(upper)[:, None], prices, tau=1.0, steps=0)
        if upper <= path.first:
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
            if progress <= close and step >= NEWTON_STEPS:
                # What is between them may be rounding alone, as proofs of an open round decide.
                if upper <= lower + OPEN_GAP * path_scale(upper):
                    return lower, solution
                if is_straight and upper <= reached + OPEN_GAP * path_scale(upper):
                    return reached, solution
                raise NoConvergenceError("prices do not bound the end of a round")
        raise NoConvergenceError(f"no end of a round after {MOST_PROGRAMS} programs")

    def _simple_end(self) -> tuple[float, FloatArray]:
        """Return the greatest position that simple prices leave open, and the prices.

        It is the beginning if no more than rounding is left.
        """
        if self.bounded is None:
            problem, path = self.problem, self.path
            upper, prices = self._bound_at_pool_prices()
            close = ARRIVED * path_scale(upper)
            worthless = prices.any() and problem.worth(prices) == 0
            if upper <= path.first + close and not (problem.progressive_filling or worthless):
                # At the prices of what is full, shares may rise at no price.
                upper = path_bound(problem, path, prices, reached=np.inf)
                if upper <= path.first + close:
                    upper = path.first
            self.bounded = upper, prices
        return self.bounded

    @cached_property
    def _simple_curves(self) -> list[tuple[FloatArray, CostCurve]]:
        """A few simple prices, which are those of all rounds, and the costs of shares at each."""
        return [(prices, curve_at(self.problem, prices)) for prices in self._simple_prices()]

    def _bound_at_pool_prices(self) -> tuple[float, FloatArray]:
        """Return the least bound of a few simple prices, and these prices."""
        problem, path = self.problem, self.path
        tables = [prices for prices, _ in self._simple_curves]
        each_paid = (paid_on_path(problem, path, *each) for each in self._simple_curves)
        parts, budgets = zip(*each_paid, strict=True)
        firsts = np.cumsum([0, *(len(part.owner) for part in parts)])
        bounds = problem.share_limits
        if len(bounds.amount):
            of_limits, begins, left = bounds.paid(path.rising, path.start)
            parts, firsts = (*parts, of_limits), np.r_[firsts[:-1], firsts[-1] + begins]
            budgets = (*budgets, *left)
        # All rows at once, because each step of the search works out shares.
        paid = PaidShares(*map(np.concatenate, zip(*parts, strict=True)))
        budget, allowed = np.array(budgets), np.zeros(len(budgets), dtype=np.bool_)
        while True:
            level, worst = path.first_exceeded(paid, firsts, budget)
            if worst < 0 or level >= path.last:
                return path.last, np.zeros_like(problem.rooms)
            if worst < len(tables):
                return level, tables[worst]
            number = worst - len(tables)
            prices = self._price_of_amount(number)
            bound = path_bound(problem, path, prices, path.last, near=level)
            # The allowance is more than rounding may take from an answer.
            small = bounds.amount[number] < BUDGET_ROUNDING / MOST_TAKEN
            # An amount that all tasks together exceed by rounding alone proves the end of no round.
            ends = small or bound < path.last
            if allowed[worst] or (ends and self._is_used_up(number, level, bound)):
                return level if small else self._not_beyond(level, bound), prices
            # Shares that do not rise yet exceed an amount of 0 by their rounding.
            budget[worst] += bounds.rounding(number)
            allowed[worst] = True

    def _is_used_up(self, number: int, level: float, bound: float) -> bool:
        """Return whether the use of an amount rises between its end and its bound, and not just before.

        Args:
            number: of the amount that bounds shares alone; level: its end; bound: with the allowance for
                rounding.
        """
        if bound - level <= SOLVER_TOLERANCE * path_scale(bound):
            return True
        bounds, path = self.problem.share_limits, self.path
        before, between = (
            bounds.sums(path.shares(each))[number] for each in (path.first, (level + bound) / 2)
        )
        left = max(float(bounds.amount[number]) - before, 0.0)
        allowance = bounds.rounding(number) * (bounds.amount[number] or 1.0)
        return bool(between - before >= left + allowance / 4)

    def _at_end(self, end: float, level: float) -> float:
        """Return the end of a round by the prices of a program, if only rounding is before or beyond it.

        A program of small amounts may end before the tasks that have no price, so that no tenant of it
        would be stuck.
        """
        before = 0 <= end - level <= SOLVER_TOLERANCE * path_scale(level)
        if self.problem.has_amounts and self._weights_near and before:
            return end
        return self._not_beyond(end, level)

    def _not_beyond(self, end: float, level: float) -> float:
        """Return the end of a round by the same prices as a level, if only rounding is between them.

        Bounds allow for rounding. Where shares rise at no price, that may be far beyond the end. With
        weights far apart it decides which tenants rise there.
        """
        near = 0 <= level - end <= SOLVER_TOLERANCE * path_scale(level)
        return end if self._weights_near and near and end > self.path.first else level
