"""Translation of HiGHS's model status to a status of this package."""

from __future__ import annotations

import highspy

from policies.model.solver_status import SolverStatus

_STATUSES = {
    highspy.HighsModelStatus.kOptimal: SolverStatus.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: SolverStatus.INFEASIBLE,
    highspy.HighsModelStatus.kTimeLimit: SolverStatus.TIME_LIMIT,
    highspy.HighsModelStatus.kIterationLimit: SolverStatus.ITERATING,
}


def status_of(model: highspy.Highs) -> SolverStatus:
    """Return the status of a model after a run.

    A model without an optimum or a known reason did not converge.
    """
    return _STATUSES.get(model.getModelStatus(), SolverStatus.NOT_CONVERGED)
