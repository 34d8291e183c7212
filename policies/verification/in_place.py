"""Placements of whole tasks that stay on their servers.

Tasks that the problem states to be kept stay. Any other running task stays if its server still
offers room and its workload is allowed. If a workload shrinks, its last servers lose their tasks
first. The tasks that are then missing are placed by the placement rule in the room left. If that
gives other counts, or leaves room for a task, any placement with the same counts may hold that
leaves no room and moves fewer tasks than the fresh one.
"""

from __future__ import annotations

import numpy as np

from policies.arrays import FloatArray, IntArray, TextArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.current_placements import CurrentPlacements
from policies.verification.kept_tasks import OnServers, placed_on_servers, tasks_that_stay
from policies.verification.places import Places
from policies.verification.replay import Round, every_server, queues, replay, tasks_by_server
from policies.verification.servers import LimitsLeft, Servers, rule_of
from policies.verification.stated import LARGEST_DEMAND, SMALLEST_DEMAND, Stated
from policies.verification.turns import ByShare


def _first_server(stated: Stated) -> IntArray:
    """Return the number of the first server of each row (k,), -1 for rows that offer nothing."""
    first = np.full(stated.problem.k, -1, dtype=np.int64)
    servers = stated.rows.servers
    first[stated.rows.row] = np.cumsum(servers) - servers
    return first


def found_tasks(places: Places, stated: Stated, allocation: Allocation) -> OnServers:
    """Return the tasks on every server by the answer's placements."""
    of = allocation.placement_class
    offset = np.zeros(places.count, dtype=np.int64) if places.offset is None else places.offset
    first = _first_server(stated)[places.row[of]] + offset[of]
    position, server = every_server(first, places.servers[of])
    each = np.round(allocation.placement_tasks / places.servers[of])
    piece = allocation.placement_piece[position]
    return tasks_by_server(piece, server, each[position], len(stated.pieces.owner))


def same_tasks(found: OnServers, promised: OnServers) -> bool:
    """Return whether every server runs the tasks that are promised."""
    return np.array_equal(found[0], promised[0]) and np.array_equal(found[1], promised[1])


def moves_fewer(
    stated: Stated,
    reasons: TextArray,
    allocation: Allocation,
    running: CurrentPlacements,
    placements: tuple[OnServers, OnServers],
) -> bool:
    """Return whether a placement keeps what must stay, and moves fewer tasks than the fresh one.

    Args:
        placements: the one that is found, with the answer's counts, and the fresh one.
    """
    found, fresh = placements
    keys, tasks = tasks_that_stay(stated, reasons)
    at = np.searchsorted(found[0], keys)
    # One more key at the end, because a search may end behind the last.
    there = np.append(found[0], -1)[at] == keys
    if not there.all() or (found[1][at] < tasks).any():
        return False
    return moved_tasks(stated, allocation, running, found) < moved_tasks(
        stated, allocation, running, fresh
    )


def is_complete(
    stated: Stated, reasons: TextArray, allocation: Allocation, found: OnServers
) -> bool:
    """Return whether a placement is within all limits and no workload that wants more has room."""
    problem, rows, amounts = stated.problem, stated.rows, stated.on_servers
    row_of = np.repeat(np.arange(rows.count), rows.servers)
    left = amounts.capacity[rows.row][row_of]
    job, server = found[0] % max(problem.n, 1), found[0] // max(problem.n, 1)
    np.subtract.at(left, server, found[1][:, None] * amounts.demand[job])
    limits = None
    if stated.limits:
        limits = LimitsLeft(stated.limits, amounts, rows.row)
        limits.take_all(job, row_of[server], found[1])
        if any((amount < 0).any() for amount in limits.left):
            return False
    for j in np.flatnonzero((reasons == "") & (allocation.tasks < problem.tasks)).tolist():
        open_ = rows.allowed[j] if limits is None else rows.allowed[j] & ~limits.closed(j)
        if ((left >= amounts.demand[j]).all(axis=1) & open_[row_of]).any():
            return False
    return True


def moved_tasks(
    stated: Stated, allocation: Allocation, running: CurrentPlacements, found: OnServers
) -> int:
    """Tasks that ran before and run now, but on another server."""
    pieces = stated.pieces
    kinds = len(pieces.owner)
    keys, tasks = placed_on_servers(stated, running)
    # Tasks on servers that have left ran as well, and have moved if they run now.
    gone = running.tasks * running.servers * (running.row < 0)
    ran = grouped_sum(gone, running.workload, kinds)
    ran += grouped_sum(tasks, keys % max(kinds, 1), kinds)
    _, old, new = np.intersect1d(keys, found[0], return_indices=True)
    stayed = float(np.minimum(tasks[old], found[1][new]).sum())
    run = allocation.tasks[pieces.owner] * pieces.count
    return round(float(np.minimum(ran, run).sum()) - stayed)


