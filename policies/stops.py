"""What stopped each workload of an indivisible answer, read off the servers' final state."""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, TextArray
from policies.compiled import compiled
from policies.reasons import TASK_LIMIT, limited_by_resource

NO_SERVER_LARGE_ENOUGH = "no_server_large_enough"
# No answer has a workload that still fits somewhere and is not at its limit; the name is
# what the saturation check looks for.
STILL_FITS = "still_fits"


def too_large(
    demand: FloatArray, capacity: FloatArray, allowed: BoolArray, kind: IntArray
) -> BoolArray:
    """(n,) one task fits on no eligible server, even an empty one.

    Args:
        demand: (n, m), capacity: (L, m), whole numbers; allowed: (n, K); kind: (L,) column of
            ``allowed`` of each server.
    """
    share = np.ones(demand.shape[1])
    misfit: BoolArray = _blocking(demand, capacity, share, allowed, kind) >= 0
    return misfit


def stopped_by(
    resources: tuple[str, ...],
    tasks: FloatArray,
    limit: FloatArray,
    demand: FloatArray,
    left: FloatArray,
    share_of_unit: FloatArray,
    allowed: BoolArray,
    kind: IntArray,
    reasons: TextArray,
) -> tuple[str, ...]:
    """(n) the reason why each workload runs no more tasks.

    A workload that does not fit any more names the first resource of which no eligible
    server has enough left; where each is enough somewhere, but never together, the first
    that blocks it on the emptiest eligible server (largest sum of shares left).

    Args:
        resources: names of the m resources.
        tasks, limit: (n,) launched and at most.
        demand: (n, m), left: (L, m), whole numbers.
        share_of_unit: (m,) one unit as a share of the pool.
        allowed: (n, K); kind: (L,) column of ``allowed`` of each server.
        reasons: (n,) why a workload could not run at all, or the empty string.
    """
    blocking = _blocking(demand, left, share_of_unit, allowed, kind).tolist()
    result = reasons.tolist()
    for j, reason in enumerate(result):
        if reason:
            continue
        if tasks[j] >= limit[j]:
            result[j] = TASK_LIMIT
        elif blocking[j] < 0:
            result[j] = STILL_FITS
        else:
            result[j] = limited_by_resource(resources[blocking[j]])
    return tuple(result)


@compiled
def _blocking(demand, left, share_of_unit, allowed, kind):  # type: ignore[no-untyped-def]
    """(n,) index of the resource that stops each workload; -1 where it fits somewhere."""
    n, m = demand.shape
    fullness = np.zeros(len(left))
    for server in range(len(left)):
        for r in range(m):
            fullness[server] += left[server, r] * share_of_unit[r]
    blocking = np.full(n, -1)
    enough = np.zeros(m, dtype=np.bool_)
    for j in range(n):
        enough[:] = False
        emptiest, best, fits = -1, -1.0, False
        for server in range(len(left)):
            if not allowed[j, kind[server]]:
                continue
            fits = True
            for r in range(m):
                if demand[j, r] <= left[server, r]:
                    enough[r] = True
                else:
                    fits = False
            if fits:
                break
            if fullness[server] > best:
                emptiest, best = server, fullness[server]
        if fits:
            continue
        blocking[j] = 0
        for r in range(m - 1, -1, -1):
            if emptiest >= 0 and demand[j, r] > left[emptiest, r]:
                blocking[j] = r
        for r in range(m - 1, -1, -1):
            if not enough[r]:
                blocking[j] = r
    return blocking
