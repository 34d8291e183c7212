"""Sentences about tasks of several pieces that wait."""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray
from policies.explaining.gang_room import room_for_pieces, room_on_empty_servers
from policies.explaining.numbers import amount, counted_tasks
from policies.model.allocation import Allocation
from policies.model.gangs import CLUSTER
from policies.model.quantities import WholeServers
from policies.model.server_classes import allowed_pieces


def gang_sentence(allocation: Allocation, workload: int) -> str:
    """Return why the next task does not start, as a clause with its full stop."""
    problem, classes = allocation.problem, allocation.classes
    gang = problem.gangs[workload]
    at_once = gang.at_least if allocation.tasks[workload] == 0 else 1
    if at_once > problem.tasks[workload]:
        tasks = counted_tasks(float(problem.tasks[workload]))
        return f"it has {tasks}, but at least {at_once:,} must start together."
    allowed = allowed_pieces(problem, classes)
    if missing := _missing_label(allocation, workload, allowed):
        return missing
    fit, needed, scarce = room_for_pieces(allocation, workload, at_once)
    what = "pieces of one more task"
    if at_once > 1:
        what = "pieces of the tasks that must start together"
        if gang.count.tolist() == [1]:
            what = "tasks that must start together"
    if fit == needed:
        return f"the {what} have room now, but had none when it was its turn."
    if allocation.tasks[workload] == 0:
        empty = room_on_empty_servers(allocation, workload, at_once)
        if empty.fit < needed:
            fits = f"only {empty.fit:,} of {needed:,} {what} fit"
            if at_once > 1 and gang.together not in ("", CLUSTER):
                one_value = f"each task on servers with one value of {gang.together}"
                if (problem.clusters != problem.clusters[0]).any():
                    one_value += ", all in one cluster"
                return f"even on empty servers, {fits}, {one_value}."
            there = f" with one value of {gang.together}" if gang.together else ""
            return f"even on empty servers{there}, {fits}."
    whole = WholeServers.of(problem)
    left = allocation.left(whole)
    demand = whole.demand[scarce]
    r = int((demand * whole.share_of_unit).argmax())
    largest = np.where(allowed[scarce], left[:, r], 0.0).max(initial=0.0)
    free = float(largest * problem.pieces.demand[scarce, r] / demand[r])
    return (
        f"{fit:,} of {needed:,} {what} fit; the largest free place has "
        f"{amount(free, problem.resources[r], problem.units[r])}."
    )


def _missing_label(allocation: Allocation, workload: int, allowed: BoolArray) -> str:
    """Return that no server has the label of `together`, or the empty string if some server has it.

    Args:
        allowed: (q, K) where pieces may run.
    """
    problem, classes = allocation.problem, allocation.classes
    label = problem.gangs[workload].together
    has = problem.zones[label][classes.first_row] >= 0
    if not has.any():
        return f"no server has the label {label}."
    if not any((allowed[kind] & has).any() for kind in problem.pieces.kinds(workload)):
        return f"no server that it may run on has the label {label}."
    return ""
