"""Guarantees and own servers of tasks of several pieces, one piece at a time in rational arithmetic."""

import numpy as np

from tests.references.floors import own_pool, parts_of, pool_of, whole_in
from tests.references.gangs import Pool, fill_gangs, launch
from tests.references.groups import PlainTree


def fill_gangs_with_floors(problem, rule, seed=0):
    """Return (workload, kind, server) of pieces, tasks of workloads, and those guaranteed that run."""
    tree, floors = PlainTree(problem), []
    for number, given in enumerate(problem.guarantees):
        pool, jobs, rows = pool_of(problem, given, tree, pooled=False)
        floors.append((number, jobs, rows, whole_in(pool)))
    before, on_own = on_own_servers(problem)
    parts = parts_of(problem, floors, on_own)
    found = fill_gangs(problem, rule, seed, parts=parts, before=before)
    return found if parts or before else (*found, [0] * problem.n)


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
