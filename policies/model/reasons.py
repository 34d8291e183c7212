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
    """Say for each workload why it can have no share at all.

    Parameters
    ----------
    problem : Problem
        The problem.
    allowed : (n, K) bool array
        Classes on which each workload may run.

    Returns
    -------
    (n,) array of str
        ``no_eligible_server``, ``resource_absent``, ``out_of_range`` or ``task_limit``; empty where
        the workload can have a share.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Problem, unserved_reasons
    >>> problem = Problem.create(resources=["cpu"], capacity=[[9]], tenants=["A"], demand=[[1]])
    >>> unserved_reasons(problem, np.array([[False]])).tolist()
    ['no_eligible_server']
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
