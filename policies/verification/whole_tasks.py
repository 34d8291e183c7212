"""An answer with whole tasks, what stopped each of its workloads, and checks that no more fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray, IntArray, TextArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.current_placements import CurrentPlacements
from policies.model.tolerance import AGREEMENT
from policies.verification import long_term
from policies.verification.checks import Check, check
from policies.verification.gangs import gang_stop
from policies.verification.limit_stops import LargeEnough, closed_everywhere, short_everywhere
from policies.verification.places import Places
from policies.verification.pool import PoolTasks, pool_tasks
from policies.verification.reasons import (
    GANG,
    LEVEL,
    NO_SERVER_LARGE_ENOUGH,
    TASK_LIMIT,
    by_resource,
)
from policies.verification.replay import left_out
from policies.verification.servers import LimitsLeft
from policies.verification.stated import Stated
from policies.verification.stops import NOTHING, Room


@dataclass(frozen=True, eq=False)
class Whole:
    """An answer with whole tasks.

    Attributes:
        stated: the problem; places: of the answer's placements; allocation: the answer.
        pool: what tasks take of the pool as one server; None where they go to single servers.
        reasons: (n,) why a workload cannot run at all, even on empty servers; empty where it can.
        kept: where the guaranteed parts run that are kept; None without placements.
    """

    stated: Stated
    places: Places
    allocation: Allocation
    pool: PoolTasks | None
    reasons: TextArray
    kept: CurrentPlacements | None = None

    @classmethod
    def of(
        cls,
        stated: Stated,
        places: Places,
        allocation: Allocation,
        kept: CurrentPlacements | None = None,
    ) -> Whole:
        """Return the answer and the part of its problem that can run.

        Raises:
            PolicyOptionsError: an option names what the problem does not have.
        """
        pool = pool_tasks(stated) if stated.choice.sees_one_pool else None
        reasons = server_reasons(stated) if pool is None else pool.reasons
        return cls(stated, places, allocation, pool, reasons, kept)

    def stops(self) -> tuple[str | None, ...]:
        """Return the reason (n) that stopped each workload, None if one more task fits."""
        problem, tasks, places = self.stated.problem, self.allocation.tasks, self.places
        beyond = self._beyond_borrowing()
        if self.pool is not None:
            return _with_level(self.pool.stops(self.stated, tasks), beyond)
        amounts, answer = self.stated.on_servers, self.allocation
        # A copy, because it is used up below.
        left = amounts.capacity[places.row].copy()
        # What is not whole fails a check of its own.
        each = np.round(answer.placement_tasks / places.servers[answer.placement_class])
        for r in range(problem.m):
            used = each * amounts.demand[answer.placement_piece, r]
            left[:, r] -= grouped_sum(used, answer.placement_class, places.count)
        rows, kind = np.unique(places.row, return_inverse=True)
        allowed = places.allowed[:, np.searchsorted(places.row, rows)]
        room = Room(left, kind, allowed, _units(self.stated))
        owner = self.stated.pieces.owner
        # Only these are looked at: the others have a reason without any server.
        open_ = np.flatnonzero(((self.reasons == "") & (tasks < problem.tasks))[owner])
        stops: list[str | None] = [self.reasons[j] or TASK_LIMIT for j in owner.tolist()]
        some = Room(room.left, room.kind, room.allowed[open_], room.unit)
        blocking = some.blocking(amounts.demand[open_])
        for j, r in zip(open_.tolist(), blocking.tolist(), strict=True):
            stops[j] = None if r == NOTHING else by_resource(problem.resources[r])
        limits = self._limits(stops, room, rows) if self.stated.limits else None
        if problem.gangs:
            self._add_gangs(stops, left, limits, beyond)
        return _with_level(stops[: problem.n], beyond)

    def _beyond_borrowing(self) -> Sequence[bool]:
        """Return the workloads (n) whose tenants have borrowed all that they may."""
        problem, history = self.stated.problem, self.allocation.history
        if history is None:
            return [False] * problem.n
        limit = long_term.borrow_limit(self.stated, history.elapsed)
        beyond = np.logical_or.reduce(history.used > limit, axis=1)
        of_each: list[bool] = beyond[problem.workload_tenant].tolist()
        return of_each

    def _add_gangs(
        self,
        stops: list[str | None],
        left: FloatArray,
        limits: tuple[LimitsLeft, LargeEnough] | None,
        beyond: Sequence[bool],
    ) -> None:
        """Name what stops tasks of several pieces, each of which has room by itself."""
        stated, pieces, demand = self.stated, self.stated.pieces, self.stated.on_servers.demand
        resources = set(map(by_resource, stated.problem.resources))
        for j, gang in stated.problem.gangs.items():
            kinds = pieces.of(j)
            stops[j] = next((stops[q] for q in kinds if stops[q] is not None), None)
            need = pieces.count[kinds] @ demand[kinds]
            if limits is not None and (stops[j] is None or stops[j] in resources):
                stops[j] = short_everywhere(*limits, kinds, need) or stops[j]
            if stops[j] is None:
                stops[j] = gang_stop(stated, j, left, self.places, self.places.allowed)
            if stops[j] is None and limits is not None:
                stops[j] = limits[0].short_of(kinds[0], need)
            waits = gang.at_least > 1 and self.allocation.tasks[j] == 0
            if stops[j] is None and not beyond[j] and (len(kinds) > 1 or waits):
                # Handing the tasks out again shows that all pieces do not fit together.
                stops[j] = GANG

    def _limits(
        self, stops: list[str | None], room: Room, rows: IntArray
    ) -> tuple[LimitsLeft, LargeEnough]:
        """Name the limits that stop pieces.

        They exclude all servers that have room, or all that are large enough when they are empty.
        Returns the unused amounts, and these servers.
        """
        stated, answer = self.stated, self.allocation
        limits = LimitsLeft(stated.limits, stated.on_servers, rows, stated.pieces.owner)
        of_place = np.searchsorted(rows, self.places.row)
        # Rounded, as above: what is not whole fails a check of its own.
        limits.take_all(
            answer.placement_piece,
            of_place[answer.placement_class],
            np.round(answer.placement_tasks),
        )
        for j in [j for j, stop in enumerate(stops) if stop is None]:
            demand = stated.on_servers.demand[j]
            fits = (room.left >= demand).all(axis=1) & room.allowed[j][room.kind]
            here = np.unique(room.kind[fits])
            if (limits.closed(j) | ~np.isin(np.arange(len(rows)), here)).all():
                stops[j] = limits.first_in_the_way(j, here)
        resources = set(map(by_resource, stated.problem.resources))
        full = [j for j, stop in enumerate(stops) if stop in resources]
        large = LargeEnough(stated, rows, room.allowed)
        for j, reason in closed_everywhere(stated, limits, large, np.array(full, dtype=np.int64)):
            stops[j] = reason
        return limits, large


def _with_level(stops: Sequence[str | None], beyond: Sequence[bool]) -> tuple[str | None, ...]:
    """Return the reasons, and ``level`` for workloads that nothing but a borrow cap stops."""
    return tuple(
        LEVEL if stop is None and over else stop for stop, over in zip(stops, beyond, strict=True)
    )


def _units(stated: Stated) -> FloatArray:
    """Return one unit (m,) of the whole numbers on servers, as a share of the pool."""
    total = stated.problem.server_count @ stated.on_servers.capacity
    return np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)


def server_reasons(stated: Stated) -> TextArray:
    """Return the reason (n,) why a workload cannot run on empty servers, empty if it can."""
    rows = stated.rows
    amounts = stated.on_servers
    room = Room(amounts.capacity[rows.row], np.arange(rows.count), rows.allowed, _units(stated))
    misfit = np.zeros(stated.problem.n, dtype=np.bool_)
    misfit[stated.pieces.owner[room.blocking(amounts.demand) != NOTHING]] = True
    reasons = left_out(stated.unserved(rows), misfit, NO_SERVER_LARGE_ENOUGH)
    for j in stated.problem.gangs:
        if not reasons[j]:
            reasons[j] = gang_stop(stated, j, room.left, rows, rows.allowed) or ""
    return reasons


def check_whole_tasks(whole: Whole) -> Iterator[Check]:
    """Check that tasks are whole, also on each server of a range, and that no more fits.

    The reasons must agree.
    """
    problem, answer, places = whole.stated.problem, whole.allocation, whole.places
    tasks, placed = answer.tasks, answer.placement_tasks
    of = whole.stated.pieces.owner[answer.placement_piece]
    yield check(
        "whole_tasks",
        np.abs(tasks - np.round(tasks)),
        0.0,
        "indivisible tasks run whole",
        problem.workload_names,
    )
    yield check(
        "whole_placements",
        np.abs(placed - np.round(placed)) / np.maximum(placed, 1.0),
        AGREEMENT,
        "indivisible tasks run whole where they are placed",
        problem.workload_names,
        of,
    )
    if places.offset is not None:
        per_server = placed / places.servers[answer.placement_class]
        yield check(
            "whole_tasks_on_servers",
            np.abs(per_server - np.round(per_server)),
            0.0,
            "every server of a range runs the same number of whole tasks",
            problem.workload_names,
            of,
        )
    yield check(
        "unservable",
        np.where(whole.reasons != "", tasks, 0.0),
        0.0,
        "workloads of which no task fits anywhere have none",
        problem.workload_names,
    )
    if whole.pool is not None:
        yield _check_room(whole.pool, tasks, problem.resources)
    if not answer.policy.saturates:
        return
    stops = whole.stops()
    yield check(
        "saturated",
        np.array([stop is None for stop in stops]) * 1.0,
        0.0,
        "no workload that wants more tasks has room for one",
        problem.workload_names,
    )
    yield check(
        "stopped_by",
        np.array([a != b for a, b in zip(answer.limited_by, stops, strict=True)]) * 1.0,
        0.0,
        "the reasons follow from what is left on the servers",
        problem.workload_names,
    )


def _check_room(pool: PoolTasks, tasks: FloatArray, resources: Sequence[str]) -> Check:
    """Check that tasks take at most what the pool has.

    The policy counts its resources or its slots.
    """
    detail = "whole tasks take no more of the pool than there is, in resources or in slots"
    places = (*resources, *pool.full[len(resources) :]) if pool.names is None else ("slots",)
    return check("pool_room", tasks @ pool.demand - pool.room, 0.0, detail, places)
