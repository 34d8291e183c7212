"""The answer to a problem with guarantees, by the answers to the problems that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from policies import catalogue
from policies.arrays import FloatArray, grouped_sum
from policies.errors import ProblemTooLargeError
from policies.finishing.feasibility_rounding import rounded_to_feasible
from policies.floors.known_pools import KnownPools
from policies.floors.parts import OnOwnServers, Parts, kept_problem, parts_of, raised_problem
from policies.floors.pools import FloorPool, pools_of
from policies.model.allocation import Allocation, Floors
from policies.model.current_placements import CurrentPlacements
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.server_classes import ServerClasses, one_class, server_classes, server_ranges
from policies.model.share_definition import shares_of

# Solves a problem without guarantees, beside parts of workloads that run already.
Solve = Callable[[Problem, Choice, CurrentPlacements | None], Allocation]
# Verification places at most this many whole tasks again.
MOST_GUARANTEED_TASKS = 5_000_000
ON_OWN_SERVERS = Choice(catalogue.STATIC, "indivisible")


def solve_with_floors(
    problem: Problem, choice: Choice, solve: Solve, known: KnownPools
) -> Allocation:
    """Solve a problem with guarantees or own servers.

    Args:
        solve: solves the problems of the steps.
        known: pools of guarantees that were divided already, in this problem or in one around it.
    """
    classes = one_class(problem) if choice.sees_one_pool else server_classes(problem)
    pools = pools_of(problem, classes, whole=choice.whole_tasks)
    places = choice.whole_tasks and not choice.sees_one_pool
    answers: list[Allocation | None] = []
    floors: list[FloatArray] = []
    for number, pool in enumerate(pools):
        on_own = places and number >= len(problem.guarantees)
        if pool.problem is None:
            answers.append(None)
            floors.append(pool.floor)
        else:
            if number < len(problem.guarantees):
                answer = known.answer(
                    pool.problem, partial(_divided, problem, choice, solve, number)
                )
            else:
                answer = solve(pool.problem, ON_OWN_SERVERS if on_own else choice, None)
            answers.append(answer)
            floors.append(answer.tasks)
    own = _on_own_servers(problem, pools, answers) if places else None
    parts = parts_of(problem, pools, floors, own)
    first = None if own is None else _kept_on_own(problem, parts, own)
    raised = solve(raised_problem(problem, parts, choice), choice, first)
    met = raised.tasks[problem.n :]
    following = kept_problem(problem, parts, met, classes, whole=choice.whole_tasks)
    rest = solve(following, choice, _placed(raised, problem.n) if places else None)
    floor = grouped_sum(parts.tasks, parts.workload, problem.n)
    reached = grouped_sum(met, parts.workload, problem.n)
    answer = _together(problem, parts, rest)
    found = Floors(tuple(answers), raised, rest, floor, reached, parts.pool)
    return replace(answer, floors=found)


def _divided(
    problem: Problem, choice: Choice, solve: Solve, number: int, pool: Problem
) -> Allocation:
    """Return the answer of the pool of a guarantee, which may be much larger than the servers."""
    given = problem.guarantees[number]
    names = problem.groups if given.scope == "group" else problem.tenants
    whose = f"guarantee of {given.scope} {names[given.node]!r}"
    try:
        answer = solve(pool, choice, None)
    except ProblemTooLargeError as error:
        raise ProblemTooLargeError(error.code, f"{whose}: {error.detail}") from error
    if choice.whole_tasks and answer.tasks.sum() > MOST_GUARANTEED_TASKS:
        raise ProblemTooLargeError(
            "problem.too_large",
            f"{whose}: its amount is that of more than {MOST_GUARANTEED_TASKS} whole tasks",
        )
    return answer


def _on_own_servers(
    problem: Problem, pools: list[FloorPool], answers: list[Allocation | None]
) -> OnOwnServers:
    """Return the tasks that run on their tenants' own servers.

    The answers of these pools have the tasks on each row. Servers are filled one after the other,
    by the workloads in their order. Tasks that a limit excludes are left out.
    """
    whole = WholeServers.of(problem)
    limits = whole.limits.copy()
    counted = np.zeros((len(limits), problem.n), dtype=np.bool_)
    for item, of_limit in zip(problem.limited, counted, strict=True):
        of_limit[item.workloads] = True
    found = [np.zeros((0, 3), dtype=np.int64)]
    counts = [np.zeros(0)]
    first = len(problem.guarantees)
    tenants = np.flatnonzero(problem.own_servers).tolist()
    for tenant, pool, answer in zip(tenants, pools[first:], answers[first:], strict=True):
        assert answer is not None  # noqa: S101 - for mypy: the pools of own servers are solved
        rows = np.flatnonzero((problem.contributed_by == tenant) & ~problem.contributed_only)
        job, at, tasks = answer.placements_by_row()
        job = pool.workloads[job]
        left = {
            row: np.tile(whole.capacity[row], (int(problem.server_count[row]), 1))
            for row in rows[np.unique(at)].tolist()
        }
        for q in np.lexsort((job, -problem.priority[job])).tolist():
            row, demand = int(rows[at[q]]), whole.demand[job[q]]
            needed = demand > 0
            each = np.floor(left[row][:, needed] / demand[needed]).min(axis=1)
            before = np.cumsum(each) - each
            mine = [
                number
                for number in np.flatnonzero(counted[:, job[q]]).tolist()
                if problem.limited[number].rows[row]
            ]
            most = np.floor(limits[mine][:, needed] / demand[needed]).min(initial=tasks[q])
            taken = np.clip(most - before, 0.0, each)
            limits[mine] -= taken.sum() * demand
            left[row] -= taken[:, None] * demand
            servers = np.flatnonzero(taken)
            found.append(
                np.stack([np.full(len(servers), job[q]), np.full(len(servers), row), servers], 1)
            )
            counts.append(taken[servers])
    workload, row, server = np.concatenate(found).T
    return OnOwnServers(workload, row, server, np.concatenate(counts))


def _kept_on_own(problem: Problem, parts: Parts, own: OnOwnServers) -> CurrentPlacements:
    """Return where the parts run that are placed on own servers."""
    part_of = np.full(problem.n, -1, dtype=np.int64)
    mine = np.flatnonzero(parts.on_own)
    part_of[parts.workload[mine]] = problem.n + mine
    return CurrentPlacements(
        workload=part_of[own.workload],
        row=own.row,
        offset=own.server,
        servers=np.ones(len(own.row), dtype=np.int64),
        tasks=own.tasks,
    )


def _placed(raised: Allocation, n: int) -> CurrentPlacements:
    """Return where the parts run."""
    workload, row, offset, servers, tasks = raised.placements_by_range()
    mine = workload >= n
    return CurrentPlacements(
        workload=workload[mine],
        row=row[mine],
        offset=offset[mine],
        servers=servers[mine],
        tasks=tasks[mine],
    )


def _together(problem: Problem, parts: Parts, rest: Allocation) -> Allocation:
    """Return the answer of the rest with each part as tasks of its workload."""
    whole = np.concatenate([np.arange(problem.n), parts.workload])
    classes = _classes(problem, rest)
    pair = whole[rest.placement_workload] * (classes.count + 1) + rest.placement_class
    pairs, where = np.unique(pair, return_inverse=True)
    placed = grouped_sum(rest.placement_tasks, where, len(pairs))
    workload = pairs // (classes.count + 1)
    tasks = grouped_sum(rest.tasks, whole, problem.n)
    if len(pairs) and not rest.whole:
        tasks = grouped_sum(placed, workload, problem.n)
    certificate = rest.certificate
    if certificate is not None:
        certificate = replace(certificate, frozen_in=certificate.frozen_in[: problem.t])
    answer = Allocation(
        problem=problem,
        choice=rest.choice,
        tasks=tasks,
        classes=classes,
        placement_piece=workload,
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


def _classes(problem: Problem, rest: Allocation) -> ServerClasses:
    if rest.choice.sees_one_pool:
        return one_class(problem)
    if rest.classes.offset is not None:
        return server_ranges(problem, rest.classes.servers)
    return server_classes(problem)
