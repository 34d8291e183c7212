"""A day of tasks on unlike servers under best-fit, against an event loop with a NumPy scan per task."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import replace

import numpy as np

from benchmarks.instances import GOOGLE_SERVERS
from benchmarks.measurement import Row, best_seconds
from policies import DISCRETE_TOLERANCE, Gang, Guarantee, Problem, WholeServers
from policies.simulation import Simulation, Trace, simulate

TENANTS, DAY, SEED = 250, 86_400.0, 3
# Servers and tasks.
SMALL, GOOGLE = (200, 20_000), (2_000, 500_000)
LOAD = 1.1
# Tenants with a guarantee, and their part of the pool together.
GUARANTEES, GUARANTEED = 100, 0.6
KINDS = 4
PIECES = 4  # of each gang


def measure(*, quick: bool) -> list[Row]:
    """Measure a small day beside the plain loop, with guarantees, as gangs, and a large one."""
    tasks = SMALL[1] // (4 if quick else 1)
    rows = [
        _beside_plain(SMALL[0], tasks, quick),
        _with_guarantees(SMALL[0], tasks, quick),
        _as_gangs(SMALL[0], tasks, quick),
    ]
    if not quick:
        rows.append(_scale())
    return rows


def _beside_plain(servers: int, tasks: int, quick: bool) -> Row:
    problem, trace = _day(servers, tasks)
    # Compiles what is measured below.
    found = simulate(problem, trace, "drfh")
    peer_seconds, (start, server) = best_seconds(
        lambda: None, lambda _: _plainly(problem, trace), repeat=1 if quick else 2
    )
    seconds, _ = best_seconds(
        lambda: None, lambda _: simulate(problem, trace, "drfh"), repeat=2 if quick else 5
    )
    apart = float(np.abs(found.start - start).max()) + float((found.server != server).sum())
    return Row(
        name="best-fit drfh, a day",
        sizes=_sizes(servers, tasks, found),
        our_value=seconds,
        peer="plain loop, one NumPy scan per task",
        peer_value=peer_seconds,
        agreement=apart,
        goal=20.0,
        notes=f"{2 * tasks / seconds:.3g} events/s, plain {2 * tasks / peer_seconds:.3g} events/s",
    )


def _with_guarantees(servers: int, tasks: int, quick: bool) -> Row:
    """Return the day's time with guarantees of most of the pool, beside the same day without."""
    problem, trace = _day(servers, tasks)
    guaranteed = replace(
        problem,
        guarantees=tuple(
            Guarantee("tenant", tenant, problem.totals * GUARANTEED / GUARANTEES)
            for tenant in range(GUARANTEES)
        ),
    )
    repeat = 1 if quick else 3
    without_seconds, without = best_seconds(
        lambda: None, lambda _: simulate(problem, trace, "drfh"), repeat=repeat
    )
    seconds, found = best_seconds(
        lambda: None, lambda _: simulate(guaranteed, trace, "drfh"), repeat=repeat
    )
    others = int((found.start != without.start).sum())
    return Row(
        name=f"best-fit drfh, a day with {GUARANTEES} guarantees of {GUARANTEED:.0%} of the pool",
        sizes=_sizes(servers, tasks, found),
        our_value=seconds,
        peer="ours without guarantees, the same trace",
        peer_value=without_seconds,
        agreement=None,
        goal=None,
        notes=f"{seconds / without_seconds:.2f} times as long; {others:,} tasks start at another time",
    )


def _as_gangs(servers: int, tasks: int, quick: bool) -> Row:
    """Return the time of a day whose tasks are pieces of gangs, beside that of the single tasks.

    Both days have the same pieces. Those of a gang are submitted at once and are equally long.
    """
    problem, trace = _day(servers, tasks)
    first = np.arange(0, tasks, PIECES)
    single = Trace.create(
        workload=np.repeat(trace.workload[first], PIECES),
        submit=np.repeat(trace.submit[first], PIECES),
        duration=np.repeat(trace.duration[first], PIECES),
    )
    gangs = Trace.create(
        workload=trace.workload[first],
        submit=trace.submit[first],
        duration=trace.duration[first],
    )
    of_gangs = replace(
        problem,
        demand=problem.demand * PIECES,
        gangs={j: Gang(np.array([PIECES]), problem.demand[[j]]) for j in range(problem.n)},
    )
    repeat = 1 if quick else 5
    single_seconds, alone = best_seconds(
        lambda: None, lambda _: simulate(problem, single, "drfh"), repeat=repeat
    )
    seconds, found = best_seconds(
        lambda: None, lambda _: simulate(of_gangs, gangs, "drfh"), repeat=repeat
    )
    waited = float((found.waiting > 0).mean())
    return Row(
        name=f"best-fit drfh, a day of gangs of {PIECES}",
        sizes=_sizes(servers, len(first) * PIECES, alone),
        our_value=seconds,
        peer="ours, each piece as a single task",
        peer_value=single_seconds,
        agreement=None,
        goal=None,
        notes=f"{seconds / single_seconds:.2f} times as long; {waited:.0%} of {len(first):,} gangs wait",
    )


