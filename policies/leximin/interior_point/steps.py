"""Steps of Mehrotra's predictor-corrector method for one round of the leximin.

The program and its parts are those of ``method``.
"""

from __future__ import annotations

import math

import numpy as np

from policies.leximin.interior_point import loops
from policies.leximin.interior_point.equations import Elimination, Rows
from policies.leximin.interior_point.servers_first import ServersFirst
from policies.leximin.interior_point.state import Aims, Bounds, Point, Step
from policies.leximin.interior_point.tenants_first import TenantsFirst
from policies.model.solver_status import SolverStatus

# In so many steps the gap has to halve: a run that gains a few parts in a hundred at each converges.
MOST_STEPS_TO_HALVE = 40
LONG_STEP = 0.9
MOST_CENTRALITY_CORRECTORS = 1
# Close to the optimum the linear systems are nearly singular.
REFINE_BELOW = 1e-4
# Relative gap to aim for: well inside the 1e-9 that is certified afterwards.
AIM = 1e-12
# ... and what is accepted where rounding allows no more.
GOOD_ENOUGH = 1e-10
# Complementarity, relative to the level, that is left until the rows are met.
LEFT_FOR_ROWS = 1e-11
SHORTEST_STEP = 1e-8


class Method:
    """The method on its way from ``point``, which it moves in place."""

    def __init__(self, rows: Rows, bounds: Bounds, point: Point) -> None:
        self.point = point
        self.steps = 0
        self._rows, self._bounds = rows, bounds
        m, classes = len(rows.demand), len(point.x)
        self._shape = m, classes
        # The smaller of both systems is factored, which is what a step costs.
        few_rows = len(rows.rise) + len(rows.limited) < m * classes
        self._elimination: Elimination = (
            ServersFirst(rows, classes) if few_rows else TenantsFirst(rows, classes)
        )
        self._theta, self._total = np.empty_like(point.x), np.empty_like(point.placed)
        self._aims, self._spare = Aims.at(point), Step.at(point)
        self._step = Step.at(point)
        self._sides = np.empty_like(point.slacks), np.empty_like(point.y)
        self._pairs = int(bounds.allowed.sum()) + len(point.slacks)
        self._best, self._since_best = math.inf, 0
        self._halved, self._since_halved = math.inf, 0
        self.gap = self._relative_gap()

    def advance(self) -> SolverStatus:
        """One predictor and its correctors, unless the point is good or cannot get better."""
        self._since_best = 0 if self.gap < 0.5 * self._best else self._since_best + 1
        self._best = min(self.gap, self._best)
        self._since_halved += 1
        if self.gap < 0.5 * self._halved:
            self._halved, self._since_halved = self.gap, 0
        if self.gap <= AIM or (self.gap <= GOOD_ENOUGH and self._since_best > 1):
            return SolverStatus.OPTIMAL
        if self._since_halved > MOST_STEPS_TO_HALVE or not math.isfinite(self.gap):
            return SolverStatus.NOT_CONVERGED
        if not self._advance_once(refine=self.gap < REFINE_BELOW):
            return SolverStatus.NOT_CONVERGED
        self.steps += 1
        self.gap = self._relative_gap()
        return SolverStatus.ITERATING

    def _relative_gap(self) -> float:
        """Return the gap between both levels, or the residual of the rows if that is larger.

        Also writes the residuals.
        """
        rows, bounds, point, aims = self._rows, self._bounds, self.point, self._aims
        gap: float
        gap, aims.level_rest = loops.write_rests(
            rows.first, rows.rise, bounds.keep, bounds.of_slacks, point.slacks, point.prices,
            point.used, point.placed, point.y, point.tau, aims.slack_rest, aims.row_rest,
        )  # fmt: skip
        return gap

    def _advance_once(self, *, refine: bool) -> bool:
        """False when singular or when the point hardly moves."""
        rows, point, aims, step = self._rows, self.point, self._aims, self._step
        allowed, demand, limited = self._bounds.allowed, rows.demand, rows.limited
        m, classes = self._shape
        # The predictor aims at complementarity 0: it pushes every entry by itself.
        loops.begin(
            point.x, point.z, point.placed, self._theta, self._total, aims.push, aims.placed
        )
        products = point.slacks * point.prices
        aims.used, aims.slacks = -point.used, -products
        slack = point.slacks / point.prices
        of_classes, of_limits = slack[: m * classes].reshape(m, classes), slack[m * classes :]
        if not self._elimination.factor(self._theta, self._total, of_classes, of_limits):
            return False
        self._direction(step, refine=refine)
        total = point.complementarity + float(products.sum())
        # Mehrotra: the further the predictor alone would come, the less centring is needed.
        centre = total / self._pairs * (self._predicted(step) / total) ** 3
        if self.gap > GOOD_ENOUGH >= total / abs(point.tau):
            # Only rows are missed. Complementarity that goes on to fall makes the systems singular.
            centre = max(centre, LEFT_FOR_ROWS * abs(point.tau) / self._pairs)
        # The corrector adds the products of the predictor's steps, which linear equations leave
        # out.
        loops.second_order(
            allowed, demand, limited, point.x, point.z, step.dx, step.dz, centre, aims.push,
            aims.used, aims.placed,
        )  # fmt: skip
        aims.slacks += centre - step.slacks * step.prices
        self._direction(step, refine=refine)
        # Only after short steps: each corrector costs one more solution with the same factors.
        for _ in range(MOST_CENTRALITY_CORRECTORS):
            if min(step.primal, step.dual) >= LONG_STEP:
                break
            self._recentre(step, centre)
            self._direction(self._spare, refine=refine)
            if self._spare.reach <= step.reach + 0.03:
                break
            step, self._step, self._spare = self._spare, self._spare, step
        primal, dual = _short_of_boundary(step.primal), _short_of_boundary(step.dual)
        point.complementarity = loops.move(
            demand, limited, point.x, point.z, step.dx, step.dz, primal, dual, point.used,
            point.placed,
        )  # fmt: skip
        point.tau += primal * step.tau
        point.slacks += primal * step.slacks
        point.prices += dual * step.prices
        point.y += dual * step.y
        return max(primal, dual) > SHORTEST_STEP

    def _direction(self, step: Step, *, refine: bool) -> None:
        """Solve for the current aims, into ``step``."""
        rows, point, aims = self._rows, self.point, self._aims
        of_slacks, of_rows = self._sides
        loops.write_sides(
            rows.first, point.prices, aims.slack_rest, aims.row_rest, aims.slacks, aims.used,
            aims.placed, of_slacks, of_rows,
        )  # fmt: skip
        step.prices, step.y, step.tau = self._elimination.solve(
            of_slacks, of_rows, aims.level_rest, refine=refine
        )
        offset = -step.y[rows.row]
        if len(rows.limited):
            offset[rows.limited] += step.prices[-len(rows.limited) :]
        step.primal, step.dual = loops.direction(
            self._bounds.allowed, rows.demand, point.x, point.z, self._theta, aims.push,
            point.slacks, point.prices, aims.slacks, step.prices, offset, step.dx, step.dz,
            step.slacks,
        )  # fmt: skip

    def _predicted(self, step: Step) -> float:
        """Complementarity after the longest step."""
        point = self.point
        primal, dual = min(1.0, step.primal), min(1.0, step.dual)
        of_all: float = loops.predicted(
            point.x, point.z, step.dx, step.dz, point.slacks, point.prices, step.slacks,
            step.prices, primal, dual,
        )  # fmt: skip
        return of_all

    def _recentre(self, step: Step, centre: float) -> None:
        """Gondzio's centrality corrector, added to the aims."""
        rows, point, aims = self._rows, self.point, self._aims
        primal, dual = min(1.0, step.primal + 0.3), min(1.0, step.dual + 0.3)
        loops.recentre(
            self._bounds.allowed, rows.demand, rows.limited, point.x, point.z, step.dx, step.dz,
            primal, dual, centre, aims.push, aims.used, aims.placed,
        )  # fmt: skip
        slacks, prices = point.slacks + primal * step.slacks, point.prices + dual * step.prices
        product = slacks * prices
        inside = np.minimum(np.maximum(product, 0.1 * centre), 10.0 * centre)
        aims.slacks += np.maximum(inside - product, -10.0 * centre)


def _short_of_boundary(longest: float) -> float:
    """Return the length of a step, shorter than the ``longest`` one within bounds.

    Long steps go nearly to the boundary. Short ones stay well away from it.
    """
    reach = min(1.0, longest)
    return min(1.0, longest * (0.9 + 0.0995 * reach**2))
