"""Checks of whole tasks, of their counts, servers and reasons.

On one pool, necessary and sufficient conditions (``pool``) decide whether the counts are those of
the policy. On servers, and where the past counts, the tasks are handed out again (``replay``).
Static partitioning is computed again (``partition``). Where tasks kept their places, only the
missing ones were placed by the rule (``in_place``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from policies import catalogue
from policies.arrays import FloatArray, IntArray, TextArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.current_placements import CurrentPlacements
from policies.model.history import History
from policies.model.policy import Choice, HandOut, ShareDefinition
from policies.model.tolerance import AGREEMENT
from policies.verification import in_place, long_term
from policies.verification.checks import Check, check
from policies.verification.gangs import GangRule, gang_stop, rows_by_value
from policies.verification.groups import InGroups
from policies.verification.kept_tasks import OnServers, tasks_that_stay
from policies.verification.partition import partition_tasks
from policies.verification.pool import PoolTasks, out_of_turn, pool_tasks
from policies.verification.replay import (
    MOST_REPLAYED,
    ReplayResult,
    Round,
    every_server,
    left_out,
    queues,
    replay,
    tasks_by_server,
)
from policies.verification.servers import LimitsLeft, Servers, rule_of
from policies.verification.stated import (
    GANG,
    LEVEL,
    NO_SERVER_LARGE_ENOUGH,
    TASK_LIMIT,
    Places,
    Stated,
    by_resource,
)
from policies.verification.stops import NOTHING, Room
from policies.verification.turns import ByHistory, ByShare


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
        limits: LimitsLeft | None,
        beyond: Sequence[bool],
    ) -> None:
        """Name what stops tasks of several pieces, each of which has room by itself."""
        stated, pieces, demand = self.stated, self.stated.pieces, self.stated.on_servers.demand
        for j, gang in stated.problem.gangs.items():
            kinds = pieces.of(j)
            stops[j] = next((stops[q] for q in kinds if stops[q] is not None), None)
            if stops[j] is None:
                stops[j] = gang_stop(stated, j, left, self.places, self.places.allowed)
            if stops[j] is None and limits is not None:
                short = limits.short_of(kinds[0], pieces.count[kinds] @ demand[kinds])
                stops[j] = short
            waits = gang.at_least > 1 and self.allocation.tasks[j] == 0
            if stops[j] is None and not beyond[j] and (len(kinds) > 1 or waits):
                # Handing the tasks out again shows that all pieces do not fit together.
                stops[j] = GANG

    def _limits(self, stops: list[str | None], room: Room, rows: IntArray) -> LimitsLeft:
        """Name the limits that stop pieces for which servers have room. Return the unused amounts."""
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
        return limits


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


def check_handed_out(
    whole: Whole, before: History, running: CurrentPlacements | None
) -> Iterator[Check]:
    """Counts, servers, levels and objective are what the policy promises.

    Args:
        whole: an answer that fits, of a policy that states how it hands out tasks.
        before: what a long-term policy remembered; running: where tasks ran.
    """
    hands_out = whole.allocation.policy.hands_out
    yield from _check_levels(whole)
    if hands_out is HandOut.OWN_PARTITION:
        yield from _check_partition(whole)
    # Counts alone decide here, without handing out a task.
    elif (
        whole.pool is not None
        and whole.stated.groups is None
        and hands_out is HandOut.LEAST_SHARE
        and not whole.stated.problem.kept.any()
    ):
        passed_over = out_of_turn(whole.stated, whole.pool, whole.allocation.tasks)
        yield check(
            "nobody_passed_over",
            passed_over * 1.0,
            0.0,
            "no workload stopped while its next task fitted at its tenant's turn",
            whole.stated.problem.workload_names,
        )
    else:
        yield from _check_replayed(whole, before, running)


def _check_levels(whole: Whole) -> Iterator[Check]:
    """Levels and objective follow from the tasks, where these alone make them."""
    stated, answer = whole.stated, whole.allocation
    problem, level = stated.problem, answer.level
    if answer.policy.hands_out in (HandOut.LEAST_SHARE, HandOut.FEWEST_REQUESTS):
        columns = stated.columns if whole.pool is None else whole.pool.columns
        if answer.policy.hands_out is HandOut.FEWEST_REQUESTS:
            columns = np.ones((problem.n, 1))
        share = np.where(problem.kept, 0.0, stated.tenant_shares(columns, answer.tasks))
        runs = np.isfinite(level) & ~problem.kept
        share += np.where(runs, stated.counted_floors, 0.0)
        yield check(
            "levels",
            np.where(runs, np.abs(np.where(runs, level, 0.0) * stated.weight - share), share)
            / np.maximum(share, 1e-3 * AGREEMENT),
            AGREEMENT,
            "every tenant's level is its share over its weight",
            problem.tenants,
        )
        level = share / stated.weight
    expected = np.nan
    if answer.policy.hands_out is not HandOut.OWN_PARTITION:
        expected = least_unsatisfied(stated, level, answer.limited_by)
    given = np.array([answer.objective, answer.bound, answer.gap])
    derived = np.array([expected, np.nan, np.nan])
    yield check(
        "objective",
        ~np.isclose(given, derived, rtol=AGREEMENT, atol=0, equal_nan=True) * 1.0,
        0.0,
        "the objective is the least level of tenants that a resource stopped, and nothing bounds it",
        ("objective", "bound", "gap"),
    )


def least_unsatisfied(stated: Stated, level: FloatArray, limited_by: Sequence[str]) -> float:
    """Return the least level (t,) of tenants served first that a resource stopped, or NaN."""
    wanting = np.zeros(stated.problem.t, dtype=np.bool_)
    for owner, reason in zip(stated.problem.workload_tenant.tolist(), limited_by, strict=True):
        wanting[owner] |= reason.startswith("resource:")
    wanting &= ~stated.late
    return float(level[wanting].min()) if wanting.any() else np.nan


def _check_partition(whole: Whole) -> Iterator[Check]:
    problem, answer = whole.stated.problem, whole.allocation
    promised, reasons = partition_tasks(whole.stated, whole.places)
    found: dict[tuple[int, int], float] = {}
    for j, place, tasks in zip(
        answer.placement_piece.tolist(),
        answer.placement_class.tolist(),
        answer.placement_tasks.tolist(),
        strict=True,
    ):
        found[j, place] = found.get((j, place), 0.0) + tasks
    wrong = np.zeros(problem.n)
    for key in found.keys() | promised.keys():
        wrong[key[0]] = max(wrong[key[0]], abs(found.get(key, 0.0) - promised.get(key, 0)))
    yield check(
        "own_servers",
        wrong,
        0.0,
        "every workload runs what fits on the servers that its tenant has to itself, and there",
        problem.workload_names,
    )
    yield check(
        "stopped_by",
        np.array([a != b for a, b in zip(answer.limited_by, reasons, strict=True)]) * 1.0,
        0.0,
        "the reasons follow from what is left on these servers",
        problem.workload_names,
    )


def _check_replayed(
    whole: Whole, before: History, running: CurrentPlacements | None
) -> Iterator[Check]:
    problem, answer = whole.stated.problem, whole.allocation
    pieces = whole.stated.pieces
    total = float((answer.tasks[pieces.owner] * pieces.count).sum())
    if total > MOST_REPLAYED:
        what = "pieces" if whole.stated.problem.gangs else "tasks"
        detail = f"the answer has {total:.0f} {what}; at most {MOST_REPLAYED} are handed out again"
        yield Check("size", False, detail, total / MOST_REPLAYED)
        return
    launched = _replayed(whole, before)
    yield check(
        "handed_out",
        np.abs(launched.tasks - answer.tasks) * (not launched.agrees),
        0.0,
        "handing the tasks out again gives every workload as many",
        problem.workload_names,
    )
    if not launched.agrees or whole.pool is not None:
        return
    fresh = tasks_by_server(
        launched.job, launched.server, np.ones(len(launched.job)), len(pieces.owner)
    )
    yield from check_places(whole, fresh, running)


def check_places(
    whole: Whole,
    fresh: OnServers,
    running: CurrentPlacements | None,
    guaranteed: Callable[[OnServers], bool] = lambda _: True,
) -> Iterator[Check]:
    """Check servers and moves against what the placement rule makes anew (``fresh``).

    Args:
        guaranteed: whether guaranteed tasks run where they are guaranteed, in a placement.
    """
    answer = whole.allocation
    found = in_place.found_tasks(whole.places, whole.stated, answer)
    agrees = in_place.same_tasks(found, fresh)
    moved = None
    if running is not None:
        if not agrees:
            if whole.stated.problem.gangs:
                kept = _gangs_in_place(whole, running)
                agrees = kept is not None and in_place.same_tasks(found, kept)
                agrees = agrees and guaranteed(found)
            else:
                agrees = _in_place(whole, running, found, fresh, guaranteed)
        moved = in_place.moved_tasks(whole.stated, answer, running, found)
    yield Check(
        "placed_by_rule",
        agrees,
        "every task runs where the policy's rule puts it, or where it ran before",
        0.0 if agrees else np.inf,
    )
    yield Check(
        "moved",
        answer.moved == moved,
        "the tasks that are stated to move are those that ran elsewhere before",
        0.0 if answer.moved == moved else np.inf,
    )


def _in_place(
    whole: Whole,
    running: CurrentPlacements,
    found: OnServers,
    fresh: OnServers,
    guaranteed: Callable[[OnServers], bool],
) -> bool:
    """Return whether tasks stay where they may, and otherwise few of them move."""
    stated, reasons, answer = whole.stated, whole.reasons, whole.allocation
    kept = in_place.kept_in_place(stated, reasons, answer, running)
    if kept is not None and in_place.same_tasks(found, kept):
        return True
    # Tasks that can all stay must stay: another placement is wrong however few of them it moves.
    if (
        kept is not None
        and in_place.is_complete(stated, reasons, answer, kept)
        and guaranteed(kept)
    ):
        return False
    return in_place.moves_fewer(stated, reasons, answer, running, (found, fresh))


def _gangs_in_place(whole: Whole, running: CurrentPlacements) -> OnServers | None:
    """Return what every server runs if gangs stay, or None if not all tasks fit beside them.

    Running tasks are kept as those of a minimum run are, at most as many as are decided, and the others
    are handed out again.
    """
    answer, choice = whole.allocation, whole.stated.choice
    if not answer.policy.fills:
        choice = Choice(catalogue.DRFH, "indivisible", {"placement": "affinity"})
    decided = replace(whole.stated.problem, tasks=answer.tasks, kept_placements=running)
    stated = Stated(decided, choice)
    again = Whole.of(stated, whole.places, replace(answer, problem=decided, choice=choice))
    must, tasks = tasks_that_stay(whole.stated, whole.reasons)
    stays = dict(zip(*map(np.ndarray.tolist, tasks_that_stay(stated, again.reasons)), strict=True))
    if any(
        stays.get(key, 0.0) < number
        for key, number in zip(must.tolist(), tasks.tolist(), strict=True)
    ):
        return None
    launched = _replayed(again, History.zeros(decided))
    if not launched.agrees:
        return None
    ones = np.ones(len(launched.job))
    return tasks_by_server(launched.job, launched.server, ones, len(stated.pieces.owner))


def _replayed(whole: Whole, before: History) -> ReplayResult:
    """Hand out the answer's tasks again, until one is not the policy's."""
    stated, choice = whole.stated, whole.stated.choice
    problem, hands_out = stated.problem, choice.policy.hands_out
    if whole.pool is not None:
        demand, size = whole.pool.demand, whole.pool.room[None, :]
        count, allowed = np.ones(1, dtype=np.int64), np.ones((problem.n, 1), dtype=np.bool_)
    else:
        rows = stated.rows
        demand, size = stated.on_servers.demand, stated.on_servers.capacity[rows.row]
        count, allowed = rows.servers, rows.allowed
    present = stated.totals > 0
    columns = np.r_[present, np.ones(demand.shape[1] - len(present), dtype=np.bool_)]
    limits = None
    if whole.pool is None and stated.limits:
        limits = LimitsLeft(stated.limits, stated.on_servers, stated.rows.row, stated.pieces.owner)
    apart = [] if whole.pool is not None else rows_by_value(stated)
    servers = Servers(size[:, columns], count, demand[:, columns], allowed, limits, apart)
    # Kept parts take no turns: they run already.
    late = stated.late | problem.kept
    tenants = [np.flatnonzero(~late), np.flatnonzero(late & ~problem.kept)]
    rounds = [Round(mine) for mine in tenants]
    turns: ByShare | ByHistory
    rule: Callable[[int], int] = servers.affinity
    launch = None
    if hands_out is HandOut.FEWEST_REQUESTS:
        turns, rule, launch = (
            ByShare(stated.weight, np.ones(problem.n), stated.task_shares),
            servers.evenest,
            servers.host,
        )
    elif hands_out is HandOut.LEAST_SHARE:
        alone = stated.choice.share is ShareDefinition.ALONE
        gain = stated.columns if alone else stated.task_shares
        turns = ByShare(stated.weight, stated.columns[:, 0], gain)
        if whole.pool is None:
            rule = rule_of(servers, choice.option)
    else:
        assert hands_out is not None  # noqa: S101 - nothing else is handed out again
        ahead = long_term.ahead(stated, before, whole.reasons)
        present_unit = np.divide(1.0, stated.totals, out=np.zeros(problem.m), where=present)
        turns = ByHistory(
            hands_out, stated.weight, present_unit, before.used, ahead.alone,
            long_term.borrow_limit(stated, ahead.elapsed), problem.demand * before.step,
        )  # fmt: skip
        first = long_term.starved(stated, before)
        rounds = []
        # Starved tenants have one task each before the others, as in the policy.
        for mine in tenants:
            rounds += [Round(mine[first[mine]], once=True), Round(mine)]
    waiting = queues(problem.workload_tenant, problem.priority, whole.reasons, problem.t)
    started = _kept_tasks(whole, servers)
    running = np.bincount(started[0], minlength=problem.n)[: problem.n]
    jobs = np.repeat(np.arange(problem.n), running // stated.pieces.count[: problem.n])
    if isinstance(turns, ByShare):
        turns.start(problem.workload_tenant, jobs, stated.counted_floors)
    else:
        turns.start(problem.workload_tenant, jobs)
    order = turns if stated.groups is None else InGroups(stated.groups, turns)
    gangs = GangRule(stated, servers, rule, stated.rows.row) if problem.gangs else None
    return replay(
        waiting, problem.tasks, rounds, order, servers, rule, whole.allocation.tasks, launch,
        started, gangs,
    )  # fmt: skip


def _kept_tasks(whole: Whole, servers: Servers) -> tuple[IntArray, IntArray]:
    """Kind and server of each task that runs before the turns begin, taken from the servers.

    These are the guaranteed parts that are kept, and the tasks that stay on their servers.
    """
    problem, kept = whole.stated.problem, whole.kept
    parts = np.flatnonzero(problem.kept[problem.workload_tenant])
    job = np.repeat(parts, problem.tasks[parts].astype(np.int64))
    server = np.zeros(len(job), dtype=np.int64)
    if kept is not None:
        first = np.zeros(problem.k, dtype=np.int64)
        rows = whole.stated.rows
        first[rows.row] = np.cumsum(rows.servers) - rows.servers
        position, number = every_server(first[kept.row] + kept.offset, kept.servers)
        each = kept.tasks[position].astype(np.int64)
        job, server = np.repeat(kept.workload[position], each), np.repeat(number, each)
    if problem.kept_placements is not None:
        keys, tasks = tasks_that_stay(whole.stated, whole.reasons)
        kinds = max(len(whole.stated.pieces.owner), 1)
        each = tasks.astype(np.int64)
        job = np.r_[np.repeat(keys % kinds, each), job]
        server = np.r_[np.repeat(keys // kinds, each), server]
    # One by one, because the servers note which of them are still empty.
    for one, where in zip(job.tolist(), server.tolist(), strict=True):
        servers.take(where, one)
    return job, server
