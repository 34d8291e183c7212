"""From a problem to its leximin on given server classes, and back to an allocation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from policies.arrays import FloatArray, IntArray, TextArray, grouped_sum
from policies.leximin.priority_order import alike_workloads
from policies.leximin.rounds import Leximin, leximin
from policies.model.allocation import Allocation
from policies.model.problem import Problem
from policies.model.reasons import LEVEL, TASK_LIMIT, limited_by_resource, unserved_reasons
from policies.model.server_classes import ServerClasses
from policies.model.share_definition import Measure, measure_of
from policies.proofs.level_bounds import Certificate, level_scale
from policies.proofs.normal_form import LeximinProblem


@dataclass(frozen=True, eq=False)
class Normalised:
    """A problem's leximin form and the way back.

    Attributes:
        leximin: what the rounds work on.
        tenants: (t',) tenants with something to run, as indices of the problem.
        merged: (n'') index of the leximin workload that each runnable workload is part of.
        workloads: (n'') runnable workloads, each tenant's in order of preference.
        reasons: (n,) why the others have no share at all.
    """

    leximin: LeximinProblem
    tenants: IntArray
    workloads: IntArray
    merged: IntArray
    reasons: TextArray


def normalise(
    problem: Problem, classes: ServerClasses, measure: Measure | None = None
) -> Normalised:
    """Leave out what cannot run and add up workloads of a tenant that are alike.

    Workloads of one tenant with the same normalised demand and the same eligible classes
    are one workload as far as shares go; their order of preference decides afterwards.

    Args:
        problem: the problem; classes: where it runs.
        measure: what shares count; dominant shares unless given.
    """
    measure = measure or measure_of(problem, "drfh", {})
    allowed = classes.allowed
    reasons = unserved_reasons(problem, allowed)
    runnable = np.flatnonzero(reasons == "")
    order = np.lexsort((runnable, -problem.priority[runnable], problem.workload_tenant[runnable]))
    workloads = runnable[order]
    tenants, owner = np.unique(problem.workload_tenant[workloads], return_inverse=True)
    merged, first = alike_workloads(measure.demand, allowed, workloads, owner)
    limit = measure.limit[workloads]
    chosen = workloads[first]
    return Normalised(
        leximin=LeximinProblem(
            demand=np.ascontiguousarray(measure.demand[chosen]),
            allowed=np.ascontiguousarray(allowed[chosen]),
            limit=grouped_sum(limit, merged, len(chosen)),
            owner=owner[first].astype(np.int64),
            weight=problem.effective_weight[tenants],
            stage=problem.second_stage[tenants].astype(np.int64),
            capacity_share=np.ascontiguousarray(classes.capacity_share),
        ),
        tenants=tenants,
        workloads=workloads,
        merged=merged,
        reasons=reasons,
    )


def divisible_allocation(
    problem: Problem,
    classes: ServerClasses,
    policy: str,
    options: Mapping[str, Any],
    deadline: float | None,
) -> Allocation:
    """Solve the leximin of a problem on the given classes and write it as an allocation.

    Raises:
        ProblemTooLargeError, SolveTimeoutError, SolveFailedError.
    """
    measure = measure_of(problem, policy, options)
    form = normalise(problem, classes, measure)
    answer = leximin(form.leximin, deadline)
    workload, server_class, share = placements_of(measure, form, answer.x)
    placed = share / measure.per_task[workload]
    tasks = grouped_sum(placed, workload, problem.n)
    certificate = _certificate_of_problem(problem, form, answer)
    frozen_in = answer.certificate.frozen_in
    objective, bound, gap = quality(form.leximin, answer.certificate, frozen_in)
    return Allocation(
        problem=problem,
        policy=policy,
        mode="divisible",
        options=dict(options),
        tasks=tasks,
        classes=classes,
        placement_workload=workload,
        placement_class=server_class,
        placement_tasks=placed,
        level=_of_all_tenants(problem, form, answer.level),
        limited_by=limits(problem, form, certificate, tasks),
        objective=objective,
        bound=bound,
        gap=gap,
        certificate=certificate,
        statistics={"programs": answer.programs, "rounds": len(certificate.rounds)},
    )


def placements_of(
    measure: Measure, form: Normalised, x: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """(workload, class, share) triplets; alike workloads filled in order of preference."""
    merged, server_class = np.nonzero(x)
    share = x[merged, server_class]
    if len(form.workloads) == form.leximin.n:
        return form.workloads[merged], server_class, share
    members: list[list[int]] = [[] for _ in range(form.leximin.n)]
    for position, part in enumerate(form.merged.tolist()):
        members[part].append(int(form.workloads[position]))
    rows: list[tuple[int, int, float]] = []
    for part in range(form.leximin.n):
        mine = np.flatnonzero(merged == part)
        pieces = [(int(server_class[q]), float(share[q])) for q in mine]
        rows += _in_preference(members[part], measure.limit, pieces)
    table = sorted(rows)
    return (
        np.array([row[0] for row in table], dtype=np.int64),
        np.array([row[1] for row in table], dtype=np.int64),
        np.array([row[2] for row in table], dtype=np.float64),
    )


def _in_preference(
    workloads: list[int], limit: FloatArray, pieces: list[tuple[int, float]]
) -> list[tuple[int, int, float]]:
    """Hand pieces of share to workloads in their order, each up to its limit."""
    rows = []
    waiting = iter(workloads)
    current = next(waiting)
    room = float(limit[current])
    for server_class, piece in pieces:
        left = piece
        while left > 0:
            taken = min(left, room)
            following = next(waiting, None) if taken == room else None
            if taken == room and following is None:
                taken = left
            rows.append((current, server_class, taken))
            left -= taken
            room -= taken
            if following is not None:
                current, room = following, float(limit[following])
    return rows


def _certificate_of_problem(problem: Problem, form: Normalised, answer: Leximin) -> Certificate:
    frozen_in = np.full(problem.t, -1, dtype=np.int64)
    frozen_in[form.tenants] = answer.certificate.frozen_in
    return Certificate(answer.certificate.rounds, frozen_in)


def _of_all_tenants(problem: Problem, form: Normalised, values: FloatArray) -> FloatArray:
    everybody = np.full(problem.t, np.nan)
    everybody[form.tenants] = values
    return everybody


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
        gap = max(gap, (item.bound - item.level) / level_scale(problem, rising, item.level))
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
