"""Parts of workloads that guarantees make, for the verifier.

Source: docs/policies/guarantees.md, docs/policies/kept-tasks.md. The module shares no code with
``policies.floors``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.model.allocation import Allocation
from policies.model.current_placements import CurrentPlacements
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.problem_fields import Selector
from policies.verification.kept_gangs import Placed, pieces_of_tasks_on
from policies.verification.kept_tasks import tasks_that_stay
from policies.verification.own_placing import Placing
from policies.verification.pieces import Pieces
from policies.verification.stated import Stated
from policies.verification.whole_tasks import server_reasons

# Tasks below this part of what a workload has are rounding.
DUST = 1e-12


@dataclass(frozen=True, eq=False)
class Pool:
    """Pool that one guarantee, or a tenant's own servers, divide among workloads.

    Attributes:
        problem: the pool, None if one workload has all of it; choice: by which it is divided.
        workloads: of the problem with the guarantee, in order.
        rows: (k,) servers on which the floors hold; where: their selector.
        floor: tasks of the one workload.
        left_out: whether workloads take no part, because they would make too many whole tasks.
    """

    problem: Problem | None
    choice: Choice
    workloads: list[int]
    rows: BoolArray
    where: Selector
    floor: float = 0.0
    left_out: bool = False

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
        uncounted: those of none.
    """

    parts: list[Part]
    on_own: Placed
    kept: Placed | None = None
    uncounted: Placed | None = None

    def placed_on_own(self) -> CurrentPlacements:
        """Return where the parts on own servers run."""
        return placements_of(self.on_own)


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


def parts_of(
    stated: Stated,
    pools: list[Pool],
    answers: tuple[Allocation | None, ...],
    kept: Placed | None,
) -> Parts:
    """Return the guaranteed parts of all workloads, by pool and workload.

    A floor counts what floors on some of its servers give already; the pools with the fewest servers
    come first. No workload has more tasks guaranteed than it has.

    Args:
        kept: tasks that stay on their servers, None if none are kept.
    """
    placed = stated.choice.whole_tasks and not stated.choice.sees_one_pool
    own = _alone_on_own(stated, pools, answers) if placed else None
    parts = _all_parts(stated, pools, answers, own)
    if own is None:
        return Parts(parts, Placed())
    if kept is not None:
        return _beside_kept(stated, pools, parts, kept)
    number = {part.workload: at for at, part in enumerate(parts) if part.own}
    return Parts(parts, _as_parts(stated, parts, number, own.found))


def _kinds_with_parts(stated: Stated, parts: list[Part]) -> list[list[int]]:
    """Return the kinds of pieces of each workload and then each part, in the problems with parts."""
    of_workload = [stated.pieces.of(j) for j in [*range(stated.problem.n), *_workloads(parts)]]
    kinds, following = [], len(of_workload)
    for at, mine in enumerate(of_workload):
        kinds.append([at, *range(following, following + len(mine) - 1)])
        following += len(mine) - 1
    return kinds


def _workloads(parts: list[Part]) -> list[int]:
    return [part.workload for part in parts]


def _as_parts(stated: Stated, parts: list[Part], number: dict[int, int], found: Placed) -> Placed:
    """Return what runs on own servers by the kinds of the problems with parts.

    Args:
        number: part on own servers of each workload that has one.
    """
    kinds = _kinds_with_parts(stated, parts)
    kind_of = {
        kind: of_part
        for j, at in number.items()
        for kind, of_part in zip(stated.pieces.of(j), kinds[stated.problem.n + at], strict=True)
    }
    return Counter({(kind_of[q], row, at): count for (q, row, at), count in found.items()})


def _all_parts(
    stated: Stated,
    pools: list[Pool],
    answers: tuple[Allocation | None, ...],
    own: Placing | None,
) -> list[Part]:
    """Return the parts, of which a workload has no more tasks than it wants.

    Args:
        own: tasks on their tenants' own servers; None if their floors hold on all servers.
    """
    problem = stated.problem
    first_own = len(problem.guarantees)
    nowhere, everywhere = np.zeros(problem.k, dtype=np.bool_), np.ones(problem.k, dtype=np.bool_)
    run = np.zeros(problem.n) if own is None else own.tasks_on(everywhere)
    left = (problem.tasks - run).tolist()
    parts = [
        Part(at, j, float(run[j]), {}, nowhere, own=True)
        for at in range(first_own, len(pools))
        for j in pools[at].workloads
        if run[j] > 0
    ]
    shared = range(len(pools) if own is None else first_own)
    given: dict[bytes, tuple[BoolArray, FloatArray]] = {}
    servers = problem.server_count
    for at in sorted(shared, key=lambda at: (int(servers[pools[at].rows].sum()), at)):
        pool = pools[at]
        have = np.zeros(problem.n) if own is None else own.tasks_on(pool.rows)
        for rows, tasks in given.values():
            if (rows <= pool.rows).all():
                have += tasks
        _, mine = given.setdefault(pool.rows.tobytes(), (pool.rows, np.zeros(problem.n)))
        for j, floor in zip(pool.workloads, pool.floors(answers[at]), strict=True):
            missing = min(floor - float(have[j]), left[j])
            most = problem.tasks[j] if np.isfinite(problem.tasks[j]) else 0.0
            if missing > DUST * max(floor, most):
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
    uncounted, counted = _by_workload(stated, kept, range(problem.n)), [Placed() for _ in every]
    tasks, lacking = [part.tasks for part in every], [round(part.tasks) for part in every]
    everywhere = np.ones(problem.k, dtype=np.bool_)
    for j, numbers in of_workload.items():
        left = uncounted.setdefault(j, Placed())
        for p in numbers:
            rows = everywhere if every[p].own else every[p].rows
            found, counted[p] = _tasks_on(stated, j, left, rows, lacking[p])
            lacking[p] -= found
            left.subtract(counted[p])
        # Floors and the kept tasks that count for none are among the tasks that the workload has.
        beside_them = sum(pieces for place, pieces in left.items() if place[0] == j)
        over = sum(tasks[p] for p in numbers) - problem.tasks[j]
        over += beside_them // int(stated.pieces.count[j])
        for p in reversed(numbers):
            less = max(0, min(over, lacking[p]))
            tasks[p] -= less
            lacking[p] -= round(less)
            over -= less
    of_own = {part.workload: p for p, part in enumerate(every) if part.own}
    own = _beside(stated, kept, {j: lacking[p] for j, p in of_own.items()})
    more = own.tasks_on(np.ones(problem.k, dtype=np.bool_))
    for j, p in of_own.items():
        # What has no room on own servers is not guaranteed.
        tasks[p] += float(more[j]) - lacking[p]
    stays = [p for p in range(len(every)) if tasks[p] > 0]
    parts = [replace(every[p], tasks=tasks[p]) for p in stays]
    number = {every[p].workload: at for at, p in enumerate(stays) if every[p].own}
    on_own, kinds = _as_parts(stated, parts, number, own.found), _kinds_with_parts(stated, parts)
    beside = Placed()
    for j, left in uncounted.items():
        beside += _renamed(left, stated.pieces.of(j), kinds[j])
    before = Placed(beside)
    for at, p in enumerate(stays):
        mine = _renamed(counted[p], stated.pieces.of(every[p].workload), kinds[problem.n + at])
        (on_own if every[p].own else before).update(mine)
    return Parts(parts, on_own, before, beside)


