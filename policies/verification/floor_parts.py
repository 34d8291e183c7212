"""Parts of workloads that guarantees make, for the verifier.

Source: docs/policies/guarantees.md, docs/policies/kept-tasks.md. The module shares no code with
``policies.floors``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from policies.arrays import BoolArray, FloatArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.current_placements import CurrentPlacements
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.problem_fields import Selector
from policies.verification.kept_tasks import tasks_that_stay
from policies.verification.servers import LimitsLeft
from policies.verification.stated import Stated
from policies.verification.whole_tasks import server_reasons

# Tasks below this part of what a workload has are rounding.
DUST = 1e-12
# Whole tasks by workload, row and server of the row.
Placed = Counter[tuple[int, int, int]]


@dataclass(frozen=True, eq=False)
class Pool:
    """Pool that one guarantee, or a tenant's own servers, divide among workloads.

    Attributes:
        problem: the pool, None if one workload has all of it; choice: by which it is divided.
        workloads: of the problem with the guarantee, in order.
        rows: (k,) servers on which the floors hold; where: their selector.
        floor: tasks of the one workload.
    """

    problem: Problem | None
    choice: Choice
    workloads: list[int]
    rows: BoolArray
    where: Selector
    floor: float = 0.0

    def floors(self, answer: Allocation | None) -> list[float]:
        """Return the tasks of its workloads, by its answer if several divide it."""
        if answer is None:
            return [self.floor] * len(self.workloads)
        tasks: list[float] = answer.tasks.tolist()
        return tasks


@dataclass(frozen=True, eq=False)
class Part:
    """Tasks of a workload that a pool guarantees.

    Attributes:
        tasks: above 0; own: whether they run on the tenant's own servers before everything else.
    """

    pool: int
    workload: int
    tasks: float
    where: Selector
    rows: BoolArray
    own: bool


@dataclass(frozen=True, eq=False)
class Parts:
    """All parts of a problem, and what runs before they rise.

    Attributes:
        parts: by pool and workload.
        placed: of whole tasks on servers, tasks that run before, by the number of the workload in the
            problem with the parts.
        keeps: whether the problem keeps tasks on their servers, which are then among ``placed``.
    """

    parts: list[Part]
    placed: Placed
    keeps: bool

    def first(self) -> CurrentPlacements:
        """Return where tasks run before the parts rise."""
        return _placements(self.placed)

    def others(self, n: int) -> CurrentPlacements | None:
        """Return where kept tasks of workloads run that are those of no part."""
        if not self.keeps:
            return None
        return _placements(Counter({place: c for place, c in self.placed.items() if place[0] < n}))


def _placements(placed: Placed) -> CurrentPlacements:
    rows = [(*place, count) for place, count in sorted(placed.items()) if count]
    workload, row, server, count = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return CurrentPlacements(
        workload=workload,
        row=row,
        offset=server,
        servers=np.ones(len(rows), dtype=np.int64),
        tasks=count.astype(np.float64),
    )


def parts_of(stated: Stated, pools: list[Pool], answers: tuple[Allocation | None, ...]) -> Parts:
    """Return the guaranteed parts of all workloads, by pool and workload.

    A floor counts what floors on some of its servers give already; the pools with the fewest servers
    come first. No workload has more tasks guaranteed than it has.
    """
    problem = stated.problem
    placed = stated.choice.whole_tasks and not stated.choice.sees_one_pool
    own = _on_own(stated, pools, answers) if placed else Placed()
    parts = _all_parts(stated, pools, answers, own)
    if placed and problem.kept_placements is not None:
        return _beside_kept(stated, pools, answers, parts)
    number = {part.workload: at for at, part in enumerate(parts) if part.own}
    first = {(problem.n + number[j], row, at): count for (j, row, at), count in own.items()}
    return Parts(parts, Counter(first), keeps=False)


def _all_parts(
    stated: Stated, pools: list[Pool], answers: tuple[Allocation | None, ...], own: Placed
) -> list[Part]:
    """Return the parts, of which a workload has no more tasks than it wants.

    Args:
        own: tasks on their tenants' own servers.
    """
    problem = stated.problem
    placed = stated.choice.whole_tasks and not stated.choice.sees_one_pool
    first_own = len(problem.guarantees)
    nowhere = np.zeros(problem.k, dtype=np.bool_)
    places = np.array(list(own), dtype=np.int64).reshape(-1, 3)
    jobs, on_rows, counts = places[:, 0], places[:, 1], np.array(list(own.values()), np.float64)
    run = grouped_sum(counts, jobs, problem.n)
    left = (problem.tasks - run).tolist()
    parts = [
        Part(at, j, float(run[j]), {}, nowhere, own=True)
        for at in range(first_own, len(pools))
        for j in pools[at].workloads
        if run[j] > 0
    ]
    shared = range(first_own if placed else len(pools))
    given: dict[bytes, tuple[BoolArray, FloatArray]] = {}
    servers = problem.server_count
    for at in sorted(shared, key=lambda at: (int(servers[pools[at].rows].sum()), at)):
        pool = pools[at]
        here = pool.rows[on_rows]
        have = grouped_sum(counts[here], jobs[here], problem.n)
        for rows, tasks in given.values():
            if (rows <= pool.rows).all():
                have += tasks
        _, mine = given.setdefault(pool.rows.tobytes(), (pool.rows, np.zeros(problem.n)))
        for j, floor in zip(pool.workloads, pool.floors(answers[at]), strict=True):
            missing = min(floor - float(have[j]), left[j])
            if missing > DUST * floor:
                left[j] -= missing
                parts.append(Part(at, j, missing, pool.where, pool.rows, own=False))
                mine[j] += missing
    return sorted(parts, key=lambda part: (part.pool, part.workload))


def _beside_kept(
    stated: Stated, pools: list[Pool], answers: tuple[Allocation | None, ...], every: list[Part]
) -> Parts:
    """Return the parts of a problem with kept tasks, and what runs before they rise.

    A kept task is one of the part with the fewest servers that has its server and lacks tasks. Those
    on own servers come last and have every server.
    """
    problem, kept = stated.problem, _kept(stated)
    size = [int(problem.server_count[pool.rows].sum()) for pool in pools]
    order = sorted(
        range(len(every)), key=lambda p: (every[p].own, size[every[p].pool], every[p].pool)
    )
    beyond, counted = Counter(kept), [Counter[tuple[int, int, int]]() for _ in every]
    of_workload: dict[int, list[tuple[int, int, int]]] = {}
    for place in sorted(kept):
        of_workload.setdefault(place[0], []).append(place)
    for p in order:
        part = every[p]
        for place in of_workload.get(part.workload, ()):
            if part.own or part.rows[place[1]]:
                more = min(beyond[place], round(part.tasks) - counted[p].total())
                counted[p][place] += more
                beyond[place] -= more
    # No part has more tasks than its workload has beside the kept tasks that are of none.
    tasks = [part.tasks for part in every]
    for j, places in of_workload.items():
        mine = [p for p in order if every[p].workload == j]
        over = sum(tasks[p] for p in mine) + sum(beyond[at] for at in places) - problem.tasks[j]
        for p in reversed(mine):
            less = max(0.0, min(over, tasks[p] - counted[p].total()))
            tasks[p] -= less
            over -= less
    stays = [p for p in range(len(every)) if tasks[p] > 0]
    parts = [replace(every[p], tasks=tasks[p]) for p in stays]
    lacking = Counter(
        {every[p].workload: round(tasks[p]) - counted[p].total() for p in stays if every[p].own}
    )
    own = _on_own(stated, pools, answers, kept, lacking)
    placed = beyond
    for at, (p, part) in enumerate(zip(stays, parts, strict=True)):
        some = counted[p]
        if part.own:
            some += Counter({place: n for place, n in own.items() if place[0] == part.workload})
        placed += Counter({(problem.n + at, *place[1:]): n for place, n in some.items()})
    return Parts(parts, placed, keeps=True)


def _kept(stated: Stated) -> Placed:
    keys, tasks = tasks_that_stay(stated, server_reasons(stated))
    kinds, rows = max(len(stated.pieces.owner), 1), stated.rows
    first = np.cumsum(rows.servers) - rows.servers
    found: Placed = Counter()
    for key, number in zip(keys.tolist(), tasks.tolist(), strict=True):
        server, j = divmod(key, kinds)
        row = int(np.searchsorted(first, server, side="right")) - 1
        found[j, int(rows.row[row]), server - int(first[row])] += int(number)
    return found


def _on_own(
    stated: Stated,
    pools: list[Pool],
    answers: tuple[Allocation | None, ...],
    kept: Placed | None = None,
    lacking: Counter[int] | None = None,
) -> Placed:
    """Return what runs on tenants' own servers.

    Servers are filled in order, by the workloads of higher priority first, then by the older ones.
    Tasks beyond a limit are left out.

    Args:
        kept: what runs there already; lacking: tasks that each workload has at most beside it.
    """
    problem, amounts = stated.problem, stated.on_servers
    demands = [[int(amount) for amount in row] for row in amounts.demand]
    limits = LimitsLeft(stated.limits, amounts, np.arange(problem.k))
    taken: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for (j, row, server), number in (kept or {}).items():
        limits.take(j, row, number)
        taken.setdefault((row, server), []).append((j, number))
    number_of = {name: row for row, name in enumerate(problem.server_names)}
    found: Placed = Counter()
    first = len(problem.guarantees)
    for pool, answer in zip(pools[first:], answers[first:], strict=True):
        on_row: Counter[tuple[int, int]] = Counter()
        assert answer is not None  # noqa: S101 - for mypy: pools of own servers are solved
        assert pool.problem is not None  # noqa: S101
        for workload, row, tasks in zip(
            *(column.tolist() for column in answer.placements_by_row()), strict=True
        ):
            key = pool.workloads[workload], number_of[pool.problem.server_names[row]]
            on_row[key] += round(tasks)
        room: dict[tuple[int, int], list[int]] = {}
        for (j, row), stated_tasks in sorted(
            on_row.items(), key=lambda item: (-problem.priority[item[0][0]], item[0])
        ):
            tasks = stated_tasks if lacking is None else min(stated_tasks, lacking[j])
            for q in limits.mine(j):
                if limits.rows[q][row]:
                    bounds = zip(limits.left[q].tolist(), demands[j], strict=True)
                    tasks = min([tasks, *(int(a // d) for a, d in bounds if d and a < np.inf)])
            for server in range(int(problem.server_count[row])):
                if (row, server) not in room:
                    size = [int(amount) for amount in amounts.capacity[row]]
                    for other, number in taken.get((row, server), ()):
                        size = [a - number * d for a, d in zip(size, demands[other], strict=True)]
                    room[row, server] = size
                left = room[row, server]
                count = min([tasks, *(a // d for a, d in zip(left, demands[j], strict=True) if d)])
                if count:
                    found[j, row, server] += count
                    left[:] = [a - count * d for a, d in zip(left, demands[j], strict=True)]
                    limits.take(j, row, count)
                    tasks -= count
                    if lacking is not None:
                        lacking[j] -= count
    return found
