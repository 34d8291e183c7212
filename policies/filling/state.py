"""State of servers, workloads and limits while whole tasks are launched.

Servers are numbered row by row; untouched servers of a row are alike, so that rules look at the first of
them only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.compiled import compiled
from policies.filling import best_fit_many as best_fit_scan
from policies.filling import best_fit_two as best_fit_index
from policies.filling.best_fit import NOWHERE, slope_of
from policies.filling.best_fit_many import Columns
from policies.filling.best_fit_two import SlopeIndex
from policies.filling.group_turns import GroupTurns
from policies.filling.rules import BEST_BY_SCAN, BEST_BY_SLOPE

build_index, append, clear = best_fit_index.build, best_fit_scan.append, best_fit_scan.clear


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
    """One task of each workload, or one piece of a task that has several (``Gangs``).

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


class Gangs(NamedTuple):
    """Pieces of the tasks of workloads.

    Rows of ``Tasks`` after those of the workloads are second kinds of pieces.

    Attributes:
        most: (1,) most pieces that start at once, at least 1.
        per_task: (q,) pieces of one task of a gang, 0 for workloads without a gang.
        large, small: (q,) rows in ``Tasks`` of the kinds of pieces, the larger first; ``small`` is -1
            if there is one kind only.
        number: (rows of ``Tasks``,) pieces of each kind in one task.
        per_server: (q,) most pieces of one task on one server, 0 for any number.
        at_least: (q,) tasks that start at once if none runs.
        zone: (q,) row in ``zones`` of the label whose value is the same for all pieces, -1 for none.
        zones: (z, rows) number of the label's value, -1 for servers without the label.
        cluster: (rows,) number of the cluster, empty if all servers are in one.
        on_server: (S,) pieces of the present task; 0 between two tasks.
    """

    most: IntArray
    per_task: IntArray
    large: IntArray
    small: IntArray
    number: IntArray
    per_server: IntArray
    at_least: IntArray
    zone: IntArray
    zones: IntArray
    cluster: IntArray
    on_server: IntArray


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
def list_servers(rule, waiting, tasks, gangs, servers):
    """Rebuild the index of best-fit from touched servers and the first untouched server of each row.

    Servers that are too full for every waiting workload are left out.
    """
    left, opened = servers.left, servers.opened
    row_start, least = servers.row_start, waiting.least
    _least_waiting(waiting.tree, waiting.stop, waiting.current, tasks.demand, gangs, least)
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
    _index_servers(rule, listed[:size], servers)


@compiled
def list_present(rule, servers):
    """Rebuild the index of best-fit from all servers that have room or are full."""
    left = servers.left
    listed, size = np.empty(len(left), dtype=np.int64), 0
    if left.shape[1]:
        for server in range(len(left)):
            # Servers that have left the pool have amounts below 0 (``AWAY``).
            if left[server, 0] >= 0.0:
                listed[size] = server
                size += 1
    _index_servers(rule, listed[:size], servers)


@compiled
def _index_servers(rule, listed, servers):
    """Rebuild the index of a rule from some servers. Rules other than best-fit have none."""
    left, share_of_unit = servers.left, servers.share_of_unit
    if rule == BEST_BY_SLOPE:
        slopes = np.empty(len(listed))
        for position in range(len(listed)):
            slopes[position] = slope_of(left[listed[position]], share_of_unit)
        build_index(listed, slopes, left, servers.slopes)
    elif rule == BEST_BY_SCAN:
        clear(servers.columns)
        for server in listed:
            append(server, left[server], share_of_unit, servers.columns)


@compiled
def _least_waiting(tree, stop, current, demand, gangs, least):
    """Write the least demands of the waiting workloads into ``least`` (m,)."""
    leaves = len(tree) // 2
    least[:] = np.inf
    for tenant in range(len(stop)):
        if tree[leaves + tenant] == np.inf:
            continue
        for job in range(current[tenant], stop[tenant]):
            for r in range(len(least)):
                least[r] = min(least[r], demand[job, r])
            if gangs.per_task[job] == 0:
                continue
            for kind in (gangs.large[job], gangs.small[job]):
                for r in range(len(least)):
                    if kind != NOWHERE:
                        least[r] = min(least[r], demand[kind, r])
