"""Share definitions of policies.

A share counts the dominant resource of a task, all its resources together, or tasks alone. Filling
and leximin are the same for all definitions. They differ in what one task adds to its tenant's
share, and so in the demands that one unit of share makes. A tenant's weight may also differ from
resource to resource: then the dominant resource is the one used most for its weight.

Sources: Ghodsi et al., NSDI 2011, §4.2 (asset fairness) and §4.3 (weights per resource); Wang et al.,
SC 2016 (shares of the tasks that a workload would run alone).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray, grouped_sum
from policies.errors import PolicyOptionsError
from policies.model.alone import tasks_on_whole_pool
from policies.model.policy import Choice, ShareDefinition
from policies.model.problem import Problem


@dataclass(frozen=True, eq=False)
class ShareUnits:
    """A problem's workloads in units of share.

    Attributes:
        per_task: (n,) what one task adds to its tenant's share.
        demand: (n, m) share of the pool's resources that one unit of share takes.
        limit: (n,) share at which all of the workload's tasks are placed; inf: none.
        by_resource: False if the share of a group is the sum of its tenants' shares, whatever
            resources they use.
    """

    per_task: FloatArray
    demand: FloatArray
    limit: FloatArray
    by_resource: bool = True


def weight_factors(problem: Problem, choice: Choice) -> FloatArray | None:
    """Return the factors ``w[i, r] / w[i]`` (t, m) of each tenant's weight in each resource.

    None if the option ``resource_weights`` is not given.

    Raises:
        PolicyOptionsError: it names a tenant or a resource that the problem does not have.
    """
    given = choice.option("resource_weights")
    if not given:
        return None
    factors = np.ones((problem.t, problem.m))
    for tenant, weights in given.items():
        row = _position(tenant, problem.tenants, "tenant", "")
        for resource, factor in weights.items():
            column = _position(resource, problem.resources, "resource", f"/{tenant}")
            factors[row, column] = factor
    return factors


def _position(name: str, names: Sequence[str], kind: str, pointer: str) -> int:
    if name not in names:
        raise PolicyOptionsError(
            "policy.options",
            f"there is no {kind} {name!r}; there are {', '.join(names[:20])}",
            f"/policy/options/resource_weights{pointer}/{name}",
        )
    return names.index(name)


def share_per_task(problem: Problem, choice: Choice) -> FloatArray:
    """Return the share (n,) that one task adds to its tenant's share.

    Under asset fairness it is the sum of its shares of the pool, else the dominant one. With weights per
    resource, the dominant one is that with the largest share for its weight.

    Where tasks over those alone count, these are whole if tasks are. A tenant that has the pool to
    itself then has a share of 1, however badly its tasks fill a server.
    """
    if choice.share is ShareDefinition.ALONE:
        alone = tasks_on_whole_pool(problem, whole=choice.whole_tasks)
        return np.divide(1.0, alone, out=np.zeros(problem.n), where=alone > 0)
    if choice.share is ShareDefinition.SUM:
        summed: FloatArray = problem.demand_share.sum(axis=1)
        return summed
    factors = weight_factors(problem, choice)
    if factors is None:
        return problem.dominant_share_per_task
    weighted: FloatArray = (problem.demand_share / factors[problem.workload_tenant]).max(axis=1)
    return weighted


def shares_of(problem: Problem, choice: Choice, tasks: FloatArray) -> FloatArray:
    """Return the share (t,) of each tenant, before its weight, with (n,) tasks running.

    With weights per resource: of all that its whole tasks use together, ``max_r`` (policies §1.1).
    """
    factors = weight_factors(problem, choice)
    if factors is None:
        per_task = share_per_task(problem, choice)
        return grouped_sum(tasks * per_task, problem.workload_tenant, problem.t)
    used = np.zeros((problem.t, problem.m))
    np.add.at(used, problem.workload_tenant, tasks[:, None] * problem.demand_share)
    most: FloatArray = (used / factors).max(axis=1)
    return most


def share_units(problem: Problem, choice: Choice) -> ShareUnits:
    """Workloads in units of the share that a policy raises to a common level.

    With weights per resource a tenant's share is the sum over its workloads: what it is of all that
    they use together where one resource is dominant in all of them, else an upper bound.
    """
    per_task = share_per_task(problem, choice)
    # The usual definition, whose arrays the problem has already.
    if per_task is problem.dominant_share_per_task:
        return ShareUnits(per_task, problem.normalised_demand, problem.share_limit)
    limit = np.full(problem.n, np.inf)
    np.multiply(problem.tasks, per_task, out=limit, where=np.isfinite(problem.tasks))
    demand = problem.demand_share / np.where(per_task > 0, per_task, 1.0)[:, None]
    return ShareUnits(per_task, demand, limit, choice.share is not ShareDefinition.ALONE)
