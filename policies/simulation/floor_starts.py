"""Tasks that start before all others because they keep their workloads within their floors.

Floors are of the tasks that wait or run. They are the same before and after a task starts, so that they
are computed once for each hand-out, and only for workloads whose tasks or floors an event has changed.

Source: docs/policies/guarantees.md, §Simulations.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE
from policies.filling.winner_tree import next_tenant, plant, set_share
from policies.simulation.ending import begin_running
from policies.simulation.floor_division import ENTRY, divide, set_pending
from policies.simulation.floor_own import update_own
from policies.simulation.floor_state import CHANGED_JOBS, LACKING, note_change
from policies.simulation.limiting import close_limits, take_of_limits
from policies.simulation.memory import settle
from policies.simulation.placing import find_server, fits, relist
from policies.simulation.tally import least_waiting, use_now

# What is below this part of a floor is rounding.
SMALLEST_PART = 1e-12


@compiled
def start_floors(
    now, boundary, one_pool, plan, arrivals, tenants, tasks, gangs, limits, servers, even, tally,
    heap, active_tasks, freed, freed_count, remembered, draws, floors, dirty, touched, touches,
):  # fmt: skip
    """Start tasks that keep their workloads within their floors, and return how many tasks run.

    Args:
        floors: see :class:`Floors`; all others: as in ``events``.

    Returns:
        The number of tasks that run, and of tenants in ``touched``.
    """
    _update(tenants, tally, limits, floors)
    count = _choose_parts(one_pool, tenants, tasks, servers, tally, freed, freed_count, floors)
    if count == 0:
        return active_tasks, touches
    # Back into the order that breaks ties, which the list of lacking parts does not keep.
    line = np.sort(floors.chosen[:count])
    for s in line:
        if floors.part_entry[s] == NOWHERE:
            active_tasks, touches = _start_on_own(
                s, now, boundary, one_pool, plan, arrivals, tenants, tasks, gangs, limits, servers,
                tally, heap, active_tasks, freed, freed_count, remembered, floors, dirty, touched,
                touches,
            )  # fmt: skip
    leaves = 1
    while leaves < count:
        leaves *= 2
    for c in range(count):
        floors.line[c] = floors.held[line[c]] / floors.tasks[line[c]]
    tree = floors.tree[: 2 * leaves]
    plant(tree, floors.line[:count])
    while tree[1] < np.inf:
        c = next_tenant(tree)
        s = line[c]
        job = floors.part_job[s]
        if floors.held[s] == floors.tasks[s] or not _waits(job, tenants, tally):
            set_share(tree, c, np.inf)
            continue
        server = _server_of_part(
            s, one_pool, plan.rule, limits, tasks, servers, even, freed, freed_count, draws, floors
        )
        if server == NOWHERE:
            floors.stalled[s] = True
            set_share(tree, c, np.inf)
            continue
        active_tasks, touches = _start(
            s, server, now, boundary, one_pool, plan, arrivals, tenants, tasks, gangs, limits, servers,
            tally, heap, active_tasks, remembered, floors, dirty, touched, touches,
        )  # fmt: skip
        set_share(tree, c, floors.held[s] / floors.tasks[s])
    return active_tasks, touches


@compiled
def _waits(job, tenants, tally):
    """Return whether a task of a workload waits, and may run at once with the others."""
    return tally.launched[job] < tally.arrived[job] and tally.running[job] < tenants.limit[job]


@compiled
def _choose_parts(one_pool, tenants, tasks, servers, tally, freed, freed_count, floors):
    """Write the parts with a task that may fit into ``chosen``. Returns their number.

    Parts whose tasks fit nowhere can only fit on servers that were freed since. Parts that lack no task
    leave the list.
    """
    lacking, chosen, stalled = floors.lacking, floors.chosen, floors.stalled
    kept = count = 0
    for place in range(floors.numbers[LACKING]):
        s = lacking[place]
        job = floors.part_job[s]
        if floors.held[s] >= floors.tasks[s] or tally.launched[job] == tally.arrived[job]:
            floors.lacks[s] = False
            continue
        lacking[kept] = s
        kept += 1
        if tally.running[job] >= tenants.limit[job]:
            # Servers that are freed meanwhile are not looked at.
            stalled[s] = floors.stalled_on_own[s] = False
            continue
        may_start = one_pool or not stalled[s]
        for f in range(freed_count):
            if may_start:
                break
            server = freed.servers[f]
            if floors.matches[floors.part_set[s], servers.row_of[server]]:
                may_start = fits(tasks.demand[job], servers.left[server])
        if may_start:
            chosen[count] = s
            count += 1
    floors.numbers[LACKING] = kept
    return count


@compiled
def _server_of_part(
    s, one_pool, rule, limits, tasks, servers, even, freed, freed_count, draws, floors
):
    """Return the server for the next task of a part, or NOWHERE without room.

    The placement rule chooses it.
    """
    job, matches = floors.part_job[s], floors.matches[floors.part_set[s]]
    close_limits(job, limits, tasks.allowed)
    if one_pool:
        room = tasks.allowed[job, 0] and matches[0] and fits(tasks.demand[job], servers.left[0])
        return 0 if room else NOWHERE
    # The rules look at the rows on which the workload may run: for now, those of the part.
    allowed, before = floors.allowed, tasks.pointer[job]
    for row in range(len(matches)):
        allowed[row] = tasks.allowed[job, row]
        tasks.allowed[job, row] &= matches[row]
    # The workload's pointer is about all its rows, on which servers of this part were passed over.
    tasks.pointer[job] = 0
    server = find_server(
        rule, job, floors.stalled[s], freed.servers, freed_count, tasks, servers, even, draws
    )
    tasks.pointer[job] = before
    for row in range(len(matches)):
        tasks.allowed[job, row] = allowed[row]
    return server


@compiled
def _start_on_own(
    s, now, boundary, one_pool, plan, arrivals, tenants, tasks, gangs, limits, servers, tally, heap,
    active_tasks, freed, freed_count, remembered, floors, dirty, touched, touches,
):  # fmt: skip
    """Start tasks of a part on the first own servers with room."""
    job = floors.part_job[s]
    at = floors.own.of_tenant[tenants.owner[job]]
    mine = floors.own.server[floors.own.server_begin[at] : floors.own.server_begin[at + 1]]
    # Room only comes with freed servers.
    if floors.stalled_on_own[s]:
        some = False
        for f in range(freed_count):
            server = freed.servers[f]
            place = np.searchsorted(mine, server)
            if place < len(mine) and mine[place] == server:
                some |= fits(tasks.demand[job], servers.left[server])
        if not some:
            return active_tasks, touches
    place = 0
    while floors.held[s] < floors.tasks[s] and _waits(job, tenants, tally):
        close_limits(job, limits, tasks.allowed)
        while place < len(mine) and not (
            tasks.allowed[job, servers.row_of[mine[place]]]
            and fits(tasks.demand[job], servers.left[mine[place]])
        ):
            place += 1
        if place == len(mine):
            floors.stalled_on_own[s] = True
            break
        active_tasks, touches = _start(
            s, mine[place], now, boundary, one_pool, plan, arrivals, tenants, tasks, gangs, limits,
            servers, tally, heap, active_tasks, remembered, floors, dirty, touched, touches,
        )  # fmt: skip
    return active_tasks, touches


@compiled
def _start(
    s, server, now, boundary, one_pool, plan, arrivals, tenants, tasks, gangs, limits, servers, tally,
    heap, active_tasks, remembered, floors, dirty, touched, touches,
):  # fmt: skip
    """Start the next task of a part on a server."""
    job = floors.part_job[s]
    i, row = tenants.owner[job], servers.row_of[server]
    begun = arrivals.order[arrivals.first[job] + tally.launched[job]]
    arrivals.start[begun], arrivals.server[begun] = now, server
    arrivals.end[begun] = now + arrivals.duration[begun]
    begin_running(heap.ends, heap.tasks, active_tasks, arrivals.end[begun], begun)
    tally.launched[job] += 1
    tally.running[job] += 1.0
    tally.waiting[i] -= 1
    tally.running_tasks[i] += 1
    tally.idle_since[i] = np.inf
    note_change(job, row, 1.0, floors)
    # The task counts for the floor, and not for the level above it.
    floors.counted[job] -= 1.0
    floors.held[s] += 1.0
    take_of_limits(job, row, limits)
    for r in range(servers.left.shape[1]):
        servers.left[server, r] -= tasks.demand[job, r]
    for r in range(tenants.amount.shape[1]):
        tally.in_use[i, r] += tenants.amount[job, r]
    if not _waits(job, tenants, tally):
        tally.blocked[job] = False
    if not one_pool:
        relist(plan.rule, server, tasks.pointer[:0], servers)
        servers.opened[row] = max(servers.opened[row], server + 1)
    if not dirty[i]:
        dirty[i] = True
        touched[touches] = i
        touches += 1
        settle(
            i, now, plan.kind, plan.length, boundary, remembered.total, remembered.rate,
            remembered.since,
        )  # fmt: skip
    least_waiting(
        i, tenants.first, tally.active, tally.actives, tally.arrived, tally.launched, tally.running,
        tenants.limit, tally.blocked, tasks.demand, gangs.per_task,
        gangs.at_least, gangs.large, gangs.small, tally.least, tally.fresh,
    )  # fmt: skip
    use_now(i, tally.in_use, tenants.natural, remembered.rate)
    return active_tasks + 1, touches


@compiled
def _update(tenants, tally, limits, floors):
    """Compute floors again that an event has changed, and the running tasks that count for them."""
    pools, own, some = floors.pools, floors.own, False
    first_changed = floors.numbers[CHANGED_JOBS]
    for place in range(first_changed):
        job = floors.job[floors.changed[place]]
        # Of tasks that wait or run, those that may run at once.
        waiting = tally.arrived[job] - tally.launched[job]
        pending = min(waiting + tally.running[job], tenants.limit[job])
        if pending != pools.pending[job]:
            set_pending(job, pending, pools)
            some = True
            if own.of_tenant[tenants.owner[job]] != NOWHERE:
                own.dirty[own.of_tenant[tenants.owner[job]]] = True
    if some:
        # Each pool comes after those inside it, so that one pass reaches the outermost.
        for pool in range(len(pools.dirty)):
            if not pools.dirty[pool]:
                continue
            pools.dirty[pool] = False
            if divide(pool, pools):
                if pools.parent[pool] != NOWHERE:
                    pools.dirty[pools.parent[pool]] = True
                for e in range(pools.begin[pool, ENTRY], pools.begin[pool + 1, ENTRY]):
                    note_change(pools.job[e], NOWHERE, 0.0, floors)
        if len(own.dirty):
            update_own(tenants, limits, floors)
    for place in range(floors.numbers[CHANGED_JOBS]):
        g = floors.changed[place]
        floors.noted[g] = False
        _size_parts(g, floors)
        _count_running(g, tally, floors)
    floors.numbers[CHANGED_JOBS] = 0


@compiled
def _size_parts(g, floors):
    """Write the tasks of a workload's parts, each less what parts on some of its servers have."""
    begin, end, job = floors.part_begin[g], floors.part_begin[g + 1], floors.job[g]
    left, own = floors.pools.pending[job], floors.own
    for at in range(begin, end):
        s = floors.part[at]
        if floors.part_entry[s] == NOWHERE:
            floors.tasks[s] = own.by_kind[g].sum()
            left -= floors.tasks[s]
    for at in range(begin, end):
        s = floors.part[at]
        if floors.part_entry[s] == NOWHERE:
            continue
        have, mine = 0.0, floors.part_set[s]
        for other in floors.part[begin:at]:
            if (
                floors.part_entry[other] != NOWHERE
                and floors.contains[mine, floors.part_set[other]]
            ):
                have += floors.tasks[other]
        for kind in range(own.by_kind.shape[1]):
            if floors.of_kind[mine, kind]:
                have += own.by_kind[g, kind]
        floor = floors.pools.floor[floors.part_entry[s]]
        missing = min(floor - have, left)
        floors.tasks[s] = missing if missing > SMALLEST_PART * floor else 0.0
        left -= floors.tasks[s]


@compiled
def _count_running(g, tally, floors):
    """Count running tasks for parts, kind by kind of servers, for the fewest servers first."""
    begin, end, job = floors.part_begin[g], floors.part_begin[g + 1], floors.job[g]
    for s in floors.part[begin:end]:
        floors.held[s] = 0.0
    held = 0.0
    for kind in range(floors.on_kind.shape[1]):
        running = floors.on_kind[g, kind]
        for s in floors.part[begin:end]:
            if running > 0.0 and floors.of_kind[floors.part_set[s], kind]:
                more = min(running, floors.tasks[s] - floors.held[s])
                floors.held[s] += more
                held += more
                running -= more
    floors.counted[job] = tally.running[job] - held
    for s in floors.part[begin:end]:
        if floors.held[s] < floors.tasks[s] and not floors.lacks[s]:
            floors.lacks[s] = True
            floors.stalled[s] = floors.stalled_on_own[s] = False
            floors.lacking[floors.numbers[LACKING]] = s
            floors.numbers[LACKING] += 1
