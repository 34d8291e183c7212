"""The answer to a problem with guarantees, by the answers to the problems that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from policies import catalogue
from policies.arrays import FloatArray, grouped_sum
from policies.finishing.feasibility_rounding import rounded_to_feasible
from policies.floors.known_pools import KnownPools
from policies.floors.own_servers import alone_on_own_servers
from policies.floors.parts import (
    Parts,
    kept_problem,
    parts_of,
    placed_on_own,
    raised_problem,
)
from policies.floors.placed_tasks import KeptTasks
from policies.floors.pools import pools_of
from policies.floors.starting_state import StartingState, starting_state
from policies.model.allocation import Allocation, Floors, current_placements_of
from policies.model.current_placements import CurrentPlacements
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.server_classes import ServerClasses, one_class, server_classes
from policies.model.share_definition import shares_of

# Solves a problem without guarantees, beside parts of workloads that run already.
Solve = Callable[[Problem, Choice, CurrentPlacements | None], Allocation]
ON_OWN_SERVERS = Choice(catalogue.STATIC, "indivisible")
GANGS_ON_OWN_SERVERS = Choice(catalogue.DRFH, "indivisible", {"placement": "first-fit"})


def solve_with_floors(
    problem: Problem,
    choice: Choice,
    solve: Solve,
    known: KnownPools,
    deadline: float | None = None,
) -> Allocation:
    """Solve a problem with guarantees or own servers.

    Args:
        solve: solves the problems of the steps.
        known: pools of guarantees that were divided already, in this problem or in one around it.
        deadline: ``time.monotonic()`` seconds after which no more is placed on own servers.

    Raises:
        SolveTimeoutError: the deadline passed.
    """
    classes = one_class(problem) if choice.sees_one_pool else server_classes(problem)
    places = choice.whole_tasks and not choice.sees_one_pool
    kept = KeptTasks.of(problem) if problem.kept_placements is not None else None
    pools = pools_of(problem, classes, kept, whole=choice.whole_tasks)
    answers: list[Allocation | None] = []
    floors: list[FloatArray] = []
    for number, pool in enumerate(pools):
        on_own = places and number >= len(problem.guarantees)
        if pool.problem is None:
            answers.append(None)
            floors.append(pool.floor)
        else:
            if number < len(problem.guarantees):
                answer = known.answer(pool.problem, lambda given: solve(given, choice, None))
            else:
                by = choice
                if on_own:
                    by = GANGS_ON_OWN_SERVERS if pool.problem.gangs else ON_OWN_SERVERS
                answer = solve(pool.problem, by, None)
            answers.append(answer)
            floors.append(answer.tasks)
    own = alone_on_own_servers(problem, pools, answers, deadline) if places else None
    parts = parts_of(problem, pools, floors, own)
    state = StartingState(parts, None if own is None else placed_on_own(problem, parts, own))
    if kept is not None:
        state = starting_state(problem, pools, parts, kept, deadline)
        parts = state.parts
    raised = solve(raised_problem(problem, parts, choice, state.kept), choice, state.on_own)
    met = raised.tasks[problem.n :]
    following = kept_problem(
        problem, parts, met, classes, state.uncounted, whole=choice.whole_tasks
    ).with_counts_of(raised.problem)
    rest = solve(following, choice, _placed(raised, problem.n) if places else None)
    floor = grouped_sum(parts.tasks, parts.workload, problem.n)
    reached = grouped_sum(met, parts.workload, problem.n)
    answer = _together(problem, parts, rest, classes)
    left_out = np.flatnonzero([pool.left_out for pool in pools])
    found = Floors(tuple(answers), raised, rest, floor, reached, parts.pool, left_out)
    return replace(answer, floors=found)


def _placed(raised: Allocation, n: int) -> CurrentPlacements:
    """Return where the parts run."""
    placements = current_placements_of(raised)
    return placements.some(raised.problem.pieces.workload[placements.workload] >= n)


def _together(
    problem: Problem, parts: Parts, rest: Allocation, classes: ServerClasses
) -> Allocation:
    """Return the answer of the rest with each part as tasks of its workload.

    Args:
        classes: of the problem, as its policy sees servers that are not filled one by one.
    """
    whole = np.concatenate([np.arange(problem.n), parts.workload])
    workload = whole[rest.placement_workload]
    first = rest.placement_piece < rest.problem.n
    kind = np.where(first, workload, problem.pieces.second[workload])
    if rest.classes.offset is not None:
        # The same ranges of servers, without the rows of the parts.
        allowed = np.ascontiguousarray(rest.classes.allowed_kinds[: problem.n])
        classes = replace(rest.classes, allowed_kinds=allowed)
    pair = kind * (classes.count + 1) + rest.placement_class
    pairs, where = np.unique(pair, return_inverse=True)
    placed = grouped_sum(rest.placement_tasks, where, len(pairs))
    kind = pairs // (classes.count + 1)
    tasks = grouped_sum(rest.tasks, whole, problem.n)
    if len(pairs) and not rest.whole:
        tasks = grouped_sum(placed, kind, problem.n)
    certificate = rest.certificate
    if certificate is not None:
        certificate = replace(certificate, frozen_in=certificate.frozen_in[: problem.t])
    answer = Allocation(
        problem=problem,
        choice=rest.choice,
        tasks=tasks,
        classes=classes,
        placement_piece=kind,
        placement_class=pairs % (classes.count + 1),
        placement_tasks=placed,
        level=np.full(problem.t, np.nan),
        limited_by=rest.limited_by[: problem.n],
        objective=rest.objective,
        bound=rest.bound,
        gap=rest.gap,
        certificate=certificate,
        statistics=rest.statistics,
    )
    answer = rounded_to_feasible(answer)
    share = shares_of(problem, rest.choice, answer.tasks)
    return replace(answer, level=share / problem.effective_weight)
