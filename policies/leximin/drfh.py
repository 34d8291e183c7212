"""Exact, divisible DRFH, the weighted leximin of global dominant shares.

Source: Wang, Liang, Li, "Multi-Resource Fair Allocation in Heterogeneous Cloud Computing
Systems", TPDS 2015, §4 (one round), §5.1 (weights and finite tasks).
"""

from __future__ import annotations

from policies.leximin.solve import divisible_allocation
from policies.model.allocation import Allocation
from policies.model.request import Request
from policies.model.server_classes import server_classes


def solve_divisible(request: Request) -> Allocation:
    """Allocate fractions of tasks on real servers.

    Returns:
        The leximin answer with its certificate; every level within 1e-9 of its bound.

    Raises:
        ProblemTooLargeError, SolveTimeoutError, SolveFailedError.
    """
    classes = server_classes(request.problem)
    return divisible_allocation(request.problem, classes, request.choice, request.deadline)
