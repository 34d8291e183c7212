"""From a problem to its leximin on given server classes, and back to an allocation.

The leximin is that of weighted shares, in flat pools and in trees of groups.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.errors import SolveFailedError
from policies.leximin.dust import above_dust
from policies.leximin.group_rounds import GroupRounds
from policies.leximin.interior_point.method import NoConvergenceError
from policies.leximin.priority_order import preferred_workloads
from policies.leximin.realisation import place_shares
from policies.leximin.rounds import SMALL, Leximin, Rounds
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.server_classes import ServerClasses
from policies.model.share_definition import ShareUnits, share_units
from policies.model.tolerance import SOLVER_TOLERANCE
from policies.proofs.consequences import limits, quality
from policies.proofs.group_bounds import lifts
from policies.proofs.level_bounds import TOO_FAR_APART
from policies.proofs.normal_form import LeximinProblem, Normalised, exact_shares, normalise


def divisible_allocation(
    problem: Problem, classes: ServerClasses, choice: Choice, deadline: float | None
) -> Allocation:
    """Solve the leximin of a problem on the given classes and write it as an allocation.

    Raises:
        ProblemTooLargeError, SolveTimeoutError, SolveFailedError.
    """
    units = share_units(problem, choice)
    form = normalise(problem, classes, units)
    answer = leximin(form.leximin, deadline)
    workload, server_class, share = placements_of(units, form, answer.x, deadline)
    placed = share / units.per_task[workload]
    tasks = grouped_sum(placed, workload, problem.n)
    certificate = _certificate_of_problem(problem, form, answer)
    frozen_in = answer.certificate.frozen_in
    objective, bound, gap = quality(form.leximin, answer.certificate, frozen_in)
    return Allocation(
        problem=problem,
        choice=choice,
        tasks=tasks,
        classes=classes,
        placement_piece=workload,
        placement_class=server_class,
        placement_tasks=placed,
        level=_of_all_tenants(problem, form, answer.level),
        limited_by=limits(problem, form, certificate, tasks),
        objective=objective,
        bound=bound,
        gap=gap,
        certificate=certificate,
        paths=answer.paths,
        statistics={"programs": answer.programs, "rounds": len(certificate.rounds)},
    )


def leximin(problem: LeximinProblem, deadline: float | None) -> Leximin:
    """Solve the leximin to a certified relative gap of 1e-9 on every level.

    Rounds that no prices prove to that are left open (``Round.proven``).

    Raises:
        SolveTimeoutError: ``deadline`` (``time.monotonic`` seconds) passed.
        SolveFailedError: a round could not be certified.
    """
    if problem.t == 0:
        nothing = np.zeros(0)
        return Leximin(
            nothing,
            nothing,
            np.zeros((0, problem.K)),
            Certificate((), np.zeros(0, dtype=np.int64)),
            programs=0,
        )
    rounds = Rounds if problem.groups is None else GroupRounds
    if problem.allowed.size > SMALL and not problem.progressive_filling and not problem.has_amounts:
        answer = rounds(problem, deadline, interior=True).run()
        if _realised(problem, answer):
            return answer
    answer = rounds(problem, deadline, interior=False).run()
    if _realised(problem, answer) and _places_kept_parts(problem, answer):
        return answer
    # The error below has the reason; that this attempt failed as well adds nothing.
    with suppress(NoConvergenceError):
        x = place_shares(problem, answer.share, deadline)
        placed = replace(answer, x=exact_shares(problem, x, answer.share))
        if _realised(problem, placed):
            return placed
    if _realised(problem, answer):
        return answer
    raise SolveFailedError(
        "solve.failed", f"the proven levels could not be realised: {TOO_FAR_APART}"
    )


def _realised(problem: LeximinProblem, answer: Leximin) -> bool:
    """Return True if ``x`` gives each tenant its proven share after it was made feasible."""
    scale = answer.share
    if problem.groups is not None:
        # In trees a level moves with those above it: errors are relative to what it can rise to.
        scale = lifts(answer.share, problem.groups.part, float(answer.share.sum()))
    missed = np.abs(problem.tenant_sums(answer.x) - answer.share)
    return not (missed > SOLVER_TOLERANCE * scale).any()


def _places_kept_parts(problem: LeximinProblem, answer: Leximin) -> bool:
    """Return True if ``x`` has all of each guaranteed part, however small beside the pool."""
    missed = np.abs(problem.tenant_sums(answer.x) - answer.share)
    return not ((problem.stage < 0) & (missed > SOLVER_TOLERANCE * answer.share)).any()


Placements = tuple[IntArray, IntArray, FloatArray]


def placements_of(
    units: ShareUnits, form: Normalised, x: FloatArray, deadline: float | None
) -> Placements:
    """Return the placements as (workload, class, share) triplets without dust.

    Workloads that are alike are filled in priority order.

    Raises:
        SolveTimeoutError: the deadline passed.
    """
    workload, server_class, share = _by_workload(units, form, x, deadline)
    owner = np.zeros(len(units.limit), dtype=np.int64)
    owner[form.workloads] = form.leximin.owner[form.merged]
    # Dust is rounding: as a placement it would only be noise in the answer.
    stays = above_dust(share, workload, owner, units.limit)
    return workload[stays], server_class[stays], share[stays]


def _by_workload(
    units: ShareUnits, form: Normalised, x: FloatArray, deadline: float | None
) -> Placements:
    """Return the triplets of shares (n, K) of merged workloads."""
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
        rows += _in_priority_order(members[part], units.limit, pieces)
    table = sorted(rows)
    placed = (
        np.array([row[0] for row in table], dtype=np.int64),
        np.array([row[1] for row in table], dtype=np.int64),
        np.array([row[2] for row in table], dtype=np.float64),
    )
    # Where those that are alike are neighbours, handing out in order is what the order prefers.
    if (np.diff(form.merged) >= 0).all():
        return placed
    return _each_preferred(units, form, placed, deadline)


def _each_preferred(
    units: ShareUnits, form: Normalised, placed: Placements, deadline: float | None
) -> Placements:
    """Return the triplets where workloads that are alike are not neighbours in the tenant's order.

    Merged, they stand where the first of them does, and the last of them ran before the others.
    """
    merged, workloads = form.leximin, form.workloads
    apart = replace(
        merged,
        demand=np.ascontiguousarray(units.demand[workloads]),
        allowed=np.ascontiguousarray(merged.allowed[form.merged]),
        limit=units.limit[workloads],
        owner=merged.owner[form.merged],
        limits=tuple(
            replace(limit, workloads=np.flatnonzero(np.isin(form.merged, limit.workloads)))
            for limit in merged.limits
        ),
    )
    at = np.full(len(units.limit), -1, dtype=np.int64)
    at[workloads] = np.arange(len(workloads))
    x = np.zeros((len(workloads), merged.K))
    x[at[placed[0]], placed[1]] = placed[2]
    x = preferred_workloads(apart, x, deadline)
    position, server_class = np.nonzero(x)
    order = np.lexsort((server_class, workloads[position]))
    position, server_class = position[order], server_class[order]
    return workloads[position], server_class, x[position, server_class]


def _in_priority_order(
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
            # What rounding leaves beyond the last limit goes to the last workload.
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
    of_all = np.full(problem.t, np.nan)
    of_all[form.tenants] = values
    return of_all
