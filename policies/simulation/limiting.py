"""Unused amounts of limits while tasks begin and end.

A task begins on a server only if it exceeds no limit that counts it there. Tasks that run go on when a
limit falls below what they use.

Source: docs/policies/limits.md, §Simulations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.compiled import compiled
from policies.model.problem import Problem
from policies.model.quantities import whole_quantities


class Limits(NamedTuple):
    """Unused amounts of limits, one for each resource that a limit names.

    An entry is a kind of pieces that an amount counts, which is a workload whose tasks have one piece,
    or a row of ``Tasks`` for a gang. Entries are ordered by kind.

    Attributes:
        left: (a,) unused amounts, whole; below 0 if a limit fell.
        where: (a, R) rows of servers on which tasks count.
        first: (q + 1,) entries of kind ``j`` are those from ``first[j]`` to ``first[j + 1] - 1``.
        row: (c,) index in ``left`` of the amount of each entry.
        kind, workload: (c,) of each entry.
        need: (c,) what one piece takes of the amount.
        closed: (c,) whether a piece was found to exceed the amount, or the pieces of a gang not to fit,
            even if no limit stopped them.
        counted: (c,) entries by amount, those of amount ``a`` from ``begin[a]`` to ``begin[a + 1] - 1``.
        begin: (a + 1,); shut: (a,) closed entries of each amount.
        allowed: (q, R) rows on which a task may start without limits.
        reopened: (q,) scratch, workloads that may start on more servers.
    """

    left: FloatArray
    where: BoolArray
    first: IntArray
    row: IntArray
    kind: IntArray
    workload: IntArray
    need: FloatArray
    closed: BoolArray
    counted: IntArray
    begin: IntArray
    shut: IntArray
    allowed: BoolArray
    reopened: IntArray


def without_limits(problem: Problem) -> Problem:
    """Return the problem without limits, whose whole numbers are the same whatever the limits are."""
    return replace(problem, limits=()) if problem.limits else problem


def limits_of(
    problem: Problem,
    kinds: IntArray,
    workloads: IntArray,
    rows: IntArray | None,
    allowed: BoolArray,
) -> Limits:
    """Return the limits of a problem while nothing runs.

    Args:
        kinds: (q,) kinds of pieces of the problem, in the order of the simulation.
        workloads: (q,) position of the workload of each kind.
        rows: (R,) of the problem, as the servers are numbered; None where all are one server.
        allowed: (q, R) rows on which a task may start without limits.
    """
    pieces = problem.pieces
    position = np.full(len(pieces.demand), -1, dtype=np.int64)
    position[kinds] = np.arange(len(kinds))
    amounts = np.array([limit.amount for limit in problem.limits]).reshape(-1, problem.m)
    if problem.limits:
        # As in a decision, what is too small a part of the pool counts as 0.
        amounts = np.where(problem.limit_share > 0, amounts, 0.0)
    finite = np.where(np.isfinite(amounts), amounts, 0.0)
    largest = np.maximum(problem.totals, finite.max(axis=0, initial=0.0))
    # On a scale of their own, because the terms of a simulation differ in limits.
    whole = whole_quantities(pieces.demand, np.zeros((0, problem.m)), largest, amounts)
    cells = np.argwhere(np.isfinite(amounts)).tolist()
    where = np.ones((len(cells), allowed.shape[1]), dtype=np.bool_)
    jobs, numbers = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    needs = [np.zeros(0)]
    for number, (limit, resource) in enumerate(cells):
        item = problem.limited[limit]
        if rows is not None:
            where[number] = item.rows[rows]
        mine = pieces.kinds_of(item.workloads)
        mine = mine[position[mine] >= 0]
        mine = mine[whole.demand[mine, resource] > 0]
        jobs.append(position[mine])
        numbers.append(np.full(len(mine), number))
        needs.append(whole.demand[mine, resource])
    job = np.concatenate(jobs)
    order = np.argsort(job, kind="stable")
    row = np.concatenate(numbers)[order]
    return Limits(
        left=np.array([whole.limits[limit, resource] for limit, resource in cells]).reshape(-1),
        where=where,
        first=np.searchsorted(job[order], np.arange(len(kinds) + 1)),
        row=row,
        kind=job[order],
        workload=workloads[job[order]],
        need=np.concatenate(needs)[order],
        closed=np.zeros(len(job), dtype=np.bool_),
        counted=np.argsort(row, kind="stable"),
        begin=np.searchsorted(np.sort(row), np.arange(len(cells) + 1)),
        shut=np.zeros(len(cells), dtype=np.int64),
        allowed=allowed.copy(),
        reopened=np.empty(len(kinds), dtype=np.int64),
    )


@compiled
def close_limits(job, limits, allowed):
    """Remove the rows on which one more task of a workload exceeds a limit from ``allowed``."""
    for at in range(limits.first[job], limits.first[job + 1]):
        amount = limits.row[at]
        if not limits.closed[at] and limits.need[at] > limits.left[amount]:
            limits.closed[at] = True
            limits.shut[amount] += 1
            for row in range(allowed.shape[1]):
                if limits.where[amount, row]:
                    allowed[job, row] = False


@compiled
def take_of_limits(job, row, limits):
    """Count a task of a workload that begins on a server of a row."""
    for at in range(limits.first[job], limits.first[job + 1]):
        if limits.where[limits.row[at], row]:
            limits.left[limits.row[at]] -= limits.need[at]


@compiled
def close_limits_of_kind(kind, limits):
    """Close the amounts that count a kind of pieces, so that more room in one lets its gang try again.

    The gang did not fit. Whether an amount or the servers stopped it is not known.
    """
    for at in range(limits.first[kind], limits.first[kind + 1]):
        if not limits.closed[at]:
            limits.closed[at] = True
            limits.shut[limits.row[at]] += 1


@compiled
def return_to_limits(kind, row, limits, per_task, allowed, pointer, blocked):
    """Count a piece of a workload no longer. Returns how many workloads ``reopened`` names.

    They may start on servers on which they would have exceeded a limit, so all servers are looked at
    again.
    """
    count = 0
    for at in range(limits.first[kind], limits.first[kind + 1]):
        amount = limits.row[at]
        if not limits.where[amount, row]:
            continue
        limits.left[amount] += limits.need[at]
        if limits.shut[amount] == 0:
            continue
        for place in range(limits.begin[amount], limits.begin[amount + 1]):
            entry = limits.counted[place]
            if not limits.closed[entry] or limits.need[entry] > limits.left[amount]:
                continue
            other = limits.workload[entry]
            limits.closed[entry] = False
            limits.shut[amount] -= 1
            if per_task[other] == 0:
                # The rows of a gang are those within its limits at each of its pieces.
                _reopen(other, limits, allowed)
            pointer[limits.kind[entry]] = 0
            if blocked[other]:
                blocked[other] = False
                limits.reopened[count] = other
                count += 1
    return count


@compiled
def _reopen(job, limits, allowed):
    for row in range(allowed.shape[1]):
        allowed[job, row] = limits.allowed[job, row]
    for at in range(limits.first[job], limits.first[job + 1]):
        if limits.closed[at]:
            for row in range(allowed.shape[1]):
                if limits.where[limits.row[at], row]:
                    allowed[job, row] = False
