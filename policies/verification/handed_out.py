"""Checks of how whole tasks were handed out, of their counts, servers, levels and objective.

On one pool, necessary and sufficient conditions (``pool``) decide whether the counts are those of
the policy. On servers, and where the past counts, the tasks are handed out again (``replay``).
Static partitioning is computed again (``partition``). Where tasks kept their places, only the
missing ones were placed by the rule (``in_place``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from policies import catalogue
from policies.arrays import FloatArray, IntArray
from policies.model.current_placements import CurrentPlacements
from policies.model.history import History
from policies.model.policy import Choice, HandOut, ShareDefinition
from policies.model.tolerance import AGREEMENT
from policies.verification import in_place, long_term
from policies.verification.checks import Check, check
from policies.verification.gangs import GangRule, rows_by_value
from policies.verification.groups import InGroups
from policies.verification.kept_tasks import OnServers, tasks_that_stay
from policies.verification.partition import partition_tasks
from policies.verification.pool import out_of_turn
from policies.verification.replay import (
    MOST_REPLAYED,
    ReplayResult,
    Round,
    every_server,
    queues,
    replay,
    tasks_by_server,
)
from policies.verification.servers import LimitsLeft, Servers, rule_of
from policies.verification.stated import Stated
from policies.verification.turns import ByHistory, ByShare
from policies.verification.whole_tasks import Whole


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
        # Read from its number on each server, a sum is whole but for rounding, as is checked elsewhere.
        found[j, place] = found.get((j, place), 0.0) + round(tasks)
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
        waiting, problem.tasks, rounds, order, servers, rule, whole.allocation.tasks,
        launch=launch, started=started, gangs=gangs,
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
