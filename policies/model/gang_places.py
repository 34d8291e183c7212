"""Free places for the pieces of one task.

Source: docs/policies/gangs.md.
"""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.compiled import Bools1, Floats1, Floats2, Ints1, compiled
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
    gang = problem.gangs[workload]
    zone = problem.zones[gang.together]
    return all(
        _has_room(
            whole.demand[kind],
            left,
            classes.servers,
            classes.first_row,
            allowed[kind],
            zone,
            min(gang.per_server or number, number),
            number,
        )
        for kind, number in zip(problem.pieces.kinds(workload), gang.count.tolist(), strict=True)
    )


@compiled
def _has_room(
    demand: Floats1,
    left: Floats2,
    servers: Ints1,
    row: Ints1,
    allowed: Bools1,
    zone: Ints1,
    most: int,
    needed: int,
) -> bool:
    """Return whether ``needed`` pieces have room in one zone.

    Args:
        demand: (m,); left: (K, m), servers: (K,), row: (K,) and allowed: (K,) of classes.
        zone: (rows,) zone of each row, -1 for none; most: pieces on one server at most.
    """
    zones = 1
    for number in zone:
        zones = max(zones, number + 1)
    room = np.zeros(zones, dtype=np.int64)
    for k in range(len(left)):
        here = zone[row[k]]
        if here < 0 or not allowed[k]:
            continue
        fit = float(most)
        for r in range(len(demand)):
            if demand[r] > 0.0:
                fit = min(fit, np.floor(left[k, r] / demand[r]))
        if fit > 0.0:
            # Keeps the sum within int64.
            room[here] += int(fit) * min(servers[k], needed)
            if room[here] >= needed:
                return True
    return False
