"""Free places for the pieces of one task.

Source: docs/policies/gangs.md.
"""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.gangs import Gang
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.server_classes import ServerClasses


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
