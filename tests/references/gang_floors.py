"""Guarantees and own servers of tasks of several pieces, one piece at a time in rational arithmetic."""

from collections import Counter
from dataclasses import replace

import numpy as np

from policies import CurrentPlacements
from tests.references.floors import (
    own_order,
    own_pool,
    owned_order,
    parts_of,
    pool_of,
    whole_in,
)
from tests.references.gangs import Pool, can_start, fill_gangs, launch
from tests.references.groups import PlainTree
from tests.references.kept_tasks import kept_pieces, tasks_on
from tests.references.numbers import exact


def fill_gangs_with_floors(problem, rule, seed=0):
    """Return (workload, kind, server) of pieces, tasks of workloads, and those guaranteed that run."""
    tree, floors, kept = PlainTree(problem), [], by_workload(problem)
    for number, given in enumerate(problem.guarantees):
        pool, jobs, rows = pool_of(problem, given, tree, pooled=False, whole=True)
        if problem.kept_placements is not None:
            pool = replace(pool, kept_placements=kept_inside(problem, kept, jobs, rows))
        floors.append((number, jobs, rows, whole_in(pool)))
    before, on_own = on_own_servers(problem)
    parts = parts_of(problem, floors, on_own)
    if problem.kept_placements is not None:
        owned = [(j, None, sum(on_own[j].values())) for j in owned_order(problem, on_own)]
        parts, started, before, beside = beside_kept(problem, kept, parts + owned)
        found = fill_gangs(problem, rule, seed, beside, parts=parts, started=started, before=before)
    else:
        found = fill_gangs(problem, rule, seed, parts=parts, before=before)
    return found if parts or before else (*found, [0] * problem.n)


def by_workload(problem):
    """Return {(kind, server): pieces} that each workload keeps."""
    found = [Counter() for _ in range(problem.n)]
    for (j, kind, server), number in kept_pieces(problem).items():
        found[j][kind, server] = number
    return found


def kept_inside(problem, kept, jobs, rows):
    """Return the kept tasks of a pool's workloads on its rows, which are one server."""
    pool = Pool(problem, "first-fit", 0)
    inside = [tasks_on(pool, j, kept[j], rows, np.inf)[0] for j in jobs]
    some = np.flatnonzero(inside)
    return CurrentPlacements(
        workload=some, row=0 * some, offset=0 * some, servers=0 * some + 1,
        tasks=np.array(inside, dtype=float)[some],
    )  # fmt: skip


def beside_kept(problem, kept, parts):
    """(parts, tasks of each that run, pieces of these, pieces of kept tasks of no part).

    Args:
        kept: {(kind, server): pieces} of each workload.
        parts: (workload, rows or None for own servers, tasks).
    """
    pool, everywhere = Pool(problem, "first-fit", 0), frozenset(range(problem.k))
    kept = [Counter(mine) for mine in kept]
    for j, mine in enumerate(kept):
        for (kind, server), number in mine.items():
            demand = problem.demand[j] if j not in problem.gangs else problem.gangs[j].demand[kind]
            pool.take(j, [number * exact(d) for d in demand], server)
    size = [
        np.inf if where is None else sum(int(problem.server_count[row]) for row in where)
        for _, where, _ in parts
    ]
    order = sorted(range(len(parts)), key=lambda at: size[at])
    tasks, run = [count for _, _, count in parts], [0] * len(parts)
    pieces = [[] for _ in parts]
    for at in order:
        j, where, most = parts[at]
        rows = everywhere if where is None else where
        run[at], chosen = tasks_on(pool, j, kept[j], rows, most)
        kept[j] -= chosen
        pieces[at] = [(j, *place) for place in chosen.elements()]
    for at in reversed(order):
        j = parts[at][0]
        count = 1 if j not in problem.gangs else int(problem.gangs[j].count[0])
        beside = sum(n for (kind, _), n in kept[j].items() if kind == 0) // count
        while (
            sum(tasks[k] for k in order if parts[k][0] == j) + beside > problem.tasks[j]
            and tasks[at] > run[at]
        ):
            tasks[at] -= 1
    own = [at for at, (_, where, _) in enumerate(parts) if where is None]
    for at in sorted(own, key=lambda at: own_order(problem, parts[at][0])):
        j = parts[at][0]
        tenant = int(problem.workload_tenant[j])
        totals = Pool(own_pool(problem, tenant)[0], "first-fit", 0).totals
        servers = [s for s, row in enumerate(pool.row_of) if problem.contributed_by[row] == tenant]
        can = not problem.out_of_range[j] and can_start(Pool(problem, "first-fit", 0), j)
        while can and run[at] < tasks[at]:
            placed = launch(pool, j, 1, servers, totals)
            if placed is None:
                break
            pieces[at] += [(j, kind, server) for kind, server, _ in placed]
            run[at] += 1
        tasks[at] = run[at]
    found = [
        (j, everywhere if where is None else where, count)
        for (j, where, _), count in zip(parts, tasks, strict=True)
    ]
    stays = [at for at, (_, _, count) in enumerate(found) if count]
    beside = [(j, *place) for j, mine in enumerate(kept) for place in mine.elements()]
    before = [piece for some in pieces for piece in some]
    return [found[at] for at in stays], [run[at] for at in stays], before, beside


def on_own_servers(problem):
    """Return the pieces (workload, kind, server) on own servers, and tasks by workload and rows."""
    pool = Pool(problem, "first-fit", 0)
    pieces, on_own = [], [{} for _ in range(problem.n)]
    for tenant in np.flatnonzero(problem.own_servers).tolist():
        mine, jobs = own_pool(problem, tenant)
        rows = [
            row
            for row in range(problem.k)
            if problem.contributed_by[row] == tenant and not problem.contributed_only[row]
        ]
        totals = Pool(mine, "first-fit", 0).totals
        for at, on_row in alone(mine):
            j = jobs[at]
            # Without gangs tasks stay on the row on which they are alone.
            wanted = [(rows, sum(on_row.values()))]
            if not mine.gangs:
                wanted = [([rows[row]], tasks) for row, tasks in sorted(on_row.items())]
            for where, tasks in wanted:
                servers = [server for server, row in enumerate(pool.row_of) if row in where]
                for _ in range(tasks):
                    placed = launch(pool, j, 1, servers, totals)
                    if placed is None:
                        break
                    pieces += [(j, kind, server) for kind, server, _ in placed]
                    used = frozenset(pool.row_of[server] for _, server, _ in placed)
                    on_own[j][used] = on_own[j].get(used, 0) + 1
    return pieces, on_own


def alone(problem):
    """Yield each workload of a tenant alone, in order, with its tasks by the row of the first piece."""
    pool = Pool(problem, "first-fit", 0)
    for j in sorted(range(problem.n), key=lambda j: (-problem.priority[j], j)):
        on_row = {}
        while not problem.out_of_range[j] and sum(on_row.values()) < problem.tasks[j]:
            placed = launch(pool, j, 1)
            if placed is None:
                break
            row = pool.row_of[placed[0][1]]
            on_row[row] = on_row.get(row, 0) + 1
        yield j, on_row
