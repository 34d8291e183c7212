"""What a share counts: the dominant resource of a task, or all its resources together.

Filling and leximin are the same for both; they differ in what one task adds to its tenant's
share, and so in the demands that one unit of share makes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray
from policies.problem import Problem


@dataclass(frozen=True, eq=False)
class Measure:
    """A problem's workloads in units of share.

    Attributes:
        per_task: (n,) what one task adds to its tenant's share.
        demand: (n, m) share of the pool's resources that one unit of share takes.
        limit: (n,) share at which all of the workload's tasks are placed; inf: none.
    """

    per_task: FloatArray
    demand: FloatArray
    limit: FloatArray


def share_per_task(problem: Problem, policy: str) -> FloatArray:
    """(n,) of the pool: summed over resources under asset fairness, else the dominant one."""
    if policy == "asset":
        summed: FloatArray = problem.demand_share.sum(axis=1)
        return summed
    return problem.dominant_share_per_task


def measure_of(problem: Problem, policy: str) -> Measure:
    """The measure of a policy that raises shares to a common level."""
    if policy != "asset":
        return Measure(
            problem.dominant_share_per_task, problem.normalised_demand, problem.share_limit
        )
    per_task = share_per_task(problem, policy)
    limit = np.full(problem.n, np.inf)
    np.multiply(problem.tasks, per_task, out=limit, where=np.isfinite(problem.tasks))
    demand = problem.demand_share / np.where(per_task > 0, per_task, 1.0)[:, None]
    return Measure(per_task, demand, limit)
