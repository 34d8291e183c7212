"""Upper bound on time division, from the same pool with divisible tasks.

Its level is an upper bound on that of every schedule, and the prices of its first round prove it.

Source: the TDA thesis (2015), problem (3.1), whose 1/Q is this bound for two users.
"""

from __future__ import annotations

import numpy as np

from policies import catalogue
from policies.arrays import FloatArray
from policies.leximin.solve import divisible_allocation
from policies.model.allocation import Allocation
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.proofs.cost_curve import CostCurve, unit_costs
from policies.proofs.slots.divisible_bound import divisible_problem
from policies.proofs.slots.slot_pool import SlotPool


def with_divisible_tasks(
    problem: Problem, pool: SlotPool, *, pack: bool, deadline: float | None
) -> Allocation:
    """Solve the same pool with divisible tasks of the workloads that can run.

    For one server and unlimited tasks its level is ``1 / max_r sum_i w_i d[i, r]``.
    """
    runnable, classes = divisible_problem(problem, pool, pack=pack)
    return divisible_allocation(runnable, classes, Choice(catalogue.DRF, "divisible"), deadline)


def first_prices(divisible: Allocation) -> FloatArray | None:
    """Return the prices (K, m) of the first round, which bound its level.

    None if nothing can run.
    """
    certificate = divisible.certificate
    if certificate is None or not certificate.rounds:
        return None
    return certificate.rounds[0].prices


def prices_of_shares(pool: SlotPool, divisible: Allocation) -> FloatArray:
    """Return the price (t',) of a little more share of each tenant, at the prices of the first round.

    Args:
        pool: what is scheduled; divisible: from :func:`with_divisible_tasks`.
    """
    problem, tenants = divisible.problem, len(pool.tenants)
    prices_of_first = first_prices(divisible)
    if prices_of_first is None:
        return np.zeros(tenants)
    totals = np.where(problem.totals > 0, problem.totals, 1.0)
    demand = problem.demand[pool.workloads] / totals / pool.share[:, None]
    allowed = divisible.classes.allowed[pool.workloads]
    costs = unit_costs(demand, allowed, prices_of_first)
    curve = CostCurve.of(pool.owner, pool.limit * pool.share, costs, tenants)
    prices = curve.marginal(divisible.tenant_share[pool.tenants])
    return np.where(np.isfinite(prices), prices, 0.0)