def _scale() -> Row:
    """Measure the growth of the time per task, from the small day to a Google-scale day."""
    small, large = _day(*SMALL), _day(*GOOGLE)
    small_seconds, _ = best_seconds(lambda: None, lambda _: simulate(*small, "drfh"), repeat=3)
    seconds, found = best_seconds(lambda: None, lambda _: simulate(*large, "drfh"), repeat=2)
    return Row(
        name="best-fit drfh, a Google-scale day; per task",
        sizes=_sizes(*GOOGLE, found),
        our_value=seconds / GOOGLE[1],
        peer=f"ours with {SMALL[0]} servers, {SMALL[1]} tasks",
        peer_value=small_seconds / SMALL[1],
        agreement=None,
        goal=None,
        notes=f"{seconds:.2f} s in all, {2 * GOOGLE[1] / seconds:.3g} events/s",
    )


def _sizes(servers: int, tasks: int, found: Simulation) -> str:
    waited = float((found.waiting > 0).mean())
    return f"{TENANTS} tenants, {servers} servers, {tasks} tasks, {waited:.0%} of tasks wait"


def _day(servers: int, tasks: int) -> tuple[Problem, Trace]:
    """Return servers drawn from Table 1, and a day of tasks whose demand exceeds them.

    Each tenant has four kinds of tasks.
    """
    random = np.random.default_rng(SEED)
    table = np.array(GOOGLE_SERVERS)
    drawn = random.multinomial(servers, table[:, 0] / table[:, 0].sum())
    problem = Problem.create(
        resources=("cpu", "memory"),
        capacity=table[drawn > 0, 1:],
        server_count=drawn[drawn > 0],
        tenants=[f"tenant-{i:03d}" for i in range(TENANTS)],
        workload_tenant=np.repeat(np.arange(TENANTS), KINDS),
        demand=random.uniform(0.005, 0.2, (TENANTS * KINDS, 2)).round(3),
    )
    workload = random.integers(0, problem.n, tasks)
    duration = random.lognormal(0.0, 1.0, tasks)
    work = (problem.demand[workload] * duration[:, None]).sum(axis=0)
    # The scarcer resource is asked for more than there is, because waiting tasks are what costs
    # time.
    duration *= LOAD * DAY / float((work / problem.totals).max())
    return problem, Trace.create(
        workload=workload, submit=np.sort(random.uniform(0, DAY, tasks)), duration=duration
    )


def _plainly(problem: Problem, trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Return the start and the server of each task, by a careful event loop with NumPy.

    It has a heap of ends, queues, and eq. (9) over all servers at once. A workload that fits nowhere is
    tried again only if a server freed since then has room for it.
    """
    whole = WholeServers.of(problem)
    row = np.repeat(np.arange(problem.k), problem.server_count)
    left, unit = whole.capacity[row].copy(), whole.share_of_unit
    demand, share = whole.demand, problem.dominant_share_per_task
    ratio = demand * unit
    ratio = ratio[:, 1] / ratio[:, 0]
    owner, submit = problem.workload_tenant.tolist(), trace.submit.tolist()
    queues: list[deque[int]] = [deque() for _ in range(problem.n)]
    mine = [np.flatnonzero(problem.workload_tenant == i).tolist() for i in range(problem.t)]
    running = np.zeros(problem.n)
    start, server = np.empty(trace.tasks), np.full(trace.tasks, -1)
    ends: list[tuple[float, int]] = []
    waits, untried = np.zeros(problem.n, dtype=bool), np.zeros(problem.n, dtype=bool)
    task = 0
    while task < trace.tasks or ends:
        now = min(submit[task] if task < trace.tasks else np.inf, ends[0][0] if ends else np.inf)
        freed = set()
        while ends and ends[0][0] == now:
            ended = heapq.heappop(ends)[1]
            j = trace.workload[ended]
            running[j] -= 1
            left[server[ended]] += demand[j]
            freed.add(server[ended])
        while task < trace.tasks and submit[task] == now:
            j = trace.workload[task]
            # Where earlier tasks of the workload found no room, a further one finds none either.
            untried[j] |= not waits[j]
            waits[j] = True
            queues[j].append(task)
            task += 1
        may = untried.copy()
        for place in freed:
            may |= waits & (demand <= left[place]).all(axis=1)
        active = {owner[j] for j in np.flatnonzero(may).tolist()}
        key = {i: float(running[mine[i]] @ share[mine[i]]) for i in active}
        while active:
            # Ties as in the simulation, or rounding would decide whether both agree.
            least = min(key[i] for i in active) * (1 + DISCRETE_TOLERANCE)
            i = min(i for i in active if key[i] <= least)
            for j in mine[i]:
                if not may[j] or not queues[j]:
                    continue
                room = (left >= demand[j]).all(axis=1)
                if room.any():
                    break
                may[j] = untried[j] = False
            else:
                active.discard(i)
                continue
            candidates = np.flatnonzero(room)
            slopes = left[candidates] * unit
            misfit = np.abs(ratio[j] - slopes[:, 1] / slopes[:, 0])
            tie = misfit.min() + DISCRETE_TOLERANCE * (1 + ratio[j] + misfit.min())
            chosen = int(candidates[np.flatnonzero(misfit <= tie)[0]])
            begun = queues[j].popleft()
            start[begun], server[begun] = now, chosen
            heapq.heappush(ends, (now + trace.duration[begun], begun))
            left[chosen] -= demand[j]
            running[j] += 1
            if not queues[j]:
                waits[j] = untried[j] = may[j] = False
            key[i] = float(running[mine[i]] @ share[mine[i]])
    return start, server