def _renamed(placed: Placed, kinds: list[int], others: list[int]) -> Placed:
    """Return pieces of some kinds as those of others."""
    of = dict(zip(kinds, others, strict=True))
    return Counter({(of[q], row, at): count for (q, row, at), count in placed.items() if count})


def _tasks_on(
    stated: Stated, j: int, kept: Placed, rows: BoolArray, most: int | None = None
) -> tuple[int, Placed]:
    """Return how many of the kept tasks of a workload run on some rows (k,), and their pieces."""
    if j in stated.problem.gangs:
        return pieces_of_tasks_on(stated, j, kept, rows, most)
    tasks, found = 0, Placed()
    for place in sorted(kept):
        if rows[place[1]] and (most is None or tasks < most):
            found[place] = kept[place] if most is None else min(kept[place], most - tasks)
            tasks += found[place]
    return tasks, +found


def kept_on(
    stated: Stated, kept: Placed, rows: BoolArray, workloads: Sequence[int]
) -> dict[int, int]:
    """Return how many kept tasks of each of some workloads run on some rows (k,)."""
    return {
        j: _tasks_on(stated, j, mine, rows)[0]
        for j, mine in _by_workload(stated, kept, set(workloads)).items()
    }


def _by_workload(stated: Stated, kept: Placed, workloads: Collection[int]) -> dict[int, Placed]:
    """Return the kept tasks of each of some workloads, by row and server."""
    found: dict[int, Placed] = {}
    for place in sorted(kept):
        if (j := int(stated.pieces.owner[place[0]])) in workloads:
            found.setdefault(j, Placed())[place] = kept[place]
    return found


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
) -> Placing:
    """Place what runs on tenants' own servers, without tasks beyond a limit.

    Servers are filled in order, by the workloads of higher priority first, then by the older ones.
    """
    placing = Placing(stated)
    problem = stated.problem
    number_of = {name: row for row, name in enumerate(problem.server_names)}
    first = len(problem.guarantees)
    for pool, answer in zip(pools[first:], answers[first:], strict=True):
        on_row: Counter[tuple[int, int]] = Counter()
        assert answer is not None  # noqa: S101 - for mypy: pools of own servers are solved
        assert pool.problem is not None  # noqa: S101
        owner = Pieces.stated(pool.problem).owner
        for kind, row, tasks in zip(
            *(column.tolist() for column in answer.placements_by_row()), strict=True
        ):
            key = pool.workloads[owner[kind]], number_of[pool.problem.server_names[row]]
            on_row[key] += round(tasks)
        tasks_of = dict(zip(pool.workloads, answer.tasks.tolist(), strict=True))
        own = [number_of[name] for name in pool.problem.server_names]
        # In the order in which floors are filled, which decides who has the last room.
        for j, row in sorted(on_row, key=lambda key: (-problem.priority[key[0]], key)):
            if not pool.problem.gangs:
                placing.place(j, [row], on_row[j, row])
            elif j in tasks_of:
                # Where one task has several pieces, all are placed anew within limits.
                placing.place(j, own, round(tasks_of.pop(j)))
    return placing


def _beside(stated: Stated, kept: Placed, lacking: dict[int, int]) -> Placing:
    """Place the tasks that workloads lack, as far as own servers have room beside kept ones."""
    problem, placing, rows = stated.problem, Placing(stated), stated.rows
    for (j, row, server), number in kept.items():
        placing.take(j, row, server, number)
    order = sorted(lacking, key=lambda j: (problem.workload_tenant[j], -problem.priority[j], j))
    for j in order:
        own = rows.row[problem.contributed_by[rows.row] == problem.workload_tenant[j]].tolist()
        placing.place(j, own, lacking[j])
    return placing
