"""Why a workload gets nothing, before any policy runs (policies §1.2)."""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray, TextArray
from policies.model.problem import Problem

NO_ELIGIBLE_SERVER = "no_eligible_server"
RESOURCE_ABSENT = "resource_absent"
OUT_OF_RANGE = "out_of_range"
TASK_LIMIT = "task_limit"
LEVEL = "level"


def unserved_reasons(problem: Problem, allowed: BoolArray) -> TextArray:
    """(n,) the reason why a workload can have no share at all, or the empty string.

    Args:
        problem: the problem.
        allowed: (n, K) classes on which each workload may run.
    """
    reason = np.full(problem.n, "", dtype=object)
    reason[~allowed.any(axis=1)] = NO_ELIGIBLE_SERVER
    reason[problem.out_of_range] = OUT_OF_RANGE
    reason[problem.resource_absent] = RESOURCE_ABSENT
    reason[problem.tasks == 0] = TASK_LIMIT
    return reason


def limited_by_resource(name: str) -> str:
    """The reason of a workload that is stopped by a full resource."""
    return f"resource:{name}"
