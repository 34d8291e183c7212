"""Whole tasks on single servers: who is next, and where the placement rule puts the task.

Source: Wang et al., TPDS 2015, §5.2 (progressive filling; first-fit and best-fit), Tang et
al., TPDS 2018, §6 (affinity). Servers are numbered row by row; untouched servers of a row
are alike, so that the rules look at the first of them only.
"""

from __future__ import annotations

import numpy as np

from policies.best_fit_index import NOWHERE, insert, misfit, nearest, position_of, remove
from policies.compiled import compiled
from policies.rounding import DISCRETE_TOLERANCE
from policies.tournament import next_tenant, set_share

FIRST_FIT, BEST_FIT, AFFINITY, TWO_CHOICES = 0, 1, 2, 3


@compiled
def fill(  # type: ignore[no-untyped-def]
    rule, tree, stop, current, share, limit, weight, count, passed, level,
    demand, ratio, reference, size, allowed, row_of, row_start, opened, left, share_of_unit,
    least, pointer, edges, head, after, before, room, block, home, draws, log_job, log_server,
):  # fmt: skip
    """Launch tasks until nobody's fits any more or the log is full; returns its length.

    Args:
        rule: one of the four constants.
        tree: tenants' shares (``tournament``); stop ... passed: their ``Queues``; level: (t,)
            is given the weighted share at which a tenant leaves.
        demand: (q, m) whole; ratio: (q, m) shares relative to the reference resource;
            reference: (q,) the first resource demanded; size: (q,) sums of ``ratio``.
        allowed: (q, rows); row_of: (S,); row_start: (rows + 1,); opened: (rows,) the first
            untouched server of each row.
        left: (S, m) whole; share_of_unit: (m,).
        least: (m,) no workload that still waits demands less.
        pointer: (q,) no server before it has room (first-fit).
        edges ... home: the index of best-fit.
        draws: (1,) state of the random numbers.
        log_job, log_server: (L,) one entry per task launched.
    """
    m = demand.shape[1]
    leaves = len(tree) // 2
    launched = 0
    closed, since = 0, 0
    while tree[1] < np.inf and launched < len(log_job):
        tenant = next_tenant(tree)
        job = current[tenant]
        server = NOWHERE
        if count[job] < limit[job]:
            if rule == BEST_FIT:
                server = nearest(
                    demand[job], ratio[job], reference[job], size[job], allowed[job], row_of,
                    least, left, share_of_unit, edges, head, after, before, room, block, home,
                )  # fmt: skip
            elif rule == AFFINITY:
                server = most_affine(
                    demand[job], allowed[job], row_start, opened, left, share_of_unit
                )
            else:
                if rule == TWO_CHOICES:
                    server = better_of_two(
                        demand[job], ratio[job], reference[job], size[job], allowed[job], row_of,
                        left, share_of_unit, draws,
                    )  # fmt: skip
                if server == NOWHERE:
                    server = first_fit(demand[job], allowed[job], row_of, left, pointer[job])
                    pointer[job] = server if server != NOWHERE else len(left)
        if server == NOWHERE:
            passed[tenant] += count[job] * share[job]
            current[tenant] += 1
            if current[tenant] == stop[tenant]:
                level[tenant] = tree[leaves + tenant]
                set_share(tree, tenant, np.inf)
            closed += 1
            if rule == BEST_FIT and closed * 100 >= len(stop):
                closed = 0
                _least_waiting(tree, stop, current, demand, least)
            continue
        row = row_of[server]
        fresh = server == opened[row]
        if rule == BEST_FIT:
            remove(server, head, after, before, home)
        alive = True
        for r in range(m):
            left[server, r] -= demand[job, r]
            alive = alive and left[server, r] >= least[r]
        if fresh:
            opened[row] += 1
        if rule == BEST_FIT:
            if alive:
                insert(server, left, share_of_unit, edges, head, after, before, room, block, home)
            if fresh and opened[row] < row_start[row + 1]:
                insert(
                    opened[row], left, share_of_unit, edges, head, after, before, room, block, home
                )
        count[job] += 1.0
        set_share(tree, tenant, (passed[tenant] + count[job] * share[job]) / weight[tenant])
        since += 1
        if rule == BEST_FIT and since > 64 + len(left) // 2:
            since = 0
            index_servers(
                tree, stop, current, demand, least, row_start, opened, left, share_of_unit,
                edges, head, after, before, room, block, home,
            )  # fmt: skip
        log_job[launched] = job
        log_server[launched] = server
        launched += 1
    return launched


