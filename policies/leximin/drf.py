"""Divisible DRF and asset fairness on one pool.

The shares of all tenants rise together.

Source: Ghodsi et al., "Dominant Resource Fairness", NSDI 2011, §4 (DRF: dominant shares) and §4.2
(asset fairness: sums of the shares of all resources). The pool is one big server, so the answer is
the leximin on a single server class. A tenant stops when a resource that all its unfinished
workloads need is full, or its tasks are all placed. The two differ in the policy's share
definition.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from policies.leximin.solve import divisible_allocation
from policies.model.allocation import Allocation
from policies.model.request import Request
from policies.model.server_classes import one_class


def solve_divisible(request: Request) -> Allocation:
    """Fill the pool progressively with fractions of tasks.

    The answer has no placements.

    Args:
        request: options: ``resource_weights`` (DRF), by which each tenant's weight differs between
            resources.

    Raises:
        SolveTimeoutError, SolveFailedError.
    """
    answer = divisible_allocation(
        request.problem, one_class(request.problem), request.choice, request.deadline
    )
    nothing = np.zeros(0, dtype=np.int64)
    return replace(
        answer, placement_piece=nothing, placement_class=nothing, placement_tasks=np.zeros(0)
    )
