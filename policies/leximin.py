"""Weighted leximin of shares: raise the least, freeze who cannot rise, repeat.

The rounds are those of Wang et al. (TPDS 2015, §5.1), made exact for task limits, zero
demands and placement constraints. Finite tasks cost no rounds of their own: within a round
the answer is ``G_i = min(cap_i, level * w_i)`` with one scalar ``level``, found from above
by Newton's method, since the prices of any trial level bound the true one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from policies.certificates import (
    SOLVER_TOLERANCE,
    Certificate,
    Round,
    level_scale,
    normalised_prices,
    prove_round,
)
from policies.errors import SolveFailedError
from policies.interior_point import NoConvergenceError, maximise_level
from policies.leximin_problem import LeximinProblem, LevelSolution, level_program
from policies.merit_order import MeritOrder, unit_costs
from policies.problem import BoolArray, FloatArray
from policies.purification import few_placements
from policies.simplex import SimplexLevels

Maximise = Callable[[FloatArray, FloatArray], LevelSolution]

# A level below its trial by less than this is the trial: Newton's method has arrived.
ARRIVED = 1e-11
MOST_NEWTON_STEPS = 60
# Programs of at most this many variables go to the simplex method, whose answers are vertices.
SMALL = 200


@dataclass(frozen=True, eq=False)
class Leximin:
    """The answer.

    Attributes:
        share: (t,) ``G_i``; level: (t,) weighted level at which each was frozen.
        x: (n, K) dominant shares on the classes.
        certificate: over the problem's own tenants and classes.
        programs: linear programs solved.
    """

    share: FloatArray
    level: FloatArray
    x: FloatArray
    certificate: Certificate
    programs: int


def leximin(problem: LeximinProblem, deadline: float | None) -> Leximin:
    """Solve the leximin to a certified relative gap of 1e-9 on every level.

    Raises:
        SolveTimeoutError: ``deadline`` (``time.monotonic`` seconds) passed.
        SolveFailedError: a round could not be certified.
    """
    if problem.allowed.size > SMALL:
        answer = _Rounds(problem, deadline, interior=True).run()
        if _certified(problem, answer):
            return answer
    return _Rounds(problem, deadline, interior=False).run()


def _certified(problem: LeximinProblem, answer: Leximin) -> bool:
    """Do the shares that ``x`` realises, rounding included, keep what the rounds proved?"""
    realised = np.bincount(problem.owner, weights=answer.x.sum(axis=1), minlength=problem.t)
    if (np.abs(realised - answer.share) > SOLVER_TOLERANCE * answer.share).any():
        return False
    frozen_in = answer.certificate.frozen_in
    for number, item in enumerate(answer.certificate.rounds[1:], start=1):
        proof = prove_round(
            problem,
            item.prices,
            level=item.level,
            share=np.where(frozen_in < number, realised, 0.0),
            rising=(problem.stage == item.stage) & (frozen_in >= number),
            tolerance=SOLVER_TOLERANCE,
        )
        mine = (frozen_in == number) & (problem.cap > item.level * problem.weight * (1 + 1e-9))
        if not proof.stuck[mine].all():
            return False
    return True


class _Rounds:
    def __init__(self, problem: LeximinProblem, deadline: float | None, *, interior: bool) -> None:
        self.problem = problem
        self.deadline = deadline
        self.share = np.zeros(problem.t)
        self.level = np.zeros(problem.t)
        self.frozen_in = np.full(problem.t, -1)
        self.rounds: list[Round] = []
        self.x = np.zeros((problem.n, problem.K))
        self.programs = 0
        self.simplex: SimplexLevels | None = None
        self.engines: list[Maximise] = [self._by_simplex]
        if interior:
            self.engines.insert(0, self._by_interior_point)

    def run(self) -> Leximin:
        for stage in (0, 1):
            rising = self.problem.stage == stage
            while rising.any():
                rising &= ~self._round(stage, rising)
        return Leximin(
            self.share,
            self.level,
            _feasible(self.problem, few_placements(self.problem, self.x)),
            Certificate(tuple(self.rounds), self.frozen_in),
            self.programs,
        )

    def _round(self, stage: int, rising: BoolArray) -> BoolArray:
        """Solve one round by the first engine whose prices prove it; who is frozen."""
        problem = self.problem
        for maximise in self.engines:
            try:
                level, solution = self._highest_level(rising, maximise)
            except NoConvergenceError:
                continue
            prices = normalised_prices(problem, solution.prices, rising)
            proof = prove_round(
                problem,
                prices,
                level=level,
                share=self.share,
                rising=rising,
                tolerance=SOLVER_TOLERANCE,
            )
            reached = level * problem.weight
            satisfied = rising & (problem.cap <= reached * (1 + SOLVER_TOLERANCE))
            frozen = satisfied | proof.stuck
            unproven = proof.bound - level
            enough = SOLVER_TOLERANCE * level_scale(problem, rising, level)
            if frozen.any() and unproven <= enough:
                self.share[frozen] = np.minimum(problem.cap, reached)[frozen]
                self.level[frozen] = self.share[frozen] / problem.weight[frozen]
                self.frozen_in[frozen] = len(self.rounds)
                self.rounds.append(Round(stage, level, proof.bound, prices))
                self.x = solution.x
                return frozen
        raise SolveFailedError(
            "solve.failed",
            f"round {len(self.rounds)}: level {level} is not proven, its bound is {proof.bound}",
        )

    def _highest_level(
        self, rising: BoolArray, maximise: Maximise
    ) -> tuple[float, LevelSolution]:
        """The level of this round and the linear program that shows it."""
        problem = self.problem
        trial, pool_prices = self._level_at_pool_prices(rising)
        if trial <= ARRIVED * level_scale(problem, rising, trial):
            return 0.0, LevelSolution(x=self.x, prices=pool_prices, tau=0.0, steps=0)
        for _ in range(MOST_NEWTON_STEPS):
            rise = np.where(rising, np.minimum(problem.cap, trial * problem.weight), 0.0)
            solution = maximise(rise, np.where(rising, 0.0, self.share))
            self.programs += 1
            if solution.tau >= 1 - ARRIVED:
                return trial, self._held_back(solution, rising)
            bound = self._bound(solution.prices, rising)
            if bound <= ARRIVED * level_scale(problem, rising, bound):
                return 0.0, solution
            reached = trial * solution.tau
            nobody_capped = not (rising & (problem.cap < trial * problem.weight)).any()
            if nobody_capped or not bound < trial * (1 - ARRIVED):
                return reached, solution
            trial = bound
        raise SolveFailedError("solve.failed", "the level of a round did not settle")

    def _held_back(self, solution: LevelSolution, rising: BoolArray) -> LevelSolution:
        """Take from rising tenants what the program gave them beyond the trial level."""
        if solution.tau > 1:
            solution.x[rising[self.problem.owner]] /= solution.tau
        return solution

    def _level_at_pool_prices(self, rising: BoolArray) -> tuple[float, FloatArray]:
        """Least bound from pricing one resource, or all, the same on every server."""
        problem = self.problem
        level = float((problem.cap / problem.weight)[rising].max())
        best = np.zeros_like(problem.capacity_share)
        for priced in (*np.eye(problem.m), np.ones(problem.m)):
            prices = np.tile(priced, (problem.K, 1))
            bound = self._bound(prices, rising)
            if bound < level:
                level, best = bound, prices
        return level, best

    def _bound(self, prices: FloatArray, rising: BoolArray) -> float:
        """Upper bound on the round's level by any prices."""
        problem = self.problem
        costs = unit_costs(problem.demand, problem.allowed, prices)
        order = MeritOrder.of(problem.owner, problem.limit, costs, problem.t)
        kept = order.cost_of(np.where(rising, 0.0, self.share))
        budget = float((problem.capacity_share * prices).sum()) - float(kept.sum())
        return order.highest_level(problem.weight, rising, max(budget, 0.0))

    def _by_interior_point(self, rise: FloatArray, keep: FloatArray) -> LevelSolution:
        program, workloads = level_program(self.problem, rise, keep)
        solution = maximise_level(program, self.deadline)
        x = np.zeros_like(self.x)
        x[workloads] = solution.x
        return replace(solution, x=x)

    def _by_simplex(self, rise: FloatArray, keep: FloatArray) -> LevelSolution:
        if self.simplex is None:
            self.simplex = SimplexLevels(self.problem, self.deadline)
        return self.simplex.raise_level(rise, keep)


def _feasible(problem: LeximinProblem, x: FloatArray) -> FloatArray:
    """Shrink the answer until no class is overfilled, not even by rounding."""
    used = x.T @ problem.demand
    size = np.where(problem.capacity_share > 0, problem.capacity_share, np.inf)
    overfilled = float((used / size).max(initial=0.0))
    return x / overfilled if overfilled > 1 else x
