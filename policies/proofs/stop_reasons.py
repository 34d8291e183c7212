"""Reasons for which workloads of an indivisible answer stopped, from the servers' final state."""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, TextArray
from policies.compiled import compiled, compiled_in_order
from policies.model.reasons import TASK_LIMIT

# No answer has a workload that still fits somewhere and is not at its limit; the name is
# what the saturation check looks for.
STILL_FITS = "still_fits"


def too_large(
    demand: FloatArray, capacity: FloatArray, allowed: BoolArray, kind: IntArray
) -> BoolArray:
    """Return the workloads (n,) of which no task fits on an eligible server, even an empty one.

    Args:
        demand: (n, m), capacity: (L, m), whole numbers; allowed: (n, K); kind: (L,) column of
            ``allowed`` of each server.
    """
    share = np.ones(demand.shape[1])
    misfit: BoolArray = _blocking(demand, capacity, share, allowed, kind) >= 0
    return misfit


def stopped_by(
    names: tuple[str, ...],
    tasks: FloatArray,
    limit: FloatArray,
    *,
    demand: FloatArray,
    left: FloatArray,
    share_of_unit: FloatArray,
    allowed: BoolArray,
    kind: IntArray,
    reasons: TextArray,
) -> tuple[str, ...]:
    """Return the reason (n) why each workload runs no more tasks.

    A workload that does not fit any more names the first resource of which no eligible
    server has enough left; where each is enough somewhere, but never together, the first
    that blocks it on the emptiest eligible server (largest sum of shares left).

    Args:
        names: (m) the reason of a workload that lacks each resource.
        tasks, limit: (n,) launched and at most.
        demand: (n, m), left: (L, m), whole numbers.
        share_of_unit: (m,) one unit as a share of the pool.
        allowed: (n, K); kind: (L,) column of ``allowed`` of each server.
        reasons: (n,) why a workload could not run at all, or the empty string.
    """
    blocking = _blocking(demand, left, share_of_unit, allowed, kind).tolist()
    finished = (tasks >= limit).tolist()
    return tuple(
        reason or (TASK_LIMIT if all_run else STILL_FITS if stop < 0 else names[stop])
        for reason, all_run, stop in zip(reasons.tolist(), finished, blocking, strict=True)
    )


@compiled
def _blocking(demand, left, share_of_unit, allowed, kind):
    """Return the index (n,) of the resource that stops each workload.

    -1 if it fits somewhere.
    """
    n, m = demand.shape
    most, emptiest, fullness = _extremes(left, share_of_unit, kind, allowed.shape[1])
    # Only servers with enough of the resource that fewest have enough of are looked at.
    descending = np.empty((m, len(left)), dtype=np.int64)
    amounts = np.empty((m, len(left)))
    for r in range(m):
        descending[r] = np.argsort(-left[:, r])
        for position in range(len(left)):
            amounts[r, position] = -left[descending[r, position], r]
    blocking = np.full(n, -1)
    for j in range(n):
        scarce, fewest = -1, len(left) + 1
        # Backwards as well, because equal ones go to the first.
        for r in range(m - 1, -1, -1):
            enough = np.searchsorted(amounts[r], -demand[j, r], side="right")
            if enough <= fewest:
                scarce, fewest = r, enough
        if scarce >= 0 and _fits_any(
            demand[j], left, descending[scarce, :fewest], allowed[j], kind
        ):
            continue
        blocking[j] = 0
        where = -1
        for k in range(allowed.shape[1]):
            if allowed[j, k] and emptiest[k] >= 0:
                if where < 0 or fullness[k] > fullness[kind[where]]:
                    where = emptiest[k]
                elif fullness[k] == fullness[kind[where]]:
                    where = min(where, emptiest[k])
        # Backwards, so that the first resource of several is the one that stays.
        for r in range(m - 1, -1, -1):
            if where >= 0 and demand[j, r] > left[where, r]:
                blocking[j] = r
        for r in range(m - 1, -1, -1):
            anywhere = False
            for k in range(allowed.shape[1]):
                anywhere = anywhere or (allowed[j, k] and most[k, r] >= demand[j, r])
            if not anywhere:
                blocking[j] = r
    return blocking


@compiled_in_order  # the verifier adds up in the same order: equal sums have the same rounding
def _extremes(left, share_of_unit, kind, kinds):
    """Return three arrays by kind of server.

    They are the most left of each resource (kinds, m), the emptiest server (largest sum of shares
    left, the first of equal ones, -1 if there is none), and its sum.
    """
    most = np.full((kinds, left.shape[1]), -1.0)
    emptiest, fullness = np.full(kinds, -1), np.full(kinds, -1.0)
    for server in range(len(left)):
        k = kind[server]
        total = 0.0
        for r in range(left.shape[1]):
            total += left[server, r] * share_of_unit[r]
            most[k, r] = max(most[k, r], left[server, r])
        if total > fullness[k]:
            emptiest[k], fullness[k] = server, total
    return most, emptiest, fullness


@compiled
def _fits_any(demand, left, servers, allowed, kind):
    """Return whether one task fits on one of the servers."""
    for server in servers:
        fits = allowed[kind[server]]
        for r in range(len(demand)):
            fits = fits and demand[r] <= left[server, r]
        if fits:
            return True
    return False
