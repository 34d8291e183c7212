"""Another problem, or another past before the step, under the same answer."""

from dataclasses import replace

import numpy as np

from tests.forger.changes.base import change, one


@change
def a_server_left(case, rng):
    problem = case.problem
    if problem.k < 2:
        return None
    kept = np.arange(problem.k) != rng.integers(problem.k)
    rows = np.flatnonzero(kept).tolist()
    return case.with_problem(
        server_names=tuple(problem.server_names[row] for row in rows),
        capacity=problem.capacity[kept],
        server_count=problem.server_count[kept],
        server_labels=tuple(problem.server_labels[row] for row in rows),
        contributed_by=problem.contributed_by[kept],
        contributed_only=problem.contributed_only[kept],
    )


@change
def a_server_drains(case, rng):
    row = rng.integers(case.problem.k)
    return case.with_problem(contributed_only=one(case.problem.contributed_only, row, True))


@change
def a_row_has_a_server_more(case, rng):
    count = case.problem.server_count
    row = rng.integers(len(count))
    return case.with_problem(server_count=one(count, row, count[row] + 1))


@change
def servers_smaller(case, rng):
    return case.with_problem(capacity=case.problem.capacity * 0.5)


@change
def a_server_larger(case, rng):
    at = rng.integers(case.problem.k)
    return case.with_problem(capacity=one(case.problem.capacity, at, case.problem.capacity[at] * 2))


@change
def a_demand_larger(case, rng):
    at = rng.integers(case.problem.n)
    return case.with_problem(demand=one(case.problem.demand, at, case.problem.demand[at] * 1.5))


@change
def a_demand_smaller(case, rng):
    at = rng.integers(case.problem.n)
    return case.with_problem(demand=one(case.problem.demand, at, case.problem.demand[at] * 0.5))


@change
def a_weight_doubled(case, rng):
    at = rng.integers(case.problem.t)
    return case.with_problem(weight=one(case.problem.weight, at, case.problem.weight[at] * 2))


@change
def a_tenant_served_last(case, rng):
    at = rng.integers(case.problem.t)
    return case.with_problem(best_effort=one(case.problem.best_effort, at, True))


@change
def fewer_tasks_asked_for(case, rng):
    at = rng.integers(case.problem.n)
    return case.with_problem(tasks=one(case.problem.tasks, at, np.floor(case.answer.tasks[at] / 2)))


@change
def more_tasks_asked_for(case, rng):
    at = rng.integers(case.problem.n)
    limit = case.problem.tasks[at]
    return case.with_problem(tasks=one(case.problem.tasks, at, limit + 3)) if limit < 99 else None


@change
def a_workload_of_another_tenant(case, rng):
    problem = case.problem
    if problem.t < 2:
        return None
    at = rng.integers(problem.n)
    owner = (problem.workload_tenant[at] + 1) % problem.t
    return case.with_problem(workload_tenant=one(problem.workload_tenant, at, owner))


@change
def another_past(case, rng):
    history = case.history
    if history is None:
        return None
    used = history.used * 2 + 1
    return replace(case, history=replace(history, used=used))
