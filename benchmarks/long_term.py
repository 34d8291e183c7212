"""Long-term policies over steps of one pool and over events, against plain Python.

The history of each step is the input of the next.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from benchmarks.events import simulate_plainly
from benchmarks.measurement import Row, best_seconds
from policies import History, Problem, solve
from policies.simulation import Simulation, Trace, simulate

TENANTS = 100
CAPACITY = 4096.0
STEPS = 50
MOST_PENDING = 80
EVENT_TASKS = 100_000
DECISION_SECONDS = 60.0


def measure(*, quick: bool) -> list[Row]:
    """Measure 100,000 tasks of 100 tenants in 50 steps of a pool, one step of a larger, and events."""
    part = 8 if quick else 1
    return [
        _row(_problems(STEPS // part, CAPACITY, MOST_PENDING), quick),
        _row(_problems(1, 64 * CAPACITY // part, 64 * MOST_PENDING // part), quick),
        _growth_row(10_000 // part),
        _events_row(CAPACITY / 8, 20.0, quick),
        _events_row(CAPACITY / 4, None, quick),
    ]


def _events_row(capacity: float, goal: float | None, quick: bool) -> Row:
    """Measure the same tasks in a pool that is short of room, or in one without waiting tasks.

    Without waiting tasks there is no choice, and the plain loop also reads hardly any totals.
    """
    tasks = EVENT_TASKS // (20 if quick else 1)
    problem = _problems(1, capacity, MOST_PENDING)[0]
    random = np.random.default_rng(8)
    trace = Trace.create(
        workload=random.integers(0, TENANTS, tasks),
        # Eighths are exact in floating point, so that times tie alike on both sides.
        submit=np.cumsum(random.integers(0, 3, tasks)) / 8,
        duration=random.integers(1, 121, tasks),
    )
    # Tasks come from the trace, so that their number must not limit them as well.
    problem = dataclasses.replace(problem, tasks=np.full(TENANTS, np.inf))

    def ours() -> Simulation:
        return simulate(problem, trace, "h-mrf", step=DECISION_SECONDS)

    # Compiles before anything is timed.
    found = ours()
    peer_seconds, start = best_seconds(
        lambda: None,
        lambda _: simulate_plainly(problem, trace, DECISION_SECONDS),
        repeat=1 if quick else 2,
    )
    seconds, _ = best_seconds(lambda: None, lambda _: ours(), repeat=2 if quick else 10)
    waited = float((found.waiting > 0).mean())
    return Row(
        name="h-mrf, events",
        sizes=f"{TENANTS} tenants, {tasks} tasks, {2 * tasks} events, {waited:.0%} of tasks wait",
        our_value=seconds,
        peer="plain Python",
        peer_value=peer_seconds,
        agreement=float(np.abs(found.start - start).max()),
        goal=goal,
        notes=f"{2 * tasks / seconds:.3g} events/s, plain {2 * tasks / peer_seconds:.3g} events/s",
    )


def _growth_row(tenants: int) -> Row:
    """Return the row of a step of many tenants, whose measures often are equal, beside one of fewer."""

    def problem(count: int) -> Problem:
        random = np.random.default_rng(4)
        return Problem.create(
            resources=("cpu", "memory"),
            capacity=[[40.0 * count, 40.0 * count]],
            tenants=[f"tenant-{i}" for i in range(count)],
            demand=random.integers(1, 13, size=(count, 2)) / 4,
            tasks=random.integers(0, MOST_PENDING, size=count).astype(np.float64),
        )

    def seconds(count: int) -> tuple[float, float]:
        # A tenth of the tenants has a tenth of the tasks, so that time per tenant compares.
        each, tasks = best_seconds(lambda: [problem(count)], _simulate, repeat=3)
        return each / count, float(tasks.sum())

    fewer = tenants // 10
    ours, tasks = seconds(tenants)
    peer, _ = seconds(fewer)
    return Row(
        name="h-mrf, a step of many tenants",
        sizes=f"{tenants:,} tenants, {tasks:,.0f} tasks; per tenant",
        our_value=ours,
        peer=f"ours with {fewer:,}",
        peer_value=peer,
        agreement=None,
        goal=0.5,
        notes=f"{ours * tenants:.2f} s in all",
    )


def _row(problems: list[Problem], quick: bool) -> Row:
    ours = _simulate(problems)
    peer_seconds, peer = best_seconds(lambda: problems, _plain, repeat=1 if quick else 3)
    tasks = int(ours.sum())
    seconds, _ = best_seconds(lambda: problems, _simulate, repeat=2 if quick else 20)
    return Row(
        name="h-mrf",
        sizes=f"{TENANTS} tenants, {len(problems)} steps, {tasks} tasks",
        our_value=seconds,
        peer="plain Python",
        peer_value=peer_seconds,
        agreement=float(np.abs(ours - peer).max()),
        goal=20.0,
        notes=f"{tasks / seconds:.3g} tasks/s, plain {tasks / peer_seconds:.3g} tasks/s",
    )


def _problems(steps: int, capacity: float, most_pending: float) -> list[Problem]:
    """Return a random problem for each step.

    Demands are quarters and the pool is a power of two, so that plain floats also tie exactly.
    """
    random = np.random.default_rng(4)
    demand = random.integers(1, 13, size=(TENANTS, 2)) / 4
    return [
        Problem.create(
            resources=("cpu", "memory"),
            capacity=[[capacity, capacity]],
            tenants=[f"tenant-{i:03d}" for i in range(TENANTS)],
            demand=demand,
            tasks=random.integers(0, int(most_pending), size=TENANTS).astype(np.float64),
        )
        for _ in range(steps)
    ]


def _simulate(problems: list[Problem]) -> np.ndarray:
    history = History.zeros(problems[0])
    tasks = []
    for problem in problems:
        answer = solve(problem, "h-mrf", options={"placement": "pool"}, history=history)
        assert answer.history is not None
        history = answer.history
        tasks.append(answer.tasks)
    return np.array(tasks)


def _plain(problems: list[Problem]) -> np.ndarray:
    """Run Algorithm 1 of Tang et al. (TPDS 2018), with one scan of all tenants' measures per task."""
    demand = problems[0].demand.tolist()
    used = [[0.0, 0.0] for _ in demand]
    alone = [[0.0, 0.0] for _ in demand]
    result = []
    capacity = float(problems[0].totals[0])
    for problem in problems:
        pending = problem.tasks.tolist()
        part = [total / TENANTS for total in problem.totals.tolist()]
        for i, (cpu, memory) in enumerate(demand):
            tasks = min(pending[i], part[0] / cpu // 1, part[1] / memory // 1)
            alone[i][0] += tasks * cpu
            alone[i][1] += tasks * memory
        left = problem.totals.tolist()
        count = [0] * TENANTS
        degree = [_degree(u, a) for u, a in zip(used, alone, strict=True)]
        aggregate = [sum(u) / capacity for u in used]
        dominant = [max(u) / capacity for u in used]
        active = {i for i in range(TENANTS) if pending[i] > 0}
        while active:
            if min(degree[i] for i in active) < 1:
                i = min(active, key=lambda i: (degree[i], aggregate[i], i))
            else:
                i = min(active, key=lambda i: (aggregate[i], dominant[i], i))
            cpu, memory = demand[i]
            if count[i] == pending[i] or cpu > left[0] or memory > left[1]:
                active.discard(i)
                continue
            left[0] -= cpu
            left[1] -= memory
            used[i][0] += cpu
            used[i][1] += memory
            count[i] += 1
            degree[i] = _degree(used[i], alone[i])
            aggregate[i] = (used[i][0] + used[i][1]) / capacity
            dominant[i] = max(used[i]) / capacity
        result.append(count)
    return np.array(result)


def _degree(used: list[float], alone: list[float]) -> float:
    return min((u / a for u, a in zip(used, alone, strict=True) if a > 0), default=1.0)
