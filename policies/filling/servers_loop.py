"""Compiled loop that launches whole tasks on servers.

It picks the next tenant by share and the server by the placement rule.

Source: Wang et al., TPDS 2015, §5.2 (progressive filling).
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.filling import best_fit_many as best_fit_scan
from policies.filling import best_fit_two as best_fit_index
from policies.filling.best_fit import NOWHERE, slope_of
from policies.filling.best_fit_many import least_misfit
from policies.filling.best_fit_two import nearest
from policies.filling.gang_loop import launch_gang
from policies.filling.group_turns import next_in_groups, set_level
from policies.filling.rules import (
    AFFINITY,
    BEST_BY_SCAN,
    BEST_BY_SLOPE,
    TWO_CHOICES,
    better_of_two,
    first_fit,
    most_affine,
)
from policies.filling.state import list_servers
from policies.filling.winner_tree import next_tenant, set_share

insert, update, remove = best_fit_index.insert, best_fit_index.update, best_fit_index.remove
append, rewrite, drop = best_fit_scan.append, best_fit_scan.rewrite, best_fit_scan.drop


@compiled
def fill(rule, waiting, tasks, gangs, limits, servers, draws, log_job, log_server, work):
    """Launch tasks until no task fits, the log is full, or ``work`` is used up.

    Args:
        rule: one of the five constants.
        waiting, tasks, gangs, limits, servers: state, changed in place.
        draws: (1,) state of the random numbers.
        log_job, log_server: (L,) kind of pieces and server of each piece that is launched. L is at least
            the number of pieces that start at once.
        work: number of servers to look at before returning, approximately.

    Returns:
        Number of launched pieces.
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
    # A gang is logged as a whole, so that there must be room for the largest.
    while tree[1] < np.inf and launched + gangs.most[0] <= len(log_job) and work > 0:
        tenant = next_in_groups(groups) if grouped else next_tenant(tree)
        job = current[tenant]
        server, looked = NOWHERE, 1
        if gangs.per_task[job] > 0:
            started, pieces, looked = launch_gang(
                rule, job, launched, waiting, tasks, gangs, limits, servers, draws, log_job, log_server
            )  # fmt: skip
            if started > 0:
                work -= looked
                launched += pieces
                count[job] += started
                reached = (passed[tenant] + count[job] * share[job]) / weight[tenant]
                set_share(tree, tenant, reached)
                if grouped:
                    set_level(groups, tenant, reached, started * gain[job])
                continue
        elif count[job] < limit[job]:
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
                # Both probes may miss: a task that fits somewhere must still be launched.
                if server == NOWHERE:
                    server = first_fit(demand[job], allowed[job], row_of, left, pointer[job])
                    looked = -pointer[job]
                    # Room only shrinks: what is passed here never has room for this workload again.
                    pointer[job] = server if server != NOWHERE else len(left)
                    looked += pointer[job] + 1
        work -= looked
        # Nothing is given back while filling, so that a workload that fits nowhere is over.
        if server == NOWHERE:
            passed[tenant] += count[job] * share[job]
            current[tenant] += 1
            if current[tenant] == stop[tenant]:
                level[tenant] = tree[leaves + tenant]
                set_share(tree, tenant, np.inf)
                if grouped:
                    set_level(groups, tenant, np.inf, nothing)
            closed += 1
            # The least demand grows as workloads end, and fuller servers may leave the index. To
            # rebuild it costs as much as many searches, hence only once for each hundredth of the
            # tenants.
            if rule >= BEST_BY_SLOPE and closed * 100 >= len(stop):
                closed = 0
                list_servers(rule, waiting, tasks, gangs, servers)
            continue
        alive = True
        for r in range(m):
            left[server, r] -= demand[job, r]
            alive = alive and left[server, r] >= least[r]
        row = row_of[server]
        for at in range(limits.first[job], limits.first[job + 1]):
            if limits.where[limits.row[at], row]:
                limits.left[limits.row[at]] -= limits.need[at]
        # Untouched servers of a row tie with the first, which alone is in the index.
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
            # No bucket is left to split. A rebuilt index has them evenly filled.
            if not listed:
                list_servers(rule, waiting, tasks, gangs, servers)
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
