"""Objectives of answers, and how far they are from their bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.arrays import FloatArray, grouped_sum
from policies.model.problem import Problem


def least_level_unsatisfied(
    problem: Problem, level: FloatArray, limited_by: Sequence[str]
) -> float:
    """Return the least level of the first-stage tenants that a resource stopped.

    NaN if there is none.
    """
    stopped = [reason.startswith("resource:") for reason in limited_by]
    wanting = np.zeros(problem.t, dtype=np.bool_)
    wanting[problem.workload_tenant[np.array(stopped, dtype=np.bool_)]] = True
    wanting &= ~problem.second_stage
    return float(level[wanting].min()) if wanting.any() else float("nan")


def least_average(problem: Problem, tasks: FloatArray, limited_by: Sequence[str]) -> float:
    """Return the least weighted share of the first-stage tenants that a resource stopped.

    NaN if there is none. The prior shares of tenants (``Problem.prior_share``) are added to their
    shares.

    Args:
        problem: the problem.
        tasks: (n,) on average over the period.
        limited_by: (n) what stopped each workload.
    """
    share = grouped_sum(tasks * problem.dominant_share_per_task, problem.workload_tenant, problem.t)
    level = (share + problem.prior_share) / problem.effective_weight
    return least_level_unsatisfied(problem, level, limited_by)


def gap_of(objective: float, bound: float) -> float:
    """Return the relative distance of an objective from its bound.

    The distance is 0 if both are 0.
    """
    if bound == 0:
        return 0.0
    return max((bound - objective) / bound, 0.0)
