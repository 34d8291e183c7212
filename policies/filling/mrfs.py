"""MRFS, which balances the dominant resources of the requests on each server.

Source: Hamzeh et al., "MRFS: A Multi-Resource Fair Scheduling Algorithm in Heterogeneous Cloud
Computing", 2020, §V and Algorithm 1; policies §6. The paper does not specify the order of tenants:
here the next request is that of the tenant with the fewest requests placed over its weight, then by
position. A request that fits nowhere waits (the paper's non-dominant queue) for a later decision.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.errors import ProblemTooLargeError, SolveTimeoutError
from policies.filling.mrfs_loop import Evenness, Requests, fill_evenly
from policies.filling.ranges import ranges_of_launches
from policies.filling.rules import FIRST_FIT
from policies.filling.servers import MOST_TASKS, check_size, servers_of
from policies.filling.winner_tree import tree_of
from policies.model.allocation import Allocation
from policies.model.objectives import least_level_unsatisfied
from policies.model.quantities import WholeServers
from policies.model.queues import Queues, queues_of
from policies.model.request import Request
from policies.model.server_classes import ServerClasses, each_row_alone, server_ranges
from policies.proofs.saturation import filling_reasons, stops_of

# Requests placed between two looks at the clock: fewer on many servers, each of which is looked at.
CHUNK = 1 << 13
SMALLEST_CHUNK = 1 << 6
SERVERS_BETWEEN_LOOKS = 5_000_000


def solve_indivisible(request: Request) -> Allocation:
    """Place requests (whole tasks) on single servers.

    Returns:
        The allocation; ``level`` is the number of requests over the weight at which each tenant
        stopped.

    Raises:
        ProblemTooLargeError: more servers or requests than are placed one by one.
        SolveTimeoutError: the deadline passed.
    """
    problem, deadline = request.problem, request.deadline
    rows, whole = each_row_alone(problem), WholeServers.of(problem)
    check_size(int(rows.servers.sum()))
    queues = queues_of(problem, filling_reasons(problem, whole, rows), np.ones(problem.n))
    level, job, server = _place(queues, whole, rows, deadline)
    row_of = np.repeat(np.arange(rows.count), rows.servers)
    sizes, workload, of_range, tasks = ranges_of_launches(row_of, queues.workloads[job], server)
    answer = Allocation(
        problem=problem,
        choice=request.choice,
        tasks=queues.tasks(problem),
        classes=server_ranges(problem, sizes),
        placement_piece=workload,
        placement_class=of_range,
        placement_tasks=tasks,
        level=level,
        limited_by=(),
    )
    limited_by = stops_of(answer) or ()
    objective = least_level_unsatisfied(problem, level, limited_by)
    return replace(answer, limited_by=limited_by, objective=objective)


def _place(
    queues: Queues, whole: WholeServers, rows: ServerClasses, deadline: float | None
) -> tuple[FloatArray, IntArray, IntArray]:
    """Place the requests of both stages.

    Return the levels (t,), and the (job, server) of every request placed.
    """
    present = whole.share_of_unit > 0
    demand = np.ascontiguousarray(whole.demand[queues.workloads][:, present])
    allowed = np.ascontiguousarray(rows.allowed[queues.workloads])
    capacity = np.ascontiguousarray(whole.capacity[rows.first_row][:, present])
    servers = servers_of(capacity, whole.share_of_unit[present], rows.servers, FIRST_FIT)
    row_of, left = servers.row_of, servers.left
    several = (capacity > 0).sum(axis=1, keepdims=True) > 1
    even = Evenness(
        capacity=capacity,
        dominated=np.zeros(left.shape),
        spread=np.where(several, np.ones(capacity.shape), 0.0)[row_of],
        aggregate=np.zeros(len(left)),
        room=np.ones(len(left)),
    )
    level = np.full(len(queues.weight), np.nan)
    chunk = max(SMALLEST_CHUNK, min(CHUNK, SERVERS_BETWEEN_LOOKS // max(len(left), 1)))
    jobs, places = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int32)]
    done = 0
    for stage in (0, 1):
        requests = Requests(
            tree_of(queues.shares_in_stage(stage)), queues.stop, queues.current, queues.limit,
            queues.weight, queues.count, queues.passed, level, demand, allowed,
        )  # fmt: skip
        while np.isfinite(requests.tree[1]):
            if deadline is not None and time.monotonic() > deadline:
                raise SolveTimeoutError("solve.timeout", "the time limit passed while placing")
            job, server = np.empty(chunk, dtype=np.int32), np.empty(chunk, dtype=np.int32)
            placed = fill_evenly(requests, servers, even, job, server)
            done += placed
            if done > MOST_TASKS:
                raise ProblemTooLargeError(
                    "problem.too_large", f"more than {MOST_TASKS} requests fit on the servers"
                )
            jobs.append(job[:placed])
            places.append(server[:placed])
    return level, np.concatenate(jobs), np.concatenate(places)
