"""Schedules: which whole tasks run in which part of a period, and on the clock.

Source: the TDA thesis (2015), §3.2: the period is divided into slots, and in every slot one
allocation of whole tasks is in force.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.errors import ProblemError
from policies.filling.pool import least_level_unsatisfied
from policies.model.allocation import Allocation
from policies.model.problem import Problem
from policies.model.tolerance import DISCRETE_TOLERANCE

DEFAULT_PERIOD = 3600


@dataclass(frozen=True, eq=False)
class SlotPlacement:
    """Where the tasks of one slot run.

    Attributes:
        workload: (p,) index of the workload; server: (p,) position among the servers that
            offer something, counted row by row; tasks: (p,) whole tasks there.
    """

    workload: IntArray
    server: IntArray
    tasks: IntArray


@dataclass(frozen=True, eq=False)
class Schedule:
    """Slots in the order in which they follow each other, cyclically.

    Attributes:
        fraction: (s,) of the period that each slot takes; they add up to 1.
        tasks: (s, n) whole tasks of each workload.
        placements: one per slot, or None where the pool counts as one server.
        objective: least average weighted share of tenants served first that want more; NaN
            where nobody does.
        bound: the level of the same pool with divisible tasks; lp_bound: proven upper bound
            on the objective of every schedule; gap: (lp_bound - objective) / lp_bound.
        made_up: (t,) what each tenant's average share has of what it is owed, between 0 and that:
            compared with the schedule that owes nobody anything. None where nothing is owed, or where
            there was no time for the comparison. Not part of documents.
    """

    fraction: FloatArray
    tasks: IntArray
    placements: tuple[SlotPlacement, ...] | None
    objective: float
    bound: float
    lp_bound: float
    gap: float
    made_up: FloatArray | None = None


@dataclass(frozen=True)
class Interval:
    """``[start, end)`` in whole seconds from the start of the period, in which ``slot`` runs."""

    start: int
    end: int
    slot: int


@dataclass(frozen=True)
class Timetable:
    """A schedule on the clock.

    Attributes:
        intervals: one after the other; slots shorter than a second are left out.
        objective: of the intervals as they are; gap: its distance from the schedule's proven
            bound; gap_before: the same before rounding to whole seconds.
    """

    intervals: tuple[Interval, ...]
    objective: float
    gap: float
    gap_before: float


def timetable(allocation: Allocation, period: int = DEFAULT_PERIOD) -> Timetable:
    """Slots as intervals of a period of whole seconds; the remainder goes to the last slot.

    Args:
        allocation: an answer with a schedule.
        period: seconds, at least 1.

    Raises:
        ValueError: no schedule, or a period shorter than a second.
    """
    schedule = allocation.schedule
    if schedule is None:
        raise ValueError(f"policy {allocation.policy!r} does not divide time")
    if period < 1:
        raise ValueError(f"a period has at least one second, not {period}")
    seconds = np.floor(schedule.fraction * period * (1 + DISCRETE_TOLERANCE)).astype(np.int64)
    seconds[-1] += period - int(seconds.sum())
    edges = np.concatenate([[0], np.cumsum(seconds)]).tolist()
    intervals = tuple(
        Interval(edges[slot], edges[slot + 1], slot)
        for slot in range(len(seconds))
        if seconds[slot] > 0
    )
    average = (seconds / period) @ schedule.tasks
    objective = least_average(allocation.problem, average, allocation.limited_by)
    return Timetable(intervals, objective, gap_of(objective, schedule.lp_bound), schedule.gap)


def slot_at(table: Timetable, offset: float) -> int:
    """The slot in force ``offset`` seconds after the start of some period; periods repeat.

    Args:
        table: from :func:`timetable`.
        offset: seconds, also negative or beyond one period.
    """
    within = offset % table.intervals[-1].end
    return next(interval.slot for interval in table.intervals if within < interval.end)


def least_average(problem: Problem, tasks: FloatArray, limited_by: Sequence[str]) -> float:
    """Least weighted share of tenants served first that wanted more; NaN where nobody did.

    What tenants count as having had already (``Problem.already``) is added to their shares.

    Args:
        problem: the problem.
        tasks: (n,) on average over the period.
        limited_by: (n) what stopped each workload.
    """
    share = grouped_sum(tasks * problem.dominant_share_per_task, problem.workload_tenant, problem.t)
    level = (share + problem.already) / problem.effective_weight
    return least_level_unsatisfied(problem, level, limited_by)


def gap_of(objective: float, bound: float) -> float:
    """Relative distance of an objective from its bound; 0 where both are 0."""
    if bound == 0:
        return 0.0
    return max((bound - objective) / bound, 0.0)


def schedule_to_document(problem: Problem, schedule: Schedule) -> dict[str, Any]:
    """The JSON shape of a schedule: ``objective``, ``bound``, ``lp_bound``, ``gap``, ``slots``.

    A workload without tasks in a slot is not named there. Where tasks are packed, each row has
    ``servers``: a list of ``{"server", "tasks"}``.
    """
    names = server_names(problem) if schedule.placements is not None else []
    slots = []
    for position, fraction in enumerate(schedule.fraction.tolist()):
        rows = []
        for j in np.flatnonzero(schedule.tasks[position]).tolist():
            row: dict[str, Any] = {
                "tenant": problem.tenants[int(problem.workload_tenant[j])],
                "workload": problem.workload_names[j],
                "tasks": int(schedule.tasks[position, j]),
            }
            if schedule.placements is not None:
                row["servers"] = _servers(schedule.placements[position], j, names)
            rows.append(row)
        slots.append({"fraction": fraction, "allocations": rows})
    numbers = {
        name: float(value) if math.isfinite(value) else None
        for name, value in (
            ("objective", schedule.objective),
            ("bound", schedule.bound),
            ("lp_bound", schedule.lp_bound),
            ("gap", schedule.gap),
        )
    }
    return {**numbers, "slots": slots}


def schedule_from_document(
    problem: Problem, document: Mapping[str, Any], *, packed: bool = False
) -> Schedule:
    """Read what :func:`schedule_to_document` wrote for the same problem.

    Args:
        problem: the problem.
        document: the schedule.
        packed: are tasks placed on servers? (Seen in the document unless nothing runs at all.)

    Raises:
        ProblemError: ``schedule.malformed``.
    """
    job_of = {
        (problem.tenants[int(problem.workload_tenant[j])], problem.workload_names[j]): j
        for j in range(problem.n)
    }
    position_of = {name: position for position, name in enumerate(server_names(problem))}
    try:
        slots = document["slots"]
        tasks = np.zeros((len(slots), problem.n), dtype=np.int64)
        placements = []
        for position, slot in enumerate(slots):
            on_servers: list[tuple[int, int, int]] = []
            for row in slot["allocations"]:
                j = job_of[row["tenant"], row["workload"]]
                tasks[position, j] = row["tasks"]
                on_servers += [
                    (position_of[item["server"]], j, item["tasks"])
                    for item in row.get("servers", ())
                ]
            server, workload, count = np.array(sorted(on_servers), dtype=np.int64).reshape(-1, 3).T
            placements.append(SlotPlacement(workload, server, count))
        packed = packed or any("servers" in row for slot in slots for row in slot["allocations"])
        objective, bound, lp_bound, gap = (
            math.nan if document[name] is None else float(document[name])
            for name in ("objective", "bound", "lp_bound", "gap")
        )
        return Schedule(
            fraction=np.array([slot["fraction"] for slot in slots], dtype=np.float64),
            tasks=tasks,
            placements=tuple(placements) if packed else None,
            objective=objective,
            bound=bound,
            lp_bound=lp_bound,
            gap=gap,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProblemError(
            "schedule.malformed", f"the schedule cannot be read: {error!r}", "/schedule"
        ) from error


def server_names(problem: Problem) -> list[str]:
    """Names of the servers that offer something, row by row; those of a row are numbered."""
    names = []
    for row in np.flatnonzero((problem.row_capacity > 0).any(axis=1)).tolist():
        count = int(problem.server_count[row])
        names += [server_name(problem, row, offset) for offset in range(count)]
    return names


def server_name(problem: Problem, row: int, offset: int) -> str:
    """A row of one server has its name; the servers of a larger one are numbered from 1."""
    name, count = problem.server_names[row], int(problem.server_count[row])
    if count == 1:
        return name
    return f"{name}-{offset + 1:0{max(4, len(str(count)))}d}"


def _servers(placement: SlotPlacement, j: int, names: Sequence[str]) -> list[dict[str, Any]]:
    mine = np.flatnonzero(placement.workload == j).tolist()
    return [
        {"server": names[int(placement.server[p])], "tasks": int(placement.tasks[p])} for p in mine
    ]
