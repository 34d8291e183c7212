"""Placements in which whole gangs, and single tasks beside them, stay on their servers.

Source: docs/policies/gangs.md, §Current placements.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from policies import catalogue
from policies.filling.kept_tasks import kept_tasks
from policies.filling.servers import solve_indivisible
from policies.model.allocation import Allocation, current_placements_of
from policies.model.current_placements import CurrentPlacements
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.request import Request
from policies.model.server_classes import ServerClasses
from policies.model.tasks_on_servers import TasksOnServers


def gangs_in_place(
    problem: Problem,
    rows: ServerClasses,
    running: CurrentPlacements,
    allocation: Allocation,
    deadline: float | None,
) -> TasksOnServers | None:
    """Return the decided tasks on the servers where they run, and the missing ones beside them.

    The running tasks are kept as those of a minimum run are, of a workload at most as many as are
    decided.

    Args:
        deadline: ``time.monotonic()`` seconds.

    Returns:
        None if the missing tasks do not all fit, or a task that must stay would not.

    Raises:
        SolveTimeoutError: the deadline passed.
    """
    decided = replace(problem, tasks=allocation.tasks, kept_placements=running)
    must = kept_tasks(problem)
    if (must.on(kept_tasks(decided)) < must.tasks).any():
        return None
    choice = allocation.choice
    if not allocation.policy.fills:
        choice = Choice(catalogue.DRFH, "indivisible", {"placement": "affinity"})
    answer = solve_indivisible(Request(decided, choice, deadline=deadline))
    if not np.array_equal(answer.tasks, allocation.tasks):
        return None
    return TasksOnServers.of_placements(problem, rows, current_placements_of(answer))
