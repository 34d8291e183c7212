"""Peer of the event simulation, which is h-mrf over events in plain Python."""

from __future__ import annotations

import heapq
from collections import deque

import numpy as np

from policies import Problem
from policies.simulation import Trace

CLOSE = 1 + 1e-9


def simulate_plainly(problem: Problem, trace: Trace, step: float) -> np.ndarray:
    """Return the start of each task, for one workload per tenant, two resources and equal weights.

    The history is unbounded. Totals are per tenant and are updated only when they are read, which
    happens only for tenants with a waiting task that fits.
    """
    demand = problem.demand.tolist()
    submit, duration = trace.submit.tolist(), trace.duration.tolist()
    owner = trace.workload.tolist()
    tenants = len(demand)
    room_cpu, room_memory = capacity = problem.totals.tolist()
    most = [
        int(min(capacity[0] / tenants // cpu, capacity[1] / tenants // memory))
        for cpu, memory in demand
    ]
    waiting: list[deque[int]] = [deque() for _ in demand]
    some: set[int] = set()
    running, used, alone = [0] * tenants, [0.0] * tenants, [0.0] * tenants
    since, begun = [0.0] * tenants, [0.0] * len(owner)
    ends: list[tuple[float, int]] = []
    arriving, task, now = len(owner), 0, 0.0

    def settle(i: int) -> None:
        # used and alone in task-seconds: a tenant's tasks are alike
        passed = now - since[i]
        used[i] += running[i] * passed
        alone[i] += min(running[i] + len(waiting[i]), most[i]) * passed
        since[i] = now

    def measures(i: int) -> tuple[float, float, float]:
        cpu, memory = demand[i]
        ahead = now - since[i] + step
        uses = used[i] + running[i] * ahead
        would = alone[i] + min(running[i] + len(waiting[i]), most[i]) * ahead
        shares = uses * cpu / capacity[0], uses * memory / capacity[1]
        return min(uses / would, 1.0) if would else 1.0, shares[0] + shares[1], max(shares)

    while task < arriving or ends:
        now = min(submit[task] if task < arriving else np.inf, ends[0][0] if ends else np.inf)
        # Ends before arrivals, as in the simulation that is compared.
        while ends and ends[0][0] == now:
            i = owner[heapq.heappop(ends)[1]]
            settle(i)
            running[i] -= 1
            room_cpu += demand[i][0]
            room_memory += demand[i][1]
        while task < arriving and submit[task] == now:
            i = owner[task]
            settle(i)
            waiting[i].append(task)
            some.add(i)
            task += 1
        active = {
            i: measures(i)
            # Sorted, because the first of equal tenants is served.
            for i in sorted(some)
            if demand[i][0] <= room_cpu and demand[i][1] <= room_memory
        }
        while active:
            least = min(measure[0] for measure in active.values())
            # H-MRF: sharing degrees decide while some tenant is at a loss, and aggregates after
            # that.
            first, second = (0, 1) if least < 1 - 1e-9 else (1, 2)
            if first:
                least = min(measure[1] for measure in active.values())
            tied = [i for i, measure in active.items() if measure[first] <= least * CLOSE]
            if len(tied) > 1:
                least = min(active[i][second] for i in tied)
                tied = [i for i in tied if active[i][second] <= least * CLOSE]
            i = tied[0]
            settle(i)
            chosen = waiting[i].popleft()
            begun[chosen] = now
            heapq.heappush(ends, (now + duration[chosen], chosen))
            running[i] += 1
            room_cpu -= demand[i][0]
            room_memory -= demand[i][1]
            if not waiting[i]:
                some.discard(i)
                del active[i]
            else:
                active[i] = measures(i)
            # Room only shrinks within a hand-out: who does not fit now is out of it.
            active = {
                i: measure
                for i, measure in active.items()
                if demand[i][0] <= room_cpu and demand[i][1] <= room_memory
            }
    return np.array(begun)
