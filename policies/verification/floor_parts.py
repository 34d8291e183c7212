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

    Workloads are those of the problem with the parts.

    Attributes:
        parts: by pool and workload.
        on_own: tasks of parts on own servers.
        kept: tasks that stay on their servers, of other parts or of none; None if none are kept.
    """

    parts: list[Part]
    on_own: Placed
    kept: Placed | None = None

    def placed_on_own(self) -> CurrentPlacements:
        """Return where the parts on own servers run."""
        return placements_of(self.on_own)

    def placed_kept(self, below: int | None = None) -> CurrentPlacements | None:
        """Return where kept tasks run, those of workloads below a number alone if it is given."""
        if self.kept is None:
            return None
        some = {at: c for at, c in self.kept.items() if below is None or at[0] < below}
        return placements_of(Counter(some))


def placements_of(placed: Placed) -> CurrentPlacements:
    """Return whole tasks as placements."""
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
    own = _alone_on_own(stated, pools, answers) if placed else Placed()
    parts = _all_parts(stated, pools, answers, own)
    if placed and (kept := kept_of(stated)) is not None:
        return _beside_kept(stated, pools, parts, kept)
    number = {part.workload: at for at, part in enumerate(parts) if part.own}
    on_own = {(problem.n + number[j], row, at): count for (j, row, at), count in own.items()}
    return Parts(parts, Counter(on_own))


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


def _beside_kept(stated: Stated, pools: list[Pool], every: list[Part], kept: Placed) -> Parts:
    """Return the parts of a problem with kept tasks, and what runs before they rise.

    A kept task counts for the part with the fewest servers that has its server and still lacks tasks.
    """
    problem = stated.problem
    size = [int(problem.server_count[pool.rows].sum()) for pool in pools]
    of_workload: dict[int, list[int]] = {}
    for p in sorted(
        range(len(every)), key=lambda p: (every[p].own, size[every[p].pool], every[p].pool)
    ):
        of_workload.setdefault(every[p].workload, []).append(p)
    places: dict[int, list[tuple[int, int, int]]] = {}
    for place in sorted(kept):
        places.setdefault(place[0], []).append(place)
    uncounted, counted = Counter(kept), [Placed() for _ in every]
    tasks, lacking = [part.tasks for part in every], [round(part.tasks) for part in every]
    for j, mine in of_workload.items():
        for p in mine:
            for place in places.get(j, ()):
                if not lacking[p]:
                    break
                if uncounted[place] and (every[p].own or every[p].rows[place[1]]):
                    counted[p][place] = min(uncounted[place], lacking[p])
                    uncounted[place] -= counted[p][place]
                    lacking[p] -= counted[p][place]
        # Floors and the kept tasks that count for none are among the tasks that the workload has.
        over = sum(tasks[p] for p in mine) - problem.tasks[j]
        over += sum(uncounted[place] for place in places.get(j, ()))
        for p in reversed(mine):
            less = max(0, min(over, lacking[p]))
            tasks[p] -= less
            lacking[p] -= round(less)
            over -= less
    of_own = {part.workload: p for p, part in enumerate(every) if part.own}
    own = _beside(stated, kept, Counter({j: lacking[p] for j, p in of_own.items()}))
    for p in of_own.values():
        # What has no room on own servers is not guaranteed.
        tasks[p] -= lacking[p]
    for place, number in own.items():
        counted[of_own[place[0]]][place] += number
        tasks[of_own[place[0]]] += number
    stays = [p for p in range(len(every)) if tasks[p] > 0]
    on_own, before = Placed(), uncounted
    for number, p in enumerate(stays):
        for (_, row, server), count in counted[p].items():
            (on_own if every[p].own else before)[problem.n + number, row, server] += count
    return Parts([replace(every[p], tasks=tasks[p]) for p in stays], on_own, before)


def kept_of(stated: Stated) -> Placed | None:
    """Return the tasks that a problem keeps on their servers, None if it keeps none."""
    if stated.problem.kept_placements is None:
        return None
    keys, tasks = tasks_that_stay(stated, server_reasons(stated))
    kinds, rows = max(len(stated.pieces.owner), 1), stated.rows
    first = np.cumsum(rows.servers) - rows.servers
    found: Placed = Counter()
    for key, number in zip(keys.tolist(), tasks.tolist(), strict=True):
        server, j = divmod(key, kinds)
        row = int(np.searchsorted(first, server, side="right")) - 1
        found[j, int(rows.row[row]), server - int(first[row])] += int(number)
    return found


def _alone_on_own(
    stated: Stated, pools: list[Pool], answers: tuple[Allocation | None, ...]
) -> Placed:
    """Return what runs on tenants' own servers, without tasks beyond a limit.

    Servers are filled in order, by the workloads of higher priority first, then by the older ones.
    """
    problem, placing = stated.problem, _Placing(stated)
    number_of = {name: row for row, name in enumerate(problem.server_names)}
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
        for j, row in sorted(on_row, key=lambda key: (-problem.priority[key[0]], key)):
            placing.place(j, row, on_row[j, row])
    return placing.found


def _beside(stated: Stated, kept: Placed, lacking: Counter[int]) -> Placed:
    """Return the tasks that workloads lack, as far as own servers have room beside kept ones."""
    problem, placing, rows = stated.problem, _Placing(stated), stated.rows
    for (j, row, server), number in kept.items():
        placing.take(j, row, server, number)
    order = sorted(lacking, key=lambda j: (problem.workload_tenant[j], -problem.priority[j], j))
    for j in order:
        for at, row in enumerate(rows.row.tolist()):
            if problem.contributed_by[row] == problem.workload_tenant[j] and rows.allowed[j, at]:
                lacking[j] -= placing.place(j, row, lacking[j])
    return placing.found


class _Placing:
    """Room on servers and in limits while tasks are placed."""

    def __init__(self, stated: Stated) -> None:
        self.found = Placed()
        self._servers = stated.problem.server_count.tolist()
        self._capacity = stated.on_servers.capacity
        self._demands = [[int(amount) for amount in row] for row in stated.on_servers.demand]
        self._left: dict[tuple[int, int], list[int]] = {}
        self._limits = LimitsLeft(stated.limits, stated.on_servers, np.arange(stated.problem.k))

    def take(self, j: int, row: int, server: int, number: int) -> None:
        """Take what so many tasks use."""
        left = self._left_on(row, server)
        left[:] = [a - number * d for a, d in zip(left, self._demands[j], strict=True)]
        self._limits.take(j, row, number)

    def place(self, j: int, row: int, tasks: int) -> int:
        """Place at most so many tasks on the servers of a row, in order. Returns how many."""
        demand, most = self._demands[j], tasks
        for q in self._limits.mine(j):
            if self._limits.rows[q][row]:
                bounds = zip(self._limits.left[q].tolist(), demand, strict=True)
                most = min([most, *(int(a // d) for a, d in bounds if d and a < np.inf)])
        missing = most
        for server in range(self._servers[row] if missing else 0):
            room = zip(self._left_on(row, server), demand, strict=True)
            if count := min([missing, *(a // d for a, d in room if d)]):
                self.found[j, row, server] += count
                self.take(j, row, server, count)
                missing -= count
        return most - missing

    def _left_on(self, row: int, server: int) -> list[int]:
        if (row, server) not in self._left:
            self._left[row, server] = [int(amount) for amount in self._capacity[row]]
        return self._left[row, server]
