"""Keeping tasks where they run, with the numbers that are decided.

Policies decide how many tasks each workload runs; where they run is free as long as the counts
are the same (policies §3). Tasks that the problem states to be kept stay. Others that run already
stay, tasks of workloads that shrink leave the last servers first, and what is missing is placed by
the same rule in what is left. Where that gives other counts, or leaves room for a task that wants
to run, some of them move (``few_moves``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from policies import catalogue
from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.errors import SolveTimeoutError
from policies.filling.kept_tasks import kept_tasks
from policies.filling.ranges import ranges_of
from policies.filling.servers import solve_indivisible
from policies.finishing.few_moves import Placing, exchange_in_rows, few_moves
from policies.finishing.gangs_in_place import gangs_in_place
from policies.model.allocation import Allocation, current_placements_of
from policies.model.current_placements import GONE, CurrentPlacements
from policies.model.objectives import least_level_unsatisfied
from policies.model.policy import Choice, Servers
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.reasons import limited_by_resource
from policies.model.request import Request
from policies.model.server_classes import (
    ServerClasses,
    each_row_alone,
    server_ranges,
)
from policies.model.tasks_on_servers import TasksOnServers
from policies.proofs.capacities import Capacities
from policies.proofs.saturation import stops_of
from policies.proofs.stop_reasons import STILL_FITS


def keeps_places(allocation: Allocation) -> bool:
    """Return whether the answer names the servers of whole tasks, so that they can stay."""
    return (
        allocation.policy.servers[allocation.mode] is Servers.RANGES
        and allocation.classes.offset is not None
    )


def stay_in_place(
    problem: Problem,
    allocation: Allocation,
    running: CurrentPlacements,
    deadline: float | None = None,
    accepts: Callable[[Allocation], bool] | None = None,
) -> Allocation:
    """Return the same answer with tasks kept on the servers they run on, and how many moved.

    Args:
        problem: the problem.
        allocation: its answer (:func:`keeps_places`), counts and fresh placement.
        running: where tasks run now.
        deadline: ``time.monotonic()`` seconds at which the fresh placement is good enough.
        accepts: whether tasks may stay where they then run; None: they may.

    Returns:
        An allocation with the same tasks, levels and objective. ``moved`` counts the tasks
        that run before and after on different servers; of gangs, the pieces.
    """
    rows = each_row_alone(problem)
    before = _TasksBefore.of(problem, rows, running)
    most = before.moved(allocation)
    fresh = replace(allocation, moved=most)
    for place in _ways(problem, rows, allocation, running, before, deadline):
        try:
            placed = place()
        except SolveTimeoutError:
            return fresh
        if placed is None:
            continue
        answer = _with_placements(problem, rows, placed, allocation)
        if answer is not None and (accepts is None or accepts(answer)):
            moved = before.moved(answer)
            # The rule's own placement has precedence unless another one spares moves.
            return fresh if moved >= most else replace(answer, moved=moved)
    return fresh


def _ways(
    problem: Problem,
    rows: ServerClasses,
    allocation: Allocation,
    running: CurrentPlacements,
    before: _TasksBefore,
    deadline: float | None,
) -> list[Callable[[], TasksOnServers | None]]:
    """Return how the decided tasks can be placed beside what stays, in the order in which to try."""
    if problem.gangs:
        return [lambda: gangs_in_place(problem, rows, running, allocation, deadline)]
    if not len(before.here.key):
        return []
    stays = kept_tasks(problem)
    kept = _kept(problem, rows, before.here, allocation.tasks, stays)
    placing = Placing(allocation.tasks, _stopped_by_room(allocation), before.here, stays)
    fresh = TasksOnServers.of_placements(problem, rows, current_placements_of(allocation))
    return [
        lambda: _completed(problem, rows, kept, allocation, deadline),
        lambda: few_moves(problem, rows, placing, deadline),
        lambda: exchange_in_rows(rows, fresh, placing, deadline),
    ]


@dataclass(frozen=True, eq=False)
class _TasksBefore:
    """Tasks that ran before a decision.

    Attributes:
        rows: each row of servers alone; here: tasks on servers that are offered.
        tasks: (q,) of each kind, also on servers that are gone.
    """

    rows: ServerClasses
    here: TasksOnServers
    tasks: FloatArray

    @classmethod
    def of(cls, problem: Problem, rows: ServerClasses, running: CurrentPlacements) -> _TasksBefore:
        here = TasksOnServers.of_placements(problem, rows, running)
        gone = running.tasks * running.servers * (running.row == GONE)
        tasks = here.per_kind() + grouped_sum(gone, running.workload, here.kinds)
        return cls(rows, here, tasks)

    def moved(self, answer: Allocation) -> int:
        """Return how many tasks, or pieces, run before and after on different servers."""
        pieces = answer.problem.pieces
        placements = current_placements_of(answer)
        after = TasksOnServers.of_placements(answer.problem, self.rows, placements)
        _, here, there = np.intersect1d(self.here.key, after.key, return_indices=True)
        stayed = np.minimum(self.here.tasks[here], after.tasks[there]).sum()
        run = answer.tasks[pieces.workload] * pieces.count
        return round(float(np.minimum(self.tasks, run).sum() - stayed))


def _stopped_by_room(allocation: Allocation) -> BoolArray:
    """Return the workloads (n,) with tasks left for which no server may have room."""
    by_resource = limited_by_resource("")
    return np.array([why.startswith(by_resource) for why in allocation.limited_by], dtype=np.bool_)


def _kept(
    problem: Problem,
    rows: ServerClasses,
    before: TasksOnServers,
    tasks: FloatArray,
    kept: TasksOnServers,
) -> TasksOnServers:
    """Return the tasks that may stay on their servers, at most those of their workload.

    Args:
        kept: tasks that stay in any case, which the rest of the tasks ``before`` leave room for.
    """
    whole = WholeServers.of(problem)
    row_of = np.repeat(np.arange(rows.count), rows.servers)
    others = before.only(np.maximum(before.tasks - before.on(kept), 0.0))
    others = others.only(others.tasks * rows.allowed[others.kind, row_of[others.server]])
    used = np.zeros((len(row_of), problem.m))
    for each in (kept, others):
        np.add.at(used, each.server, each.tasks[:, None] * whole.demand[each.kind])
    over = used > whole.capacity[rows.first_row][row_of]
    fits = ~np.logical_or.reduce(over, axis=1)
    others = others.only(others.tasks * fits[others.server])
    order = np.lexsort((others.server, others.kind))
    mine = others.kind[order]
    running_sum = np.cumsum(others.tasks[order])
    first = np.searchsorted(mine, mine)
    earlier = running_sum - others.tasks[order] - (running_sum - others.tasks[order])[first]
    stays = np.zeros(len(order))
    most = tasks - kept.per_kind()
    stays[order] = np.clip(most[mine] - earlier, 0, others.tasks[order])
    return kept.with_more(others.only(stays))


def _completed(
    problem: Problem,
    rows: ServerClasses,
    kept: TasksOnServers,
    allocation: Allocation,
    deadline: float | None,
) -> TasksOnServers | None:
    """Return all tasks on servers, or None if the missing ones do not fit beside the kept ones."""
    missing = allocation.tasks - kept.per_kind()
    if not missing.any():
        return kept
    if not len(kept.key):
        return None
    row_of = np.repeat(np.arange(rows.count), rows.servers)
    sizes, workload, of_range, tasks = _ranges(row_of, kept)
    whole = WholeServers.of(problem)
    first = np.cumsum(sizes) - sizes
    left = whole.capacity[rows.first_row][row_of[first]]
    np.subtract.at(left, of_range, (tasks / sizes[of_range])[:, None] * whole.demand[workload])
    wanting = np.flatnonzero(missing)
    residual = Problem.create(
        resources=problem.resources,
        capacity=left,
        server_count=sizes,
        server_labels=[problem.server_labels[rows.first_row[row_of[f]]] for f in first],
        tenants=problem.tenants,
        weight=problem.effective_weight,
        best_effort=problem.second_stage,
        workload_tenant=problem.workload_tenant[wanting],
        workload_names=[problem.workload_names[j] for j in wanting],
        # In whole numbers, so that what fits is decided as exactly as in the pool.
        demand=whole.demand[wanting],
        tasks=missing[wanting],
        priority=problem.priority[wanting],
        selectors=[problem.selectors[j] for j in wanting],
    )
    rule: Mapping[str, Any] = {"placement": "affinity"}
    if allocation.policy.fills:
        # The counts are decided: what is missing is placed in the order of dominant shares.
        rule = {name: value for name, value in allocation.options.items() if name != "share"}
    added = solve_indivisible(
        Request(residual, Choice(catalogue.DRFH, "indivisible", rule), deadline=deadline)
    )
    if not np.array_equal(added.tasks, missing[wanting]):
        return None
    more = TasksOnServers.of_placements(
        residual, each_row_alone(residual), current_placements_of(added)
    )
    offering = np.flatnonzero((residual.row_capacity > 0).any(axis=1))
    starts = np.cumsum(sizes[offering]) - sizes[offering]
    of_row = np.searchsorted(starts, more.server, side="right") - 1
    server = first[offering][of_row] + more.server - starts[of_row]
    return kept.with_more(TasksOnServers.of(server, wanting[more.kind], more.tasks, problem.n))


def _with_placements(
    problem: Problem, rows: ServerClasses, placed: TasksOnServers, fresh: Allocation
) -> Allocation | None:
    """Return the answer on these servers, or None if they leave room for a task.

    None also if a limit for some servers would be exceeded.
    """
    row_of = np.repeat(np.arange(rows.count), rows.servers)
    sizes, workload, server_class, tasks = _ranges(row_of, placed)
    allocation = replace(
        fresh,
        classes=server_ranges(problem, sizes),
        placement_piece=workload,
        placement_class=server_class,
        placement_tasks=tasks,
    )
    if problem.limits:
        capacities = Capacities.of(problem, allocation, allocation.classes)
        if capacities.limits_exceeded(allocation, tasks).any():
            return None
    stops = stops_of(allocation) or ()
    if STILL_FITS in stops:
        return None
    objective = fresh.objective
    if (problem.limits or problem.gangs) and not problem.has_floors:
        # Whether a resource stops a workload, or a limit for some servers, or that pieces have no room
        # at once, depends on the servers.
        objective = least_level_unsatisfied(problem, fresh.level, stops)
    return replace(allocation, limited_by=stops, objective=objective)


def _ranges(
    row_of: IntArray, pairs: TasksOnServers
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    start = np.searchsorted(pairs.server, np.arange(len(row_of) + 1))
    return ranges_of(row_of, start, pairs.kind, pairs.tasks)
