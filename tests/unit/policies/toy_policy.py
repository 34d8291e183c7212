"""A policy in one module and one registration: everybody gets the same number of whole tasks."""

import numpy as np

from policies import Allocation, Policy, Request, Servers, options_schema, register
from policies.model.objectives import least_level_unsatisfied
from policies.model.server_classes import one_class
from policies.proofs.pool_of_tasks import pool_of_tasks

TOY = Policy(
    name="head-count",
    description="Every workload runs as many whole tasks as every other, as far as they go",
    servers={"indivisible": Servers.ONE_POOL},
    options_schema=options_schema(
        most={
            "type": "integer",
            "minimum": 0,
            "default": 1000,
            "description": "tasks of each workload at most",
        }
    ),
    complexity="O(tasks × workloads)",
    source="nobody",
    saturates=False,
)


def solve_indivisible(request: Request) -> Allocation:
    """Round after round one task of each workload, until a round does not fit."""
    problem = request.problem
    pool = pool_of_tasks(problem, request.choice)
    runs = pool.reasons == ""
    tasks = np.zeros(problem.n)
    for _ in range(request.option("most")):
        more = np.minimum(tasks + runs, problem.tasks)
        if np.array_equal(more, tasks) or (more @ pool.demand > pool.room).any():
            break
        tasks = more
    nothing = np.zeros(0, dtype=np.int64)
    limited_by = pool.limited_by(problem, tasks)
    level = np.full(problem.t, np.nan)
    return Allocation(
        problem=problem,
        choice=request.choice,
        tasks=tasks,
        classes=one_class(problem),
        placement_piece=nothing,
        placement_class=nothing,
        placement_tasks=np.zeros(0),
        level=level,
        limited_by=limited_by,
        objective=least_level_unsatisfied(problem, level, limited_by),
    )


def add() -> None:
    register(TOY, indivisible=solve_indivisible)
