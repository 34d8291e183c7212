"""Loop that launches whole tasks: it picks the next tenant, and a server by the placement rule.

Source: Wang et al., TPDS 2015, §5.2 (progressive filling; first-fit and best-fit), Tang et
al., TPDS 2018, §6 (affinity). Servers are numbered row by row; untouched servers of a row
are alike, so that the rules look at the first only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.compiled import compiled
from policies.filling import best_fit_many as best_fit_scan
from policies.filling import best_fit_two as best_fit_index
from policies.filling.best_fit import NOWHERE, misfit, slope_of
from policies.filling.best_fit_many import Columns, least_misfit
from policies.filling.best_fit_two import SlopeIndex, nearest
from policies.filling.group_turns import GroupTurns, next_in_groups, set_level
from policies.filling.winner_tree import next_tenant, set_share
from policies.model.tolerance import DISCRETE_TOLERANCE

FIRST_FIT, AFFINITY, TWO_CHOICES, BEST_BY_SLOPE, BEST_BY_SCAN = range(5)

build_index, insert, update, remove = (
    best_fit_index.build,
    best_fit_index.insert,
    best_fit_index.update,
    best_fit_index.remove,
)
append, rewrite, drop = best_fit_scan.append, best_fit_scan.rewrite, best_fit_scan.drop


class Waiting(NamedTuple):
    """Tenants and workloads that wait, and their progress.

    Attributes:
        tree: tenants' shares (``winner_tree``).
        stop, current: (t,); share, limit: (q,); weight, passed: (t,) as in ``Queues``.
        done: (q,) tasks launched, ``count`` in ``Queues``.
        level: (t,) weighted share at which a tenant left, which the loop writes.
        least: (m,) least demand of the workloads that wait.
        groups: turns of a pool with groups.
        gain: (q, r) what one task adds to the vector by which groups are compared.
    """

    tree: FloatArray
    stop: IntArray
    current: IntArray
    share: FloatArray
    limit: FloatArray
    weight: FloatArray
    done: FloatArray
    passed: FloatArray
    level: FloatArray
    least: FloatArray
    groups: GroupTurns
    gain: FloatArray


class LimitsLeft(NamedTuple):
    """Unused amounts of limits, one for each resource that a limit names.

    Attributes:
        left: (a,) unused amounts, whole.
        where: (a, rows) rows of servers on which tasks count.
        first: (q + 1,) entries of workload ``j`` in ``row``, ``need`` and ``closed`` are those from
            ``first[j]`` to ``first[j + 1] - 1``.
        row: (c,) index in ``left`` of an amount that counts the workload.
        need: (c,) what one task of the workload takes of it.
        closed: (c,) whether less than ``need`` is left.
    """

    left: FloatArray
    where: BoolArray
    first: IntArray
    row: IntArray
    need: FloatArray
    closed: BoolArray


class Tasks(NamedTuple):
    """One task of each workload.

    Attributes:
        demand: (q, m) whole; ratio: (q, m) shares relative to the reference resource.
        reference: (q,) the first resource demanded; size: (q,) sums of ``ratio``.
        allowed: (q, rows) rows on which a task may start. The loop removes rows that limits close.
        pointer: (q,) first server that can have room (first-fit).
    """

    demand: FloatArray
    ratio: FloatArray
    reference: IntArray
    size: FloatArray
    allowed: BoolArray
    pointer: IntArray


class Servers(NamedTuple):
    """The servers, numbered row by row.

    Attributes:
        left: (S, m) unused capacity, whole; share_of_unit: (m,) one unit as a share of the pool.
        row_of: (S,) row of each server; row_start: (rows + 1,) first server of each row.
        opened: (rows,) first untouched server of each row.
        slopes, columns: indices of best-fit, for two resources and for more.
    """

    left: FloatArray
    share_of_unit: FloatArray
    row_of: IntArray
    row_start: IntArray
    opened: IntArray
    slopes: SlopeIndex
    columns: Columns


@compiled
def fill(rule, waiting, tasks, limits, servers, draws, log_job, log_server, work):  # type: ignore[no-untyped-def]
    """Launch tasks until no task fits, the log is full, or ``work`` is used up.

    Args:
        rule: one of the five constants.
        waiting, tasks, limits, servers: state, changed in place.
        draws: (1,) state of the random numbers.
        log_job, log_server: (L,) one entry per launched task.
        work: number of servers to look at before returning, approximately.

    Returns:
        Number of launched tasks.
    """
    # Structures are unpacked once: passing them for every task would cost more than the task itself.
    tree, stop, current, share, limit, weight, count, passed, level, least, groups, gain = waiting
    demand, ratio, reference, size, allowed, pointer = tasks
    left, share_of_unit, row_of, row_start, opened, slopes, columns = servers
    m = demand.shape[1]
    leaves = len(tree) // 2
    grouped = len(groups.node) > 0
    nothing = np.zeros(groups.held.shape[1])
    launched, closed = 0, 0
    while tree[1] < np.inf and launched < len(log_job) and work > 0:
        tenant = next_in_groups(groups) if grouped else next_tenant(tree)
        job = current[tenant]
        server, looked = NOWHERE, 1
        if count[job] < limit[job]:
            for at in range(limits.first[job], limits.first[job + 1]):
                if not limits.closed[at] and limits.need[at] > limits.left[limits.row[at]]:
                    # Unused amounts only shrink, so a closed entry stays closed.
                    limits.closed[at] = True
                    for row in range(allowed.shape[1]):
                        if limits.where[limits.row[at], row]:
                            allowed[job, row] = False
            if rule == BEST_BY_SLOPE:
                server, looked = nearest(
                    demand[job], ratio[job], reference[job], size[job], allowed[job], row_of, slopes
                )
            elif rule == BEST_BY_SCAN:
                looked = columns.size[0]
                server = least_misfit(
                    demand[job], ratio[job], reference[job], size[job], allowed[job], row_of,
                    share_of_unit, columns,
                )  # fmt: skip
            elif rule == AFFINITY:
                looked = len(left)
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
                    looked = -pointer[job]
                    pointer[job] = server if server != NOWHERE else len(left)
                    looked += pointer[job] + 1
        work -= looked
        if server == NOWHERE:
            passed[tenant] += count[job] * share[job]
            current[tenant] += 1
            if current[tenant] == stop[tenant]:
                level[tenant] = tree[leaves + tenant]
                set_share(tree, tenant, np.inf)
                if grouped:
                    set_level(groups, tenant, np.inf, nothing)
            closed += 1
            if rule >= BEST_BY_SLOPE and closed * 100 >= len(stop):
                closed = 0
                list_servers(rule, waiting, tasks, servers)
            continue
        alive = True
        for r in range(m):
            left[server, r] -= demand[job, r]
            alive = alive and left[server, r] >= least[r]
        row = row_of[server]
        for at in range(limits.first[job], limits.first[job + 1]):
            if limits.where[limits.row[at], row]:
                limits.left[limits.row[at]] -= limits.need[at]
        fresh = server == opened[row]
        if fresh:
            opened[row] += 1
            fresh = opened[row] < row_start[row + 1]
        if rule == BEST_BY_SLOPE:
            listed = True
            if alive:
                slope = slope_of(left[server], share_of_unit)
                listed = update(server, slope, left[server], slopes)
            else:
                remove(server, slopes)
            if fresh:
                following = opened[row]
                slope = slope_of(left[following], share_of_unit)
                listed = listed and insert(following, slope, left[following], slopes)
            if not listed:
                list_servers(rule, waiting, tasks, servers)
        elif rule == BEST_BY_SCAN:
            if alive:
                rewrite(server, left[server], share_of_unit, columns)
            else:
                drop(server, columns)
            if fresh:
                append(opened[row], left[opened[row]], share_of_unit, columns)
        count[job] += 1.0
        reached = (passed[tenant] + count[job] * share[job]) / weight[tenant]
        set_share(tree, tenant, reached)
        if grouped:
            set_level(groups, tenant, reached, gain[job])
        log_job[launched] = job
        log_server[launched] = server
        launched += 1
    return launched


@compiled
def list_servers(rule, waiting, tasks, servers):  # type: ignore[no-untyped-def]
    """Rebuild the index of best-fit: touched servers, and the first untouched server of each row.

    Servers that are too full for every waiting workload are left out.
    """
    left, share_of_unit, opened = servers.left, servers.share_of_unit, servers.opened
    row_start, least = servers.row_start, waiting.least
    _least_waiting(waiting.tree, waiting.stop, waiting.current, tasks.demand, least)
    listed = np.empty(len(left), dtype=np.int64)
    size = 0
    for row in range(len(opened)):
        for server in range(row_start[row], min(opened[row] + 1, row_start[row + 1])):
            alive = True
            for r in range(left.shape[1]):
                alive = alive and left[server, r] >= least[r]
            if alive:
                listed[size] = server
                size += 1
    if rule == BEST_BY_SLOPE:
        slopes = np.empty(size)
        for position in range(size):
            slopes[position] = slope_of(left[listed[position]], share_of_unit)
        build_index(listed[:size], slopes, left, servers.slopes)
    else:
        servers.columns.position[:] = NOWHERE
        servers.columns.size[0] = 0
        for server in listed[:size]:
            append(server, left[server], share_of_unit, servers.columns)


@compiled
def _least_waiting(tree, stop, current, demand, least):  # type: ignore[no-untyped-def]
    """Write the least demands of the waiting workloads into ``least`` (m,)."""
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
    """Return the first server from ``start`` on that has room, or -1."""
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
    """Return the better fit of two servers drawn at random, or -1 if neither has room."""
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
    """Return the next number in [0, 1) of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    draws[0] += np.uint64(0x9E3779B97F4A7C15)
    bits = draws[0]
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits = bits ^ (bits >> np.uint64(31))
    return float(bits >> np.uint64(11)) * 2.0**-53


@compiled
def most_affine(demand, allowed, row_start, opened, left, share_of_unit):  # type: ignore[no-untyped-def]
    """Return the server with the largest dot product of demand and unused capacity, or -1."""
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
