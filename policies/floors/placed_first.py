"""Whole tasks on own servers, and kept tasks, which have their servers before floors rise.

Source: docs/policies/guarantees.md, docs/policies/kept-tasks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.filling.kept_tasks import kept_tasks
from policies.floors.parts import Parts, PlacedTasks
from policies.floors.pools import FloorPool
from policies.model.allocation import Allocation
from policies.model.current_placements import CurrentPlacements
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.server_classes import each_row_alone


@dataclass(frozen=True, eq=False)
class Started:
    """Parts of a problem with kept tasks, and where their first tasks run.

    Attributes:
        parts: of which no workload has more tasks than it has beside ``others``.
        first: tasks of parts and of ``others`` before floors rise, in the problem with the parts.
        others: kept tasks that are not among those of a part.
    """

    parts: Parts
    first: CurrentPlacements
    others: CurrentPlacements


def on_own_servers(
    problem: Problem,
    pools: Sequence[FloorPool],
    answers: Sequence[Allocation | None],
    kept: PlacedTasks | None = None,
    most: FloatArray | None = None,
) -> PlacedTasks:
    """Return the tasks that run on their tenants' own servers.

    The answers of these pools have the tasks on each row. Servers are filled one after the other,
    by the workloads in their order. Tasks that a limit excludes are left out.

    Args:
        kept: tasks that have taken their part of servers and limits.
        most: (n,) tasks of each workload; None for any number.
    """
    whole = WholeServers.of(problem)
    limits = whole.limits.copy()
    missing = np.full(problem.n, np.inf) if most is None else most.copy()
    counted = np.zeros((len(limits), problem.n), dtype=np.bool_)
    for item, of_limit in zip(problem.limited, counted, strict=True):
        of_limit[item.workloads] = True
    if kept is not None:
        need = kept.tasks[:, None] * whole.demand[kept.workload]
        for item, of_limit, left in zip(problem.limited, counted, limits, strict=True):
            left -= need[of_limit[kept.workload] & item.rows[kept.row]].sum(axis=0)
    found = [np.zeros((0, 3), dtype=np.int64)]
    counts = [np.zeros(0)]
    first = len(problem.guarantees)
    tenants = np.flatnonzero(problem.own_servers).tolist()
    for tenant, pool, answer in zip(tenants, pools[first:], answers[first:], strict=True):
        assert answer is not None  # noqa: S101 - for mypy: the pools of own servers are solved
        rows = np.flatnonzero((problem.contributed_by == tenant) & ~problem.contributed_only)
        job, at, tasks = answer.placements_by_row()
        job = pool.workloads[job]
        left_on = {
            row: np.tile(whole.capacity[row], (int(problem.server_count[row]), 1))
            for row in rows[np.unique(at)].tolist()
        }
        if kept is not None:
            for row, left in left_on.items():
                here = kept.row == row
                np.subtract.at(left, kept.server[here], need[here])
        for q in np.lexsort((job, -problem.priority[job])).tolist():
            row, j, demand = int(rows[at[q]]), int(job[q]), whole.demand[job[q]]
            left, needed = left_on[row], demand > 0
            each = np.floor(left[:, needed] / demand[needed]).min(axis=1)
            before = np.cumsum(each) - each
            mine = [
                number
                for number in np.flatnonzero(counted[:, j]).tolist()
                if problem.limited[number].rows[row]
            ]
            room = np.floor(limits[mine][:, needed] / demand[needed])
            taken = np.clip(room.min(initial=min(tasks[q], missing[j])) - before, 0.0, each)
            limits[mine] -= taken.sum() * demand
            missing[j] -= taken.sum()
            left -= taken[:, None] * demand
            servers = np.flatnonzero(taken)
            found.append(
                np.stack([np.full(len(servers), j), np.full(len(servers), row), servers], 1)
            )
            counts.append(taken[servers])
    workload, row, server = np.concatenate(found).T
    return PlacedTasks(workload, row, server, np.concatenate(counts))


def started(
    problem: Problem,
    pools: Sequence[FloorPool],
    answers: Sequence[Allocation | None],
    parts: Parts,
) -> Started:
    """Count kept tasks as tasks of parts, and place what own servers have room for beside them.

    A kept task is one of the part with the fewest servers that has its server and lacks tasks. Parts
    on own servers come last, and have every server.
    """
    kept = _kept(problem)
    servers = [int(problem.server_count[pool.rows].sum()) for pool in pools]
    order = sorted(
        range(len(parts.workload)),
        key=lambda p: (bool(parts.on_own[p]), servers[parts.pool[p]], int(parts.pool[p])),
    )
    entries = _by_workload(kept.workload, problem.n)
    others = kept.tasks.copy()
    counted: list[tuple[int, IntArray, FloatArray]] = []
    lacking = parts.tasks.copy()
    for p in order:
        mine = entries[parts.workload[p]]
        room = others[mine] * (parts.on_own[p] | pools[parts.pool[p]].rows[kept.row[mine]])
        taken = np.clip(lacking[p] - (np.cumsum(room) - room), 0.0, room)
        others[mine] -= taken
        lacking[p] -= taken.sum()
        counted.append((p, mine, taken))
    # Kept tasks that are of no part are among those that their workload has.
    over = grouped_sum(parts.tasks, parts.workload, problem.n) - problem.tasks
    over = np.maximum(over + grouped_sum(others, kept.workload, problem.n), 0.0)
    tasks = parts.tasks.copy()
    for p in reversed(order):
        less = min(over[parts.workload[p]], lacking[p])
        over[parts.workload[p]] -= less
        tasks[p] -= less
        lacking[p] -= less
    stays = np.flatnonzero(tasks)
    number = np.full(len(tasks), -1, dtype=np.int64)
    number[stays] = problem.n + np.arange(len(stays))
    fewer = replace(
        parts,
        workload=parts.workload[stays],
        tasks=tasks[stays],
        pool=parts.pool[stays],
        where=[parts.where[p] for p in stays.tolist()],
        on_own=parts.on_own[stays],
    )
    of_own = np.flatnonzero(parts.on_own)
    part_of = np.full(problem.n, -1, dtype=np.int64)
    part_of[parts.workload[of_own]] = number[of_own]
    most = np.zeros(problem.n)
    most[parts.workload[of_own]] = lacking[of_own]
    own = on_own_servers(problem, pools, answers, kept, most)
    beyond = kept.placements(kept.workload, others)
    placed = [beyond, own.placements(part_of[own.workload], own.tasks)]
    placed += [
        kept.some(mine).placements(np.full(len(mine), number[p]), taken)
        for p, mine, taken in counted
    ]
    return Started(fewer, _joined(placed), beyond)


def _kept(problem: Problem) -> PlacedTasks:
    kept, rows = kept_tasks(problem), each_row_alone(problem)
    first = np.cumsum(rows.servers) - rows.servers
    row = np.searchsorted(first, kept.server, side="right") - 1
    return PlacedTasks(kept.kind, rows.first_row[row], kept.server - first[row], kept.tasks)


def _by_workload(workload: IntArray, n: int) -> list[IntArray]:
    """Return the positions of the entries of each workload, in their order."""
    order = np.argsort(workload, kind="stable").astype(np.int64)
    edges = np.searchsorted(workload[order], np.arange(n + 1))
    return [order[edges[j] : edges[j + 1]] for j in range(n)]


def _joined(placed: Sequence[CurrentPlacements]) -> CurrentPlacements:
    return CurrentPlacements(
        workload=np.concatenate([each.workload for each in placed]),
        row=np.concatenate([each.row for each in placed]),
        offset=np.concatenate([each.offset for each in placed]),
        servers=np.concatenate([each.servers for each in placed]),
        tasks=np.concatenate([each.tasks for each in placed]),
    )
