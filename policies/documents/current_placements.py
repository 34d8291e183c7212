"""The JSON shape of current placements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from policies.arrays import IntArray
from policies.errors import Mistake
from policies.fields import Mistakes
from policies.model.current_placements import GONE, CurrentPlacements
from policies.model.problem import Problem


def current_placements_from_columns(
    columns: Mapping[str, Sequence[Any]], problem: Problem, part: str = "running"
) -> CurrentPlacements:
    """Read placements, the fields of which are read as columns (``RunningDocument``).

    A server or a workload that the problem does not name has left the pool. Raises Mistakes
    (``running.server``) for servers that a row does not have.

    Args:
        part: ``running`` or ``kept``, the part of an evaluation that has the rows.
    """
    offset, servers, tasks = (
        np.array(columns[name], dtype=np.int64) for name in ("offset", "servers", "tasks")
    )
    row = _rows_of(columns["server"], problem)
    # GONE takes the last element, which is there also in a problem without servers.
    count = np.append(problem.server_count, 0)[row]
    here = np.where(row == GONE, offset + servers, count)
    if found := [
        Mistake(
            f"/{part}/{position}/servers",
            "running.server",
            f'"{columns["server"][position]}" has {here[position]} servers, not'
            f" {offset[position] + servers[position]}.",
        )
        for position in np.flatnonzero(offset + servers > here).tolist()
    ]:
        raise Mistakes(found)
    pieces = _pieces_of(columns, problem)
    known = pieces >= 0
    return CurrentPlacements(
        workload=pieces[known],
        row=row[known],
        offset=offset[known],
        servers=servers[known],
        tasks=tasks[known].astype(np.float64),
    )


def _rows_of(servers: Sequence[str], problem: Problem) -> IntArray:
    rows = {name: row for row, name in enumerate(problem.server_names)}
    return np.array([rows.get(name, GONE) for name in servers], dtype=np.int64)


def _pieces_of(columns: Mapping[str, Sequence[Any]], problem: Problem) -> IntArray:
    """Return the pieces of each entry, -1 for those that no workload of the problem has."""
    owners = [problem.tenants[tenant] for tenant in problem.workload_tenant.tolist()]
    # The first kind of a workload has its number. Only gangs have others.
    keys = zip(owners, problem.workload_names, repeat(0))
    pieces = dict(zip(keys, range(problem.n), strict=True)) | {
        (owners[j], problem.workload_names[j], kind): piece
        for j in problem.gangs
        for kind, piece in enumerate(problem.pieces.kinds(j))
    }
    entries = zip(columns["tenant"], columns["workload"], columns["kind"], strict=True)
    return np.array([pieces.get(entry, -1) for entry in entries], dtype=np.int64)


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
