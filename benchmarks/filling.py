"""Whole tasks by Algorithm 1 against a heap in Python, and placement against one scan per task."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace

import numba
import numpy as np

from benchmarks.instances import google_pool
from benchmarks.measurement import Row, best_seconds
from policies import DISCRETE_TOLERANCE, Gang, Problem, WholeServers, solve

# The random demands of ``google_pool`` are cut so that the pool runs about 1.25 million tasks.
PARTS = 26.0
SCANNED_TASKS = 20_000
PIECES = 8
# Of a task of those demands, so that about 80,000 pieces run.
SIZE_OF_A_PIECE = 15.6


def measure(*, quick: bool) -> list[Row]:
    """Measure 900 tenants on Table 1's servers. The scan is timed on its first tasks only."""
    repeat = 3 if quick else 10
    rows = [
        _pool(PARTS, "heap in Python", _heap, goal=100.0, repeat=repeat),
        _pool(PARTS, "heap in Numba", _compiled_heap, goal=None, repeat=repeat),
        _pool(1.0, "heap in Numba", _compiled_heap, goal=None, repeat=repeat),
    ]
    for resources, goal in ((2, 20.0), (4, 3.0)):
        if quick and resources > 2:
            continue
        rows.append(_placement_row("best-fit", resources, goal, quick))
    rows.append(_placement_row("first-fit", 2, 30.0, quick))
    rows.append(_two_choices(quick))
    rows += [
        _gangs(f"drfh, {rule}", "drfh", {"placement": rule}, quick)
        for rule in ("best-fit", "first-fit")
    ]
    rows.append(_gangs("h-mrf, affinity", "h-mrf", {}, quick))
    rows.append(_scanned_gangs(quick))
    return rows


def _tasks_pool(resources: int, parts: float = PARTS) -> Problem:
    problem = google_pool(900, resources=resources)
    return replace(problem, demand=(problem.demand / parts).round(5))


def _gangs_pool() -> tuple[Problem, Problem]:
    """Return a pool of single tasks, and one in which eight of them are a task."""
    single = _tasks_pool(2)
    single = replace(single, demand=single.demand * SIZE_OF_A_PIECE)
    count = np.array([PIECES])
    gangs = {j: Gang(count, single.demand[j : j + 1]) for j in range(single.n)}
    return single, replace(single, demand=single.demand * PIECES, gangs=gangs)


def _gangs(name: str, policy: str, options: dict[str, str], quick: bool) -> Row:
    """Measure about 10,000 tasks of eight pieces, beside the pieces as tasks of their own."""
    single, gangs = _gangs_pool()

    def seconds(problem: Problem) -> tuple[float, int]:
        taken, answer = best_seconds(
            # A new object, because a problem keeps what was computed from it.
            lambda: replace(problem),
            lambda p: solve(p, policy, mode="indivisible", options=options),
            repeat=1 if quick else 3,
        )
        return taken, int(answer.tasks.sum())

    ours, placed = seconds(gangs)
    peer, tasks = seconds(single)
    servers = int(single.server_count.sum())
    return Row(
        name=f"{name}, gangs",
        sizes=f"{single.t} tenants, {servers} servers, {placed} tasks of {PIECES} pieces",
        our_value=ours,
        peer=f"ours with {tasks} tasks of one piece",
        peer_value=peer,
        agreement=None,
        goal=1 / 3,
    )


