"""Exact, divisible DRFH: the weighted leximin of global dominant shares.

Source: Wang, Liang, Li, "Multi-Resource Fair Allocation in Heterogeneous Cloud Computing
Systems", TPDS 2015, §4 (one round), §5.1 (weights and finite tasks).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.leximin.solve import divisible_allocation
from policies.model.allocation import Allocation
from policies.model.problem import Problem
from policies.model.server_classes import server_classes


def solve_divisible(
    problem: Problem, options: Mapping[str, Any], deadline: float | None
) -> Allocation:
    """Allocate fractions of tasks on real servers.

    Args:
        problem: any problem.
        options: none are known.
        deadline: ``time.monotonic()`` seconds at which to give up, or None.

    Returns:
        The leximin answer with its certificate; every level within 1e-9 of its bound.

    Raises:
        ProblemTooLargeError, SolveTimeoutError, SolveFailedError.
    """
    return divisible_allocation(problem, server_classes(problem), "drfh", options, deadline)
