"""The JSON shape of a schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from policies.documents.answer_fields import ScheduleDocument, read_fields
from policies.errors import ProblemError
from policies.model.problem import Problem
from policies.model.schedule import Schedule, SlotPlacement
from policies.model.server_names import server_names


def schedule_to_document(problem: Problem, schedule: Schedule) -> dict[str, Any]:
    """Write a schedule as plain JSON values.

    A workload without tasks in a slot is not named there. Where tasks are packed, each row has
    ``servers``: a list of ``{"server", "tasks"}``.

    Parameters
    ----------
    problem : Problem
        The problem.
    schedule : Schedule
        Its schedule.

    Returns
    -------
    dict
        ``objective``, ``bound``, ``lp_bound``, ``gap`` and ``slots``; ``order_proven``, false, where
        slots in another order might move fewer tasks.

    Examples
    --------
    >>> from policies import Problem, schedule_to_document, solve
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]], tasks=[3, 2])
    >>> [slot["fraction"] for slot in
    ...     schedule_to_document(problem, solve(problem, "tda").schedule)["slots"]]
    [1.0]
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
    order = {} if schedule.order_proven else {"order_proven": False}
    return {**numbers, **order, "slots": slots}


def schedule_from_document(
    problem: Problem, document: Mapping[str, Any], *, packed: bool = False
) -> Schedule:
    """Read what :func:`schedule_to_document` wrote for the same problem.

    Parameters
    ----------
    problem : Problem
        The problem.
    document : mapping
        The schedule.
    packed : bool, default False
        Whether tasks are placed on servers. The document shows it unless nothing runs at all.

    Returns
    -------
    Schedule
        The same schedule.

    Raises
    ------
    ProblemError
        ``schedule.malformed``.

    Examples
    --------
    >>> from policies import Problem, schedule_from_document
    >>> problem = Problem.create(resources=["cpu"], capacity=[[9]], tenants=["A"], demand=[[3]],
    ...     workload_names=["web"])
    >>> row = {"tenant": "A", "workload": "web", "tasks": 3}
    >>> document = {"objective": 1.0, "bound": 1.0, "lp_bound": 1.0, "gap": 0.0,
    ...     "slots": [{"fraction": 1.0, "allocations": [row]}]}
    >>> schedule_from_document(problem, document).tasks.tolist()
    [[3]]
    """
    fields = read_fields(ScheduleDocument, document, code="schedule.malformed", name="schedule")
    return read_schedule(problem, fields, packed=packed)


def read_schedule(problem: Problem, fields: Mapping[str, Any], *, packed: bool) -> Schedule:
    """Return the schedule of the fields of a ``ScheduleDocument``.

    Raises:
        ProblemError: ``schedule.malformed``: a row names what is not there, or is there twice.
    """
    job_of = {
        (problem.tenants[int(problem.workload_tenant[j])], problem.workload_names[j]): j
        for j in range(problem.n)
    }
    packed = packed or any(
        row["servers"] is not None for slot in fields["slots"] for row in slot["allocations"]
    )
    names = server_names(problem) if packed else []
    position_of = {name: position for position, name in enumerate(names)}
    tasks = np.zeros((len(fields["slots"]), problem.n), dtype=np.int64)
    placements = []
    for position, slot in enumerate(fields["slots"]):
        on_servers: list[tuple[int, int, int]] = []
        for number, row in enumerate(slot["allocations"]):
            where = f"/schedule/slots/{position}/allocations/{number}"
            j = job_of.get((row["tenant"], row["workload"]))
            if j is None:
                raise _malformed(where, "there is no such workload")
            # Two rows of one workload could be added up or replace each other: neither is stated.
            if tasks[position, j]:
                raise _malformed(where, "the slot has an earlier row of the workload")
            tasks[position, j] = row["tasks"]
            for item in row["servers"] or ():
                if item["server"] not in position_of:
                    raise _malformed(where, f"there is no server {item['server'][:80]!r}")
                on_servers.append((position_of[item["server"]], j, item["tasks"]))
        # Sorted, so that the order of rows does not make another schedule.
        server, workload, count = np.array(sorted(on_servers), dtype=np.int64).reshape(-1, 3).T
        placements.append(SlotPlacement(workload, server, count))
    objective, bound, lp_bound, gap = (
        math.nan if fields[name] is None else fields[name]
        for name in ("objective", "bound", "lp_bound", "gap")
    )
    return Schedule(
        fraction=np.array([slot["fraction"] for slot in fields["slots"]], dtype=np.float64),
        tasks=tasks,
        placements=tuple(placements) if packed else None,
        objective=objective,
        bound=bound,
        lp_bound=lp_bound,
        gap=gap,
        order_proven=fields["order_proven"],
    )


def _malformed(pointer: str, detail: str) -> ProblemError:
    return ProblemError("schedule.malformed", detail, pointer)


def _servers(placement: SlotPlacement, j: int, names: Sequence[str]) -> list[dict[str, Any]]:
    mine = np.flatnonzero(placement.workload == j).tolist()
    return [
        {"server": names[int(placement.server[p])], "tasks": int(placement.tasks[p])} for p in mine
    ]
