"""Status of a solver, common to the interior-point method, HiGHS and slot generation."""

from __future__ import annotations

from enum import Enum


class SolverStatus(Enum):
    """Status of a solver that runs or has ended."""

    ITERATING = "iterating"
    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    NOT_CONVERGED = "not converged"
    TIME_LIMIT = "time"
    WORK_LIMIT = "work"
