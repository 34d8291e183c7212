"""A structured interior-point method for one round of the leximin.

The program, in shares of the pool (rows are tenants, or single workloads of tenants that
get all their tasks):

    maximise   tau
    subject to sum_j x[j, c] d[j, r] + s[c, r] = c_hat[c, r]      prices p >= 0
               sum over row i of x[j, c]       = keep_i + tau rise_i  prices y
               sum_c x[j, c] + u[j]            = limit_j             prices h >= 0
               x, s, u >= 0

Mehrotra's predictor-corrector method (SIAM J. Optim. 2, 1992). Every variable is in one
tenant row, so the normal equations are solved by elimination: tenants first, which leaves
a dense system of classes × resources + 1 unknowns, or servers first, which leaves one of
tenants + 1, whichever is smaller.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from policies import kernels
from policies.arrays import FloatArray, grouped_sum
from policies.errors import SolveTimeoutError
from policies.leximin_problem import LevelProgram, LevelSolution
from policies.normal_equations import ServersFirst, SingularError, TenantsFirst

MOST_STEPS = 100
MOST_STEPS_WITHOUT_GAIN = 25
FIRST_FILL = 0.9
FIRST_TENANT_PRICE = 0.9
LONG_STEP = 0.9
MOST_CENTRALITY_CORRECTORS = 1
# Close to the optimum the linear systems are nearly singular.
REFINE_BELOW = 1e-4
# Relative gap to aim for: well inside the 1e-9 that is certified afterwards.
AIM = 1e-12
# ... and what is accepted where rounding allows no more.
GOOD_ENOUGH = 1e-10


class NoConvergenceError(ArithmeticError):
    """The method lost its footing: use the simplex method for this round."""


def maximise_level(program: LevelProgram, deadline: float | None) -> LevelSolution:
    """Solve one round.

    Args:
        program: the round, with at least one row that rises.
        deadline: ``time.monotonic()`` seconds at which to give up, or None.

    Returns:
        A strictly interior primal solution (its rounding is for the caller to repair),
        prices and the level.

    Raises:
        NoConvergenceError: typically because the feasible set has no interior.
        SolveTimeoutError: ``deadline`` passed.
    """
    with np.errstate(all="ignore"):  # what is not finite ends the iteration
        return _Mehrotra(program).solve(deadline)


@dataclass(eq=False)
class _Direction:
    """A direction and the longest steps along it that stay non-negative."""

    dx: FloatArray
    dz: FloatArray
    ds: FloatArray
    dp: FloatArray
    dy: FloatArray
    dh: FloatArray
    du: FloatArray
    dtau: float = 0.0
    primal: float = 0.0
    dual: float = 0.0

    @classmethod
    def empty(cls, point: _Mehrotra) -> _Direction:
        nothing = np.zeros(0)
        return cls(
            np.empty_like(point.x),
            np.empty_like(point.x),
            nothing,
            nothing,
            nothing,
            nothing,
            nothing,
        )


class _Mehrotra:
    def __init__(self, program: LevelProgram) -> None:
        self.program = program
        self.limited = np.flatnonzero(np.isfinite(program.limit))
        # In here prices are (m, K), variables (K, n) and demands (m, n), as the kernels have them.
        self.size = np.ascontiguousarray(np.where(program.capacity > 0, program.capacity, 1.0).T)
        few_rows = program.rows + len(self.limited) < self.size.size
        self.equations: TenantsFirst | ServersFirst = (ServersFirst if few_rows else TenantsFirst)(
            program, self.limited
        )
        self.allowed = np.ascontiguousarray(program.allowed.T.astype(np.float64))
        self.count = int(program.allowed.sum()) + self.size.size + len(self.limited)
        self.demand = self.equations.demand
        self._start()

    def _start(self) -> None:
        """A centred start: everybody everywhere, every class filled to the same part."""
        program, mine = self.program, self.limited
        siblings = np.diff(program.first)[program.row]
        wanted = (program.keep + program.rise)[program.row] / siblings
        attraction = self.size.min(axis=0)
        for _ in range(2):
            spread = self.allowed * (wanted / (attraction @ self.allowed))
            used = (self.demand @ spread.T) * attraction
            fullest = (used / self.size).max(axis=0)
            attraction = attraction / np.maximum(fullest, 1e-12)
        spread = self.allowed * (wanted / (attraction @ self.allowed))
        used = (self.demand @ spread.T) * attraction
        self.tau = FIRST_FILL / float((used / self.size).max())
        self.x = spread * (attraction * self.tau)[:, None]
        self.used = used * self.tau
        self.placed = wanted * self.tau
        self.s = self.size - self.used
        self.u = np.ones(program.n)
        limit = program.limit[mine]
        self.u[mine] = np.maximum(limit - self.placed[mine], 0.1 * limit)
        # Prices that are centred for the slacks; tenant prices just below every offer.
        # The duals are feasible from the start and stay so: every step solves their rows.
        price = 1.0 / self.s
        outside = self.allowed == 0
        cost = price.T @ self.demand
        cost[outside] = np.inf
        y = FIRST_TENANT_PRICE * np.minimum.reduceat(cost.min(axis=0), program.first[:-1])
        norm = float(program.rise @ y)
        self.p, self.y = price / norm, y / norm
        self.h = np.zeros(program.n)
        self.h[mine] = float((self.s * self.p).mean()) / self.u[mine]
        cost /= norm
        cost += self.h - self.y[program.row]
        cost[outside] = 1.0
        self.z = cost
        self.push = np.empty_like(self.x)
        self.by_class, self.by_workload = np.empty_like(self.p), np.empty(program.n)
        self.complementarity = float((self.x * self.z).sum())
        self._residuals()

    def solve(self, deadline: float | None) -> LevelSolution:
        best_gap, since_best = np.inf, 0
        for step in range(MOST_STEPS):
            if deadline is not None and time.monotonic() > deadline:
                raise SolveTimeoutError("solve.timeout", "the time limit passed")
            gap = self._relative_gap()
            since_best = 0 if gap < 0.5 * best_gap else since_best + 1
            best_gap = min(gap, best_gap)
            if gap <= AIM or (gap <= GOOD_ENOUGH and since_best > 1):
                return self._solution(step)
            if since_best > MOST_STEPS_WITHOUT_GAIN or not np.isfinite(gap):
                break
            self.equations.refine = gap < REFINE_BELOW
            try:
                moved = self._step()
            except SingularError:
                break
            if not moved:
                break
        if self._relative_gap() <= GOOD_ENOUGH and np.isfinite(self.x).all():
            return self._solution(step)
        raise NoConvergenceError(f"relative gap {best_gap} after {step} steps")

    def _relative_gap(self) -> float:
        program = self.program
        dual = float((self.size * self.p).sum()) - float((program.keep * self.y).sum())
        dual += float((program.limit[self.limited] * self.h[self.limited]).sum())
        infeasible = max(self._residual_size, abs(1.0 - float((program.rise * self.y).sum())))
        return max(abs(dual - self.tau) / max(abs(self.tau), 1e-12), infeasible)

    def _residuals(self) -> None:
        """What the current point still misses in each kind of row."""
        program = self.program
        self.class_rest = self.size - self.used - self.s
        reached = self._by_row(self.placed)
        self.row_rest = program.keep + self.tau * program.rise - reached
        mine = self.limited
        self.limit_rest = np.zeros(program.n)
        self.limit_rest[mine] = program.limit[mine] - self.placed[mine] - self.u[mine]
        wanted = program.keep + self.tau * program.rise
        self._residual_size = max(
            float((np.abs(self.class_rest) / self.size).max()),
            float((np.abs(self.row_rest) / wanted).max()),
            float((np.abs(self.limit_rest[mine]) / program.limit[mine]).max(initial=0.0)),
        )

    def _by_row(self, values: FloatArray) -> FloatArray:
        program = self.program
        if program.n == program.rows:
            return values
        return grouped_sum(values, program.row, program.rows)

    def _step(self) -> bool:
        """One predictor and its correctors; False when the point hardly moves any more."""
        program, mine = self.program, self.limited
        room = np.zeros(program.n)
        room[mine] = self.u[mine] / self.h[mine]
        self.equations.factor(self.x, self.z, self.s / self.p, room)
        # The predictor aims at complementarity 0: it pushes every entry by itself.
        np.negative(self.x, out=self.push)
        np.negative(self.used, out=self.by_class)
        np.negative(self.placed, out=self.by_workload)
        self.slack_target = -self.s * self.p
        self.limit_target = -self.u[mine] * self.h[mine]
        mu = (self.complementarity - self.slack_target.sum() - self.limit_target.sum()) / self.count
        step = self._direction(_Direction.empty(self))
        primal, dual = min(1.0, step.primal), min(1.0, step.dual)
        predicted = self._predicted_complementarity(step, primal, dual) / self.count
        centre = mu * (predicted / mu) ** 3
        kernels.second_order(
            self.allowed,
            self.demand,
            self.x,
            self.z,
            step.dx,
            step.dz,
            centre,
            self.push,
            self.by_class,
            self.by_workload,
        )
        self.slack_target += centre - step.ds * step.dp
        self.limit_target += centre - step.du * step.dh[mine]
        step = self._direction(step)
        for _ in range(MOST_CENTRALITY_CORRECTORS):
            if min(step.primal, step.dual) >= LONG_STEP:
                break
            better = self._recentred(step, centre)
            if better is None:
                break
            step = better
        primal, dual = _short_of_boundary(step.primal), _short_of_boundary(step.dual)
        self._advance(step, primal, dual)
        return max(primal, dual) > 1e-8

    def _recentred(self, step: _Direction, centre: float) -> _Direction | None:
        """Gondzio's centrality corrector (Comput. Optim. Appl. 6, 1996), if it pays."""
        mine = self.limited
        primal, dual = min(1.0, step.primal + 0.3), min(1.0, step.dual + 0.3)
        low, high = 0.1 * centre, 10.0 * centre
        kernels.recentre(
            self.allowed,
            self.demand,
            self.x,
            self.z,
            step.dx,
            step.dz,
            primal,
            dual,
            low,
            high,
            self.push,
            self.by_class,
            self.by_workload,
        )
        slack = (self.s + primal * step.ds) * (self.p + dual * step.dp)
        self.slack_target += np.maximum(np.clip(slack, low, high) - slack, -high)
        room = (self.u[mine] + primal * step.du) * (self.h[mine] + dual * step.dh[mine])
        self.limit_target += np.maximum(np.clip(room, low, high) - room, -high)
        better = self._direction(_Direction.empty(self))
        gained = min(1.0, better.primal) + min(1.0, better.dual)
        return better if gained > min(1.0, step.primal) + min(1.0, step.dual) + 0.03 else None

    def _advance(self, step: _Direction, primal: float, dual: float) -> None:
        self.complementarity = kernels.advance(
            self.demand,
            self.x,
            self.z,
            step.dx,
            step.dz,
            primal,
            dual,
            self.used,
            self.placed,
        )
        self.s += primal * step.ds
        self.u[self.limited] += primal * step.du
        self.tau += primal * step.dtau
        self.p += dual * step.dp
        self.y += dual * step.dy
        self.h += dual * step.dh
        self._residuals()

    def _direction(self, step: _Direction) -> _Direction:
        """Solve for the current targets, into ``step``."""
        program, equations, mine = self.program, self.equations, self.limited
        slack_pull = self.slack_target / self.p
        limit_pull = self.limit_target / self.h[mine]
        e = self.by_workload - self.limit_rest
        e[mine] += limit_pull
        step.dp, step.dy, step.dh, step.dtau = equations.solve(
            self.by_class + slack_pull - self.class_rest,
            self.row_rest - self._by_row(self.by_workload),
            e,
            1.0 - float(program.rise @ self.y),
        )
        primal, dual = kernels.direction(
            self.allowed,
            self.demand,
            self.x,
            self.z,
            equations.theta,
            self.push,
            step.dp,
            step.dh - step.dy[program.row],
            step.dx,
            step.dz,
        )
        step.ds = slack_pull - self.s / self.p * step.dp
        step.du = limit_pull - self.u[mine] / self.h[mine] * step.dh[mine]
        step.primal = min(1 / primal, _longest(self.s, step.ds), _longest(self.u[mine], step.du))
        step.dual = min(1 / dual, _longest(self.p, step.dp), _longest(self.h[mine], step.dh[mine]))
        return step

    def _predicted_complementarity(self, step: _Direction, primal: float, dual: float) -> float:
        mine = self.limited
        total: float = kernels.products(self.x, self.z, step.dx, step.dz, primal, dual)
        total += float(((self.s + primal * step.ds) * (self.p + dual * step.dp)).sum())
        if len(mine):
            room = self.u[mine] + primal * step.du
            total += float((room * (self.h[mine] + dual * step.dh[mine])).sum())
        return total

    def _solution(self, steps: int) -> LevelSolution:
        x = np.ascontiguousarray(self.x.T)
        return LevelSolution(x=x, prices=self.p.T.copy(), tau=self.tau, steps=steps)


def _longest(value: FloatArray, change: FloatArray) -> float:
    """Longest step along ``change`` that keeps ``value`` (> 0) non-negative."""
    return 1.0 / max(float((-change / value).max(initial=0.0)), 1e-300)


def _short_of_boundary(longest: float) -> float:
    """Step length: long steps go nearly to the boundary, short ones keep well away from it."""
    reach = min(1.0, longest)
    return min(1.0, longest * (0.9 + 0.0995 * reach**2))
