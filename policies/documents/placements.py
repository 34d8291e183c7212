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
    columns = allocation.placements_by_range()
    placed, each = columns[0], columns[-1]
    amounts = (each[:, None] * demand[placed]).tolist()
    # Many placements are on the same servers.
    ranges: dict[tuple[int, int, int], dict[str, Any]] = {}
    for piece, row, offset, count, per_server, workload, amount in zip(
        *(column.tolist() for column in columns),
        pieces.workload[placed].tolist(),
        amounts,
        strict=True,
    ):
        j = int(workload)
        item: dict[str, Any] = {
            "tenant": problem.tenants[int(problem.workload_tenant[j])],
            "workload": {"id": None, "name": problem.workload_names[j]},
            **(
                {"pieces": int(per_server), "kind": int(piece >= problem.n)}
                if j in problem.gangs and allocation.whole
                else {"tasks": per_server if allocation.classes.offset is None else int(per_server)}
            ),
            "resources": dict(zip(problem.resources, amount, strict=True)),
        }
        if count == 1:
            item["server"] = server_name(problem, row, offset)
        else:
            key = (row, offset, count)
            if key not in ranges:
                ranges[key] = {
                    "count": count,
                    "capacity": quantities(problem.resources, problem.capacity[row]),
                    "labels": dict(problem.server_labels[row]),
                    "first": server_name(problem, row, offset),
                    "last": numbered.name(int(problem.first_server[row]) + offset + count - 1),
                }
            known = ranges[key]
            item["servers"] = {
                **known,
                "capacity": dict(known["capacity"]),
                "labels": dict(known["labels"]),
            }
        rows.append(item)
    return rows
