"""Asset fairness on one pool: the sums of everybody's shares of all resources rise together.

Source: Ghodsi et al., "Dominant Resource Fairness", NSDI 2011, §4.2. Shares rise until the
first resource is full; then those who do not need it go on, as under DRF.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.leximin.drf import fill_pool_divisibly
from policies.model.allocation import Allocation
from policies.model.problem import Problem


def solve_divisible(
    problem: Problem, options: Mapping[str, Any], deadline: float | None
) -> Allocation:
    """Progressive filling of the pool with fractions of tasks; no placements.

    Args:
        problem: any problem without selectors.
        options: none are known.
        deadline: ``time.monotonic()`` seconds at which to give up, or None.

    Raises:
        SolveTimeoutError, SolveFailedError.
    """
    return fill_pool_divisibly(problem, "asset", options, deadline)
