"""Reasons for which workloads of an indivisible answer stopped, derived from its placements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, TextArray
from policies.model.allocation import Allocation
from policies.model.borrow_cap import beyond_borrow_limit
from policies.model.gang_places import each_kind_fits
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.reasons import (
    GANG,
    LEVEL,
    NO_SERVER_LARGE_ENOUGH,
    limited_by_limit,
    limited_by_resource,
    unserved_reasons,
)
from policies.model.server_classes import ServerClasses, allowed_pieces
from policies.proofs.gang_stops import with_gangs
from policies.proofs.pool_of_tasks import pool_of_tasks, whole_pool
from policies.proofs.stop_reasons import STILL_FITS, stopped_by, too_large


def stops_of(allocation: Allocation) -> tuple[str, ...] | None:
    """Return the reason (n) for which each workload runs no more tasks.

    None for policies that never fill.

    Args:
        allocation: whole tasks within every capacity.
    """
    if not allocation.policy.saturates:
        return None
    problem = allocation.problem
    beyond = np.zeros(problem.t, dtype=np.bool_)
    if allocation.history is not None:
        beyond = beyond_borrow_limit(problem, allocation.choice, allocation.history)
    stops = _stops_by_room(allocation, beyond[problem.workload_tenant])
    if not beyond.any():
        return stops
    return tuple(
        LEVEL if stop == STILL_FITS and beyond[tenant] else stop
        for stop, tenant in zip(stops, problem.workload_tenant.tolist(), strict=True)
    )


def _stops_by_room(allocation: Allocation, beyond: BoolArray) -> tuple[str, ...]:
    """Return the reasons (n) by the room left on the servers, or in the pool.

    Args:
        beyond: (n,) workloads whose tenants have borrowed all that they may.
    """
    problem, choice, classes = allocation.problem, allocation.choice, allocation.classes
    if choice.sees_one_pool:
        kept = choice.policy.long_term
        pool = whole_pool(problem) if kept else pool_of_tasks(problem, choice)
        return pool.limited_by(problem, allocation.tasks)
    whole = WholeServers.of(problem)
    left = allocation.left(whole)
    rows, kind = np.unique(classes.first_row, return_inverse=True)
    first = np.searchsorted(classes.first_row, rows)
    reasons = filling_reasons(problem, whole, classes)
    of = problem.pieces.workload
    allowed = allowed_pieces(problem, classes, first)

    def stops_on(allowed: BoolArray) -> tuple[str, ...]:
        return stopped_by(
            tuple(map(limited_by_resource, problem.resources)),
            allocation.tasks[of],
            problem.tasks[of],
            demand=whole.demand,
            left=left,
            share_of_unit=whole.share_of_unit,
            allowed=allowed,
            kind=kind,
            reasons=reasons[of],
        )

    stops, room = list(stops_on(allowed)), room_of_limits(allocation, whole)
    if problem.limits:
        exhausted = _exhausted_limits(problem, whole, room)
        within = allowed.copy()
        for number, kinds in enumerate(exhausted):
            within[np.ix_(kinds, problem.limited[number].rows[rows])] = False
        # A limit that excludes every server with room is the reason.
        for j, stop in enumerate(stops_on(within)):
            if stops[j] == STILL_FITS:
                stops[j] = stop
                if stop != STILL_FITS:
                    fits = _rows_with_room(whole.demand[j], left, kind) & allowed[j]
                    stops[j] = _limit_in_the_way(problem, exhausted, j, rows[fits])
        _name_limits_on_all_servers(stops, problem, whole, exhausted, rows, allowed, within)
    if not problem.gangs:
        return tuple(stops)
    of_class = np.ascontiguousarray(allowed[:, kind])
    return with_gangs(allocation, left, of_class, whole, room, stops, beyond)


def room_of_limits(allocation: Allocation, whole: WholeServers) -> list[FloatArray]:
    """Return the unused amounts (m,) of each limit."""
    problem, classes = allocation.problem, allocation.classes
    room = []
    for item, amounts in zip(problem.limited, whole.limits, strict=True):
        below = np.zeros(problem.n, dtype=np.bool_)
        below[item.workloads] = True
        mine = below[allocation.placement_workload]
        mine &= item.rows[classes.first_row][allocation.placement_class]
        tasks = np.round(allocation.placement_tasks[mine])
        room.append(amounts - tasks @ whole.demand[allocation.placement_piece[mine]])
    return room


def _exhausted_limits(
    problem: Problem, whole: WholeServers, room: Sequence[FloatArray]
) -> list[IntArray]:
    """Return for each limit the kinds of pieces of which one more would exceed it."""
    exhausted = []
    for item, left in zip(problem.limited, room, strict=True):
        kinds = problem.pieces.kinds_of(item.workloads)
        exhausted.append(kinds[(whole.demand[kinds] > left).any(axis=1)])
    return exhausted


def _name_limits_on_all_servers(
    stops: list[str],
    problem: Problem,
    whole: WholeServers,
    exhausted: Sequence[IntArray],
    rows: IntArray,
    allowed: BoolArray,
    within: BoolArray,
) -> None:
    """Name limits as the reason of pieces that they exclude from all servers, full or not.

    More room would not help such a workload, although others may have filled the servers since.

    Args:
        stops: (q) by room, changed here. rows: (R,) of servers. allowed: (q, R) where pieces may run,
            within: and where no limit excludes them.
    """
    empty = whole.capacity[rows]
    full = {limited_by_resource(name) for name in problem.resources}
    waiting = np.array([stop in full for stop in stops], dtype=np.bool_)
    waiting[waiting] = too_large(
        whole.demand[waiting], empty, within[waiting], np.arange(len(rows))
    )
    for number, kinds in enumerate(exhausted):
        mine, here = kinds[waiting[kinds]], np.flatnonzero(problem.limited[number].rows[rows])
        # Those that wait fit somewhere. Only a limit of some servers may be of none that are theirs.
        if len(mine) and len(here) < len(rows):
            on_these = allowed[np.ix_(mine, here)]
            none = too_large(whole.demand[mine], empty[here], on_these, np.arange(len(here)))
            mine = mine[~none]
        for j in mine.tolist():
            stops[j] = limited_by_limit(problem, number)
            waiting[j] = False


def _rows_with_room(demand: FloatArray, left: FloatArray, kind: IntArray) -> BoolArray:
    """Return the rows (K,) with a server that has room for one more task."""
    room = np.zeros(int(kind.max(initial=-1)) + 1, dtype=np.bool_)
    np.logical_or.at(room, kind, (left >= demand).all(axis=1))
    return room


def _limit_in_the_way(
    problem: Problem, exhausted: Sequence[IntArray], piece: int, rows: IntArray
) -> str:
    """Return the first limit that excludes a row, as the reason of pieces with room there."""
    for number, kinds in enumerate(exhausted):
        if piece in kinds and problem.limited[number].rows[rows].any():
            return limited_by_limit(problem, number)
    raise AssertionError("a workload with room that no limit stops")


def filling_reasons(problem: Problem, whole: WholeServers, classes: ServerClasses) -> TextArray:
    """Return why each workload (n,) cannot run at all on empty servers, or the empty string."""
    rows, first = np.unique(classes.first_row, return_index=True)
    reasons = unserved_reasons(problem, classes.allowed_on(first))
    allowed = allowed_pieces(problem, classes, first)
    misfit = too_large(whole.demand, whole.capacity[rows], allowed, np.arange(len(rows)))
    large = np.zeros(problem.n, dtype=np.bool_)
    large[problem.pieces.workload[misfit]] = True
    reasons[(reasons == "") & large] = NO_SERVER_LARGE_ENOUGH
    if not problem.gangs:
        return reasons
    empty, of_class = whole.capacity[classes.first_row], allowed_pieces(problem, classes)
    for j in problem.gangs:
        if not reasons[j] and not each_kind_fits(problem, j, whole, classes, empty, of_class):
            reasons[j] = GANG
    return reasons
