"""The shares by which properties compare what tenants have with what they could have.

They are dominant shares, or tasks over those alone of a policy that counts these: a tenant with several
workloads could else have less of the one while it has more of the other.
"""

from __future__ import annotations

from policies.arrays import FloatArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.policy import Choice, ShareDefinition
from policies.model.problem import Problem
from policies.model.share_definition import ShareUnits, share_units


def compared_units(problem: Problem, choice: Choice) -> ShareUnits:
    """Return what one task counts, and all tasks of each workload."""
    if choice.share is ShareDefinition.ALONE:
        return share_units(problem, choice)
    return ShareUnits(
        problem.dominant_share_per_task, problem.normalised_demand, problem.share_limit
    )


def compared_shares(allocation: Allocation) -> FloatArray:
    """Return the share (t,) that each tenant has."""
    problem, choice = allocation.problem, allocation.choice
    if choice.share is not ShareDefinition.ALONE:
        return allocation.tenant_share
    per_task = compared_units(problem, choice).per_task
    return grouped_sum(allocation.tasks * per_task, problem.workload_tenant, problem.t)
