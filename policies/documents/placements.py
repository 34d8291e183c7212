"""The JSON shape of placements."""

from __future__ import annotations

from typing import Any

from policies.documents.quantities import quantities
from policies.model.allocation import Allocation
from policies.model.server_names import NumberedServers, server_name


def placement_rows(allocation: Allocation) -> list[dict[str, Any]]:
    """Write the placements of an answer, one row for each workload and range of servers.

    Rows share what they have in common, such as the description of their servers.
    """
    problem, pieces = allocation.problem, allocation.problem.pieces
    demand = pieces.demand if allocation.whole else problem.demand
    columns = allocation.placements_by_range()
    placed, each = columns[0], columns[-1]
    amounts = (each[:, None] * demand[placed]).tolist()
    numbered = NumberedServers(problem)
    # Many placements are on the same servers, and many servers have as many tasks of a workload.
    tasks: dict[tuple[int, float], dict[str, Any]] = {}
    servers: dict[tuple[int, int, int], dict[str, Any]] = {}
    rows = []
    for piece, row, offset, count, per_server, workload, amount in zip(
        *(column.tolist() for column in columns),
        pieces.workload[placed].tolist(),
        amounts,
        strict=True,
    ):
        what = tasks.get((piece, per_server))
        if what is None:
            what = tasks[piece, per_server] = {
                "tenant": problem.tenants[int(problem.workload_tenant[workload])],
                "workload": {"id": None, "name": problem.workload_names[workload]},
                **(
                    {"pieces": int(per_server), "kind": int(piece >= problem.n)}
                    if workload in problem.gangs and allocation.whole
                    else {
                        "tasks": per_server
                        if allocation.classes.offset is None
                        else int(per_server)
                    }
                ),
                "resources": dict(zip(problem.resources, amount, strict=True)),
            }
        where = servers.get((row, offset, count))
        if where is None:
            name = server_name(problem, row, offset)
            where = servers[row, offset, count] = (
                {"server": name}
                if count == 1
                else {
                    "servers": {
                        "count": count,
                        "capacity": quantities(problem.resources, problem.capacity[row]),
                        "labels": dict(problem.server_labels[row]),
                        "first": name,
                        "last": numbered.name(int(problem.first_server[row]) + offset + count - 1),
                    }
                }
            )
        rows.append({**what, **where})
    return rows
