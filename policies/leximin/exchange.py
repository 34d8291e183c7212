"""Workloads that share two server classes swap places until few do.

Any ``m + 1`` workloads that run on both of two classes can shift share between them without changing
what either class gives of any of ``m`` resources: along a null vector of their ``m`` x ``m + 1``
demands. A step goes on until one of them leaves one of the classes. Nothing else changes, no workload
enters a class where it was not, and each step removes a placement: the work is linear in them.
"""

from __future__ import annotations

import time

import numpy as np

from policies.arrays import FloatArray
from policies.compiled import Floats2, OutFloats1, OutFloats2, OutInts1, compiled
from policies.proofs.normal_form import LeximinProblem

# A pivot below this part of the largest demand counts as 0: the demands are linearly dependent.
DEPENDENT = 1e-9


def exchanged(problem: LeximinProblem, x: FloatArray, deadline: float | None) -> FloatArray:
    """Return the same shares (n, K) and use, with at most m workloads on any two classes.

    Args:
        problem: gives the demands.
        x: (n, K) dominant shares.
        deadline: ``time.monotonic`` seconds; past it, what has been reached.
    """
    by_class = np.ascontiguousarray(x.T)
    demand = np.ascontiguousarray(problem.demand)
    workspace = np.empty((problem.m + 1) * (problem.m + 1)), np.empty(problem.m + 1)
    members = np.empty(problem.m + 1, dtype=np.int64)
    for later in range(1, problem.K):
        if deadline is not None and time.monotonic() > deadline:
            break
        _exchange_with_earlier(by_class, demand, later, *workspace, members)
    return np.ascontiguousarray(by_class.T)


@compiled
def _exchange_with_earlier(
    x: OutFloats2,
    demand: Floats2,
    later: int,
    matrix: OutFloats1,
    step: OutFloats1,
    members: OutInts1,
) -> None:
    """Exchange between class ``later`` and each class before it.

    x (K, n) is changed in place.
    """
    m = demand.shape[1]
    for earlier in range(later):
        count = 0
        for j in range(demand.shape[0]):
            if x[earlier, j] <= 0.0 or x[later, j] <= 0.0:
                continue
            members[count] = j
            count += 1
            if count <= m:
                continue
            _null_vector(demand, members, matrix, step)
            _shift(x[earlier], x[later], members, step)
            count = _still_both(x[earlier], x[later], members)


@compiled
def _null_vector(demand, members, matrix, step):
    """Write into ``step`` (m + 1,) what the members shift, so that no resource's use changes.

    Gauss-Jordan elimination of their demands, one resource after the other with the largest pivot;
    the first member without a pivot moves by 1.
    """
    m = demand.shape[1]
    width = m + 1
    largest = 0.0
    for r in range(m):
        for q in range(width):
            matrix[r * width + q] = demand[members[q], r]
    # Before the elimination, which changes what a pivot is compared with.
    for r in range(m):
        for q in range(width):
            largest = max(largest, abs(matrix[r * width + q]))
    for q in range(width):
        step[q] = -1.0  # the row that has its pivot in this column; none yet
    for r in range(m):
        pivot = -1
        for q in range(width):
            if step[q] < 0.0 and (
                pivot < 0 or abs(matrix[r * width + q]) > abs(matrix[r * width + pivot])
            ):
                pivot = q
        value = matrix[r * width + pivot]
        if abs(value) <= DEPENDENT * largest:
            continue
        step[pivot] = r
        for q in range(width):
            matrix[r * width + q] /= value
        for other in range(m):
            if other == r:
                continue
            factor = matrix[other * width + pivot]
            for q in range(width):
                matrix[other * width + q] -= factor * matrix[r * width + q]
    free = 0
    while step[free] >= 0.0:
        free += 1
    for q in range(width):
        row = int(step[q])
        step[q] = 0.0 if row < 0 else -matrix[row * width + free]
    step[free] = 1.0


@compiled
def _shift(here, there, members, step):
    """Shift along the step, in the shorter direction, until a member leaves one of the classes."""
    forward, backward = np.inf, np.inf
    first, second = 0, 0
    for q in range(len(members)):
        if step[q] == 0.0:
            continue
        j = members[q]
        away = (here[j] if step[q] > 0.0 else there[j]) / abs(step[q])
        back = (there[j] if step[q] > 0.0 else here[j]) / abs(step[q])
        if away < forward:
            forward, first = away, q
        if back < backward:
            backward, second = back, q
    length, leaves = (forward, first) if forward <= backward else (-backward, second)
    for q in range(len(members)):
        j = members[q]
        # The step ends where a share reaches 0, which rounding may miss on either side.
        here[j] = max(here[j] - length * step[q], 0.0)
        there[j] = max(there[j] + length * step[q], 0.0)
    # Exactly 0: dust would keep it on both classes for ever.
    j = members[leaves]
    if length * step[leaves] > 0.0:
        here[j] = 0.0
    else:
        there[j] = 0.0


@compiled
def _still_both(here, there, members):
    """Move the members that still run on both classes to the front and return their number."""
    count = 0
    for q in range(len(members)):
        j = members[q]
        if here[j] > 0.0 and there[j] > 0.0:
            members[count] = j
            count += 1
    return count
