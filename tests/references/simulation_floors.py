"""Floors while tasks begin and end: computed anew at every hand-out, for every workload.

Source: docs/policies/guarantees.md, §Simulations.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from tests.references.filling import fill, stand_alone
from tests.references.floors import own_pool, parts_of, pool_of, whole_in, within_limits
from tests.references.groups import PlainTree


class FloorsNow:
    """Floors at one instant, and the running tasks that count for them.

    Attributes:
        parts: [workload, servers, tasks, tasks that count, own servers first] of each part.
    """

    def __init__(self, run, now):
        self.run, self.now = run, now
        self.parts = []
        if not (run.problem.guarantees or run.problem.own_servers.any()):
            return
        pooled = run.one_pool
        problem = self.servers_as_rows()
        tree = PlainTree(problem, pooled=pooled)
        floors = []
        for number, given in enumerate(problem.guarantees):
            pool, jobs, rows = pool_of(problem, given, tree, pooled, whole=True)
            if pooled:
                rows = frozenset(range(problem.k))
            floors.append((number, jobs, rows, whole_in(pool)))
        on_own = [{} for _ in range(problem.n)]
        own = np.flatnonzero(problem.own_servers).tolist()
        everywhere = frozenset(range(problem.k))
        if own and pooled:
            for tenant in own:
                pool, jobs = own_pool(problem, tenant)
                floors.append((len(floors), jobs, everywhere, fill(pool, "pool")[1]))
        elif own:
            mine = np.isin(problem.contributed_by, own)
            alone = replace(problem, contributed_only=problem.contributed_only | ~mine)
            _, before = stand_alone(alone, with_servers=True)
            before = [(j, row, at) for j, row, at in before if problem.workload_tenant[j] in own]
            for j, row, _ in within_limits(problem, before):
                used = frozenset([row])
                on_own[j][used] = on_own[j].get(used, 0) + 1
        parts = parts_of(problem, floors, on_own)
        self.parts = [[j, rows, Fraction(tasks), Fraction(0), False] for j, rows, tasks in parts]
        for tenant in own:
            for j in sorted(
                (j for j in range(problem.n) if problem.workload_tenant[j] == tenant),
                key=lambda j: (-problem.priority[j], j),
            ):
                if on_own[j]:
                    tasks = Fraction(sum(on_own[j].values()))
                    self.parts.append([j, everywhere, tasks, Fraction(0), True])
        for j in range(problem.n):
            self.count_running(j)

    def servers_as_rows(self):
        """The problem of what waits or runs, with a row for each server; those away are draining."""
        run, now = self.run, self.now
        whole = run.problem
        row_of = np.repeat(np.arange(whole.k), whole.server_count)
        there = np.ones(len(row_of), dtype=bool)
        for number, here in zip(run.number, run.there, strict=True):
            there[number] = here
        runnable = run.runnable()
        pending = [
            min(len(run.of(j, now, True)) + len(run.of(j, now, False)), whole.tasks[j])
            if runnable[j]
            else 0
            for j in range(whole.n)
        ]
        return replace(
            whole,
            server_names=tuple(f"server-{s}" for s in range(len(row_of))),
            capacity=whole.capacity[row_of],
            server_count=np.ones(len(row_of), dtype=np.int64),
            server_labels=tuple(whole.server_labels[row] for row in row_of),
            contributed_by=whole.contributed_by[row_of],
            contributed_only=whole.contributed_only[row_of] | ~there,
            tasks=np.array(pending, dtype=float),
        )

    def servers_of(self, rows):
        """Positions of the run's servers."""
        if self.run.one_pool:
            return [0]
        return [s for s, number in enumerate(self.run.number) if number in rows]

    def count_running(self, j):
        """Count running tasks kind by kind of servers, for the parts with the fewest servers first."""
        run = self.run
        mine = [part for part in self.parts if part[0] == j]
        mine.sort(key=lambda part: (part[4], len(part[1])))  # stable: then by position
        kinds = {}
        every = [0] if run.one_pool else range(len(run.number))
        sets = {part[1] for part in self.parts}
        for s in every:
            number = 0 if run.one_pool else run.number[s]
            kinds.setdefault(frozenset(rows for rows in sets if number in rows), []).append(s)
        for kind, servers in kinds.items():
            running = sum(
                1 for k in run.of(j, self.now, True) if run.one_pool or run.server[k] in servers
            )
            for part in mine:
                if part[1] in kind:
                    more = min(running, part[2] - part[3])
                    part[3] += more
                    running -= more

    def held(self, j):
        """Running tasks of a workload that count for its floors."""
        return sum((part[3] for part in self.parts if part[0] == j), Fraction(0))

    def hand_out(self):
        """Start tasks of floors: own servers first, then always for the least fraction."""
        run, now = self.run, self.now
        for part in self.parts:
            if not part[4]:
                continue
            tenant = run.problem.workload_tenant[part[0]]
            own = [
                s
                for s, row in enumerate(run.row)
                if run.problem.contributed_by[row] == tenant and run.there[s]
            ]
            while part[3] < part[2]:
                fitting = run.fitting(part[0], now, own)
                if not fitting:
                    break
                run.launch(part[0], fitting[0], now)
                part[3] += 1
        rising = [at for at, part in enumerate(self.parts) if part[3] < part[2]]
        while rising:
            at = min(rising, key=lambda at: (self.parts[at][3] / self.parts[at][2], at))
            part = self.parts[at]
            j = part[0]
            fitting = run.fitting(j, now, self.servers_of(part[1]))
            if part[3] >= part[2] or not fitting:
                rising.remove(at)
                continue
            left = run.left(now, run.problem.workload_tenant[j])
            tenant = run.problem.workload_tenant[j]
            run.launch(j, run.place(tenant, j, fitting, left, now), now)
            part[3] += 1
