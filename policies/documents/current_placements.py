"""The JSON shape of current placements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from policies.errors import Mistake
from policies.fields import Mistakes
from policies.model.current_placements import GONE, CurrentPlacements
from policies.model.problem import Problem


def current_placements_from_rows(
    rows: Sequence[Mapping[str, Any]], problem: Problem, part: str = "running"
) -> CurrentPlacements:
    """Read placements, the fields of which are read (``RunningDocument``).

    A server or a workload that the problem does not name has left the pool. Raises Mistakes
    (``running.server``) for servers that a row does not have.

    Args:
        part: ``running`` or ``kept``, the part of an evaluation that has the rows.
    """
    row_of = {name: row for row, name in enumerate(problem.server_names)}
    job_of = {
        (problem.tenants[problem.workload_tenant[j]], name): j
        for j, name in enumerate(problem.workload_names)
    }
    columns, found = [], []
    for position, entry in enumerate(rows):
        row = row_of.get(entry["server"], GONE)
        last = entry["offset"] + entry["servers"]
        if row != GONE and last > problem.server_count[row]:
            detail = f'"{entry["server"]}" has {problem.server_count[row]} servers, not {last}.'
            found.append(Mistake(f"/{part}/{position}/servers", "running.server", detail))
        job = job_of.get((entry["tenant"], entry["workload"]))
        kinds = () if job is None else problem.pieces.kinds(job)
        if entry["kind"] < len(kinds):
            columns.append(
                (kinds[entry["kind"]], row, entry["offset"], entry["servers"], entry["tasks"])
            )
    if found:
        raise Mistakes(found)
    workload, row_, offset, servers, tasks = np.array(columns, dtype=np.int64).reshape(-1, 5).T
    return CurrentPlacements(
        workload=workload, row=row_, offset=offset, servers=servers, tasks=tasks.astype(np.float64)
    )


def current_placements_to_document(
    running: CurrentPlacements, problem: Problem
) -> Sequence[dict[str, Any]]:
    """Return the ``running`` or ``kept`` part of an evaluation.

    A server that has left the pool has the name ``""``.
    """
    pieces = problem.pieces
    columns = (
        column.tolist()
        for column in (
            running.workload, running.row, running.offset, running.servers, running.tasks,
        )
    )  # fmt: skip
    return [
        {
            "tenant": problem.tenants[int(problem.workload_tenant[pieces.workload[j]])],
            "workload": problem.workload_names[pieces.workload[j]],
            **({"kind": 1} if j >= problem.n else {}),
            "server": "" if row == GONE else problem.server_names[row],
            "offset": offset,
            "servers": servers,
            "tasks": int(tasks),
        }
        for j, row, offset, servers, tasks in zip(*columns, strict=True)
    ]
