"""Rounds of the leximin as linear programs for HiGHS.

Later rounds with placement constraints or zero demands have capacity rows that are tight in every
feasible point, where interior-point steps do not converge. The simplex method needs no interior,
and one model is kept and warm-started from round to round.
"""

from __future__ import annotations

import time
from functools import cached_property

import highspy
import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.errors import SolveTimeoutError
from policies.leximin.first_basis import FirstBasis, first_basis
from policies.leximin.highs_status import status_of
from policies.leximin.interior_point.method import NoConvergenceError
from policies.leximin.level_program import LevelSolution, is_complete
from policies.model.solver_status import SolverStatus
from policies.model.tolerance import POSITION_ROUNDING
from policies.proofs.normal_form import LeximinProblem

# Shares kept from earlier rounds are feasible but for rounding: this much is let go.
KEPT_WITHIN = 1e-10
# Tolerance of rows, and by how much a row may be exceeded before that is taken back.
FEASIBLE, EXCEEDED = 1e-10, 1e-13
MOST_TIGHTENED = 3
# HiGHS searches a column for each coefficient that is changed: beyond so many a new column is faster.
# Of fewer, changes keep what HiGHS knows of the basis, which it needs where numbers are far apart.
MOST_CHANGED = 2_000
DUAL_SIMPLEX, PRIMAL_SIMPLEX = 1, 4
# Beyond so many steps from the basis of the program before, a new one near the optimum is faster.
MOST_STEPS = 100
# Edge weights of the dual simplex that cost nothing to begin with, unlike those of steepest edges.
DEVEX = 1
_STATUSES = (
    highspy.HighsBasisStatus.kLower,
    highspy.HighsBasisStatus.kBasic,
    highspy.HighsBasisStatus.kUpper,
)


