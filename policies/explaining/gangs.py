"""Sentences about tasks of several pieces that wait."""

from __future__ import annotations

import numpy as np

from policies.explaining.gang_room import room_for_pieces
from policies.explaining.numbers import amount, counted_tasks
from policies.model.allocation import Allocation
from policies.model.quantities import WholeServers
from policies.model.server_classes import allowed_pieces


def gang_sentence(allocation: Allocation, workload: int) -> str:
    """Return how many pieces of the next task fit, and what the largest free place has."""
    problem, classes = allocation.problem, allocation.classes
    gang = problem.gangs[workload]
    at_once = gang.at_least if allocation.tasks[workload] == 0 else 1
    if at_once > problem.tasks[workload]:
        tasks = counted_tasks(float(problem.tasks[workload]))
        return f"it has {tasks}, but at least {at_once:,} must start together."
    fit, needed, scarce = room_for_pieces(allocation, workload, at_once)
    what = "pieces of one more task"
    if at_once > 1:
        what = "pieces of the tasks that must start together"
        if gang.count.tolist() == [1]:
            what = "tasks that must start together"
    if fit == needed:
        return f"the {what} have room now, but had none when it was its turn."
    whole = WholeServers.of(problem)
    left, allowed = allocation.left(whole), allowed_pieces(problem, classes)
    demand = whole.demand[scarce]
    r = int((demand * whole.share_of_unit).argmax())
    largest = np.where(allowed[scarce], left[:, r], 0.0).max(initial=0.0)
    free = float(largest * problem.pieces.demand[scarce, r] / demand[r])
    return (
        f"{fit:,} of {needed:,} {what} fit; the largest free place has "
        f"{amount(free, problem.resources[r], problem.units[r])}."
    )
