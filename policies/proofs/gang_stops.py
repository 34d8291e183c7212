"""Reasons of workloads whose tasks have several pieces.

Source: docs/policies/gangs.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.allocation import Allocation
from policies.model.gangs import Gang
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.reasons import GANG, limited_by_limit
from policies.model.server_classes import ServerClasses
from policies.proofs.stop_reasons import STILL_FITS


def with_gangs(
    allocation: Allocation,
    classes: ServerClasses,
    left: FloatArray,
    allowed: BoolArray,
    whole: WholeServers,
    room: Sequence[FloatArray],
    stops: Sequence[str],
) -> tuple[str, ...]:
    """(n) the reasons of workloads, from those of their kinds of pieces.

    Args:
        left: (K, m) of one server of each class; allowed: (q, K) where pieces may run.
        room: (l) unused amounts (m,) of limits.
        stops: (q) what stops one more piece of each kind.
    """
    problem, pieces = allocation.problem, allocation.problem.pieces
    reasons = list(stops[: problem.n])
    for j, gang in problem.gangs.items():
        kinds = pieces.kinds(j)
        reasons[j] = next((stops[kind] for kind in kinds if stops[kind] != STILL_FITS), STILL_FITS)
        if reasons[j] != STILL_FITS:
            continue
        if not each_kind_fits(problem, j, whole, classes, left, allowed):
            reasons[j] = GANG
            continue
        need = pieces.count[list(kinds)] @ whole.demand[list(kinds)]
        short = (
            number
            for number, item in enumerate(problem.limited)
            if j in item.workloads and (need > room[number]).any()
        )
        number = next(short, None)
        if number is not None:
            reasons[j] = limited_by_limit(problem, number)
        elif len(kinds) > 1 or (gang.at_least > 1 and allocation.tasks[j] == 0):
            # Each kind fits by itself. Handing the tasks out again shows that not all do together.
            reasons[j] = GANG
    return tuple(reasons)


def each_kind_fits(
    problem: Problem,
    workload: int,
    whole: WholeServers,
    classes: ServerClasses,
    left: FloatArray,
    allowed: BoolArray,
) -> bool:
    """Return True if all pieces of each kind of one task have room, the other kind left aside.

    Args:
        left: (K, m) of one server of each class; allowed: (q, K) where pieces may run.
    """
    count = problem.pieces.count
    return all(
        places_of_kind(problem, workload, kind, whole, classes, left, allowed) >= count[kind]
        for kind in problem.pieces.kinds(workload)
    )


def places_of_kind(
    problem: Problem,
    workload: int,
    kind: int,
    whole: WholeServers,
    classes: ServerClasses,
    left: FloatArray,
    allowed: BoolArray,
) -> int:
    """Return how many pieces of a kind have room for one task, on servers with one value of its label.

    Args:
        left: (K, m) of one server of each class; allowed: (q, K) where pieces may run.
    """
    gang = problem.gangs[workload]
    zones = _zones(problem, classes, gang)
    fit = places_for(whole.demand[kind], left, gang.per_server) * classes.servers
    fit = np.where(allowed[kind], fit, 0)
    # Zone 0 is of servers without the label.
    return int(np.bincount(zones, fit)[bool(gang.together) :].max(initial=0))


def places_for(demand: FloatArray, left: FloatArray, per_server: int) -> IntArray:
    """(K,) number of pieces of one task that fit on one server with so much left (K, m)."""
    needed = demand > 0
    fit = np.floor(left[:, needed] / demand[needed]).min(axis=1, initial=np.inf)
    fit = np.minimum(np.maximum(fit, 0), per_server or np.inf)
    whole: IntArray = np.minimum(fit, 2**31).astype(np.int64)
    return whole


def _zones(problem: Problem, classes: ServerClasses, gang: Gang) -> IntArray:
    """(K,) number of the value of a gang's label on each class, 0 without it."""
    zone = np.zeros(classes.count, dtype=np.int64)
    if gang.together:
        values: dict[str, int] = {}
        for position, row in enumerate(classes.first_row.tolist()):
            value = problem.server_labels[row].get(gang.together)
            if value is not None:
                zone[position] = values.setdefault(value, len(values) + 1)
    return zone
