"""Launches of tasks with several pieces, all of which are placed or none.

Source: docs/policies/gangs.md. Pieces are placed by the same rules as tasks, the larger kind first. If a
piece does not fit, the pieces before it are removed again.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.filling import best_fit_many as best_fit_scan
from policies.filling import best_fit_two as best_fit_index
from policies.filling.best_fit import NOWHERE, slope_of
from policies.filling.best_fit_many import least_misfit
from policies.filling.best_fit_two import nearest
from policies.filling.rules import (
    AFFINITY,
    BEST_BY_SCAN,
    BEST_BY_SLOPE,
    TWO_CHOICES,
    better_of_two,
    first_fit,
    most_affine,
)
from policies.filling.state import list_present, list_servers

insert, update, remove = best_fit_index.insert, best_fit_index.update, best_fit_index.remove
append, rewrite, drop = best_fit_scan.append, best_fit_scan.rewrite, best_fit_scan.drop


@compiled
def launch_gang(
    rule, job, logged, waiting, tasks, gangs, limits, servers, draws, log_job, log_server
):
    """Launch the next task of a workload, or as many as must start at once.

    Args:
        logged: number of entries in the log.
        waiting: progress of workloads. Without a tree of tenants all servers are in the index.

    Returns:
        Tasks launched, 0 if one does not fit; their pieces, or the most pieces that had room before one
        did not fit; and the number of servers looked at.
    """
    # Once enough tasks run, further ones may join one by one.
    at_once = gangs.at_least[job] if waiting.done[job] == 0 else 1
    if waiting.done[job] + at_once > waiting.limit[job]:
        return 0, 0, 1
    may = np.ones(0, dtype=np.bool_)  # stands for every row: None would be a second type
    pieces = at_once * gangs.per_task[job]
    zone = gangs.zone[job]
    if at_once == 1 or zone == NOWHERE or len(gangs.cluster) == 0:
        fit, looked = _launch_tasks(
            rule, job, at_once, may, logged, waiting, tasks, gangs, limits, servers, draws, log_job,
            log_server,
        )  # fmt: skip
        return (at_once if fit == pieces else 0), fit, looked
    # Clusters, in the order of the server that is best for the first piece: no scheduler starts tasks
    # at once with those of another one.
    kind = gangs.large[job]
    untried = gangs.zones[zone] >= 0
    looked_at, most = 0, 0
    while True:
        server, looked, _ = _choose(
            rule, kind, untried, tasks.pointer[kind], tasks, limits, servers, draws
        )
        looked_at += looked
        if server == NOWHERE:
            return 0, most, looked_at
        same = gangs.cluster == gangs.cluster[servers.row_of[server]]
        untried &= ~same
        fit, looked = _launch_tasks(
            rule, job, at_once, same, logged, waiting, tasks, gangs, limits, servers, draws, log_job,
            log_server,
        )  # fmt: skip
        looked_at += looked
        most = max(most, fit)
        if fit == pieces:
            return at_once, fit, looked_at


@compiled
def _launch_tasks(
    rule, job, at_once, may, logged, waiting, tasks, gangs, limits, servers, draws, log_job,
    log_server,
):  # fmt: skip
    """Place so many tasks, or none.

    Args:
        may: (rows,) where they may run, or empty for every row.

    Returns:
        The most pieces that have room before one does not fit, and the number of servers looked at.
    """
    at, looked_at = logged, 0
    for _ in range(at_once):
        fit, looked = _launch_task(
            rule, job, may, at, waiting, tasks, gangs, limits, servers, draws, log_job, log_server
        )
        looked_at += looked
        if fit < gangs.per_task[job]:
            _undo(rule, logged, at, waiting, tasks, gangs, limits, servers, log_job, log_server)
            return at - logged + fit, looked_at
        at += fit
    return at - logged, looked_at


@compiled
def _launch_task(
    rule, job, may, logged, waiting, tasks, gangs, limits, servers, draws, log_job, log_server
):
    """Place all pieces of one task, or none.

    Args:
        may: (rows,) where they may run, or empty for every row.

    Returns:
        The most pieces that have room before one does not fit, and the number of servers looked at.
    """
    zone = gangs.zone[job]
    if zone == NOWHERE:
        return _place(
            rule, job, may, logged, waiting, tasks, gangs, limits, servers, draws, log_job, log_server
        )  # fmt: skip
    # Values of the label, in the order of the server that is best for the first piece.
    kind = gangs.large[job]
    untried = gangs.zones[zone] >= 0
    if len(may) > 0:
        untried &= may
    start, looked_at, most = tasks.pointer[kind], 0, 0
    while True:
        server, looked, start = _choose(rule, kind, untried, start, tasks, limits, servers, draws)
        if looked_at == 0 and len(may) == 0:
            # No value is left out yet, so that later tasks have no room before it either.
            tasks.pointer[kind] = start
        looked_at += looked
        if server == NOWHERE:
            return most, looked_at
        value = gangs.zones[zone, servers.row_of[server]]
        # Each value once: its other rows would take the same pieces.
        same = gangs.zones[zone] == value
        untried &= ~same
        fit, looked = _place(
            rule, job, same, logged, waiting, tasks, gangs, limits, servers, draws, log_job, log_server
        )  # fmt: skip
        looked_at += looked
        most = max(most, fit)
        if fit == gangs.per_task[job]:
            return fit, looked_at


@compiled
def _place(
    rule, job, may, logged, waiting, tasks, gangs, limits, servers, draws, log_job, log_server
):
    """Place all pieces of one task by the rule for one piece, or none.

    Args:
        may: (rows,) where pieces may run, or empty for every row.

    Returns:
        Number of pieces that have room before one does not fit, and of servers looked at.
    """
    most = gangs.per_server[job]
    at, looked_at = logged, 0
    for kind in (gangs.large[job], gangs.small[job]):
        if kind == NOWHERE:
            continue
        start = tasks.pointer[kind]
        for _ in range(gangs.number[kind]):
            # A server that is hidden has room for later tasks, so that first-fit must not pass it
            # for good.
            hidden = most > 0 and at > logged
            server, looked, start = _choose(rule, kind, may, start, tasks, limits, servers, draws)
            looked_at += looked
            if not hidden and len(may) == 0:
                # Later tasks have no room before it either.
                tasks.pointer[kind] = start
            if server == NOWHERE:
                # Shown first, because pieces cannot be given back to an amount that is encoded.
                _show(rule, logged, at, waiting, tasks, gangs, servers, log_server)
                _undo(rule, logged, at, waiting, tasks, gangs, limits, servers, log_job, log_server)
                return at - logged, looked_at
            _take(rule, kind, server, 1.0, waiting, tasks, gangs, limits, servers)
            log_job[at] = kind
            log_server[at] = server
            at += 1
            if most > 0:
                gangs.on_server[server] += 1
                if gangs.on_server[server] == most:
                    _hide(rule, server, servers)
    _show(rule, logged, at, waiting, tasks, gangs, servers, log_server)
    return at - logged, looked_at


@compiled
def _undo(rule, begin, end, waiting, tasks, gangs, limits, servers, log_job, log_server):
    """Give back what pieces use."""
    for entry in range(begin, end):
        _take(rule, log_job[entry], log_server[entry], -1.0, waiting, tasks, gangs, limits, servers)


@compiled
def _choose(rule, kind, may, start, tasks, limits, servers, draws):
    """Choose the server of a piece, as ``fill`` does for a task (which copies no masks of rows).

    Args:
        may: (rows,) where it may run, or empty for every row.
        start: first server that can have room (first-fit).

    Returns:
        The server, -1 if no server has room; the number of servers looked at; and ``start`` for the
        next piece.
    """
    demand, ratio, allowed = tasks.demand[kind], tasks.ratio[kind], tasks.allowed[kind]
    reference, size = tasks.reference[kind], tasks.size[kind]
    if len(may) > 0:
        allowed = allowed & may
    # For each piece anew: an undone task gives amounts back, so that no row is closed for good.
    for at in range(limits.first[kind], limits.first[kind + 1]):
        if limits.need[at] > limits.left[limits.row[at]]:
            allowed = allowed & ~limits.where[limits.row[at]]
    if rule == BEST_BY_SLOPE:
        server, looked = nearest(
            demand, ratio, reference, size, allowed, servers.row_of, servers.slopes
        )
        return server, looked, start
    if rule == BEST_BY_SCAN:
        server = least_misfit(
            demand, ratio, reference, size, allowed, servers.row_of, servers.share_of_unit,
            servers.columns,
        )  # fmt: skip
        return server, servers.columns.size[0], start
    if rule == AFFINITY:
        server = most_affine(
            demand, allowed, servers.row_start, servers.opened, servers.left, servers.share_of_unit
        )
        return server, len(servers.left), start
    server = NOWHERE
    if rule == TWO_CHOICES:
        server = better_of_two(
            demand, ratio, reference, size, allowed, servers.row_of, servers.left,
            servers.share_of_unit, draws,
        )  # fmt: skip
    if server != NOWHERE:
        return server, 2, start
    server = first_fit(demand, allowed, servers.row_of, servers.left, start)
    end = server if server != NOWHERE else len(servers.left)
    return server, end - start + 1, end


@compiled
def _take(rule, kind, server, number, waiting, tasks, gangs, limits, servers):
    """Take what pieces use from a server and from limits, or give it back if ``number`` is below 0."""
    left, row = servers.left, servers.row_of[server]
    for r in range(left.shape[1]):
        left[server, r] -= number * tasks.demand[kind, r]
    for at in range(limits.first[kind], limits.first[kind + 1]):
        if limits.where[limits.row[at], row]:
            limits.left[limits.row[at]] -= number * limits.need[at]
    # The row's next untouched server takes its place in the index.
    if server == servers.opened[row]:
        servers.opened[row] += 1
        if servers.opened[row] < servers.row_start[row + 1]:
            _list(rule, servers.opened[row], waiting, tasks, gangs, servers)
    _list(rule, server, waiting, tasks, gangs, servers)


@compiled
def _list(rule, server, waiting, tasks, gangs, servers):
    """Write a server into the index of best-fit, or take it out if it is too full for all that waits."""
    if rule < BEST_BY_SLOPE:
        return
    left, alive = servers.left[server], True
    for r in range(len(left)):
        alive = alive and left[r] >= waiting.least[r]
    if rule == BEST_BY_SLOPE:
        listed = servers.slopes.bucket[server] != NOWHERE
        found = True
        if alive and listed:
            found = update(server, slope_of(left, servers.share_of_unit), left, servers.slopes)
        elif alive:
            found = insert(server, slope_of(left, servers.share_of_unit), left, servers.slopes)
        else:
            remove(server, servers.slopes)
        if not found and len(waiting.tree) == 0:
            list_present(rule, servers)
        elif not found:
            list_servers(rule, waiting, tasks, gangs, servers)
        return
    listed = servers.columns.position[server] != NOWHERE
    if alive and listed:
        rewrite(server, left, servers.share_of_unit, servers.columns)
    elif alive:
        append(server, left, servers.share_of_unit, servers.columns)
    elif listed:
        drop(server, servers.columns)


@compiled
def _hide(rule, server, servers):
    """Let a server have room for nothing until the task is placed."""
    for r in range(servers.left.shape[1]):
        # This is its own inverse, and below 0 even where nothing is left.
        servers.left[server, r] = -1.0 - servers.left[server, r]
    if rule == BEST_BY_SLOPE:
        remove(server, servers.slopes)
    elif rule == BEST_BY_SCAN and servers.columns.position[server] != NOWHERE:
        drop(server, servers.columns)


@compiled
def _show(rule, begin, end, waiting, tasks, gangs, servers, log_server):
    """End a task, after which hidden servers have their room again."""
    for entry in range(begin, end):
        server = log_server[entry]
        gangs.on_server[server] = 0
        # Room is never below 0, unless it is hidden.
        if servers.left[server, 0] < 0.0:
            for r in range(servers.left.shape[1]):
                servers.left[server, r] = -1.0 - servers.left[server, r]
            _list(rule, server, waiting, tasks, gangs, servers)
