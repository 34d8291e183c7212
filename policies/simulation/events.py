"""Compiled loop of events, with a hand-out after all that happens at one time.

It is common to all policies. They differ in the order of tenants (``choosing``), in the servers
(one pool is one server) and in the placement of a task (``placing``).

Source: policies §8 for the events, §4 for a step's measures; Tang et al., TPDS 2018, §5 and Wang et
al., TPDS 2015, §5.2 for the orders.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE
from policies.simulation.choosing import (
    BY_SHARE,
    next_in_line,
    plant_keys,
    set_keys,
    write_accumulated,
    write_shares,
)
from policies.simulation.ending import begin_running, finish_first
from policies.simulation.floor_starts import start_floors
from policies.simulation.floor_state import note_change
from policies.simulation.gang_starts import start_gang
from policies.simulation.grouping import next_in_tree, plant_groups, set_keys_in_tree
from policies.simulation.limiting import close_limits, return_to_limits, take_of_limits
from policies.simulation.memory import SLIDING, forget, settle
from policies.simulation.placing import EVENEST, ONE_POOL, find_server, fits, host, relist
from policies.simulation.state import (
    CHANGED,
    FORGOTTEN,
    FREED,
    LOOKS_LEFT,
    PASSED,
    ROWS,
    RUNNING,
    SUBMITTED,
)
from policies.simulation.tally import (
    enlist,
    gather,
    keep,
    least_waiting,
    may_start,
    strike,
    use_alone,
    use_now,
)


@compiled
def run_events(
    plan, wake, until, arrivals, tenants, trees, tasks, gangs, limits, servers, even, tally, heap, freed,
    placed, remembered, log, draws, floors, counters,
):  # fmt: skip
    """Run until no event is left, or through the last one at ``until``.

    A later call continues. Return earlier, after a hand-out, once starts of gangs that failed have
    looked at too many servers.

    Args:
        plan ... log: see ``state``; tasks, gangs, servers: as ``filling.state`` has them.
        wake: seconds of a hand-out though no task comes or ends, because servers joined; or inf.
        until: seconds of the last event to look at.
        trees: order of turns in a pool with groups (``grouping``); limits: see ``limiting``.
        draws: (1,) state of the random numbers; floors: see ``floor_starts``; counters: (8,) see
            ``state``.
    """
    # The structures are unpacked once: passing them on for every event costs more than an event does.
    order, rule, kind, length, step, timeout, boundaries = plan
    submit, duration, job_of, in_order, first_task, start, end, where = arrivals
    (
        first, _, owner, limit, share, weight, second_stage, amount, natural, gain, partition,
        share_of_total,
    ) = tenants  # fmt: skip
    (
        arrived, launched, running, blocked, listed, active, actives, waiting, running_tasks,
        idle_since, in_use, least, fresh,
    ) = tally  # fmt: skip
    total, rate, since, gone, gone_rate, gone_since, noted = remembered
    demand, left, row_of, opened = tasks.demand, servers.left, servers.row_of, servers.opened
    t, m, p = len(first), gain.shape[1], left.shape[1]
    one_pool = rule == ONE_POOL
    with_gangs = len(gangs.on_server) > 0
    per_task, at_least, large, small = gangs.per_task, gangs.at_least, gangs.large, gangs.small
    dirty, touched, touches = np.zeros(t, dtype=np.bool_), np.empty(t, dtype=np.int64), 0
    may_fit, fitting = np.empty(t, dtype=np.bool_), np.empty(t, dtype=np.bool_)
    who, alone_room = np.empty(t, dtype=np.int64), np.empty(m)
    degree, main, second, line = np.empty(t), np.empty(t), np.empty(t), np.empty(t)
    used_by, alone_by = np.zeros((t, m)), np.zeros((t, m))
    grouped = len(trees.bottom_up[0]) > 0
    floored = len(floors.job) > 0
    above = floored and floors.above[0]
    # Running tasks by which tenants are ordered.
    counted = floors.counted if above else running
    everybody, position, level = np.arange(t), np.empty(t, dtype=np.int64), np.empty(t)
    nothing, got = np.zeros(m), np.empty(m)
    leaves = 1
    while leaves < t:
        leaves *= 2
    degree_tree, main_tree = np.empty(2 * leaves), np.empty(2 * leaves)
    stages = 1 + second_stage.max() if t else 0
    task, active_tasks, rows = counters[SUBMITTED], counters[RUNNING], counters[ROWS]
    passed, freed_count, looks_left = counters[PASSED], counters[FREED], counters[LOOKS_LEFT]
    boundary = boundaries[passed - 1] if passed else -np.inf
    began = False
    # Each pass is one moment: all that happens at it comes first, then one hand-out.
    while True:
        now = wake
        if task < len(submit):
            now = min(now, submit[task])
        if active_tasks:
            now = min(now, heap.ends[0])
        # Only after a hand-out, or a call that begins without looks left would never get on.
        is_late = began and looks_left < 0
        if is_late or not now <= until or now == np.inf:
            counters[SUBMITTED], counters[RUNNING], counters[ROWS] = task, active_tasks, rows
            counters[PASSED], counters[FREED], counters[LOOKS_LEFT] = (
                passed,
                freed_count,
                looks_left,
            )
            return
        began = True
        if wake == now:
            wake = np.inf
        # Windows begin anew before totals are brought up to now, which start from the last
        # boundary.
        while passed < len(boundaries) and boundaries[passed] <= now:
            boundary = boundaries[passed]
            passed += 1
        # Ends before arrivals, and both before any start: the order of one moment's events decides
        # nothing.
        while True:
            if active_tasks and heap.ends[0] == now:
                ended = finish_first(heap.ends, heap.tasks, active_tasks)
                active_tasks -= 1
                job, server = job_of[ended], where[ended]
                i = owner[job]
                running[job] -= 1.0
                running_tasks[i] -= 1
                if floored:
                    # A pool with guarantees has no gangs.
                    note_change(job, row_of[server], -1.0, floors)
                    if limits.first[job] < limits.first[job + 1]:
                        # A limit may have stopped a task that keeps its workload within its floor.
                        floors.stalled[:] = False
                        floors.stalled_on_own[:] = False
                for r in range(m):
                    in_use[i, r] -= amount[job, r]
                for at in range(max(per_task[job], 1)):
                    piece = job
                    if per_task[job] > 0:
                        piece = placed.kind[placed.first[ended] + at]
                        server = placed.server[placed.first[ended] + at]
                    reopened = return_to_limits(
                        piece,
                        row_of[server],
                        limits,
                        per_task,
                        tasks.allowed,
                        tasks.pointer,
                        blocked,
                    )
                    for place in range(reopened):
                        other = owner[limits.reopened[place]]
                        if not dirty[other]:
                            dirty[other] = True
                            touched[touches] = other
                            touches += 1
                            settle(other, now, kind, length, boundary, total, rate, since)
                    # A server that has left is not among those that are free.
                    there = with_gangs and left[server, 0] >= 0.0
                    for r in range(p):
                        left[server, r] += demand[piece, r]
                        if there:
                            placed.free[r] += demand[piece, r]
                    if rule == EVENEST:
                        host(server, row_of[server], demand[job], -1.0, left, even)
                    if not freed.marked[server]:
                        freed.marked[server] = True
                        freed.servers[freed_count] = server
                        freed_count += 1
                if running[job] == 0.0 and launched[job] == arrived[job]:
                    strike(job, i, first, active, actives, listed)
            elif task < len(submit) and submit[task] == now:
                job = job_of[task]
                task += 1
                # A task that can never run is submitted and waits for nothing.
                if job == NOWHERE:
                    continue
                i = owner[job]
                arrived[job] += 1
                waiting[i] += 1
                if floored:
                    note_change(job, NOWHERE, 0.0, floors)
                if not listed[job]:
                    enlist(job, i, first, active, actives, listed)
            else:
                break
            # Totals are brought up to now while the rates are still those until now, and once per
            # moment.
            if not dirty[i]:
                dirty[i] = True
                touched[touches] = i
                touches += 1
                settle(i, now, kind, length, boundary, total, rate, since)
        # Servers or terms have changed, on which the rates of all tenants depend.
        if counters[CHANGED]:
            counters[CHANGED] = 0
            for i in range(t):
                if not dirty[i]:
                    dirty[i] = True
                    touched[touches] = i
                    touches += 1
                    settle(i, now, kind, length, boundary, total, rate, since)
        # After all ends of the moment, so that a server enters the index once.
        if not one_pool:
            for f in range(freed_count):
                relist(rule, freed.servers[f], tasks.pointer, servers)
        for c in range(touches):
            i = touched[c]
            least_waiting(
                i, first, active, actives, arrived, launched, running, limit, blocked, demand,
                per_task, at_least, large, small, least, fresh,
            )  # fmt: skip
            use_now(i, in_use, natural, rate)
            use_alone(
                i, first, active, actives, arrived, launched, running, limit, gain, partition,
                alone_room, rate,
            )  # fmt: skip
            idle = waiting[i] > 0 and running_tasks[i] == 0
            idle_since[i] = min(idle_since[i], now) if idle else np.inf
        # Floors are met before any tenant's turn.
        if floored:
            active_tasks, touches = start_floors(
                now, boundary, one_pool, plan, arrivals, tenants, tasks, gangs, limits, servers, even,
                tally, heap, active_tasks, freed, freed_count, remembered, draws, floors, dirty,
                touched, touches,
            )  # fmt: skip
        # The window is that of the step which begins now, in which the step itself counts in full.
        begin = min(now, now + step - length) if kind == SLIDING else -np.inf
        if kind == SLIDING and order != BY_SHARE:
            counters[FORGOTTEN] = forget(
                begin, counters[FORGOTTEN], rows, log.time, log.tenant, log.rate, gone, gone_rate,
                gone_since,
            )  # fmt: skip
        # In each stage tenants that starve launch one task each before the order counts.
        for turn in range(2 * stages):
            once = turn % 2 == 0
            if once and timeout == np.inf:
                continue
            count = gather(
                one_pool, turn // 2, once, now, timeout, second_stage, idle_since, fresh, least,
                left, freed.servers, freed_count, may_fit, fitting, who,
            )  # fmt: skip
            # A single tenant needs no order.
            if count > 1:
                if order == BY_SHARE:
                    write_shares(
                        0, count, who, first, active, actives, counted, share, weight, main
                    )
                # A group's use is that of all its tenants, also of those that wait for nothing.
                elif grouped:
                    write_accumulated(
                        0, t, everybody, order, kind, length, boundary, begin, now, step, weight,
                        share_of_total, total, rate, since, gone, gone_rate, gone_since, degree,
                        main, second, used_by, alone_by,
                    )  # fmt: skip
                else:
                    write_accumulated(
                        0, count, who, order, kind, length, boundary, begin, now, step, weight,
                        share_of_total, total, rate, since, gone, gone_rate, gone_since, degree,
                        main, second, used_by, alone_by,
                    )  # fmt: skip
                if grouped:
                    plant_groups(
                        order, turn // 2, trees, who, count, degree, main, second, rate,
                        share_of_total, used_by, alone_by, level, nothing, first, active, actives,
                        counted, share, gain, above,
                    )  # fmt: skip
                    for c in range(count):
                        position[who[c]] = c
                else:
                    size = plant_keys(
                        order, who, count, degree, main, second, degree_tree, main_tree, line
                    )
            in_line = count
            while in_line:
                c = 0
                if count > 1 and grouped:
                    c = position[next_in_tree(order, turn // 2, trees)]
                elif count > 1:
                    c = next_in_line(order, size, degree_tree, main_tree, line)
                i = who[c]
                job = server = NOWHERE
                started = 1
                for at in range(first[i], first[i] + actives[i]):
                    job = active[at]
                    if not may_start(job, arrived, launched, running, limit, per_task, at_least):
                        continue
                    if per_task[job] > 0:
                        started, looked = start_gang(
                            rule, job, blocked[job], freed.servers, freed_count, tasks, gangs, limits,
                            servers, draws, placed,
                        )  # fmt: skip
                        blocked[job] |= started == 0
                        if started == 0:
                            # Failed starts change no use, so that the log does not count them.
                            looks_left -= looked
                        if started > 0:
                            server = placed.log_server[0]
                            break
                        continue
                    started = 1
                    close_limits(job, limits, tasks.allowed)
                    if one_pool:
                        room = tasks.allowed[job, 0] and fits(demand[job], left[0])
                        server = 0 if room else NOWHERE
                    else:
                        server = find_server(
                            rule, job, blocked[job], freed.servers, freed_count, tasks, servers,
                            even, draws,
                        )  # fmt: skip
                        # Room only grows by events: from here on freed servers alone are looked
                        # at.
                        blocked[job] |= server == NOWHERE
                    if server != NOWHERE:
                        break
                waits_on = False
                if server == NOWHERE:
                    fresh[i] = False
                else:
                    pieces = per_task[job]
                    for each in range(started):
                        begun = in_order[first_task[job] + launched[job]]
                        start[begun], end[begun] = now, now + duration[begun]
                        begin_running(heap.ends, heap.tasks, active_tasks, end[begun], begun)
                        active_tasks += 1
                        launched[job] += 1
                        if pieces == 0:
                            where[begun] = server
                        for at in range(pieces):
                            entry, piece = (
                                placed.first[begun] + at,
                                placed.log_kind[each * pieces + at],
                            )
                            placed.kind[entry] = piece
                            placed.server[entry] = placed.log_server[each * pieces + at]
                            for r in range(p):
                                placed.free[r] -= demand[piece, r]
                    running[job] += started
                    if floored:
                        note_change(job, row_of[server], 1.0, floors)
                    waiting[i] -= started
                    running_tasks[i] += started
                    idle_since[i] = np.inf
                    for r in range(m):
                        in_use[i, r] += started * amount[job, r]
                    if pieces == 0:
                        take_of_limits(job, row_of[server], limits)
                        for r in range(p):
                            left[server, r] -= demand[job, r]
                            if with_gangs:
                                placed.free[r] -= demand[job, r]
                    # It stops by itself. Servers that are freed until it waits again would never
                    # be looked at.
                    if launched[job] == arrived[job] or running[job] >= limit[job]:
                        blocked[job] = False
                    if not one_pool and pieces == 0:
                        if rule == EVENEST:
                            host(server, row_of[server], demand[job], 1.0, left, even)
                        relist(rule, server, tasks.pointer[:0], servers)
                        opened[row_of[server]] = max(opened[row_of[server]], server + 1)
                    if not dirty[i]:
                        dirty[i] = True
                        touched[touches] = i
                        touches += 1
                        settle(i, now, kind, length, boundary, total, rate, since)
                    least_waiting(
                        i, first, active, actives, arrived, launched, running, limit, blocked,
                        demand, per_task, at_least, large, small, least, fresh,
                    )  # fmt: skip
                    # What it would use alone counts waiting and running tasks, so that a launch
                    # leaves it as it is.
                    use_now(i, in_use, natural, rate)
                    waits_on = least[0, i] < np.inf and not once
                if count == 1:
                    in_line = 1 if waits_on else 0
                    continue
                its_degree = main[i] = np.inf
                if order != BY_SHARE and (waits_on or (grouped and server != NOWHERE)):
                    write_accumulated(
                        c, c + 1, who, order, kind, length, boundary, begin, now, step, weight,
                        share_of_total, total, rate, since, gone, gone_rate, gone_since, degree,
                        main, second, used_by, alone_by,
                    )  # fmt: skip
                    its_degree = degree[i]
                elif waits_on:
                    write_shares(
                        c, c + 1, who, first, active, actives, counted, share, weight, main
                    )
                if not waits_on:
                    its_degree = main[i] = np.inf
                # Where servers were freed, most tenants wait for room that one launch takes away.
                if one_pool or freed_count or server == NOWHERE:
                    kept = keep(
                        one_pool, count, main, fresh, least, left, freed.servers, freed_count, who
                    )
                    if kept < count:
                        in_line = count = kept
                        if count > 1 and grouped:
                            plant_groups(
                                order, turn // 2, trees, who, count, degree, main, second, rate,
                                share_of_total, used_by, alone_by, level, nothing, first, active,
                                actives, counted, share, gain, above,
                            )  # fmt: skip
                            for place in range(count):
                                position[who[place]] = place
                        elif count > 1:
                            size = plant_keys(
                                order, who, count, degree, main, second, degree_tree, main_tree,
                                line,
                            )  # fmt: skip
                        continue
                in_line -= main[i] == np.inf
                if grouped:
                    for r in range(m):
                        got[r] = 0.0
                        if server != NOWHERE:
                            unit = share_of_total[r] if order == BY_SHARE else step
                            got[r] = started * gain[job, r] * unit
                    if trees.adds_up and server != NOWHERE:
                        got[0] = share[job]
                    set_keys_in_tree(
                        order, turn // 2, trees, i, its_degree, main[i], second[i], got,
                        share_of_total,
                    )  # fmt: skip
                else:
                    set_keys(
                        order, size, c, its_degree, main[i], second[i], degree_tree, main_tree, line
                    )
        for f in range(freed_count):
            freed.marked[freed.servers[f]] = False
        freed_count = 0
        for c in range(touches):
            i = touched[c]
            dirty[i] = False
            # An end and a start at one moment may leave the rates as they were, and need no row.
            differs = False
            for column in range(2 * m):
                differs |= noted[i, column] != rate[i, column]
            if differs:
                log.time[rows], log.tenant[rows] = now, i
                for column in range(2 * m):
                    noted[i, column] = log.rate[rows, column] = rate[i, column]
                rows += 1
        touches = 0
