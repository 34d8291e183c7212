"""Time division against one program over all saturated allocations."""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.optimize import linprog

from benchmarks.measurement import Row, best_seconds
from policies import Problem, solve

GRID = 100


def measure(*, quick: bool) -> list[Row]:
    """Measure 20 tenants on a grid of 100 × 100.

    Their tasks are so large that all allocations can be listed.
    """
    repeat = 3 if quick else 10
    demands = (10, 35) if quick else (6, 30)
    return [_against_enumeration(20, demands, repeat=repeat), _small_tasks(20, repeat=repeat)]


def pool(tenants: int, demands: tuple[int, int], *, seed: int = 1) -> Problem:
    """Return a pool of one server of 100 and 100, with random whole demands between two amounts."""
    random = np.random.default_rng(seed)
    return Problem.create(
        resources=("a", "b"),
        capacity=[[GRID, GRID]],
        tenants=[f"tenant-{i}" for i in range(tenants)],
        demand=random.integers(demands[0], demands[1] + 1, (tenants, 2)),
    )


def _against_enumeration(tenants: int, demands: tuple[int, int], *, repeat: int) -> Row:
    problem = pool(tenants, demands)
    answer = solve(problem, "tda")
    columns = saturated(problem.demand.astype(np.int64))
    theirs = best_mixture(problem, columns)
    agreement = abs(theirs / answer.objective - 1)
    listing, _ = best_seconds(lambda: problem.demand.astype(np.int64), saturated, repeat=repeat)
    program, _ = best_seconds(
        lambda: columns, lambda all_: best_mixture(problem, all_), repeat=repeat
    )
    ours, _ = best_seconds(lambda: pool(tenants, demands), lambda p: solve(p, "tda"), repeat=repeat)
    slots = 0 if answer.schedule is None else len(answer.schedule.fraction)
    return Row(
        name="tda",
        sizes=f"{tenants} tenants, {GRID} × {GRID}",
        our_value=ours,
        peer=f"HiGHS over all {len(columns)} saturated allocations, compiled listing",
        peer_value=listing + program,
        agreement=agreement,
        goal=50.0,
        notes=f"gap {answer.gap:.0e}, {slots} slots; listing {listing:.2f} s, program {program:.2f} s",
    )


def _small_tasks(tenants: int, *, repeat: int) -> Row:
    """Measure tasks from 1 to 60 without a peer, because there are too many saturated allocations."""
    answer = solve(pool(tenants, (1, 60)), "tda")
    ours, _ = best_seconds(lambda: pool(tenants, (1, 60)), lambda p: solve(p, "tda"), repeat=repeat)
    return Row(
        name="tda, small tasks too",
        sizes=f"{tenants} tenants, {GRID} × {GRID}",
        our_value=ours,
        peer="none: proven by its own bound",
        peer_value=ours,
        agreement=None,
        goal=None,
        notes=f"gap {answer.gap:.0e}, {answer.statistics['slots_made']} slots made",
    )


def best_mixture(problem: Problem, columns: np.ndarray) -> float:
    """Return the greatest least share over mixtures of the given allocations (c, n)."""
    shares = columns * problem.dominant_share_per_task
    result = linprog(
        np.r_[np.zeros(len(columns)), -1.0],
        A_ub=np.c_[-shares.T, np.ones(problem.t)],
        b_ub=np.zeros(problem.t),
        A_eq=np.r_[np.ones(len(columns)), 0.0][None, :],
        b_eq=[1.0],
        method="highs",
    )
    return -float(result.fun)


def saturated(demand: np.ndarray) -> np.ndarray:
    """Return the (c, n) allocations to which no task can be added, by depth-first search."""
    found = np.empty((1024, len(demand)), dtype=np.int64)
    while True:
        count = _list_saturated(demand, found)
        if count <= len(found):
            return found[:count]
        # Their number is known only once they are counted.
        found = np.empty((4 * len(found), len(demand)), dtype=np.int64)


@njit(cache=True)
def _list_saturated(demand: np.ndarray, found: np.ndarray) -> int:
    """Write the saturated allocations to `found` while it has room, and return their number."""
    n = len(demand)
    tasks = np.zeros(n, dtype=np.int64)
    left = np.full((n + 1, 2), GRID, dtype=np.int64)
    listed, j = 0, 0
    # One below the first number, as each visit adds a task.
    tasks[0] = -1
    while j >= 0:
        tasks[j] += 1
        left[j + 1] = left[j] - tasks[j] * demand[j]
        if left[j + 1].min() < 0:
            j -= 1
            continue
        if j + 1 < n:
            j += 1
            tasks[j] = -1
            continue
        room = False
        for k in range(n):
            room |= (demand[k] <= left[n]).all()
        if not room:
            if listed < len(found):
                found[listed] = tasks
            listed += 1
    return listed
