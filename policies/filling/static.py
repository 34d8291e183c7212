"""Static partitioning, the baseline without sharing.

Each tenant runs alone on the servers it contributed. The pool's own servers are dealt out by
weight. Of a row of ``N`` identical servers of the pool a tenant with the part ``f = w_i / sum(w)``
gets ``floor(N f)`` whole servers. The servers that remain are each cut in proportion to the
remaining entitlements, and a task must fit into a tenant's cut of one server.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray, grouped_sum
from policies.errors import SolveTimeoutError
from policies.model.allocation import Allocation
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.reasons import (
    NO_ELIGIBLE_SERVER,
    TASK_LIMIT,
    limited_by_resource,
    unserved_reasons,
)
from policies.model.request import Request
from policies.model.server_classes import each_row_alone
from policies.model.tolerance import whole_part
from policies.proofs.exact_signs import UNIT


@dataclass
class Part:
    """Identical (cuts of) servers of one row that a tenant has to itself, in whole numbers."""

    row: int
    servers: int
    room: FloatArray


def solve_indivisible(request: Request) -> Allocation:
    """Whole tasks for each tenant, in its partition only.

    A tenant's workloads are served by priority, then age, each on the partition's servers
    in their order. Draining servers run nothing.

    Raises:
        SolveTimeoutError: the deadline passed.
    """
    problem = request.problem
    classes = each_row_alone(problem)
    allowed = np.zeros((problem.n, problem.k), dtype=np.bool_)
    allowed[:, classes.first_row] = classes.allowed
    reasons = unserved_reasons(problem, allowed)
    whole = WholeServers.of(problem)
    order = np.lexsort((np.arange(problem.n), -problem.priority, problem.workload_tenant))
    placed: list[tuple[int, int, float]] = []
    limited_by: list[str] = [""] * problem.n
    parts: list[Part] = []
    tenant = -1
    for j in order.tolist():
        if request.deadline is not None and time.monotonic() > request.deadline:
            raise SolveTimeoutError("solve.timeout", "the time limit passed between workloads")
        if problem.workload_tenant[j] != tenant:
            tenant = int(problem.workload_tenant[j])
            parts = partition_of(problem, whole.capacity, tenant)
        if reasons[j]:
            limited_by[j] = reasons[j]
            continue
        requested = problem.tasks[j]
        following: list[Part] = []
        for part in parts:
            if not allowed[j, part.row]:
                following.append(part)
                continue
            count, split = _launch(part, whole.demand[j], requested)
            following += split
            if count:
                requested -= count
                placed.append((j, part.row, count))
        parts = following
        if requested == 0:
            limited_by[j] = TASK_LIMIT
        elif any(allowed[j, part.row] for part in parts):
            limited_by[j] = _full_resource(problem, j)
        else:
            limited_by[j] = NO_ELIGIBLE_SERVER
    return _allocation(request, placed, tuple(limited_by))


def partition_of(problem: Problem, capacity: FloatArray, tenant: int) -> list[Part]:
    """Return the parts of the servers that a tenant has to itself.

    capacity (k, m) is in whole numbers.
    """
    weight = np.where(problem.second_stage, 0.0, problem.effective_weight)
    # All tenants are of the second stage, among which the pool is divided then.
    if not weight.any():
        weight = problem.effective_weight
    fraction = weight / weight.sum()
    parts = []
    for row in range(problem.k):
        owner = problem.contributed_by[row]
        if problem.contributed_only[row] or owner not in (tenant, -1):
            continue
        count = int(problem.server_count[row])
        if owner == tenant:
            parts.append(Part(row, count, capacity[row].copy()))
            continue
        whole = whole_part(count * fraction)
        remaining = np.maximum(count * fraction - whole, 0.0)
        left = int(count - whole.sum())
        if whole[tenant] > 0:
            parts.append(Part(row, int(whole[tenant]), capacity[row].copy()))
        if left > 0 and remaining[tenant] > 0:
            parts.append(Part(row, left, _cuts(capacity[row], remaining)[tenant]))
    return parts


def _cuts(capacity: FloatArray, remaining: FloatArray) -> FloatArray:
    """Return one server (m,) cut in proportion to ``remaining`` (t,), one cut a row (t, m).

    The cuts together are at most the server.
    """
    cuts = np.outer(remaining / remaining.sum(), capacity)
    whole = whole_part(cuts)
    # Parts that were rounded up can exceed the server together; they are cut by more than the
    # error.
    beyond = whole.sum(axis=0) > capacity
    whole[:, beyond] = np.floor(cuts[:, beyond] * (1 - (len(remaining) + 8) * UNIT))
    return whole


def _launch(part: Part, demand: FloatArray, requested: float) -> tuple[float, list[Part]]:
    """Fill the servers of a part one after the other with up to ``requested`` tasks.

    Return the tasks launched and the parts that result.
    """
    needed = demand > 0
    per_server = float(np.floor(part.room[needed] / demand[needed]).min())
    if per_server == 0:
        return 0.0, [part]
    full = part.servers if requested >= part.servers * per_server else int(requested // per_server)
    rest = requested - full * per_server if full < part.servers else 0.0
    split = []
    if full:
        split.append(Part(part.row, full, part.room - per_server * demand))
    if rest:
        split.append(Part(part.row, 1, part.room - rest * demand))
    untouched = part.servers - full - bool(rest)
    if untouched:
        split.append(Part(part.row, untouched, part.room))
    return full * per_server + rest, split


def _full_resource(problem: Problem, j: int) -> str:
    return limited_by_resource(problem.resources[int(problem.dominant_resource[j])])


def _allocation(
    request: Request, placed: list[tuple[int, int, float]], limited_by: tuple[str, ...]
) -> Allocation:
    problem = request.problem
    classes = each_row_alone(problem)
    totals: dict[tuple[int, int], float] = {}
    for j, row, count in placed:
        key = (j, int(classes.class_of_row[row]))
        totals[key] = totals.get(key, 0.0) + count
    keys = sorted(totals)
    workload = np.array([key[0] for key in keys], dtype=np.int64)
    tasks = np.array([totals[key] for key in keys], dtype=np.float64)
    return Allocation(
        problem=problem,
        choice=request.choice,
        tasks=grouped_sum(tasks, workload, problem.n),
        classes=classes,
        placement_piece=workload,
        placement_class=np.array([key[1] for key in keys], dtype=np.int64),
        placement_tasks=tasks,
        level=np.full(problem.t, np.nan),
        limited_by=limited_by,
    )
