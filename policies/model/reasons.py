"""Reasons for which a workload gets nothing, known before any policy runs (policies §1.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.arrays import BoolArray, TextArray
from policies.model.problem import Problem

NO_ELIGIBLE_SERVER = "no_eligible_server"
RESOURCE_ABSENT = "resource_absent"
OUT_OF_RANGE = "out_of_range"
NO_SERVER_LARGE_ENOUGH = "no_server_large_enough"
TASK_LIMIT = "task_limit"
LEVEL = "level"
LIMIT = "limit"
GANG = "gang"
# Every reason but ``resource:<name>`` and those of limits, in the words of an explanation.
REASONS = {
    TASK_LIMIT: "all its tasks run.",
    NO_ELIGIBLE_SERVER: "no server of the pool matches what it selects and demands.",
    RESOURCE_ABSENT: "no server of the pool has a resource that it demands.",
    NO_SERVER_LARGE_ENOUGH: "one task is larger than every server it may run on.",
    OUT_OF_RANGE: "its demand is too small or too large for this pool to be computed.",
    GANG: "no task has room for all its pieces at once.",
    LEVEL: "all waiting tenants have the same level.",
}
# Reasons for which no task could run even on an empty pool.
UNSERVED = (NO_ELIGIBLE_SERVER, RESOURCE_ABSENT, NO_SERVER_LARGE_ENOUGH, OUT_OF_RANGE)


def unserved_reasons(problem: Problem, allowed: BoolArray) -> TextArray:
    """Return the reason for which each workload can have no share at all.

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
    """Return the reason of a workload that is stopped by a full resource."""
    return f"resource:{name}"


def wants_more(limited_by: Sequence[str]) -> BoolArray:
    """Return the workloads (n,) that neither all their tasks nor a limit stop."""
    at_limit = [stop == TASK_LIMIT or stop.startswith(f"{LIMIT}:") for stop in limited_by]
    return ~np.array(at_limit, dtype=np.bool_)


def limited_by_limit(problem: Problem, limit: int) -> str:
    """Return the reason of a workload that a limit stops, with the name of a group."""
    item = problem.limits[limit]
    if item.scope == "group":
        return f"{LIMIT}:group:{problem.groups[item.node]}"
    return f"{LIMIT}:{item.scope}"
