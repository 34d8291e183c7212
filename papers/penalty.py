"""Penalty of MRFS, the distance of a server from equal demand per dominant resource.

Source: Hamzeh et al., "MRFS", 2020, Definition 4, equation (5) and Table II.
"""

from __future__ import annotations

import numpy as np

from papers.arrays import FloatArray
from policies import Allocation, dominant_on


def penalty(mean_demand: FloatArray, capacity: FloatArray) -> float:
    """Return the penalty ``α = |δ_1 / C_1 − δ_2 / C_2|``.

    For more resources it is the spread max − min of ``δ_r / C_r``.

    Args:
        mean_demand: (m,) ``δ_r``, see :func:`mean_dominant_demand`.
        capacity: (m,) of the server, in the same units; resources that it lacks do not count.
    """
    present = capacity > 0
    share = mean_demand[present] / capacity[present]
    return float(share.max() - share.min()) if len(share) else 0.0


def mean_dominant_demand(total: FloatArray, requests: FloatArray) -> FloatArray:
    """Return the mean dominant demand ``δ_r`` (m,).

    It is the total demand dominated by ``r`` over the number of such requests, 0 for none.
    """
    mean: FloatArray = np.divide(total, requests, out=np.zeros(len(total)), where=requests > 0)
    return mean


def hosted_requests(allocation: Allocation) -> tuple[FloatArray, FloatArray]:
    """Return the requests that each server of an answer hosts, by the resource that dominates them.

    Returns:
        (K, m) ``Ψ``, requests on one server of each class dominated by each resource, and (K, m)
        their demand of it, in its own unit.
    """
    problem, classes = allocation.problem, allocation.classes
    requests = np.zeros((classes.count, problem.m))
    total = np.zeros((classes.count, problem.m))
    per_server = allocation.placement_tasks / classes.servers[allocation.placement_class]
    for j, of, tasks in zip(
        allocation.placement_workload.tolist(),
        allocation.placement_class.tolist(),
        per_server.tolist(),
        strict=True,
    ):
        r = dominant_on(problem.demand[j], problem.capacity[classes.first_row[of]])
        requests[of, r] += tasks
        total[of, r] += tasks * problem.demand[j, r]
    return requests, total
