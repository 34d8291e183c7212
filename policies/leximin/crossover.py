"""Crossover from an interior solution to one with few placements and the same shares.

An interior-point answer puts a little of every workload everywhere. Fixing what each workload
gets in total leaves a polyhedron whose vertices have at most ``n + K m`` positive entries.
Two steps lead there, or close to it where there are many classes:

* **Exchange** (`policies.leximin.exchange`): workloads that share two classes swap places until at
  most ``m`` share any two. Linear work, whatever the number of classes.
* **Crossover**: the primal push phase of Bixby and Saltzman, "Recovering an optimal LP basis from
  an interior point solution", 1994, with one key entry per workload. Coordinates are moves of share
  from a workload's key class to another of its classes, and the slacks of the capacity rows; a basis
  has one of them per row, and its dense inverse costs the square of the rows. Beyond ``MOST_ROWS``
  it is done for blocks of classes, in turn for different blocks, until few placements are left.
"""

from __future__ import annotations

import time

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.compiled import Floats1, Floats2, OutFloats2, compiled
from policies.leximin.exchange import exchanged
from policies.model.tolerance import OVERFILL, SOLVER_TOLERANCE
from policies.proofs.normal_form import LeximinProblem

# Beyond this many capacity rows at once the dense basis inverse costs more than it saves.
MOST_ROWS = 256
# Of a block of classes, where few placements are left to push.
ROWS_OF_A_BLOCK = 512
# After so many blocks the answer is taken as it is.
MOST_BLOCKS = 200
# Entries below this part of their workload's share are rounding, not allocation: the first part whose
# entries, given to the workload's others, overfill no class by more than MOST_ADDED.
NEGLIGIBLE = (1e-11, 1e-13, 1e-15)
MOST_ADDED = SOLVER_TOLERANCE / 2
# A basic entry blocks a push only if the push moves it by more than this, per unit.
PIVOT = 1e-9
# Entries that differ by less when they reach 0 do so at once.
TIED = 1e-15