class SimplexLevels:
    """Maximise the common level of rising tenants while others keep their shares."""

    def __init__(
        self,
        problem: LeximinProblem,
        deadline: float | None,
        *,
        smallest_coefficient: float | None = None,
        begins_near: bool = False,
    ) -> None:
        """Build the model. HiGHS drops what is below ``smallest_coefficient``, by default 1e-9.

        Args:
            begins_near: begin programs far from those before at a basis near their optimum.
        """
        self._problem = problem
        self._smallest = smallest_coefficient
        self._deadline = deadline
        # Bound of ``tau`` in the current program.
        self._begins_near, self._most = begins_near, np.inf
        self._pairs = np.argwhere(problem.allowed)
        self._limited = np.flatnonzero(problem.needs_limit_row)
        # (r, 2) limit and resource of each row that keeps a limit.
        kept = [np.isfinite(limit.amount) & (not limit.is_cap) for limit in problem.limits]
        self._kept = np.argwhere(kept).reshape(-1, 2)
        self._model = self._build()
        # (r,) bounded rows that kept shares exceed by rounding.
        self._exceeded = np.zeros(len(self._bounded_rows[0]), dtype=np.bool_)
        self._rises = np.zeros(problem.t + len(self._limited))

    def raise_level(
        self, rise: FloatArray, keep: FloatArray, *, most: float = np.inf
    ) -> LevelSolution:
        """Maximise ``tau`` with tenant shares ``keep + tau * rise``.

        Args:
            rise, keep: (t,) at least 0; most: bound of ``tau``.

        Raises:
            SolveTimeoutError, NoConvergenceError: HiGHS ran out of time, or gave no optimum.
        """
        t = self._problem.t
        # Shares are counted in 1/t of the pool: tolerances are absolute and meant for numbers
        # around 1. Where rounding made the kept shares infeasible, a little is let go.
        scale = float(rise.max()) * t
        was_bounded = np.isfinite(self._most)
        self._most = most
        complete = is_complete(self._problem, rise, keep)
        status = SolverStatus.ITERATING
        before = self._model.getBasis()
        let_go_of = [np.full(t, part) for part in (0.0, 1e-12, KEPT_WITHIN)]
        if self._problem.groups is not None:
            # Shares on a path are rounded like the position, which is the sum of all.
            rounding = POSITION_ROUNDING * (keep.sum() + rise.sum())
            parts = np.divide(rounding, keep, out=np.zeros(t), where=keep > 0)
            let_go_of.append(np.clip(parts, KEPT_WITHIN, 1.0))
        for let_go in let_go_of:
            if status is SolverStatus.INFEASIBLE and before.valid:
                # The basis at which HiGHS gave up is far from the optimum of a program with room.
                self._model.setBasis(before)
            fixed = self._set_rows(rise * t / scale, keep * t, complete, let_go)
            if np.isfinite(most):
                self._model.changeColBounds(len(self._pairs), 0.0, most * scale)
            elif was_bounded:
                self._model.changeColBounds(len(self._pairs), 0.0, highspy.kHighsInf)
            status = self._solve(rise, keep, fixed)
            if status is SolverStatus.OPTIMAL:
                break
        if status is not SolverStatus.OPTIMAL:
            raise NoConvergenceError(f"HiGHS ended with {self._model.getModelStatus()}")
        self._take_back_excess(scale)
        return self._solution(scale)

    def _solve(self, rise: FloatArray, keep: FloatArray, fixed: BoolArray) -> SolverStatus:
        """Run the program from the best basis there is.

        Args:
            rise, keep: (t,) as in ``raise_level``; fixed: as in ``_run_near``.
        """
        status = SolverStatus.ITERATING
        if self._begins_near:
            # From the basis of shares that differ much it may be thousands of steps.
            if self._model.getBasis().valid:
                status = self._run(MOST_STEPS)
            if status is SolverStatus.ITERATING:
                basis = first_basis(self._problem, rise, keep, self._deadline, most=self._most)
                status = self._run_near(basis, fixed)
                if status is not SolverStatus.OPTIMAL:
                    status = self._run()
        else:
            status = self._run()
        if status not in (SolverStatus.OPTIMAL, SolverStatus.INFEASIBLE):
            # From the basis of an earlier program HiGHS may fail numerically.
            self._model.clearSolver()
            status = self._run()
        return status

    def _take_back_excess(self, scale: float) -> None:
        """Let go of a vertex that exceeds rows, within the tolerance of HiGHS, for one that does not.

        Rows that are tightened by more than the tolerance become tight, and stay so at their bounds.
        """
        model = self._model
        rows, upper = self._bounded_rows
        for _ in range(MOST_TIGHTENED):
            value = np.asarray(model.getSolution().row_value)[rows]
            over = np.flatnonzero((value > upper + EXCEEDED) & ~self._exceeded)
            if not len(over):
                break
            # At its bound the level would cross such a row again.
            if np.isfinite(self._most):
                model.changeColBounds(len(self._pairs), 0.0, 2 * self._most * scale)
            which, lower = rows[over].astype(np.int32), np.full(len(over), -highspy.kHighsInf)
            statuses = []
            for moved in (2 * FEASIBLE, 0.0):
                bound = upper[over] - moved
                model.changeRowsBounds(len(which), which, lower, bound)  # type: ignore[attr-defined]
                statuses.append(self._run())
            if statuses[1] is not SolverStatus.OPTIMAL:
                model.clearSolver()
                if self._run() is not SolverStatus.OPTIMAL:
                    raise NoConvergenceError(f"HiGHS ended with {model.getModelStatus()}")
            # Kept shares exceed these rows.
            self._exceeded[over] = statuses[0] is SolverStatus.INFEASIBLE

    @cached_property
    def _bounded_rows(self) -> tuple[IntArray, FloatArray]:
        """Rows of capacities and limits, and their upper bounds."""
        problem = self._problem
        capacities = problem.K * problem.m
        first = capacities + problem.t + len(self._limited)
        rows = np.r_[np.arange(capacities), first + np.arange(len(self._kept))]
        amounts = problem.rooms[problem.K + self._kept[:, 0], self._kept[:, 1]]
        return rows, np.r_[np.ones(capacities), (amounts > 0) * 1.0]

    def _set_rows(
        self, rise: FloatArray, keep: FloatArray, complete: BoolArray, let_go: FloatArray
    ) -> BoolArray:
        """Set rises and bounds of the rows of shares, and return which have one value only.

        Args:
            let_go: (t,) part of each kept share that may be let go.
        """
        problem, infinity = self._problem, highspy.kHighsInf
        limited, owner = self._limited, problem.owner[self._limited]
        own_rows = np.zeros(problem.t, dtype=np.bool_)
        own_rows[owner] = True
        own_rows &= complete
        part = problem.limit[limited] / problem.cap[owner]
        kept = keep[owner] * part
        mine = own_rows[owner]
        rises = np.concatenate(
            [np.where(own_rows, 0.0, rise), np.where(mine, rise[owner] * part, 0.0)]
        )
        lower = np.concatenate(
            [
                np.where(own_rows, -infinity, keep * (1 - let_go)),
                np.where(mine, kept * (1 - let_go[owner]), -infinity),
            ]
        )
        upper = np.concatenate(
            [
                np.where(own_rows, infinity, keep),
                np.where(mine, kept, problem.limit[limited] * problem.t),
            ]
        )
        # A row is its shares less its rise times the level.
        first = problem.K * problem.m
        changed = np.flatnonzero(rises != self._rises)
        if len(changed) > MOST_CHANGED:
            self._replace_level(first, rises)
            changed = changed[:0]
        for row in changed.tolist():
            self._model.changeCoeff(first + row, len(self._pairs), -float(rises[row]))
        self._rises = rises
        rows = np.arange(first, first + len(rises), dtype=np.int32)
        self._model.changeRowsBounds(len(rows), rows, lower, upper)  # type: ignore[attr-defined]
        fixed: BoolArray = lower == upper
        return fixed

    def _replace_level(self, first: int, rises: FloatArray) -> None:
        """Set the coefficients of the level in the rows of shares, which begin at ``first``.

        The new column has no upper bound.
        """
        model, column = self._model, len(self._pairs)
        basis = model.getBasis()
        rows = np.flatnonzero(rises)
        model.deleteCols(1, np.array([column], dtype=np.int32))
        index, infinity = (first + rows).astype(np.int32), highspy.kHighsInf
        model.addCol(-1.0, 0.0, infinity, len(rows), index, -rises[rows])
        if basis.valid:
            model.setBasis(basis)

    def _run_near(self, basis: FirstBasis | None, fixed: BoolArray) -> SolverStatus:
        """Run the program from a basis near its optimum, which HiGHS completes.

        If no optimum is found, the next run begins from nothing.

        Args:
            fixed: (t + limited,) rows of shares that have one value only.
        """
        if basis is None:
            return SolverStatus.ITERATING
        lower, inside, upper = _STATUSES
        placed = basis.placed[self._pairs[:, 0], self._pairs[:, 1]]
        shares = np.concatenate(
            [np.ones(self._problem.t, dtype=np.bool_), basis.below_limit[self._limited]]
        )
        within = basis.within[self._kept[:, 0], self._kept[:, 1]]
        stated = highspy.HighsBasis()
        # Alien: HiGHS completes a basis of too many or too few entries, instead of refusing it.
        stated.valid = stated.alien = True
        columns = [inside if each else lower for each in placed.tolist()]
        stated.col_status = [*columns, inside if basis.rises else upper]
        stated.row_status = [
            inside if each else upper
            for each in [
                *basis.spare.ravel().tolist(),
                *(shares & ~fixed).tolist(),
                *within.tolist(),
            ]
        ]
        self._limit_time()
        self._model.setOptionValue("simplex_iteration_limit", highspy.kHighsIInf)
        if self._model.setBasis(stated) == highspy.HighsStatus.kError:
            return SolverStatus.ITERATING
        self._model.run()
        status = status_of(self._model)
        if status is SolverStatus.TIME_LIMIT:
            raise SolveTimeoutError("solve.timeout", "the time limit passed")
        if status is not SolverStatus.OPTIMAL:
            self._model.clearSolver()
        return status

    def _limit_time(self) -> None:
        """Set what is left until the deadline as the model's time limit."""
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise SolveTimeoutError("solve.timeout", "the time limit passed")
            # HiGHS counts its limit from the first run of the model.
            self._model.setOptionValue("time_limit", self._model.getRunTime() + left)

    def _run(self, most_steps: int = highspy.kHighsIInf) -> SolverStatus:
        """Run the program from its present basis, for at most so many steps."""
        model = self._model
        self._limit_time()
        model.setOptionValue("simplex_iteration_limit", most_steps)
        status = SolverStatus.ITERATING
        if self._problem.couples and model.getBasis().valid:
            # A basis of an earlier level is nearer to feasible than to optimal where many limits bind.
            model.setOptionValue("simplex_strategy", PRIMAL_SIMPLEX)
            model.run()
            model.setOptionValue("simplex_strategy", DUAL_SIMPLEX)
            status = status_of(model)
            if most_steps < highspy.kHighsIInf and status is SolverStatus.ITERATING:
                return status
        # Only its optimum is taken from the primal simplex, which sometimes ends without one.
        if status not in (SolverStatus.OPTIMAL, SolverStatus.TIME_LIMIT):
            model.run()
            status = status_of(model)
        if status is SolverStatus.TIME_LIMIT:
            raise SolveTimeoutError("solve.timeout", "the time limit passed")
        return status

    def _solution(self, scale: float) -> LevelSolution:
        problem, last = self._problem, len(self._pairs)
        solution = self._model.getSolution()
        value = np.asarray(solution.col_value)
        dual = np.asarray(solution.row_dual)
        x = np.zeros((problem.n, problem.K))
        x[self._pairs[:, 0], self._pairs[:, 1]] = np.maximum(value[:last], 0.0) / problem.t
        prices = np.zeros_like(problem.rooms)
        classes = prices[: problem.K]
        per_row = np.abs(dual[: classes.size]).reshape(problem.K, problem.m)
        np.divide(per_row, problem.capacity_share, out=classes, where=problem.capacity_share > 0)
        of_limits = np.abs(dual[len(dual) - len(self._kept) :]) / self._size_of_limits
        prices[problem.K + self._kept[:, 0], self._kept[:, 1]] = of_limits
        return LevelSolution(x=x, prices=prices, tau=float(value[last]) / scale, steps=1)

    @cached_property
    def _size_of_limits(self) -> FloatArray:
        """Divisors (r,) of the rows of limits, with which small amounts count like large ones."""
        amounts = [float(self._problem.limits[q].amount[r]) for q, r in self._kept.tolist()]
        return np.array([amount if amount > 0 else 1.0 for amount in amounts])

    def _add_limits(self, model: highspy.Highs) -> None:
        """Add a row for each amount of a limit."""
        problem, pairs = self._problem, self._pairs
        sizes = self._size_of_limits
        column = np.full((problem.n, problem.K), -1)
        column[pairs[:, 0], pairs[:, 1]] = np.arange(len(pairs))
        columns = [np.zeros(0, dtype=np.int64)]
        for limit in self._kept[:, 0].tolist():
            item = problem.limits[limit]
            of_limit = column[item.workloads][:, item.classes].ravel()
            columns.append(of_limit[of_limit >= 0])
        length = np.array([len(each) for each in columns[1:]], dtype=np.int64)
        index = np.concatenate(columns)
        row = np.repeat(np.arange(len(length)), length)
        values = problem.demand[pairs[index, 0], self._kept[row, 1]] / (sizes[row] * problem.t)
        amounts = np.array([problem.limits[q].amount[r] for q, r in self._kept.tolist()])
        model.addRows(
            len(length),
            np.full(len(length), -highspy.kHighsInf),
            amounts / sizes,
            len(index),
            (np.cumsum(length) - length).astype(np.int32),
            index.astype(np.int32),
            values,
        )

    def _build(self) -> highspy.Highs:
        problem = self._problem
        j, c = self._pairs[:, 0], self._pairs[:, 1]
        variables, t, m, K = len(self._pairs), problem.t, problem.m, problem.K  # noqa: N806
        limited = self._limited
        limit_row = np.full(problem.n, -1)
        limit_row[limited] = K * m + t + np.arange(len(limited))
        resource = np.arange(m)
        # Capacity rows are scaled to 1 so that small classes count as much as large ones.
        size = np.where(problem.capacity_share > 0, problem.capacity_share, 1.0)
        entries = problem.demand[j] / (size[c] * t)
        index = np.concatenate(
            [
                c[:, None] * m + resource,
                (K * m + problem.owner[j])[:, None],
                limit_row[j][:, None],
            ],
            axis=1,
        )
        value = np.concatenate([entries, np.ones((variables, 2))], axis=1)
        present = (index >= 0) & (value > 0)
        start = np.r_[0, np.cumsum(present.sum(axis=1))]
        lower = np.r_[np.full(K * m, -highspy.kHighsInf), np.zeros(t), np.zeros(len(limited))]
        upper = np.r_[np.ones(K * m), np.zeros(t), problem.limit[limited] * t]
        model = highspy.Highs()  # type: ignore[no-untyped-call]
        model.setOptionValue("output_flag", False)
        # One thread and one seed: the same problem has the same answer each time.
        model.setOptionValue("threads", 1)
        model.setOptionValue("random_seed", 0)
        # Below what is certified, so that the bounds from its prices can close.
        model.setOptionValue("primal_feasibility_tolerance", FEASIBLE)
        model.setOptionValue("dual_feasibility_tolerance", 1e-10)
        if self._begins_near:
            model.setOptionValue("simplex_dual_edge_weight_strategy", DEVEX)
        if self._smallest is not None:
            model.setOptionValue("small_matrix_value", self._smallest)
        # Arrays, because vectors of a HighsLp would be filled number by number.
        passed = model.passModel(
            variables + 1,
            len(upper),
            int(start[-1]),
            int(highspy.MatrixFormat.kColwise),
            int(highspy.ObjSense.kMinimize),
            0.0,
            np.r_[np.zeros(variables), -1.0],
            np.zeros(variables + 1),
            np.full(variables + 1, highspy.kHighsInf),
            lower,
            upper,
            np.r_[start, start[-1]].astype(np.int32),
            index[present].astype(np.int32),
            value[present],
            np.zeros(variables + 1, dtype=np.int32),  # no column must be a whole number
        )
        if passed == highspy.HighsStatus.kError:  # numbers that it reads as infinite
            raise NoConvergenceError("HiGHS rejected the model")
        self._add_limits(model)
        return model