def kept_in_place(
    stated: Stated, reasons: TextArray, allocation: Allocation, running: CurrentPlacements
) -> OnServers | None:
    """Return the tasks on every server if running tasks stay.

    None if the missing tasks do not fit beside them.
    """
    problem, amounts, rows = stated.problem, stated.on_servers, stated.rows
    row_of = np.repeat(np.arange(rows.count), rows.servers)
    first_keys, first = tasks_that_stay(stated, reasons)
    keys, tasks = placed_on_servers(stated, running)
    tasks = tasks.copy()
    _, here, there = np.intersect1d(keys, first_keys, return_indices=True)
    # What must stay is counted apart, and not twice.
    tasks[here] = np.maximum(tasks[here] - first[there], 0.0)
    job, server = keys % max(problem.n, 1), keys // max(problem.n, 1)
    stays = rows.allowed[job, row_of[server]] & (tasks > 0)
    tasks, job, server = tasks[stays], job[stays], server[stays]
    left = amounts.capacity[rows.row][row_of]
    missing = allocation.tasks.copy()
    first_job, first_server = first_keys % max(problem.n, 1), first_keys // max(problem.n, 1)
    np.subtract.at(missing, first_job, first)
    np.subtract.at(left, first_server, first[:, None] * amounts.demand[first_job])
    used = np.zeros_like(left)
    np.add.at(used, server, tasks[:, None] * amounts.demand[job])
    fits = np.logical_and.reduce(used <= left, axis=1)[server]
    tasks, job, server = tasks[fits], job[fits], server[fits]
    kept = np.zeros(len(job))
    for position in np.lexsort((server, job)).tolist():
        kept[position] = min(tasks[position], missing[job[position]])
        missing[job[position]] -= kept[position]
    np.subtract.at(left, server, kept[:, None] * amounts.demand[job])
    some = kept > 0
    job = np.concatenate([first_job, job[some]])
    server = np.concatenate([first_server, server[some]])
    kept = np.concatenate([first, kept[some]])
    if missing.any():
        # Nothing is kept, so that the fresh placement is the answer.
        if not len(job):
            return None
        more = _completed(stated, reasons, allocation, missing, left, row_of)
        if more is None:
            return None
        job, server = np.concatenate([job, more[0]]), np.concatenate([server, more[1]])
        kept = np.concatenate([kept, np.ones(len(more[0]))])
    return tasks_by_server(job, server, kept, problem.n)


def _completed(
    stated: Stated,
    reasons: TextArray,
    allocation: Allocation,
    missing: FloatArray,
    left: FloatArray,
    row_of: IntArray,
) -> tuple[IntArray, IntArray] | None:
    """Workload and server of each missing task (n,), by least share of what is left (S, m)."""
    problem, demand = stated.problem, stated.on_servers.demand
    open_ = np.flatnonzero((left > 0).any(axis=1))
    total = left[open_].sum(axis=0)
    present = total > 0
    share = demand[:, present] / total[present]
    beyond = (demand[:, ~present] > 0).any(axis=1)
    beyond |= ((share > 0) & ((share < SMALLEST_DEMAND) | (share > LARGEST_DEMAND))).any(axis=1)
    allowed = stated.rows.allowed[:, row_of[open_]]
    servers = Servers(
        left[open_][:, present],
        np.ones(len(open_), dtype=np.int64),
        demand[:, present],
        allowed,
    )
    why = reasons.copy()
    why[(why == "") & beyond] = "beyond"
    for j in np.flatnonzero((why == "") & (missing > 0)).tolist():
        if not len(servers.fitting(j)):
            why[j] = "no room"
    why[missing <= 0] = "all placed"
    fills = allocation.policy.fills
    rule = rule_of(servers, stated.choice.option) if fills else servers.affinity
    launched = replay(
        queues(problem.workload_tenant, problem.priority, why, problem.t),
        missing,
        [Round(np.flatnonzero(~stated.late)), Round(np.flatnonzero(stated.late))],
        ByShare(stated.weight, share.max(axis=1, initial=0.0), share),
        servers,
        rule,
        missing,
    )
    return (launched.job, open_[launched.server]) if launched.agrees else None
