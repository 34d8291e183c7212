"""The JSON shape of current placements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from policies.documents.fields import as_list, as_object, as_text, as_whole, check_fields
from policies.errors import ProblemError
from policies.model.current_placements import GONE, Running
from policies.model.problem import Problem


def running_from_document(value: Any, problem: Problem) -> Running:
    """Read the ``running`` part of an evaluation document.

    It lists ``{"tenant", "workload", "server", "offset", "servers", "tasks"}``: ``tasks`` on each
    of ``servers`` (1) servers of the row called ``server``, from position ``offset`` (0) on. A
    server or a workload that the document does not name has left the pool.

    Raises:
        ProblemError: ``field.*``, ``number.negative`` or ``running.server``.
    """
    row_of = {name: row for row, name in enumerate(problem.server_names)}
    job_of = {
        (problem.tenants[problem.workload_tenant[j]], name): j
        for j, name in enumerate(problem.workload_names)
    }
    columns: list[tuple[int, ...]] = []
    for position, item in enumerate(as_list(value, "/running")):
        pointer = f"/running/{position}"
        entry = as_object(item, pointer)
        check_fields(
            entry,
            pointer,
            required=("tenant", "workload", "server", "tasks"),
            optional=("offset", "servers"),
        )
        owner = as_text(entry["tenant"], f"{pointer}/tenant")
        job = job_of.get((owner, as_text(entry["workload"], f"{pointer}/workload")))
        server = as_text(entry["server"], f"{pointer}/server")
        numbers = [
            as_whole(entry.get(name, default), f"{pointer}/{name}")
            for name, default in (("offset", 0), ("servers", 1), ("tasks", None))
        ]
        if min(numbers) < 0:
            raise ProblemError("number.negative", "running tasks are counted from 0 up", pointer)
        row = row_of.get(server, GONE)
        if row != GONE and numbers[0] + numbers[1] > problem.server_count[row]:
            raise ProblemError(
                "running.server",
                f"{server!r} has {problem.server_count[row]} servers, not {sum(numbers[:2])}",
                f"{pointer}/servers",
            )
        if job is not None:
            columns.append((job, row, *numbers))
    workload, row_, offset, servers, tasks = np.array(columns, dtype=np.int64).reshape(-1, 5).T
    return Running(
        workload=workload,
        row=row_,
        offset=offset,
        servers=servers,
        tasks=tasks.astype(np.float64),
    )


def running_to_document(running: Running, problem: Problem) -> Sequence[dict[str, Any]]:
    """Write what :func:`running_from_document` reads; servers that are gone are called ``""``."""
    columns = (
        column.tolist()
        for column in (
            running.workload, running.row, running.offset, running.servers, running.tasks,
        )
    )  # fmt: skip
    return [
        {
            "tenant": problem.tenants[int(problem.workload_tenant[j])],
            "workload": problem.workload_names[j],
            "server": "" if row == GONE else problem.server_names[row],
            "offset": offset,
            "servers": servers,
            "tasks": int(tasks),
        }
        for j, row, offset, servers, tasks in zip(*columns, strict=True)
    ]