def few_placements(problem: LeximinProblem, x: FloatArray, deadline: float | None) -> FloatArray:
    """Return the same shares (n, K) per workload at or near a vertex, with no more use of any class.

    At most ``2 (n + K m)`` entries are positive, unless the deadline passes before that is reached.

    Args:
        problem: gives demands and capacities.
        x: (n, K) dominant shares, feasible up to rounding.
        deadline: ``time.monotonic`` seconds.
    """
    sparse = _without_rounding(problem, x)
    rows = problem.K * problem.m
    if _excess(sparse) <= 0:
        return sparse
    if rows <= MOST_ROWS and _cross_over(problem, sparse, np.arange(problem.K)):
        return sparse
    # Too many rows, or a basis that rounding spoiled: few entries need few pivots.
    sparse = exchanged(problem, sparse, deadline)
    # A fixed seed: the same input must give the same answer.
    random = np.random.default_rng(0)
    blocks: list[IntArray] = []
    for _ in range(MOST_BLOCKS):
        late = deadline is not None and time.monotonic() > deadline
        if late or _excess(sparse) <= problem.n + 2 * rows:
            break
        if not blocks:
            parts = -(-rows // ROWS_OF_A_BLOCK)
            blocks = np.array_split(random.permutation(problem.K), parts)
        block = blocks.pop()
        # Smaller blocks have better-conditioned bases.
        if not _cross_over(problem, sparse, block) and len(block) * problem.m > MOST_ROWS:
            blocks += np.array_split(block, 2)
    return sparse


def _without_rounding(problem: LeximinProblem, x: FloatArray) -> FloatArray:
    share = x.sum(axis=1)
    most = max(float(problem.used_parts(x).max(initial=0.0)), 1.0) + MOST_ADDED
    for negligible in NEGLIGIBLE:
        sparse = np.ascontiguousarray(np.where(x > negligible * share[:, None], x, 0.0))
        kept = sparse.sum(axis=1)
        sparse *= np.divide(share, kept, out=np.ones_like(share), where=kept > 0)[:, None]
        if problem.used_parts(sparse).max(initial=0.0) <= most:
            break
    return sparse


def _excess(x: FloatArray) -> int:
    """Positive entries beyond one for each workload that has any."""
    positive = x > 0
    return int(positive.sum() - positive.any(axis=1).sum())


def _cross_over(problem: LeximinProblem, x: FloatArray, classes: IntArray) -> bool:
    """Move x (in place) to a vertex in these classes.

    Return False, with x unchanged, if a class would be overfilled because the basis was too
    ill-conditioned.
    """
    part = np.ascontiguousarray(x[:, classes])
    several = np.flatnonzero((part > 0).sum(axis=1) > 1)
    if not len(several):
        return True
    size = np.where(problem.capacity_share[classes] > 0, problem.capacity_share[classes], 1.0)
    used = (part.T @ problem.demand) / size
    slack = np.maximum(1.0 - used, 0.0)
    pushed = part[several]
    _push(pushed, np.ascontiguousarray(problem.demand[several]), 1.0 / size, slack.ravel())
    part[several] = pushed
    # Beside what it used before, which rounding may have put above the capacity already.
    overfilled = (part.T @ problem.demand) / size - np.maximum(used, 1.0)
    if overfilled.max() > OVERFILL:
        return False
    x[:, classes] = part
    return True


@compiled
def _push(x: OutFloats2, demand: Floats2, per_share: Floats2, slack: Floats1) -> None:
    """Push every entry that is not a key towards 0 by changes of the basis.

    The entry that blocks a push leaves the basis. x (n, K) is changed in place; per_share (K, m) is
    1 / capacity; slack (K m,) of the rows. ``inverse[q, b]`` is row b of the basis inverse, so that
    entries read together are stored together. Basis position b holds a move of workload ``who[b]``
    (-1: a slack) to class ``where[b]``.
    """
    n, classes = x.shape
    rows = classes * demand.shape[1]
    inverse = np.eye(rows)
    who, where, value = np.full(rows, -1), np.arange(rows), slack.copy()
    key = np.empty(n, dtype=np.int64)
    # The largest entry, because pushes starve it last.
    for j in range(n):
        key[j] = np.argmax(x[j])
    change, key_change = np.zeros(rows), np.zeros(n)
    for j in range(n):
        for c in range(classes):
            if c == key[j] or x[j, c] <= 0.0:
                continue
            _basis_change(inverse, demand[j], per_share, c, key[j], change)
            _changes_of_keys(who, change, key_change, j)
            longest, blocking, starved = _longest_push(
                x, key, who, value, change, key_change, x[j, c]
            )
            for b in range(rows):
                value[b] = max(value[b] + longest * change[b], 0.0)
                if who[b] >= 0:
                    x[who[b], where[b]] = value[b]
                    _pay(x, key, key_change, who[b], longest)
            _pay(x, key, key_change, j, longest)
            x[j, c] -= longest
            if blocking < 0 and starved < 0:
                x[j, c] = 0.0
                continue
            if starved >= 0:
                blocking = _new_key(x, key, inverse, who, where, value, starved)
                _basis_change(inverse, demand[j], per_share, c, key[j], change)
            elif who[blocking] >= 0:
                x[who[blocking], where[blocking]] = 0.0
            _replace(inverse, change, blocking)
            who[blocking], where[blocking], value[blocking] = j, c, x[j, c]


@compiled
def _basis_change(inverse, demand, per_share, c, key, change):
    """Write how the basis changes per unit of share taken from class c back to the key."""
    m = len(demand)
    change[:] = 0.0
    for r in range(m):
        there, here = inverse[c * m + r], inverse[key * m + r]
        gained, lost = demand[r] * per_share[c, r], demand[r] * per_share[key, r]
        for b in range(len(change)):
            change[b] += gained * there[b] - lost * here[b]


@compiled
def _changes_of_keys(who, change, key_change, j):
    """Write what happens to the key entries of all workloads in the basis, and of j."""
    for i in who:
        if i >= 0:
            key_change[i] = 0.0
    key_change[j] = 1.0
    for b in range(len(who)):
        if who[b] >= 0:
            key_change[who[b]] -= change[b]


@compiled
def _longest_push(x, key, who, value, change, key_change, requested):
    """Return the longest push and what ends it, a basis position or a starved workload (or -1)."""
    longest, blocking, starved = requested, -1, -1
    for b in range(len(who)):
        if change[b] < -PIVOT and value[b] < -longest * change[b]:
            longest, blocking, starved = -value[b] / change[b], b, -1
    for i in who:
        if i >= 0 and key_change[i] < -PIVOT and x[i, key[i]] < -longest * key_change[i]:
            longest, blocking, starved = -x[i, key[i]] / key_change[i], -1, i
    if blocking >= 0:
        # Of all that block it there, the one that moves fastest keeps the basis well-conditioned.
        for b in range(len(who)):
            if change[b] < change[blocking] and value[b] <= -longest * change[b] + TIED:
                blocking = b
    return longest, blocking, starved


@compiled
def _pay(x, key, key_change, i, amount):
    """Move a key entry once."""
    x[i, key[i]] = max(x[i, key[i]] + amount * key_change[i], 0.0)
    key_change[i] = 0.0


@compiled
def _new_key(x, key, inverse, who, where, value, i):
    """Make the largest basic entry of workload i its key and return the freed basis position."""
    chosen = -1
    for b in range(len(who)):
        if who[b] == i and (chosen < 0 or value[b] > value[chosen]):
            chosen = b
    for q in range(len(who)):
        total = 0.0
        for b in range(len(who)):
            if who[b] == i:
                total += inverse[q, b]
        inverse[q, chosen] = -total
    x[i, key[i]] = 0.0
    key[i] = where[chosen]
    return chosen


@compiled
def _replace(inverse, change, position):
    """Update the basis inverse for a column, given in the old basis, that enters."""
    rows = len(change)
    for q in range(rows):
        mine = inverse[q]
        entering = mine[position] / change[position]
        if entering != 0.0:
            for b in range(rows):
                mine[b] -= change[b] * entering
        mine[position] = entering
