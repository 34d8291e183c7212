"""The JSON shape of placements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.documents.quantities import quantities
from policies.model.allocation import Allocation
from policies.model.problem import Problem
from policies.model.server_names import NumberedServers, server_name


@dataclass(frozen=True)
class PlacementParts:
    """Rows of placements, each in two parts that many rows have in common.

    Attributes
    ----------
    tasks : list of dict
        Fields about the tasks on each server.
    servers : list of dict
        Fields about servers.
    rows : list of tuple
        Numbers of both parts of each row.

    Examples
    --------
    >>> from policies import PlacementParts
    >>> PlacementParts([{"tasks": 2}], [{"server": "a"}, {"server": "b"}], [(0, 0), (0, 1)]).written
    [{'tasks': 2, 'server': 'a'}, {'tasks': 2, 'server': 'b'}]
    """

    tasks: list[dict[str, Any]]
    servers: list[dict[str, Any]]
    rows: list[tuple[int, int]]

    @property
    def written(self) -> list[dict[str, Any]]:
        """The rows as an answer has them."""
        return [{**self.tasks[what], **self.servers[where]} for what, where in self.rows]


def placement_parts(allocation: Allocation) -> PlacementParts:
    """Write the placements of an answer, one row for each workload and range of servers.

    Parameters
    ----------
    allocation : Allocation
        What ``solve`` returned.

    Returns
    -------
    PlacementParts
        The rows of ``placements`` of an answer.

    Examples
    --------
    >>> from policies import Problem, placement_parts, solve
    >>> problem = Problem.create(resources=["cpu"], capacity=[[9]], tenants=["A"], demand=[[3]])
    >>> parts = placement_parts(solve(problem, "drfh"))
    >>> parts.servers, parts.rows
    ([{'server': 'server-0001'}], [(0, 0)])
    """
    problem, pieces = allocation.problem, allocation.problem.pieces
    demand = pieces.demand if allocation.whole else problem.demand
    placed, row, offset, servers, each = allocation.placements_by_range()
    gangs = problem.gangs if allocation.whole else {}
    whole = allocation.classes.offset is not None
    # Many placements are on the same servers, and many servers have as many tasks of a workload.
    what, first = _numbered(placed, each)
    place, first_there = _numbered(row, offset, servers)
    of, per_server = placed[first], each[first]
    tasks = [
        {
            "tenant": problem.tenants[tenant],
            "workload": {"id": None, "name": problem.workload_names[workload]},
            **(
                {"pieces": int(number), "kind": int(piece >= problem.n)}
                if workload in gangs
                else {"tasks": int(number) if whole else number}
            ),
            "resources": dict(zip(problem.resources, amount, strict=True)),
        }
        for piece, workload, tenant, number, amount in zip(
            of.tolist(),
            pieces.workload[of].tolist(),
            problem.workload_tenant[pieces.workload[of]].tolist(),
            per_server.tolist(),
            (per_server[:, None] * demand[of]).tolist(),
            strict=True,
        )
    ]
    there = row[first_there]
    numbered = NumberedServers(problem)
    places = [
        {"server": problem.server_names[number]}
        if size == count == 1
        else _described(problem, numbered, number, begin, count)
        for number, begin, count, size in zip(
            there.tolist(),
            offset[first_there].tolist(),
            servers[first_there].tolist(),
            problem.server_count[there].tolist(),
            strict=True,
        )
    ]
    return PlacementParts(tasks, places, list(zip(what.tolist(), place.tolist(), strict=True)))


def _numbered(*columns: IntArray | FloatArray) -> tuple[IntArray, IntArray]:
    """Return the number of each row among the distinct ones, and where each of those is first."""
    order = np.lexsort(columns)
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = np.logical_or.reduce([each[order][1:] != each[order][:-1] for each in columns])
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(is_new) - 1
    # The sort is stable: the first of equal rows is the first in the given order.
    return number, order[is_new]


def _described(
    problem: Problem, numbered: NumberedServers, row: int, offset: int, count: int
) -> dict[str, Any]:
    """Return the fields of servers of a row of several."""
    name = server_name(problem, row, offset)
    if count == 1:
        return {"server": name}
    return {
        "servers": {
            "count": count,
            "capacity": quantities(problem.resources, problem.capacity[row]),
            "labels": dict(problem.server_labels[row]),
            "first": name,
            "last": numbered.name(int(problem.first_server[row]) + offset + count - 1),
        }
    }
