"""Properties of fairness, as checks that any decision can be put to (policies §7)."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.model.allocation import Allocation
from policies.model.history import History
from policies.model.jain import jain_index
from policies.model.reasons import wants_more
from policies.properties.fairness import (
    bottleneck_fair,
    envy_free,
    sharing_incentive,
    single_resource_fair,
    strong_sharing_incentive,
    takes_part,
    weak_sharing_incentive,
)
from policies.properties.groups import entitlement, group_share_guarantee
from policies.properties.pareto import pareto_optimal
from policies.properties.resolving import Budget, Progress, population_monotonic, strategy_proof
from policies.properties.verdicts import Verdict, undecided

# Seconds in which tenants are taken away and misreports are tried, at most, in one request.
LONGEST_SEARCH = 5.0
PROPERTY_NAMES = (
    "envy_free",
    "pareto_optimal",
    "sharing_incentive",
    "strong_sharing_incentive",
    "weak_sharing_incentive",
    "group_share_guarantee",
    "bottleneck_fair",
    "single_resource_fair",
    "population_monotonic",
    "strategy_proof",
)


@dataclass(frozen=True)
class Properties:
    """Results of the property checks of one allocation.

    Attributes:
        verdicts: by name, all of ``PROPERTY_NAMES``.
        contribution_ratio: resource-as-you-contributed: the largest aggregate over weight by the
            smallest, among tenants that want more; None with fewer than two of them.
        jain_index: of the weighted shares, None without any. In a pool with groups both divide by
            the tenants' parts of the pool, since weights compare siblings only.
        utilization: (m,) part of each resource in use.
    """

    verdicts: dict[str, Verdict]
    contribution_ratio: float | None
    jain_index: float | None
    utilization: FloatArray


def properties_of(
    allocation: Allocation,
    *,
    history: History | None = None,
    seconds: float = LONGEST_SEARCH,
    progress: Progress | None = None,
) -> Properties:
    """Check an allocation for every property of ``PROPERTY_NAMES``.

    Parameters
    ----------
    allocation : Allocation
        Any policy's answer.
    history : History, optional
        State of a long-term policy before the step.
    seconds : float, default 5
        For solving again (population monotonicity, then strategy-proofness) and for integer programs.
        Verdicts that run out of time are undecided. The first has at most half of it.
    progress : callable, optional
        Called with the number of solves done and planned so far.

    Returns
    -------
    Properties
        A verdict per property, and indices of the whole allocation.

    References
    ----------
    Ghodsi et al., "Dominant Resource Fairness", NSDI 2011, section 3.

    Examples
    --------
    >>> from policies import Problem, properties_of, solve
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> properties_of(solve(problem, "drf"), seconds=0).verdicts["envy_free"].holds
    True
    """
    end = time.monotonic() + seconds
    if allocation.problem.gangs:
        # Bundles are compared task by task, each on one server.
        why = undecided("Tasks of several pieces are not compared.")
        return _with_indices(allocation, dict.fromkeys(PROPERTY_NAMES, why))
    if allocation.problem.kept_placements is not None:
        # Kept tasks come before shares, so that a violated property would not be a fault of the policy.
        why = undecided("Tasks that are kept on their servers come before shares.")
        return _with_indices(allocation, dict.fromkeys(PROPERTY_NAMES, why))
    verdicts = {
        "envy_free": envy_free(allocation),
        "pareto_optimal": pareto_optimal(allocation, seconds / 4),
        "sharing_incentive": sharing_incentive(allocation),
        "strong_sharing_incentive": strong_sharing_incentive(allocation),
        "weak_sharing_incentive": weak_sharing_incentive(allocation),
        "group_share_guarantee": group_share_guarantee(allocation, takes_part(allocation)),
        "bottleneck_fair": bottleneck_fair(allocation),
        "single_resource_fair": single_resource_fair(allocation),
    }
    half = max(end - time.monotonic(), 0.0) / 2
    leaving = Budget.of(half, progress)
    verdicts["population_monotonic"] = population_monotonic(allocation, leaving, history)
    lying = Budget.of(max(end - time.monotonic(), 0.0), progress, leaving.done, leaving.total)
    verdicts["strategy_proof"] = strategy_proof(allocation, lying, history)
    return _with_indices(allocation, verdicts)


def _with_indices(allocation: Allocation, verdicts: dict[str, Verdict]) -> Properties:
    """Return verdicts with the indices of an allocation."""
    problem = allocation.problem
    in_use = np.divide(
        allocation.used, problem.totals, out=np.zeros(problem.m), where=problem.totals > 0
    )
    return Properties(
        verdicts, _contribution_ratio(allocation), jain_index(_weighted_share(allocation)), in_use
    )


def resource_as_you_contributed(
    aggregate: FloatArray, weight: FloatArray, wanting: BoolArray
) -> float | None:
    """Return the largest aggregate over weight divided by the smallest.

    A ratio of 1 is as contributed.

    Args:
        aggregate: (t,) ``sum_r used[i, r] / C[r]``, accumulated over any time.
        weight: (t,); wanting: (t,) tenants with enough demand, which alone are compared.

    Returns:
        The ratio, infinite if a tenant has nothing; None with fewer than two tenants.
    """
    per_weight = (aggregate / weight)[wanting]
    if len(per_weight) < 2:
        return None
    least, most = float(per_weight.min()), float(per_weight.max())
    return most / least if least > 0 else float("inf")


def _weighted_share(allocation: Allocation) -> FloatArray:
    """Return the shares (t,) over weights, or over parts of a pool with groups, NaN without either."""
    problem = allocation.problem
    if not problem.has_groups:
        return allocation.weighted_share
    part = entitlement(problem)
    over: FloatArray = np.full(problem.t, np.nan)
    np.divide(allocation.tenant_share, part, out=over, where=part > 0)
    return over


def _contribution_ratio(allocation: Allocation) -> float | None:
    problem = allocation.problem
    used = np.zeros((problem.t, problem.m))
    if allocation.history is not None:
        used = allocation.history.used
    else:
        amount = allocation.tasks[:, None] * problem.demand
        np.add.at(used, problem.workload_tenant, amount)
    positive = np.where(problem.totals > 0, problem.totals, 1.0)
    wanting = np.zeros(problem.t, dtype=np.bool_)
    wanting[problem.workload_tenant[wants_more(allocation.limited_by)]] = True
    wanting &= takes_part(allocation)
    weight = entitlement(problem)
    wanting &= weight > 0
    used_share = (used / positive).sum(axis=1)
    return resource_as_you_contributed(used_share[wanting], weight[wanting], wanting[wanting])
