"""The answer to a problem with guarantees, by the answers to the problems that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from policies import catalogue
from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.finishing.feasibility_rounding import rounded_to_feasible
from policies.floors.parts import OnOwnServers, Parts, kept_problem, parts_of, raised_problem
from policies.floors.pools import FloorPool, pools_of
from policies.model.allocation import Allocation, Floors
from policies.model.current_placements import CurrentPlacements
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.server_classes import ServerClasses, one_class, server_classes, server_ranges

# Solves a problem without guarantees, beside parts of workloads that run already.
Solve = Callable[[Problem, Choice, CurrentPlacements | None], Allocation]
ON_OWN_SERVERS = Choice(catalogue.STATIC, "indivisible")


def solve_with_floors(problem: Problem, choice: Choice, solve: Solve) -> Allocation:
    """Solve a problem with guarantees or own servers.

    Args:
        solve: solves the problems of the steps.
    """
    classes = one_class(problem) if choice.sees_one_pool else server_classes(problem)
    pools = pools_of(problem, classes)
    places = choice.whole_tasks and not choice.sees_one_pool
    answers, floors = [], []
    for number, pool in enumerate(pools):
        on_own = places and number >= len(problem.guarantees)
        answer = solve(pool.problem, ON_OWN_SERVERS if on_own else choice, None)
        answers.append(answer)
        floors.append(answer.tasks)
    own = _on_own_servers(problem, pools, answers) if places else None
    parts = parts_of(problem, pools, floors, own)
    first = _kept_on_own(problem, parts, pools, answers) if places else None
    raised = solve(raised_problem(problem, parts), choice, first)
    met = raised.tasks[problem.n :]
    following = kept_problem(problem, parts, met, classes, whole=choice.whole_tasks)
    rest = solve(following, choice, _placed(raised, problem.n) if places else None)
    floor = grouped_sum(parts.tasks, parts.workload, problem.n)
    reached = grouped_sum(met, parts.workload, problem.n)
    answer = _together(problem, parts, rest)
    return replace(answer, floors=Floors(tuple(answers), raised, rest, floor, reached))


def _on_own_servers(
    problem: Problem, pools: list[FloorPool], answers: list[Allocation]
) -> OnOwnServers:
    """Return the tasks that run on their tenants' own servers, row by row."""
    workloads: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    rows: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    counts: list[FloatArray] = [np.zeros(0)]
    for tenant, pool, answer in _own(problem, pools, answers):
        workload, row, tasks = answer.placements_by_row()
        workloads.append(pool.workloads[workload])
        rows.append(_rows_of(problem, tenant)[row])
        counts.append(tasks)
    return OnOwnServers(np.concatenate(workloads), np.concatenate(rows), np.concatenate(counts))


def _own(
    problem: Problem, pools: list[FloorPool], answers: list[Allocation]
) -> list[tuple[int, FloorPool, Allocation]]:
    first = len(problem.guarantees)
    tenants = np.flatnonzero(problem.own_servers).tolist()
    return list(zip(tenants, pools[first:], answers[first:], strict=True))


def _rows_of(problem: Problem, tenant: int) -> IntArray:
    mine = (problem.contributed_by == tenant) & ~problem.contributed_only
    return np.flatnonzero(mine).astype(np.int64)


def _kept_on_own(
    problem: Problem, parts: Parts, pools: list[FloorPool], answers: list[Allocation]
) -> CurrentPlacements:
    """Return where the parts run that are placed on own servers."""
    part_of = np.full(problem.n, -1, dtype=np.int64)
    own = np.flatnonzero(parts.on_own)
    part_of[parts.workload[own]] = problem.n + own
    columns: list[list[FloatArray]] = [[] for _ in range(5)]
    for tenant, pool, answer in _own(problem, pools, answers):
        workload, row, offset, servers, tasks = answer.placements_by_range()
        found = part_of[pool.workloads[workload]], _rows_of(problem, tenant)[row], offset, servers
        for column, values in zip(columns, (*found, tasks), strict=True):
            column.append(values)
    none = np.zeros(0, dtype=np.int64)
    workload, row, offset, servers, tasks = (np.concatenate([none, *each]) for each in columns)
    return CurrentPlacements(
        workload=workload, row=row, offset=offset, servers=servers, tasks=tasks.astype(np.float64)
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
        placement_workload=workload,
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
    return replace(answer, level=answer.tenant_share / problem.effective_weight)


def _classes(problem: Problem, rest: Allocation) -> ServerClasses:
    if rest.choice.sees_one_pool:
        return one_class(problem)
    if rest.classes.offset is not None:
        return server_ranges(problem, rest.classes.servers)
    return server_classes(problem)