@compiled
def index_servers(  # type: ignore[no-untyped-def]
    tree, stop, current, demand, least, row_start, opened, left, share_of_unit,
    edges, head, after, before, room, block, home,
):  # fmt: skip
    """Build the index of best-fit: touched servers, and the first untouched one of each row."""
    head[:] = NOWHERE
    room[:] = 0.0
    block[:] = 0.0
    _least_waiting(tree, stop, current, demand, least)
    servers = np.empty(len(left), dtype=np.int64)
    positions = np.empty(len(left))
    size = 0
    for row in range(len(opened)):
        for server in range(row_start[row], min(opened[row] + 1, row_start[row + 1])):
            alive = True
            for r in range(left.shape[1]):
                alive = alive and left[server, r] >= least[r]
            if alive:
                servers[size] = server
                positions[size] = position_of(left[server], share_of_unit)
                size += 1
    ascending = np.sort(positions[:size])
    buckets = len(head)
    edges[0], edges[buckets] = 0.0, 1.0
    for bucket in range(1, buckets):
        edges[bucket] = ascending[bucket * size // buckets] if size > 0 else 1.0
    for server in servers[:size]:
        insert(server, left, share_of_unit, edges, head, after, before, room, block, home)


@compiled
def _least_waiting(tree, stop, current, demand, least):  # type: ignore[no-untyped-def]
    """Write into ``least`` (m,) the smallest demands of the workloads that still wait."""
    leaves = len(tree) // 2
    least[:] = np.inf
    for tenant in range(len(stop)):
        if tree[leaves + tenant] == np.inf:
            continue
        for job in range(current[tenant], stop[tenant]):
            for r in range(len(least)):
                least[r] = min(least[r], demand[job, r])


@compiled
def first_fit(demand, allowed, row_of, left, start):  # type: ignore[no-untyped-def]
    """The first server from ``start`` on that has room; -1 if none has."""
    m = len(demand)
    for server in range(start, len(left)):
        fits = True
        for r in range(m):
            fits = fits and demand[r] <= left[server, r]
        if fits and allowed[row_of[server]]:
            return server
    return NOWHERE


@compiled
def better_of_two(demand, ratio, reference, size, allowed, row_of, left, share_of_unit, draws):  # type: ignore[no-untyped-def]
    """The better fit of two servers drawn at random; -1 if neither has room."""
    best, chosen = np.inf, NOWHERE
    for _ in range(2):
        server = int(draw(draws) * len(left))
        fits = allowed[row_of[server]]
        for r in range(len(demand)):
            fits = fits and demand[r] <= left[server, r]
        if not fits:
            continue
        distance = misfit(ratio, reference, left[server], share_of_unit)
        slack = DISCRETE_TOLERANCE * (size + min(best, distance))
        if distance < best - slack or (distance <= best + slack and server < chosen):
            best, chosen = distance, server
    return chosen


@compiled
def draw(draws):  # type: ignore[no-untyped-def]
    """The next number in [0, 1) of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    draws[0] += np.uint64(0x9E3779B97F4A7C15)
    bits = draws[0]
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits = bits ^ (bits >> np.uint64(31))
    return float(bits >> np.uint64(11)) * 2.0**-53


@compiled
def most_affine(demand, allowed, row_start, opened, left, share_of_unit):  # type: ignore[no-untyped-def]
    """The server with the largest dot product of demand and what is left; -1 if none fits."""
    m = len(demand)
    best = -1.0
    for again in range(2):
        threshold = best * (1.0 - DISCRETE_TOLERANCE)
        if again == 1 and best < 0.0:
            break
        for row in range(len(opened)):
            if not allowed[row]:
                continue
            last = min(opened[row] + 1, row_start[row + 1])
            for server in range(row_start[row], last):
                fits = True
                score = 0.0
                for r in range(m):
                    amount = left[server, r]
                    fits = fits and demand[r] <= amount
                    score += demand[r] * share_of_unit[r] * amount * share_of_unit[r]
                if fits and again == 1 and score >= threshold:
                    return server
                if fits and score > best:
                    best = score
    return NOWHERE


@compiled
def by_server(log_job, log_server, start, jobs, tasks):  # type: ignore[no-untyped-def]
    """Sort a log of launches: tasks per server and workload.

    Args:
        log_job, log_server: (N,) one entry per task.
        start: (S + 1,) is given where each server's entries begin.
        jobs, tasks: (N,) are given the workloads of each server, ascending, and their tasks.
    """
    servers = len(start) - 1
    start[:] = 0
    for server in log_server:
        start[server + 1] += 1
    for server in range(servers):
        start[server + 1] += start[server]
    place = start[:-1].copy()
    sorted_jobs = np.empty_like(log_job)
    for entry in range(len(log_job)):
        sorted_jobs[place[log_server[entry]]] = log_job[entry]
        place[log_server[entry]] += 1
    filled = 0
    for server in range(servers):
        mine = np.sort(sorted_jobs[start[server] : start[server + 1]])
        start[server] = filled
        for entry in range(len(mine)):
            if entry > 0 and mine[entry] == mine[entry - 1]:
                tasks[filled - 1] += 1.0
            else:
                jobs[filled] = mine[entry]
                tasks[filled] = 1.0
                filled += 1
    start[servers] = filled


@compiled
def range_starts(row_of, start, jobs, tasks):  # type: ignore[no-untyped-def]
    """(S,) does a server differ from the one before it in row or in tasks?"""
    differs = np.ones(len(row_of), dtype=np.bool_)
    for server in range(1, len(row_of)):
        length = start[server + 1] - start[server]
        same = row_of[server] == row_of[server - 1]
        same = same and length == start[server] - start[server - 1]
        entry = 0
        while same and entry < length:
            here, there = start[server] + entry, start[server - 1] + entry
            same = jobs[here] == jobs[there] and tasks[here] == tasks[there]
            entry += 1
        differs[server] = not same
    return differs
