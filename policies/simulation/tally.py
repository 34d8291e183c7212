"""Compiled bookkeeping of workloads, their use, and tenants with a task that may fit."""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.filling.best_fit import NOWHERE
from policies.model.tolerance import DISCRETE_TOLERANCE


@compiled
def enlist(job, i, first, active, actives, listed):
    """Add a workload with a waiting or running task to its tenant's active ones."""
    # Kept in order of workloads, which is that of priorities: hand-outs walk the list as it is.
    at = first[i] + actives[i]
    while at > first[i] and active[at - 1] > job:
        active[at] = active[at - 1]
        at -= 1
    active[at] = job
    actives[i] += 1
    listed[job] = True


@compiled
def strike(job, i, first, active, actives, listed):
    """Remove a workload without waiting or running tasks from its tenant's active ones."""
    at, last = first[i], first[i] + actives[i] - 1
    while active[at] != job:
        at += 1
    while at < last:
        active[at] = active[at + 1]
        at += 1
    actives[i] -= 1
    listed[job] = False


@compiled
def may_start(job, arrived, launched, running, limit, per_task, at_least):
    """Return whether tasks wait that may run at once with the others, enough of them to start."""
    waiting = arrived[job] - launched[job]
    if per_task[job] > 0 and running[job] == 0.0:
        return waiting >= at_least[job] and at_least[job] <= limit[job]
    return waiting > 0 and running[job] < limit[job]


@compiled
def least_waiting(
    i,
    first,
    active,
    actives,
    arrived,
    launched,
    running,
    limit,
    blocked,
    demand,
    per_task,
    at_least,
    large,
    small,
    least,
    fresh,
):
    """Write the least that any of a tenant's waiting pieces needs in each column.

    With less room, no task fits.
    """
    some = False
    for r in range(demand.shape[1]):
        least[r, i] = np.inf
    for at in range(first[i], first[i] + actives[i]):
        job = active[at]
        if may_start(job, arrived, launched, running, limit, per_task, at_least):
            some |= not blocked[job]
            # By column and not by task: a cheap test that excludes most tenants before any server
            # is searched.
            for r in range(demand.shape[1]):
                least[r, i] = min(least[r, i], demand[job, r])
            if per_task[job] > 0:
                for kind in (large[job], small[job]):
                    for r in range(demand.shape[1]):
                        if kind != NOWHERE:
                            least[r, i] = min(least[r, i], demand[kind, r])
    fresh[i] = some


@compiled
def use_now(i, in_use, natural, rate):
    """Write what a tenant's running tasks use.

    It is derived from whole numbers, which do not drift, in natural units.
    """
    for r in range(in_use.shape[1]):
        rate[i, r] = in_use[i, r] * natural[0, r] / natural[1, r]


@compiled
def use_alone(
    i, first, active, actives, arrived, launched, running, limit, gain, partition, room, rate
):
    """Write what a tenant would use in its own partition, as in ``policies.model.entitlement``."""
    m = gain.shape[1]
    for r in range(m):
        room[r] = partition[i, r]
        rate[i, m + r] = 0.0
    for at in range(first[i], first[i] + actives[i]):
        job = active[at]
        tasks = min(arrived[job] - launched[job] + running[job], limit[job])
        for r in range(m):
            if gain[job, r] > 0.0:
                most = room[r] / gain[job, r]
                nearest = np.floor(most + 0.5)
                close = abs(most - nearest) <= DISCRETE_TOLERANCE * max(1.0, nearest)
                tasks = min(tasks, nearest if close else np.floor(most))
        for r in range(m):
            room[r] = max(room[r] - tasks * gain[job, r], 0.0)
            rate[i, m + r] += tasks * gain[job, r]


@compiled
def gather(
    one_pool, stage, once, now, timeout, second_stage, idle_since, fresh, least, left, freed,
    freed_count, may_fit, room, who,
):  # fmt: skip
    """Write a stage's tenants that may have a task that fits into ``who`` and return their number.

    Args:
        one_pool: True for one server, which always counts as freed.
        once: only tenants that have waited for ``timeout`` seconds with nothing running.
        may_fit, room: (t,) scratch.
    """
    _look(one_pool, fresh, least, left, freed, freed_count, may_fit, room)
    count = 0
    for i in range(len(fresh)):
        if may_fit[i] and second_stage[i] == stage:
            if once and now - idle_since[i] < timeout:
                continue
            who[count] = i
            count += 1
    return count


@compiled
def keep(one_pool, count, key, fresh, least, left, freed, freed_count, who):
    """Of ``count`` tenants keep those that may still have a task that fits, and have a finite key."""
    kept = 0
    for c in range(count):
        i = who[c]
        may_fit = fresh[i] and not one_pool
        for f in range(1 if one_pool else freed_count):
            server = 0 if one_pool else freed[f]
            room = True
            for r in range(left.shape[1]):
                room &= least[r, i] <= left[server, r]
            may_fit |= room
        if may_fit and key[i] < np.inf:
            who[kept] = i
            kept += 1
    return kept


@compiled
def _look(one_pool, fresh, least, left, freed, freed_count, may_fit, room):
    tenants = len(fresh)
    if one_pool:
        freed_count = len(left)
        for i in range(tenants):
            may_fit[i] = False
    else:
        for i in range(tenants):
            may_fit[i] = fresh[i]
    for f in range(freed_count):
        server = 0 if one_pool else freed[f]
        for i in range(tenants):
            room[i] = True
        # Tenants are innermost, so that the loop vectorises.
        for r in range(left.shape[1]):
            free = left[server, r]
            for i in range(tenants):
                room[i] &= least[r, i] <= free
        for i in range(tenants):
            may_fit[i] |= room[i]