def _scanned_gangs(quick: bool) -> Row:
    """Measure the seconds per task of eight pieces, beside a scan of all servers for each piece.

    The scan is timed on its first tasks, ours on all of them. The first tasks are compared.
    """
    _, problem = _gangs_pool()
    scanned = (SCANNED_TASKS // 10 if quick else SCANNED_TASKS) // PIECES
    seconds, sequence = best_seconds(
        lambda: problem, lambda p: scan(p, "best-fit", scanned, PIECES), repeat=1 if quick else 3
    )
    tasks = np.bincount(sequence[::PIECES, 0], minlength=problem.n).astype(float)
    some = solve(replace(problem, tasks=tasks), "drfh", mode="indivisible")
    ours, whole = best_seconds(
        lambda: replace(problem),
        lambda p: solve(p, "drfh", mode="indivisible"),
        repeat=1 if quick else 3,
    )
    total = int(whole.tasks.sum())
    return Row(
        name="drfh, best-fit, gangs beside scans",
        sizes=_sizes(problem, total, scanned),
        our_value=ours / total,
        peer="one NumPy scan per piece",
        peer_value=seconds / scanned,
        agreement=float(_misplaced(some, sequence)),
        goal=None,
    )


def _pool(
    parts: float,
    peer: str,
    heap: Callable[[Problem], np.ndarray],
    *,
    goal: float | None,
    repeat: int,
) -> Row:
    """Measure Algorithm 1 on one pool, whose demands are divided by ``parts``."""
    problem = _tasks_pool(2, parts)
    answer = solve(problem, "drf", mode="indivisible")
    heap(problem)  # compiled before it is timed
    peer_seconds, count = best_seconds(lambda: problem, heap, repeat=repeat)
    ours, _ = best_seconds(
        lambda: _tasks_pool(2, parts), lambda p: solve(p, "drf", mode="indivisible"), repeat=repeat
    )
    return Row(
        name="drf, whole tasks",
        sizes=f"{problem.t} tenants, {int(answer.tasks.sum())} tasks",
        our_value=ours,
        peer=peer,
        peer_value=peer_seconds,
        agreement=float(np.abs(answer.tasks - count).max()),
        goal=goal,
    )


def _heap(problem: Problem) -> np.ndarray:
    """Run Algorithm 1, one task at a time."""
    step = (problem.dominant_share_per_task / problem.effective_weight).tolist()
    demand = problem.demand.tolist()
    cpu, memory = problem.totals.tolist()
    count = [0] * problem.n
    waiting = [(0.0, j) for j in range(problem.n)]
    while waiting:
        j = waiting[0][1]
        if demand[j][0] <= cpu and demand[j][1] <= memory:
            cpu -= demand[j][0]
            memory -= demand[j][1]
            count[j] += 1
            # One pass through the heap instead of a pop and a push.
            heapq.heapreplace(waiting, (count[j] * step[j], j))
        else:
            heapq.heappop(waiting)
    return np.array(count)


def _compiled_heap(problem: Problem) -> np.ndarray:
    step = problem.dominant_share_per_task / problem.effective_weight
    count: np.ndarray = _launch_by_heap(step, problem.demand, problem.totals.copy())
    return count


@numba.njit
def _launch_by_heap(step: np.ndarray, demand: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Run Algorithm 1 as ``_heap`` does."""
    count = np.zeros(len(step))
    waiting = [(0.0, j) for j in range(len(step))]
    while len(waiting) > 0:
        j = waiting[0][1]
        if demand[j, 0] <= left[0] and demand[j, 1] <= left[1]:
            left[0] -= demand[j, 0]
            left[1] -= demand[j, 1]
            count[j] += 1.0
            heapq.heapreplace(waiting, (count[j] * step[j], j))
        else:
            heapq.heappop(waiting)
    return count


def _placement_row(rule: str, resources: int, goal: float, quick: bool) -> Row:
    """Measure the seconds per task of both sides.

    The scan is timed on the first tasks, ours on all of them. Both sides place the first tasks, up to
    the number that the scan gave each workload, and their servers are compared.
    """
    problem = _tasks_pool(resources)
    scanned = SCANNED_TASKS // 10 if quick else SCANNED_TASKS
    seconds, sequence = best_seconds(
        lambda: problem, lambda p: scan(p, rule, scanned), repeat=1 if quick else 3
    )
    per_task = seconds / scanned
    options = {"placement": rule}
    tasks = np.bincount(sequence[:, 0], minlength=problem.n).astype(float)
    some = solve(replace(problem, tasks=tasks), "drfh", mode="indivisible", options=options)
    ours, whole = best_seconds(
        lambda: _tasks_pool(resources),
        lambda p: solve(p, "drfh", mode="indivisible", options=options),
        repeat=1 if quick else 3,
    )
    total = int(whole.tasks.sum())
    return Row(
        name=f"drfh, {rule}, {resources} resources",
        sizes=_sizes(problem, total, scanned),
        our_value=ours / total,
        peer="one NumPy scan per task",
        peer_value=per_task,
        agreement=float(_misplaced(some, sequence)),
        goal=goal,
        notes=f"{total / ours:.0f} tasks/s beside {1 / per_task:.0f}/s",
    )


def _sizes(problem: Problem, total: int, scanned: int) -> str:
    servers = int(problem.server_count.sum())
    return (
        f"{problem.t} tenants, {servers} servers, {total} tasks, the peer their first {scanned};"
        " per task"
    )


def _two_choices(quick: bool) -> Row:
    """Measure two random servers instead of all, beside the same draws in plain Python."""
    problem = _tasks_pool(2)
    scanned = SCANNED_TASKS // 10 if quick else SCANNED_TASKS
    seconds, sequence = best_seconds(
        lambda: problem, lambda p: draws_of_two(p, scanned), repeat=1 if quick else 3
    )
    per_task = seconds / scanned
    options = {"placement": "two-choices"}
    tasks = np.bincount(sequence[:, 0], minlength=problem.n).astype(float)
    some = solve(replace(problem, tasks=tasks), "drfh", mode="indivisible", options=options)
    ours, whole = best_seconds(
        lambda: _tasks_pool(2),
        lambda p: solve(p, "drfh", mode="indivisible", options=options),
        repeat=1 if quick else 3,
    )
    total = int(whole.tasks.sum())
    return Row(
        name="drfh, two-choices, 2 resources",
        sizes=_sizes(problem, total, scanned),
        our_value=ours / total,
        peer="the same draws, plain Python",
        peer_value=per_task,
        agreement=float(_misplaced(some, sequence)),
        goal=30.0,
        notes=f"{total / ours:.0f} tasks/s beside {1 / per_task:.0f}/s",
    )


def draws_of_two(problem: Problem, most: int) -> np.ndarray:
    """Return the (most, 2) workload and server of the first tasks while both draws have room, seed 0."""
    whole = WholeServers.of(problem)
    left = np.repeat(whole.capacity, problem.server_count, axis=0)
    step = problem.dominant_share_per_task / problem.effective_weight
    count = np.zeros(problem.n)
    # Python's integers have no width: products are cut to 64 bits.
    state, mask = 0, 2**64 - 1
    sequence = np.empty((most, 2), dtype=np.int64)
    for task in range(most):
        key = count * step
        j = int((key <= key.min() * (1 + DISCRETE_TOLERANCE)).argmax())
        ratio = whole.demand[j] * whole.share_of_unit
        ratio = ratio / ratio[0]
        found = []
        for _ in range(2):
            state = (state + 0x9E3779B97F4A7C15) & mask  # SplitMix64
            bits = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
            bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & mask
            server = int(((bits ^ (bits >> 31)) >> 11) * 2.0**-53 * len(left))
            if not (left[server] >= whole.demand[j]).all():
                continue
            hats = left[server] * whole.share_of_unit
            # Rounded, so that equal fits tie and the first server wins.
            found.append((round(float(np.abs(ratio - hats / hats[0]).sum()), 9), server))
        server = min(found)[1] if found else int((left >= whole.demand[j]).all(axis=1).argmax())
        left[server] -= whole.demand[j]
        count[j] += 1
        sequence[task] = j, server
    return sequence


def scan(problem: Problem, rule: str, most: int, pieces: int = 1) -> np.ndarray:
    """Return the (most * pieces, 2) workload and server of each piece of the first tasks.

    The scan checks every server for each of the equal pieces of a task, all of which must fit. It is
    written for speed, with contiguous columns and ratios that are updated server by server.
    """
    whole = WholeServers.of(problem)
    demand = whole.demand
    left = np.ascontiguousarray(np.repeat(whole.capacity, problem.server_count, axis=0).T)
    hats = left * whole.share_of_unit[:, None]
    relative = hats[1:] / hats[0]
    share = demand * whole.share_of_unit
    ratio = share[:, 1:] / share[:, :1]
    size = 1 + ratio.sum(axis=1)
    step = problem.dominant_share_per_task / problem.effective_weight
    key = np.zeros(problem.n)
    count = np.zeros(problem.n)
    misfit, term = np.empty(left.shape[1]), np.empty(left.shape[1])
    sequence = np.empty((most * pieces, 2), dtype=np.int64)
    for piece in range(most * pieces):
        if piece % pieces == 0:
            j = int((key <= key.min() * (1 + DISCRETE_TOLERANCE)).argmax())
            count[j] += 1
            key[j] = count[j] * step[j]
        fits = left[0] >= demand[j, 0]
        for r in range(1, len(left)):
            fits &= left[r] >= demand[j, r]
        if rule == "first-fit":
            server = int(fits.argmax())
        else:
            misfit[:] = 0.0
            for r in range(len(relative)):
                np.subtract(relative[r], ratio[j, r], out=term)
                np.abs(term, out=term)
                misfit += term
            misfit[~fits] = np.inf
            best = misfit.min()
            server = int((misfit <= best + DISCRETE_TOLERANCE * (size[j] + best)).argmax())
        assert fits[server], "The scan does not give a task back; it is for the first tasks only."
        left[:, server] -= demand[j]
        now = left[:, server] * whole.share_of_unit
        # A server without the first resource has no ratio: it fits nothing that asks for it.
        relative[:, server] = now[1:] / max(now[0], 1e-300)
        sequence[piece] = j, server
    return sequence


def _misplaced(answer, sequence: np.ndarray) -> int:
    """Return the number of tasks that the two sides put on different servers."""
    problem = answer.problem
    start = np.cumsum(problem.server_count) - problem.server_count
    workload, row, offset, servers, tasks = answer.placements_by_range()
    which = np.repeat(np.arange(len(workload)), servers)
    within = np.arange(len(which)) - np.repeat(np.cumsum(servers) - servers, servers)
    server = (start[row] + offset)[which] + within
    total = int(problem.server_count.sum())
    ours = np.bincount(workload[which] * total + server, tasks[which], problem.n * total)
    theirs = np.bincount(sequence[:, 0] * total + sequence[:, 1], minlength=problem.n * total)
    return int(np.abs(ours - theirs).sum())
