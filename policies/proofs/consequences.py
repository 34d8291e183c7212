"""Values that follow from a certificate.

They are the objective, the bound, the gap, and what stopped each workload.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.model.certificate import Certificate
from policies.model.problem import Problem
from policies.model.reasons import LEVEL, TASK_LIMIT, limited_by_limit, limited_by_resource
from policies.model.tolerance import AGREEMENT
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
    """Return what stopped each workload, derived from the certificate's prices.

    Either all its tasks run; or a resource is full, or a limit reached (the dearest where the
    workload is cheapest); or its tenant's level goes to a cheaper workload that has tasks left.
    """
    lexi, mine = form.leximin, form.workloads
    unfinished = tasks[mine] < problem.tasks[mine] * (1 - 1e-9)
    wants_more = np.zeros(lexi.n, dtype=np.bool_)
    wants_more[form.merged[unfinished]] = True
    names = np.array(
        [
            *map(limited_by_resource, problem.resources),
            *(limited_by_limit(problem, limit) for limit in range(len(problem.limits))),
            LEVEL,
        ],
        dtype=object,
    )
    blocking = np.full(lexi.n, len(names) - 1)
    frozen_in = certificate.frozen_in[form.tenants][lexi.owner]
    for number, item in enumerate(certificate.rounds):
        here = np.flatnonzero((frozen_in == number) & wants_more)
        blocking[here] = _blocking(lexi, item.prices, here)
    reason = form.reasons.copy()
    reason[mine] = np.where(unfinished, names[blocking[form.merged]], TASK_LIMIT)
    # Backwards, because the last of equal keys stays.
    reached = dict(list(_reached_by_one(problem, form, tasks))[::-1])  # the first limit of each
    for j, limit in reached.items():
        reason[j] = limited_by_limit(problem, limit)
    return tuple(reason.tolist())


def _reached_by_one(
    problem: Problem, form: Normalised, tasks: FloatArray
) -> Iterator[tuple[int, int]]:
    """Yield each workload with tasks left that has reached a limit in which it counts alone.

    Such limits have no price: they are caps, or the tenant's other workloads cost no more.
    """
    if not problem.limits:
        return
    runs = np.zeros(problem.n, dtype=np.bool_)
    runs[form.workloads] = True
    position = {j: at for at, j in enumerate(form.workloads.tolist())}
    sizes = [len(item.workloads) for item in problem.limited]
    number_of = np.repeat(np.arange(len(sizes)), sizes)
    counted_in = np.concatenate([item.workloads for item in problem.limited])
    mine = runs[counted_in]
    alone = np.bincount(number_of[mine], minlength=len(sizes)) == 1
    unfinished = tasks < problem.tasks * (1 - AGREEMENT)
    found = mine & alone[number_of] & unfinished[counted_in]
    for number, j in zip(number_of[found].tolist(), counted_in[found].tolist(), strict=True):
        item = problem.limited[number]
        allowed = form.leximin.allowed[form.merged[position[j]]]
        everywhere = (form.leximin.limits[number].classes | ~allowed).all()
        counted = item.limited & (problem.demand[j] > 0)
        used = tasks[j] * problem.demand[j]
        if everywhere and (used >= item.limit.amount * (1 - AGREEMENT))[counted].any():
            yield j, number


def _blocking(problem: LeximinProblem, prices: FloatArray, workloads: IntArray) -> IntArray:
    """Return the dearest constraint where each workload is cheapest.

    Resources are numbered first, then limits. It is -1 where a sibling is cheaper.
    """
    cost = problem.costs(prices, workloads)
    where = cost.argmin(axis=1)
    own = cost[np.arange(len(workloads)), where]
    owner = problem.owner[workloads]
    cheapest = np.full(problem.t, np.inf)
    np.minimum.at(cheapest, owner, own)
    parts = np.zeros((len(workloads), problem.m + len(problem.limits)))
    parts[:, : problem.m] = problem.demand[workloads] * prices[where]
    of_limits = prices[problem.K :]
    for number in np.flatnonzero(of_limits.any(axis=1)).tolist():
        limit, price = problem.limits[number], of_limits[number]
        counted = np.isin(workloads, limit.workloads) & limit.classes[where]
        dearest = (problem.demand[workloads] * price).max(axis=1, initial=0.0)
        parts[:, problem.m + number] = np.where(counted, dearest, 0.0)
    stopped = (own <= cheapest[owner] * (1 + 1e-6)) & (own > 0)
    return np.where(stopped, parts.argmax(axis=1), -1)
