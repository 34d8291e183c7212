"""The second stage of CEEI, as programs over the workloads of both stages.

Tenants of the first stage keep their shares and may run any mix of their workloads that gives them.
Every resource must have some capacity, and every workload at least one task.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np


def greatest_share(problem, kept, tenant):
    """The greatest share of one tenant of the second stage if no other one of that stage runs.

    Args:
        problem: weights are explicit; kept: (t,) shares of the first stage, NaN in the second one.
        tenant: position of the tenant.
    """
    x, constraints = _feasible(problem, kept)
    mine = problem.workload_tenant == tenant
    program = cp.Problem(cp.Maximize(cp.sum(x[np.flatnonzero(mine)])), constraints)
    return max(program.solve(solver="HIGHS"), 0.0)


def greatest_product(problem, kept, buyers):
    """(shares of the buyers, logarithm of their weighted geometric mean) at the optimum."""
    x, constraints = _feasible(problem, kept)
    member = (problem.workload_tenant == np.array(buyers)[:, None]).astype(float)
    weight = problem.effective_weight[buyers]
    product = cp.sum(cp.multiply(weight, cp.log(member @ x))) / weight.sum()
    program = cp.Problem(cp.Maximize(product), constraints)
    program.solve(solver="CLARABEL")
    return member @ x.value, program.value


def _feasible(problem, kept):
    x = cp.Variable(problem.n, nonneg=True)
    limit = problem.share_limit
    constraints = [problem.normalised_demand.T @ x <= 1]
    constraints += [x[j] <= limit[j] for j in np.flatnonzero(np.isfinite(limit)).tolist()]
    # The least bit less: shares that are rounded up leave nothing feasible.
    for i in np.flatnonzero(np.isfinite(kept)).tolist():
        mine = np.flatnonzero(problem.workload_tenant == i)
        constraints.append(cp.sum(x[mine]) >= kept[i] * (1 - 1e-10))
    return x, constraints
