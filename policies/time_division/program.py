"""Linear program over slots that maximises the least share of the rising tenants.

Its variables are the parts of the period for which slots run. One row per tenant and one for the
whole period, so that a basic optimum has at most as many slots as there are tenants. Slots are
added while the model is kept and warm-started.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.errors import SolveFailedError
from policies.leximin.highs_status import status_of
from policies.model.solver_status import SolverStatus
from policies.proofs.slots.work_budget import WorkBudget

# Shares kept from earlier rounds are feasible but for rounding: this much is let go.
LET_GO = 1e-11
# Steps of innermost loops per pivot and row.
WORK_OF_A_PIVOT = 300.0
# HiGHS' numbers for its methods; with the primal one new columns keep the basis feasible.
DUAL_SIMPLEX, PRIMAL_SIMPLEX = 1, 4


@dataclass(frozen=True, eq=False)
class Mixture:
    """An optimum over the slots known so far.

    Attributes:
        level: least weighted share of the rising tenants.
        fractions: (c,) of the period.
        prices: (t,) of the tenants' shares, scaled so that those of the rising, times their
            weights, add up to 1.
    """

    level: float
    fractions: FloatArray
    prices: FloatArray


class ScheduleProgram:
    """Maximise the level of rising tenants while frozen ones keep their shares."""

    def __init__(self, tenants: int, budget: WorkBudget) -> None:
        self._tenants = tenants
        self._budget = budget
        self._slots = 0
        model = highspy.Highs()  # type: ignore[no-untyped-call]
        model.setOptionValue("output_flag", False)
        model.setOptionValue("threads", 1)
        model.setOptionValue("random_seed", 0)
        model.setOptionValue("presolve", "off")
        model.setOptionValue("simplex_strategy", DUAL_SIMPLEX)
        model.setOptionValue("primal_feasibility_tolerance", 1e-10)
        model.setOptionValue("dual_feasibility_tolerance", 1e-10)
        nowhere, nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        model.addCol(-1.0, -highspy.kHighsInf, highspy.kHighsInf, 0, nowhere, nothing)
        for _ in range(tenants):
            model.addRow(-highspy.kHighsInf, highspy.kHighsInf, 0, nowhere, nothing)
        model.addRow(1.0, 1.0, 0, nowhere, nothing)
        self._model = model

    def add(self, shares: FloatArray) -> None:
        """Add a slot with the given shares (t,) of the tenants."""
        rows = np.append(np.flatnonzero(shares), self._tenants).astype(np.int32)
        values = np.append(shares[shares != 0], 1.0)
        self._model.addCol(0.0, 0.0, highspy.kHighsInf, len(rows), rows, values)
        self._slots += 1

    def set_round(self, weight: FloatArray, rising: BoolArray, kept: FloatArray) -> None:
        """Set the tenants that rise by ``weight`` (t,) and the shares ``kept`` (t,) of the others.

        A share of 0 keeps nothing.
        """
        for i in range(self._tenants):
            self._model.changeCoeff(i, 0, -float(weight[i]) if rising[i] else 0.0)
            floor = 0.0 if rising[i] else float(kept[i]) * (1 - LET_GO)
            self._model.changeRowBounds(i, floor, highspy.kHighsInf)

    def solve(self) -> Mixture:
        """Return the best mixture of the slots known.

        The first time by the dual simplex method, which needs no basis to start from.

        Raises:
            WorkBudgetSpentError: nothing is left to spend.
            SolveFailedError: HiGHS gave no optimum.
        """
        status = self._run()
        if status is not SolverStatus.OPTIMAL:
            # Numerical trouble on the way from the last basis: once more, from the beginning.
            self._model.clearSolver()
            self._model.setOptionValue("simplex_strategy", DUAL_SIMPLEX)
            status = self._run()
        self._model.setOptionValue("simplex_strategy", PRIMAL_SIMPLEX)
        if status is not SolverStatus.OPTIMAL:
            raise SolveFailedError(
                "solve.failed", f"HiGHS ended with {self._model.getModelStatus()}"
            )
        solution = self._model.getSolution()
        value = np.asarray(solution.col_value)
        prices = np.maximum(np.asarray(solution.row_dual)[: self._tenants], 0.0)
        return Mixture(float(value[0]), np.maximum(value[1:], 0.0), prices)

    def _run(self) -> SolverStatus:
        model = self._model
        left = self._budget.seconds_left()
        if left is not None:
            model.setOptionValue("time_limit", model.getRunTime() + left)
        model.run()
        status = status_of(model)
        if status is SolverStatus.TIME_LIMIT:
            self._budget.seconds_left()
        pivots = max(int(model.getInfo().simplex_iteration_count), 0)
        self._budget.spend(WORK_OF_A_PIVOT * pivots * (self._tenants + 1))
        return status
