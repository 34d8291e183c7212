"""Use of tenants without sharing.

Each tenant runs alone in the part of the pool that its weight entitles it to.

Source: Tang et al., TPDS 2018, §4, formulas (1) and (2), as policies §4 reads them: tasks are whole
and need all their resources at once. (``static`` is about the servers that tenants contributed.)
"""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray, FloatArray, grouped_sum
from policies.model.problem import Problem
from policies.model.tolerance import whole_part


def entitled_partition(problem: Problem) -> FloatArray:
    """Return the part of the pool that each tenant is entitled to by its weight.

    Tenants of the second stage are entitled to nothing and left out of the sum, unless there are
    no others. In a pool with groups siblings divide what their group is entitled to.

    Parameters
    ----------
    problem : Problem
        The problem; its workloads do not matter.

    Returns
    -------
    (t, m) float array
        ``S[i, r] = C[r] · w_i / sum(w)`` in the units of the resources.

    References
    ----------
    Tang et al., TPDS 2018, §4, formula (1).

    Examples
    --------
    >>> from policies import Problem, entitled_partition
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]], weight=[2, 1])
    >>> entitled_partition(problem).tolist()
    [[6.0, 12.0], [3.0, 6.0]]
    """
    if problem.has_groups:
        return entitled_parts(problem)[:, None] * problem.totals
    weight = np.where(problem.second_stage, 0.0, problem.effective_weight)
    if not weight.any():
        weight = problem.effective_weight
    return weight[:, None] * problem.totals / max(float(weight.sum()), np.finfo(np.float64).tiny)


def entitled_parts(problem: Problem) -> FloatArray:
    """Return the fraction of the pool that each tenant is entitled to by its weight.

    Parameters
    ----------
    problem : Problem
        The problem; its workloads do not matter.

    Returns
    -------
    (t,) float array
        The factor by which :func:`entitled_partition` multiplies the pool, up to rounding.

    Examples
    --------
    >>> from policies import Problem, entitled_parts
    >>> problem = Problem.create(resources=["cpu"], capacity=[[8]], tenants=["A", "B", "C"],
    ...     demand=[[1], [1], [1]], groups=["physics"], tenant_group=[0, 0, -1])
    >>> entitled_parts(problem).tolist()
    [0.25, 0.25, 0.5]
    """
    first = ~problem.second_stage if not problem.second_stage.all() else problem.second_stage
    if problem.has_groups:
        return problem.tree(0).parts(first)
    weight = np.where(first, problem.effective_weight, 0.0)
    return weight / max(float(weight.sum()), np.finfo(np.float64).tiny)


def tasks_alone(problem: Problem, runnable: BoolArray, *, whole: bool = True) -> FloatArray:
    """Count the tasks that each workload would run in its tenant's own partition.

    A tenant's workloads fill the partition in the order in which their tasks are taken: higher
    priority first, then the older workload.

    Parameters
    ----------
    problem : Problem
        Its ``tasks`` are those that are pending now, running ones included.
    runnable : (n,) bool array
        Workloads that can be served at all.
    whole : bool, default True
        Whether tasks run whole; False where the pool divides them.

    Returns
    -------
    (n,) float array
        Tasks per workload.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Problem, tasks_alone
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> tasks_alone(problem, np.ones(2, dtype=np.bool_)).tolist()
    [2.0, 1.0]
    """
    room = entitled_partition(problem)
    alone = np.zeros(problem.n)
    waiting = np.flatnonzero(runnable)
    order = np.lexsort((waiting, -problem.priority[waiting], problem.workload_tenant[waiting]))
    workloads = waiting[order]
    owner = problem.workload_tenant[workloads]
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    for turn in range(int(rank.max(initial=-1)) + 1):  # one workload of every tenant at a time
        mine = workloads[rank == turn]
        tenant, demand = problem.workload_tenant[mine], problem.demand[mine]
        fitting = np.full(demand.shape, np.inf)
        np.divide(room[tenant], demand, out=fitting, where=demand > 0)
        most = fitting.min(axis=1)
        alone[mine] = np.minimum(problem.tasks[mine], whole_part(most) if whole else most)
        room[tenant] = np.maximum(room[tenant] - alone[mine][:, None] * demand, 0.0)
    return alone


def literal_use_alone(problem: Problem, runnable: BoolArray) -> FloatArray:
    """Return ``min(demand_r, S_r)`` (t, m), formula (2) of the paper read literally.

    Each resource counts by itself, in fractions. That is more than whole tasks, which need all
    resources, can use.

    Args:
        problem, runnable: as for :func:`tasks_alone`.
    """
    requested = np.zeros((problem.n, problem.m))
    needed = (problem.demand > 0) & runnable[:, None] & (problem.tasks > 0)[:, None]
    np.multiply(problem.tasks[:, None], problem.demand, out=requested, where=needed)
    pending = np.stack(
        [
            grouped_sum(requested[:, r], problem.workload_tenant, problem.t)
            for r in range(problem.m)
        ],
        axis=1,
    )
    least: FloatArray = np.minimum(pending, entitled_partition(problem))
    return least
