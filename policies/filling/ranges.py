"""From the log of launches, one entry per task, to the tasks on ranges of alike servers.

Counting sorts all the way: a log has millions of entries, but few workloads and servers.
"""

from __future__ import annotations

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.compiled import compiled


def ranges_of_launches(
    row_of: IntArray, workload: IntArray, server: IntArray
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Return the log (N,), (N,) as ranges of servers, like :func:`ranges_of`."""
    sorted_log = _by_server(workload, server, _keys(workload), len(row_of))
    return ranges_of(row_of, *sorted_log)


def ranges_of(
    row_of: IntArray, start: IntArray, workloads: IntArray, tasks: FloatArray
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Servers of a row that run the same tasks as one range each.

    Args:
        row_of: (S,) row of each server, ascending.
        start: (S + 1,) where each server's entries begin in ``workloads`` and ``tasks``.
        workloads, tasks: workloads of each server, ascending, and how many tasks it runs.

    Returns:
        (K,) sizes of the ranges; (p,) workload, range and tasks on the whole range, by
        workload.
    """
    first = np.flatnonzero(_range_starts(row_of, start, workloads, tasks))
    sizes = np.diff(np.append(first, len(row_of)))
    return sizes, *_by_workload(first, sizes, start, workloads, tasks, _keys(workloads))


def _keys(values: IntArray) -> int:
    return int(values.max(initial=-1)) + 1


@compiled
def _starts(key, keys):
    """Return the position (keys + 1,) at which each key's entries begin in sorted order."""
    start = np.zeros(keys + 1, dtype=np.int64)
    for value in key:
        start[value + 1] += 1
    for value in range(keys):
        start[value + 1] += start[value]
    return start


@compiled
def _by_server(workload, server, workloads, servers):
    """Sort the log by workload, then by server, and add up what is alike.

    Returns:
        (S + 1,) where each server's entries begin; workload and tasks of each entry.
    """
    # Two passes of counting: the log may have millions of tasks, and keys are small numbers.
    of_workload = _starts(workload, workloads)
    place = of_workload.copy()
    servers_sorted = np.empty_like(server)
    for task in range(len(server)):
        servers_sorted[place[workload[task]]] = server[task]
        place[workload[task]] += 1
    of_server = _starts(server, servers)
    place = of_server[:-1].copy()
    workloads_sorted = np.empty_like(server)
    for j in range(workloads):
        for task in range(of_workload[j], of_workload[j + 1]):
            where = servers_sorted[task]
            workloads_sorted[place[where]] = j
            place[where] += 1
    start = np.zeros(servers + 1, dtype=np.int64)
    jobs, tasks = np.empty(len(server), dtype=np.int64), np.empty(len(server))
    filled = 0
    for where in range(servers):
        for task in range(of_server[where], of_server[where + 1]):
            if filled > start[where] and jobs[filled - 1] == workloads_sorted[task]:
                tasks[filled - 1] += 1.0
            else:
                jobs[filled], tasks[filled] = workloads_sorted[task], 1.0
                filled += 1
        start[where + 1] = filled
    return start, jobs[:filled], tasks[:filled]


@compiled
def _by_workload(first, sizes, start, workloads, tasks, keys):
    """Return the entries of the first server of each range as workload, range and tasks.

    They are sorted by workload.
    """
    place = np.zeros(keys + 1, dtype=np.int64)
    for server in first:
        for entry in range(start[server], start[server + 1]):
            place[workloads[entry] + 1] += 1
    for j in range(keys):
        place[j + 1] += place[j]
    size = place[keys]
    whose, of_range = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    together = np.empty(size)
    for number in range(len(first)):
        for entry in range(start[first[number]], start[first[number] + 1]):
            at = place[workloads[entry]]
            place[workloads[entry]] = at + 1
            whose[at], of_range[at] = workloads[entry], number
            together[at] = tasks[entry] * sizes[number]
    return whose, of_range, together


@compiled
def _range_starts(row_of, start, jobs, tasks):
    """Return whether each server (S,) differs from the one before it in row or in tasks."""
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
