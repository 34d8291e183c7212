"""DRF on one pool: the dominant shares of all tenants rise together.

Source: Ghodsi et al., "Dominant Resource Fairness", NSDI 2011, §4. The pool is one big
server, so the answer is the leximin on a single server class; a tenant stops when a
resource that all its unfinished workloads need is full, or its tasks are all placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from policies.leximin.solve import divisible_allocation
from policies.model.allocation import Allocation
from policies.model.problem import Problem
from policies.model.server_classes import one_class


def solve_divisible(
    problem: Problem, options: Mapping[str, Any], deadline: float | None
) -> Allocation:
    """Progressive filling of the pool with fractions of tasks; no placements.

    Args:
        problem: any problem without selectors.
        options: ``resource_weights``, by which each tenant's weight differs between resources.
        deadline: ``time.monotonic()`` seconds at which to give up, or None.

    Raises:
        SolveTimeoutError, SolveFailedError.
    """
    return fill_pool_divisibly(problem, "drf", options, deadline)


def fill_pool_divisibly(
    problem: Problem, policy: str, options: Mapping[str, Any], deadline: float | None
) -> Allocation:
    """Progressive filling by what the named policy counts as a share (``measure``)."""
    answer = divisible_allocation(problem, one_class(problem), policy, options, deadline)
    nothing = np.zeros(0, dtype=np.int64)
    return replace(
        answer, placement_workload=nothing, placement_class=nothing, placement_tasks=np.zeros(0)
    )
