"""How a solver ended, said alike by the interior-point method, HiGHS and slot generation."""

from __future__ import annotations

from enum import Enum


class SolverStatus(Enum):
    """How far a solver has come, or why it ended."""

    ITERATING = "iterating"
    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    NOT_CONVERGED = "not converged"
    TIME_LIMIT = "time"
    WORK_LIMIT = "work"
