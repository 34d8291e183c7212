"""Sentences about tasks of several pieces that wait."""

from __future__ import annotations

import numpy as np

from policies.explaining.numbers import number
from policies.model.allocation import Allocation
from policies.model.gang_places import pieces_with_room
from policies.model.quantities import WholeServers
from policies.model.server_classes import allowed_pieces


def gang_sentence(allocation: Allocation, workload: int) -> str:
    """Return how many pieces of the next task fit, and what the largest free place has."""
    problem, classes = allocation.problem, allocation.classes
    gang, kinds = problem.gangs[workload], problem.pieces.kinds(workload)
    whole = WholeServers.of(problem)
    at_once = gang.at_least if allocation.tasks[workload] == 0 else 1
    needed = [int(problem.pieces.count[kind]) * at_once for kind in kinds]
    left, allowed = allocation.left(whole), allowed_pieces(problem, classes)
    fit = [
        pieces_with_room(problem, workload, kind, whole, classes, left, allowed, at_once)
        for kind in kinds
    ]
    if fit == needed:
        return "the pieces of one more task fit one kind at a time, but not together."
    scarce = next(kinds[c] for c in range(len(kinds)) if fit[c] < needed[c])
    demand = whole.demand[scarce]
    r = int((demand * whole.share_of_unit).argmax())
    largest = np.where(allowed[scarce], left[:, r], 0.0).max(initial=0.0)
    amount = float(largest * problem.pieces.demand[scarce, r] / demand[r])
    what = (
        "pieces of the tasks that must start together" if at_once > 1 else "pieces of one more task"
    )
    return (
        f"{sum(fit):,} of {sum(needed):,} {what} fit; the largest free place has "
        f"{number(amount)} {problem.resources[r]}."
    )
