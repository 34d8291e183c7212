"""Own servers of a simulation as the arrays that the event loop works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.filling.best_fit import NOWHERE
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.simulation.floor_state import OwnFloors

_INT: Any = np.int64


@dataclass(frozen=True, eq=False)
class Simulated:
    """The servers, workloads and limits of a simulation.

    Attributes:
        choice: the policy; position: (n,) number of each of the problem's workloads, -1 for those that
            cannot run; first, stop: (t,) workloads of each tenant.
        rows: (R,) of the problem, as the servers are numbered; None where all are one server.
        row_of: (S,) row of each server; there: (S,) servers that are there.
        demand: (q, p) of one task; capacity: (R, p) of one server.
        limit: (a,) amounts of limits, of which nothing is used.
        on_row: (c, 3) workload, row and number of running tasks.
        running: (q,) running tasks.
    """

    choice: Choice
    position: IntArray
    first: IntArray
    stop: IntArray
    rows: IntArray | None
    row_of: IntArray
    there: BoolArray
    demand: FloatArray
    capacity: FloatArray
    limit: FloatArray
    on_row: IntArray
    running: FloatArray


@dataclass(frozen=True, eq=False)
class PartArrays:
    """Parts of workloads, as of :class:`Floors`."""

    position: IntArray
    job: IntArray
    part_begin: IntArray
    part: IntArray
    part_job: IntArray
    part_set: IntArray
    part_entry: IntArray
    matches: BoolArray
    of_kind: BoolArray
    contains: BoolArray
    kind: IntArray


def own_floors(problem: Problem, simulated: Simulated, parts: PartArrays) -> OwnFloors:
    """Return the own servers of tenants, none where all servers are one."""
    tenants = np.flatnonzero(problem.own_servers & (not simulated.choice.sees_one_pool))
    of_tenant = np.full(problem.t, NOWHERE, dtype=_INT)
    of_tenant[tenants] = np.arange(len(tenants))
    servers: list[IntArray] = [np.zeros(0, dtype=_INT)]
    places: list[IntArray] = [np.zeros(0, dtype=_INT)]
    rows: list[IntArray] = [np.zeros(0, dtype=_INT)]
    server_begin, row_begin, cell_begin = [0], [0], [0]
    for tenant in tenants.tolist():
        assert simulated.rows is not None  # noqa: S101 - for mypy: tasks are placed on servers
        owner = problem.contributed_by[simulated.rows]
        mine = np.flatnonzero((owner[simulated.row_of] == tenant) & simulated.there)
        found, place = np.unique(simulated.row_of[mine], return_inverse=True)
        servers.append(mine)
        places.append(place)
        rows.append(found)
        jobs = int(simulated.stop[tenant] - simulated.first[tenant])
        server_begin.append(server_begin[-1] + len(mine))
        row_begin.append(row_begin[-1] + len(found))
        cell_begin.append(cell_begin[-1] + jobs * len(found))
    server = np.concatenate(servers).astype(_INT)
    capacity = np.ascontiguousarray(simulated.capacity[simulated.row_of[server]])
    return OwnFloors(
        of_tenant=of_tenant,
        tenant=tenants.astype(_INT),
        server_begin=np.array(server_begin, dtype=_INT),
        server=server,
        capacity=capacity,
        demand=simulated.demand,
        cell_begin=np.array(cell_begin, dtype=_INT),
        row_begin=np.array(row_begin, dtype=_INT),
        row=np.concatenate(rows).astype(_INT),
        place=np.concatenate(places).astype(_INT),
        cell=np.zeros(cell_begin[-1]),
        kept=np.zeros(cell_begin[-1]),
        dirty=np.ones(len(tenants), dtype=np.bool_),
        limit=simulated.limit,
        limit_left=np.zeros(len(simulated.limit)),
        by_kind=np.zeros((len(parts.job), parts.of_kind.shape[1])),
        left=np.zeros(capacity.shape),
    )
