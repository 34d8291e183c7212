"""What follows from a certificate: objective, bound and gap, and what stopped each workload."""

from __future__ import annotations

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.model.certificate import Certificate
from policies.model.problem import Problem
from policies.model.reasons import LEVEL, TASK_LIMIT, limited_by_resource
from policies.proofs.group_bounds import path_scale
from policies.proofs.level_bounds import level_scale
from policies.proofs.normal_form import LeximinProblem, Normalised


def quality(
    problem: LeximinProblem, certificate: Certificate, frozen_in: IntArray
) -> tuple[float, float, float]:
    """Level and bound of the first round, and the largest relative gap of all rounds.

    Args:
        problem: the normalised problem; certificate: of its rounds.
        frozen_in: (t',) the round of each of the normalised problem's tenants.
    """
    if not certificate.rounds:
        return float("nan"), float("nan"), float("nan")
    gap = 0.0
    for number, item in enumerate(certificate.rounds):
        rising = (problem.stage == item.stage) & (frozen_in >= number)
        scale = level_scale(problem, rising, item.level)
        if problem.groups is not None:
            scale = path_scale(item.level)
        gap = max(gap, (item.bound - item.level) / scale)
    return certificate.rounds[0].level, certificate.rounds[0].bound, gap


def limits(
    problem: Problem, form: Normalised, certificate: Certificate, tasks: FloatArray
) -> tuple[str, ...]:
    """What stopped each workload, read off the certificate's prices.

    All its tasks run, or a resource is full (the dearest where the workload is cheapest), or
    its tenant's level goes to a cheaper workload that has tasks left.
    """
    lexi, mine = form.leximin, form.workloads
    unfinished = tasks[mine] < problem.tasks[mine] * (1 - 1e-9)
    wants_more = np.zeros(lexi.n, dtype=np.bool_)
    wants_more[form.merged[unfinished]] = True
    blocking = np.full(lexi.n, -1)
    frozen_in = certificate.frozen_in[form.tenants][lexi.owner]
    for number, item in enumerate(certificate.rounds):
        here = np.flatnonzero((frozen_in == number) & wants_more)
        blocking[here] = _blocking_resource(lexi, item.prices, here)
    names = np.array([*map(limited_by_resource, problem.resources), LEVEL], dtype=object)
    reason = form.reasons.copy()
    reason[mine] = np.where(unfinished, names[blocking[form.merged]], TASK_LIMIT)
    return tuple(reason.tolist())


def _blocking_resource(
    problem: LeximinProblem, prices: FloatArray, workloads: IntArray
) -> IntArray:
    """The dearest resource where each workload is cheapest; -1 where a sibling is cheaper."""
    demand = problem.demand[workloads]
    cost = demand @ prices.T
    cost[~problem.allowed[workloads]] = np.inf
    where = cost.argmin(axis=1)
    own = cost[np.arange(len(workloads)), where]
    owner = problem.owner[workloads]
    cheapest = np.full(problem.t, np.inf)
    np.minimum.at(cheapest, owner, own)
    resource = (demand * prices[where]).argmax(axis=1)
    return np.where((own <= cheapest[owner] * (1 + 1e-6)) & (own > 0), resource, -1)
