"""Sentences about tasks of several pieces that wait."""

from __future__ import annotations

import numpy as np

from policies.model.allocation import Allocation
from policies.model.gang_places import places_of_kind
from policies.model.quantities import WholeServers
from policies.model.server_classes import allowed_pieces


def gang_sentence(allocation: Allocation, workload: int) -> str:
    """Say how many pieces of the next task fit, and what the largest free place has."""
    problem, classes = allocation.problem, allocation.classes
    gang, kinds = problem.gangs[workload], problem.pieces.kinds(workload)
    whole = WholeServers.of(problem)
    at_once = gang.at_least if allocation.tasks[workload] == 0 else 1
    needed = np.array([problem.pieces.count[kind] for kind in kinds]) * at_once
    each = np.round(allocation.placement_tasks / classes.servers[allocation.placement_class])
    left = whole.capacity[classes.first_row].copy()
    np.subtract.at(
        left,
        allocation.placement_class,
        each[:, None] * whole.demand[allocation.placement_piece],
    )
    allowed = allowed_pieces(problem, classes)
    fit = np.array(
        [
            min(
                count,
                at_once * places_of_kind(problem, workload, kind, whole, classes, left, allowed),
            )
            for kind, count in zip(kinds, needed.tolist(), strict=True)
        ]
    )
    if (fit >= needed).all():
        return "the pieces of one more task fit one kind at a time, but not together."
    scarce = kinds[int((fit < needed).argmax())]
    r = int((problem.pieces.demand[scarce] * _per_unit(allocation)).argmax())
    unit = np.divide(
        problem.pieces.demand[scarce, r], whole.demand[scarce, r], where=whole.demand[scarce, r] > 0,
        out=np.zeros(()),
    )  # fmt: skip
    largest = float(np.where(allowed[scarce], left[:, r], 0.0).max(initial=0.0) * unit)
    what = (
        "pieces of the tasks that must start together" if at_once > 1 else "pieces of one more task"
    )
    return (
        f"{int(fit.sum())} of {int(needed.sum())} {what} fit; the largest free place has "
        f"{largest:.6g} {problem.resources[r]}."
    )


def _per_unit(allocation: Allocation) -> np.ndarray:
    """(m,) one unit of each resource as a share of the pool."""
    totals = allocation.problem.totals
    return np.divide(1.0, totals, out=np.zeros(len(totals)), where=totals > 0)
