"""The JSON shape of placements."""

from __future__ import annotations

from typing import Any

from policies.documents.quantities import quantities
from policies.model.allocation import Allocation
from policies.model.server_names import NumberedServers, server_name


def placement_rows(allocation: Allocation) -> list[dict[str, Any]]:
    """Write the placements of an answer, one row for each workload and range of servers."""
    problem, pieces = allocation.problem, allocation.problem.pieces
    demand = pieces.demand if allocation.whole else problem.demand
    numbered = NumberedServers(problem)
    rows = []
    columns = (column.tolist() for column in allocation.placements_by_range())
    for piece, row, offset, count, per_server in zip(*columns, strict=True):
        j = int(pieces.workload[piece])
        item: dict[str, Any] = {
            "tenant": problem.tenants[int(problem.workload_tenant[j])],
            "workload": {"id": None, "name": problem.workload_names[j]},
            **(
                {"pieces": int(per_server), "kind": int(piece >= problem.n)}
                if j in problem.gangs and allocation.whole
                else {"tasks": per_server if allocation.classes.offset is None else int(per_server)}
            ),
            "resources": quantities(problem.resources, per_server * demand[piece]),
        }
        if count == 1:
            item["server"] = server_name(problem, row, offset)
        else:
            item["servers"] = {
                "count": count,
                "capacity": quantities(problem.resources, problem.capacity[row]),
                "labels": dict(problem.server_labels[row]),
                "first": server_name(problem, row, offset),
                "last": numbered.name(int(problem.first_server[row]) + offset + count - 1),
            }
        rows.append(item)
    return rows
