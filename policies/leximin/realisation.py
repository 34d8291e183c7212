"""Shares on classes where the shares of tenants are many powers of ten apart.

Tolerances of a linear program are absolute. A tenant whose share is below them may get nothing in the
program of a round although its share is proven.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from policies.arrays import FloatArray
from policies.leximin.highs import SimplexLevels
from policies.leximin.priority_order import preferred_workloads
from policies.proofs.normal_form import LeximinProblem


def place_shares(problem: LeximinProblem, share: FloatArray, deadline: float | None) -> FloatArray:
    """Place proven shares by a program that counts each in parts of itself.

    Args:
        problem: the normalised problem; share: (t,) of each tenant, at least 0.
        deadline: in `time.monotonic` seconds.

    Returns:
        (n, K) shares on the classes, as far as rounding lets them be placed.

    Raises:
        SolveTimeoutError, NoConvergenceError.
    """
    served = share > 0
    # One share is 1 in the program, and 1/t in the problem of which the program is made.
    unit = np.where(served, share * problem.t, 1.0)[problem.owner]
    parts = replace(
        problem, demand=problem.demand * unit[:, None], limit=problem.limit / unit, groups=None
    )
    program = SimplexLevels(parts, deadline, smallest_coefficient=1e-12)
    solution = program.raise_level(served / problem.t, np.zeros(problem.t))
    return preferred_workloads(problem, solution.x * unit[:, None], deadline)
