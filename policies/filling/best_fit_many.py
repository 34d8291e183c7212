"""Best-fitting server by a vectorised scan, for three and more resources.

The slope of two resources determines little of ``H`` when there are more, so every server on which
something may still fit is measured. The amounts left are stored resource by resource, so that a few
vector instructions measure a chunk of servers. Only chunks with a server at least as good as the
best one so far are examined one by one. Of a row of identical servers only the first untouched one
is in the list.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE, better, tie_at

CHUNK = 256


class Columns(NamedTuple):
    """Columns of servers in any order, of which the positions beyond ``size`` are free.

    Attributes:
        size: (1,) servers in the list.
        server: (A,) which; left: (m, A) whole; inverse: (m, A) one over the share left.
        position: (S,) where each server is; -1: not in the list.
        distance: (CHUNK,) scratch.
    """

    size: IntArray
    server: IntArray
    left: FloatArray
    inverse: FloatArray
    position: IntArray
    distance: FloatArray


def columns_of(servers: int, resources: int) -> Columns:
    """Return an empty list with room for ``servers``."""
    whole: Any = np.int64
    return Columns(
        size=np.zeros(1, dtype=whole),
        server=np.zeros(servers, dtype=whole),
        left=np.zeros((resources, servers)),
        inverse=np.zeros((resources, servers)),
        position=np.full(servers, NOWHERE),
        distance=np.zeros(CHUNK),
    )


@compiled
def append(server, left, share_of_unit, columns):
    """Add a server that has ``left`` (m,)."""
    columns.position[server] = columns.size[0]
    columns.server[columns.size[0]] = server
    columns.size[0] += 1
    rewrite(server, left, share_of_unit, columns)


@compiled
def rewrite(server, left, share_of_unit, columns):
    """Change what a server in the list has left."""
    position = columns.position[server]
    for r in range(len(left)):
        columns.left[r, position] = left[r]
        columns.inverse[r, position] = 1.0 / max(left[r] * share_of_unit[r], 1e-300)


@compiled
def drop(server, columns):
    """Remove a server and move the last one to its position."""
    position, last = columns.position[server], columns.size[0] - 1
    columns.size[0] = last
    moved = columns.server[last]
    columns.server[position] = moved
    for r in range(len(columns.left)):
        columns.left[r, position] = columns.left[r, last]
        columns.inverse[r, position] = columns.inverse[r, last]
    columns.position[moved] = position
    columns.position[server] = NOWHERE


@compiled
def least_misfit(demand, task, reference, size, allowed, row_of, share_of_unit, columns):
    """Return the server with the least ``H``, the first by position among equal ones.

    -1 if the task fits on none.

    Args:
        demand, task: (m,) of one task, whole, and as ratios to the reference resource.
        reference, size: the first resource it demands; the sum of ``task``.
        allowed: (rows,) may it run there; row_of: (S,).
        share_of_unit: (m,) one unit as a share of the pool.
        columns: the list.
    """
    servers = columns.size[0]
    distance = columns.distance
    best, chosen, its_distance = np.inf, NOWHERE, np.inf
    # Ties are not transitive: once the least H is known, the first that ties with it is looked up.
    for again in range(2):
        unsure = False
        reach = tie_at(best, size)
        for start in range(0, servers, CHUNK):
            stop = min(start + CHUNK, servers)
            if _measure(demand, task, reference, share_of_unit, columns, start, stop, reach) == 0:
                continue
            for position in range(start, stop):
                its = distance[position - start]
                server = columns.server[position]
                if its > reach or its == np.inf or not allowed[row_of[server]]:
                    continue
                if again == 1:
                    chosen = server if chosen == NOWHERE else min(chosen, server)
                    continue
                best, chosen, its_distance, doubt = better(
                    its, server, best, chosen, its_distance, size
                )
                unsure = unsure or doubt
                reach = tie_at(best, size)
        if not unsure:
            break
        chosen = NOWHERE
    return chosen


@compiled
def _measure(demand, task, reference, share_of_unit, columns, start, stop, reach):
    """Write ``H`` of a chunk of servers and return the number of servers within reach.

    ``H`` is infinite for a server without room.
    """
    distance = columns.distance[: stop - start]
    inverse = columns.inverse[reference, start:stop]
    distance[:] = 0.0
    for r in range(len(demand)):
        left = columns.left[r, start:stop]
        needed, ratio, unit = demand[r], task[r], share_of_unit[r]
        # Infinity for a lack instead of a branch, so that the loop vectorises.
        for i in range(len(distance)):
            apart = abs(ratio - left[i] * unit * inverse[i])
            distance[i] += apart if left[i] >= needed else np.inf
    within = 0
    for i in range(len(distance)):
        within += distance[i] <= reach and distance[i] < np.inf
    return within
