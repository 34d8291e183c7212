"""Placement of a task by the rules of live decisions, while servers fill up and empty again.

The data of the rules (``filling``) is updated when a task ends as well. A workload whose task
fitted nowhere can only fit on servers that were freed since: most events free one server, and only
that one is searched for the workloads that wait.
"""

from __future__ import annotations

from policies.compiled import compiled
from policies.filling import best_fit_many as best_fit_scan
from policies.filling import best_fit_two as best_fit_index
from policies.filling.best_fit import NOWHERE, slope_of
from policies.filling.best_fit_many import least_misfit
from policies.filling.best_fit_two import nearest
from policies.filling.mrfs_loop import dominant_on, evenest, room_left, spread_with
from policies.filling.rules import (
    AFFINITY,
    BEST_BY_SCAN,
    BEST_BY_SLOPE,
    FIRST_FIT,
    TWO_CHOICES,
    better_of_two,
    draw,
    first_fit,
    most_affine,
)
from policies.filling.state import list_present

EVENEST, ONE_POOL = 5, 6
# A server that has left has so much less of everything: nothing fits, and sums stay exact.
AWAY = 2.0**53

update, rewrite = best_fit_index.update, best_fit_scan.rewrite


@compiled
def find_server(rule, job, blocked, freed, freed_count, tasks, servers, even, draws):
    """Return the server for the next task of a workload, or -1 if it fits on none.

    Args:
        rule: a constant of this module or of ``filling.rules``.
        job: the workload; blocked: True if its task fitted nowhere before ``freed`` servers got room.
        tasks, servers, even, draws: the state; pointers and random numbers move on. Random numbers
            are drawn for tasks that fit somewhere only, two each.
    """
    demand, allowed = tasks.demand[job], tasks.allowed[job]
    ratio, reference, size = tasks.ratio[job], tasks.reference[job], tasks.size[job]
    left, row_of, share_of_unit = servers.left, servers.row_of, servers.share_of_unit
    if blocked:
        only, several = NOWHERE, False
        for f in range(freed_count):
            server = freed[f]
            if allowed[row_of[server]] and fits(demand, left[server]):
                several = only != NOWHERE
                only = server
                if several:
                    break
        if only == NOWHERE or not several:
            # As in a decision, in which each task that fits draws two numbers.
            if only != NOWHERE and rule == TWO_CHOICES:
                draw(draws)
                draw(draws)
            return only
    if rule == BEST_BY_SLOPE:
        return nearest(demand, ratio, reference, size, allowed, row_of, servers.slopes)[0]
    if rule == BEST_BY_SCAN:
        return least_misfit(
            demand, ratio, reference, size, allowed, row_of, share_of_unit, servers.columns
        )
    if rule == AFFINITY:
        return most_affine(demand, allowed, servers.row_start, servers.opened, left, share_of_unit)
    if rule == EVENEST:
        return evenest(demand, allowed, servers, even)
    # Also before two-choices draws, because no numbers are drawn for tasks that fit nowhere.
    server = first_fit(demand, allowed, row_of, left, tasks.pointer[job])
    tasks.pointer[job] = server if server != NOWHERE else len(left)
    if rule == TWO_CHOICES and server != NOWHERE:
        better = better_of_two(
            demand, ratio, reference, size, allowed, row_of, left, share_of_unit, draws
        )
        server = better if better != NOWHERE else server
    return server


@compiled
def fits(demand, left):
    """Return whether there is room for one task."""
    room = True
    for r in range(len(demand)):
        room &= demand[r] <= left[r]
    return room


@compiled
def relist(rule, server, pointer, servers):
    """Bring up to date what a rule looks at when a server has another amount left."""
    if rule in (FIRST_FIT, TWO_CHOICES):
        for job in range(len(pointer)):
            pointer[job] = min(pointer[job], server)
    elif rule == BEST_BY_SLOPE:
        if servers.slopes.bucket[server] == NOWHERE:
            return
        left = servers.left[server]
        if not update(server, slope_of(left, servers.share_of_unit), left, servers.slopes):
            list_present(rule, servers)
    elif rule == BEST_BY_SCAN and servers.columns.position[server] != NOWHERE:
        rewrite(server, servers.left[server], servers.share_of_unit, servers.columns)


@compiled
def host(server, row, demand, requests, left, even):
    """Count a request that a server hosts (1), or no longer does (-1).

    ``left`` is up to date.
    """
    capacity = even.capacity[row]
    dominant = dominant_on(demand, capacity)
    even.dominated[server, dominant] += requests
    even.hosted[server, dominant] += requests * demand[dominant]
    # Summed anew, so that starts and ends leave no rounding behind.
    aggregate = 0.0
    for r in range(len(capacity)):
        if capacity[r] > 0.0:
            aggregate += even.hosted[server, r] / capacity[r]
    even.aggregate[server] = aggregate
    for r in range(len(capacity)):
        even.spread[server, r] = spread_with(even.dominated[server], capacity, r)
    even.room[server] = room_left(left[server], capacity)
