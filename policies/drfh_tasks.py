"""Indivisible DRFH: progressive filling of real servers, one whole task at a time.

Source: Wang et al., TPDS 2015, §5.2; placement rules and ties: policies §3. The tenant with
the least weighted global dominant share launches its next task on the server that the
placement rule names; a tenant whose tasks fit nowhere any more leaves.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from policies.allocation import Allocation
from policies.arrays import BoolArray, FloatArray, IntArray
from policies.best_fit_index import BLOCK, NOWHERE
from policies.classes import each_row_alone, server_ranges
from policies.errors import ProblemTooLargeError, SolveTimeoutError
from policies.pool_tasks import least_level_unsatisfied
from policies.problem import Problem
from policies.queues import Queues, queues_of
from policies.saturation import filling_reasons, stops_of
from policies.server_filling import (
    AFFINITY,
    BEST_FIT,
    FIRST_FIT,
    TWO_CHOICES,
    by_server,
    fill,
    index_servers,
    range_starts,
)
from policies.tournament import tree_of
from policies.whole_numbers import WholeServers

RULES = {
    "best-fit": BEST_FIT,
    "first-fit": FIRST_FIT,
    "affinity": AFFINITY,
    "two-choices": TWO_CHOICES,
}
LARGEST_POOL = 2_000_000
LARGEST_TABLE = 40_000_000
MOST_TASKS = 200_000_000
# Tasks launched between two looks at the clock.
CHUNK = 1 << 13
SERVERS_PER_BUCKET = 4
MOST_BUCKETS = 1 << 14


def solve_indivisible(
    problem: Problem, options: Mapping[str, Any], deadline: float | None
) -> Allocation:
    """Place whole tasks on single servers.

    Args:
        problem: any problem.
        options: ``placement`` is best-fit (default), first-fit, affinity or two-choices;
            ``seed`` of the latter's random probes (0 unless given).
        deadline: ``time.monotonic()`` seconds at which to give up, or None.

    Returns:
        The allocation; its classes are ranges of servers inside one row that run the same
        tasks. The same problem gives the same placement.

    Raises:
        ProblemTooLargeError: more servers or tasks than are placed one by one.
        SolveTimeoutError: the deadline passed.
    """
    rows = each_row_alone(problem)
    _check_size(problem, int(rows.servers.sum()), rows.count)
    whole = WholeServers.of(problem)
    queues = queues_of(
        problem, filling_reasons(problem, whole, rows), problem.dominant_share_per_task
    )
    present = problem.totals > 0
    row_of = np.repeat(np.arange(rows.count), rows.servers)
    level, job, server = _place(
        queues,
        np.ascontiguousarray(whole.demand[queues.workloads][:, present]),
        np.ascontiguousarray(whole.capacity[rows.first_row][:, present]),
        np.ascontiguousarray(whole.share_of_unit[present]),
        np.ascontiguousarray(rows.allowed[queues.workloads]),
        rows.servers,
        RULES[options.get("placement", "best-fit")],
        int(options.get("seed", 0)),
        deadline,
    )
    servers, workload, server_class, tasks = _ranges(row_of, queues.workloads[job], server)
    allocation = Allocation(
        problem=problem,
        policy="drfh",
        mode="indivisible",
        options=dict(options),
        tasks=queues.tasks(problem),
        classes=server_ranges(problem, servers),
        placement_workload=workload,
        placement_class=server_class,
        placement_tasks=tasks,
        level=level,
        limited_by=(),
    )
    limited_by = stops_of(problem, allocation, allocation.classes) or ()
    objective = least_level_unsatisfied(problem, level, limited_by)
    return replace(allocation, limited_by=limited_by, objective=objective)


def _check_size(problem: Problem, servers: int, rows: int) -> None:
    if servers > LARGEST_POOL or problem.n * rows > LARGEST_TABLE:
        raise ProblemTooLargeError(
            "problem.too_large",
            f"{problem.n} workloads on {rows} rows of {servers} servers; whole tasks are placed "
            f"on at most {LARGEST_POOL} servers and {LARGEST_TABLE} (workload, row) pairs",
        )


def _place(
    queues: Queues,
    demand: FloatArray,
    capacity: FloatArray,
    share_of_unit: FloatArray,
    allowed: BoolArray,
    servers: IntArray,
    rule: int,
    seed: int,
    deadline: float | None,
) -> tuple[FloatArray, IntArray, IntArray]:
    """Fill both stages: (t,) levels, and the (job, server) of every task launched."""
    m = len(share_of_unit)
    if m == 1 and rule == BEST_FIT:
        rule = FIRST_FIT  # with one resource every H is 0 and the first by position wins
    total = int(servers.sum())
    row_start = np.concatenate([[0], np.cumsum(servers)])
    opened = row_start[:-1].copy()
    row_of = np.repeat(np.arange(len(servers)), servers)
    left = capacity[row_of]
    share = demand * share_of_unit
    reference = (demand > 0).argmax(axis=1) if m else np.zeros(len(demand), dtype=np.int64)
    ratio = share / share[np.arange(len(share)), reference][:, None] if m else share
    size = ratio.sum(axis=1)
    least, pointer = np.zeros(m), np.zeros(len(demand), dtype=np.int64)
    buckets = min(max(total // SERVERS_PER_BUCKET, 1), MOST_BUCKETS)
    edges, room = np.zeros(buckets + 1), np.zeros((buckets, m))
    block = np.zeros((buckets // BLOCK + 1, m))
    head = np.full(buckets, NOWHERE, dtype=np.int64)
    after, before, home = (np.empty(total, dtype=np.int64) for _ in range(3))
    draws = np.array([seed], dtype=np.uint64)
    level = np.full(len(queues.weight), np.nan)
    jobs, places = [], []
    done = 0
    for stage in (0, 1):
        tree = tree_of(queues.shares_in_stage(stage))
        if rule == BEST_FIT:
            index_servers(
                tree, queues.stop, queues.current, demand, least, row_start, opened, left,
                share_of_unit, edges, head, after, before, room, block, home,
            )  # fmt: skip
        while np.isfinite(tree[1]):
            if deadline is not None and time.monotonic() > deadline:
                raise SolveTimeoutError("solve.timeout", "the time limit passed while placing")
            job, server = np.empty(CHUNK, dtype=np.int32), np.empty(CHUNK, dtype=np.int32)
            launched = fill(
                rule, tree, queues.stop, queues.current, queues.share, queues.limit,
                queues.weight, queues.count, queues.passed, level, demand, ratio, reference, size,
                allowed, row_of, row_start, opened, left, share_of_unit, least, pointer, edges, head,
                after, before, room, block, home, draws, job, server,
            )  # fmt: skip
            done += launched
            if done > MOST_TASKS:
                raise ProblemTooLargeError(
                    "problem.too_large", f"more than {MOST_TASKS} whole tasks fit on the servers"
                )
            jobs.append(job[:launched])
            places.append(server[:launched])
    nothing = [np.zeros(0, dtype=np.int32)]
    return level, np.concatenate(jobs or nothing), np.concatenate(places or nothing)


def _ranges(
    row_of: IntArray, job: IntArray, server: IntArray
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Servers of a row that run the same tasks as one range each.

    Returns:
        (K,) sizes of the ranges; (p,) workload, range and tasks on the whole range.
    """
    start = np.empty(len(row_of) + 1, dtype=np.int64)
    jobs, tasks = np.empty(len(job), dtype=np.int64), np.empty(len(job))
    by_server(job, server, start, jobs, tasks)
    first = np.flatnonzero(range_starts(row_of, start, jobs, tasks))
    sizes = np.diff(np.concatenate([first, [len(row_of)]]))
    entries = start[first + 1] - start[first]
    server_class = np.repeat(np.arange(len(first)), entries)
    within = np.arange(entries.sum()) - np.repeat(np.cumsum(entries) - entries, entries)
    entry = start[first][server_class] + within
    order = np.lexsort((server_class, jobs[entry]))
    entry, server_class = entry[order], server_class[order]
    return sizes, jobs[entry], server_class, tasks[entry] * sizes[server_class]
