"""Rounds of the leximin as linear programs for HiGHS: the way that needs no interior.

Later rounds with placement constraints or zero demands have capacity rows that are tight
in every feasible point, where interior-point steps lose their footing; the simplex method
does not mind, and one model is kept and warm-started from round to round.
"""

from __future__ import annotations

import time

import highspy
import numpy as np

from policies.errors import SolveFailedError, SolveTimeoutError
from policies.leximin_problem import LeximinProblem, LevelSolution
from policies.problem import FloatArray


class SimplexLevels:
    """Maximise the common level of rising tenants while others keep their shares."""

    def __init__(self, problem: LeximinProblem, deadline: float | None) -> None:
        self._problem = problem
        self._deadline = deadline
        self._pairs = np.argwhere(problem.allowed)
        self._model = self._build()

    def raise_level(self, rise: FloatArray, keep: FloatArray) -> LevelSolution:
        """Maximise ``tau`` with tenant shares ``keep + tau * rise``.

        Args:
            rise, keep: (t,) one of them 0 for each tenant.

        Raises:
            SolveTimeoutError, SolveFailedError: HiGHS ran out of time, or gave no optimum.
        """
        problem, model = self._problem, self._model
        t, last = problem.t, len(self._pairs)
        scale = float(rise.max())
        first = problem.K * problem.m
        for i in range(t):
            model.changeCoeff(first + i, last, -float(rise[i]) / scale)
            model.changeRowBounds(first + i, float(keep[i]), float(keep[i]))
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise SolveTimeoutError("solve.timeout", "the time limit passed")
            model.setOptionValue("time_limit", model.getRunTime() + left)
        model.run()
        status = model.getModelStatus()
        if status == highspy.HighsModelStatus.kTimeLimit:
            raise SolveTimeoutError("solve.timeout", "the time limit passed")
        if status != highspy.HighsModelStatus.kOptimal:
            raise SolveFailedError("solve.failed", f"HiGHS ended with {status}")
        solution = model.getSolution()
        value = np.asarray(solution.col_value)
        dual = np.asarray(solution.row_dual)
        x = np.zeros((problem.n, problem.K))
        x[self._pairs[:, 0], self._pairs[:, 1]] = np.maximum(value[:last], 0.0)
        size = problem.capacity_share > 0
        prices = np.zeros((problem.K, problem.m))
        per_row = np.abs(dual[:first]).reshape(problem.K, problem.m)
        np.divide(per_row, problem.capacity_share, out=prices, where=size)
        return LevelSolution(x=x, prices=prices, tau=float(value[last]) / scale, steps=1)

    def _build(self) -> highspy.Highs:
        problem = self._problem
        j, c = self._pairs[:, 0], self._pairs[:, 1]
        variables, t, m, K = len(self._pairs), problem.t, problem.m, problem.K  # noqa: N806
        limited = np.flatnonzero(problem.needs_limit_row)
        limit_row = np.full(problem.n, -1)
        limit_row[limited] = K * m + t + np.arange(len(limited))
        resource = np.arange(m)
        # Capacity rows are scaled to 1 so that small classes count as much as large ones.
        size = np.where(problem.capacity_share > 0, problem.capacity_share, 1.0)
        entries = problem.demand[j] / size[c]
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
        upper = np.r_[np.ones(K * m), np.zeros(t), problem.limit[limited]]
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = variables + 1, len(upper)
        lp.col_cost_ = np.r_[np.zeros(variables), -1.0]
        lp.col_lower_ = np.zeros(variables + 1)
        lp.col_upper_ = np.full(variables + 1, highspy.kHighsInf)
        lp.row_lower_, lp.row_upper_ = lower, upper
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.r_[start, start[-1]].astype(np.int32)
        lp.a_matrix_.index_ = index[present].astype(np.int32)
        lp.a_matrix_.value_ = value[present]
        model = highspy.Highs()
        model.setOptionValue("output_flag", False)
        model.setOptionValue("threads", 1)
        model.setOptionValue("random_seed", 0)
        model.setOptionValue("primal_feasibility_tolerance", 1e-10)
        model.setOptionValue("dual_feasibility_tolerance", 1e-10)
        model.passModel(lp)
        return model
