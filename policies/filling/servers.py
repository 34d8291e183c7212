"""Progressive filling of real servers by DRFH, one whole task at a time.

Source: Wang et al., TPDS 2015, §5.2; placement rules and ties: policies §3. The tenant with
the least weighted global dominant share launches its next task on the server that the
placement rule names; a tenant whose tasks fit nowhere any more leaves.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.errors import ProblemTooLargeError, SolveTimeoutError
from policies.filling.best_fit_many import columns_of
from policies.filling.best_fit_two import slope_index
from policies.filling.group_turns import turns_in_stage
from policies.filling.kept_tasks import kept_tasks
from policies.filling.ranges import ranges_of_launches
from policies.filling.rules import (
    AFFINITY,
    BEST_BY_SCAN,
    BEST_BY_SLOPE,
    FIRST_FIT,
    TWO_CHOICES,
)
from policies.filling.servers_loop import fill
from policies.filling.state import (
    Gangs,
    LimitsLeft,
    Servers,
    Tasks,
    Waiting,
    list_servers,
)
from policies.filling.winner_tree import tree_of
from policies.model.allocation import Allocation
from policies.model.objectives import least_level_unsatisfied
from policies.model.policy import Choice, ShareDefinition
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.queues import Queues, queues_of
from policies.model.request import Request
from policies.model.server_classes import (
    allowed_pieces,
    each_row_alone,
    server_ranges,
)
from policies.model.share_definition import share_per_task
from policies.model.tasks_on_servers import TasksOnServers
from policies.model.tolerance import DISCRETE_TOLERANCE
from policies.proofs.saturation import filling_reasons, stops_of

RULES = {"first-fit": FIRST_FIT, "affinity": AFFINITY, "two-choices": TWO_CHOICES}
LARGEST_POOL = 2_000_000
MOST_TASKS = 200_000_000
# Tasks launched, and servers looked at, between two looks at the clock: some 30 ms.
MOST_LAUNCHED = 1 << 16
MOST_LOOKED_AT = 1 << 24


def solve_indivisible(request: Request) -> Allocation:
    """Place whole tasks on single servers.

    Args:
        request: options: ``placement`` is best-fit, first-fit, affinity or two-choices; ``seed`` of
            the latter's random probes.

    Returns:
        The allocation; its classes are ranges of servers inside one row that run the same
        tasks. The same problem gives the same placement.

    Raises:
        ProblemTooLargeError: more servers or tasks than are placed one by one.
        SolveTimeoutError: the deadline passed.
    """
    problem, deadline = request.problem, request.deadline
    rows = each_row_alone(problem)
    check_size(int(rows.servers.sum()))
    whole = WholeServers.of(problem)
    share = share_per_task(problem, request.choice)
    kept = kept_tasks(problem)
    queues = queues_of(
        problem, filling_reasons(problem, whole, rows), share, kept.per_workload(problem)
    )
    # Of a resource that the pool does not have, a unit has no share.
    present = problem.totals > 0
    row_of = np.repeat(np.arange(rows.count), rows.servers)
    kinds = problem.pieces.kinds_of(queues.workloads)
    demand = np.ascontiguousarray(whole.demand[kinds][:, present])
    share_of_unit = np.ascontiguousarray(whole.share_of_unit[present])
    gangs = gangs_of(
        problem, kinds, len(queues.workloads), demand * share_of_unit, rows.first_row, rows.servers
    )
    gangs.at_least[queues.kept > 0] = 1  # enough tasks run already
    rule = placement_rule(request.option("placement"), len(share_of_unit))
    allowed = np.ascontiguousarray(allowed_pieces(problem, rows)[kinds])
    capacity = np.ascontiguousarray(whole.capacity[rows.first_row][:, present])
    level, kind, server = _place(
        problem,
        queues,
        rule,
        tasks=tasks_of(demand, share_of_unit, allowed),
        gangs=gangs,
        limits=limits_left(problem, whole, whole.limits, kinds, rows.first_row),
        servers=servers_of(capacity, share_of_unit, rows.servers, rule),
        gain=gains(problem, request.choice, share, queues.workloads),
        seed=int(request.option("seed")),
        deadline=deadline,
        before=pieces_kept(
            kinds,
            kept
            if request.kept is None
            else kept.with_more(TasksOnServers.of_placements(problem, rows, request.kept)),
        ),
    )
    servers, piece, server_class, tasks = ranges_of_launches(row_of, kinds[kind], server)
    allocation = Allocation(
        problem=problem,
        choice=request.choice,
        tasks=queues.tasks(problem),
        classes=server_ranges(problem, servers),
        placement_piece=piece,
        placement_class=server_class,
        placement_tasks=tasks,
        level=level,
        limited_by=(),
    )
    limited_by = stops_of(allocation) or ()
    objective = least_level_unsatisfied(problem, level, limited_by)
    return replace(allocation, limited_by=limited_by, objective=objective)


def check_size(servers: int) -> None:
    """Refuse a pool that is too large to place tasks on one by one."""
    if servers > LARGEST_POOL:
        raise ProblemTooLargeError(
            "problem.too_large",
            f"{servers} servers; whole tasks are placed on at most {LARGEST_POOL}",
        )


def _place(
    problem: Problem,
    queues: Queues,
    rule: int,
    *,
    tasks: Tasks,
    gangs: Gangs,
    limits: LimitsLeft,
    servers: Servers,
    gain: FloatArray,
    seed: int,
    deadline: float | None,
    before: tuple[IntArray, IntArray],
) -> tuple[FloatArray, IntArray, IntArray]:
    """Fill both stages. Return (t,) levels, and the (kind, server) of every piece launched.

    Args:
        before: (kind, server) of the tasks that are kept.
    """
    draws = np.array([seed], dtype=np.uint64)
    level, least = np.full(len(queues.weight), np.nan), np.zeros(tasks.demand.shape[1])
    jobs, places = [before[0].astype(np.int32)], [before[1].astype(np.int32)]
    # Before any launch, as tasks that are kept do not move.
    take_kept(before, tasks, limits, servers)
    done = len(before[0])
    for stage in (0, 1):
        waiting = Waiting(
            tree_of(queues.shares_in_stage(stage)), queues.stop, queues.current, queues.share,
            queues.limit, queues.weight, queues.count, queues.passed, level, least,
            turns_in_stage(problem, queues, stage, gain), gain,
        )  # fmt: skip
        # Anew in each stage: servers too full for the first stage may suit the second one's tasks.
        if rule in (BEST_BY_SLOPE, BEST_BY_SCAN):
            list_servers(rule, waiting, tasks, gangs, servers)
        while np.isfinite(waiting.tree[1]):
            # Compiled code cannot look at the clock, so that it returns now and then.
            if deadline is not None and time.monotonic() > deadline:
                raise SolveTimeoutError("solve.timeout", "the time limit passed while placing")
            size = max(MOST_LAUNCHED, int(gangs.most[0]))
            job, server = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
            launched = fill(
                rule, waiting, tasks, gangs, limits, servers, draws, job, server, MOST_LOOKED_AT
            )
            done += launched
            if done > MOST_TASKS:
                raise ProblemTooLargeError(
                    "problem.too_large", f"more than {MOST_TASKS} whole tasks fit on the servers"
                )
            # A view would keep the whole buffer.
            jobs.append(job[:launched].copy())
            places.append(server[:launched].copy())
    return level, np.concatenate(jobs), np.concatenate(places)


def pieces_kept(kinds: IntArray, kept: TasksOnServers) -> tuple[IntArray, IntArray]:
    """Return the kind and the server of each task that runs before any is launched.

    Args:
        kinds: (q,) kinds of pieces in the order of the queues.
        kept: tasks that stay on their servers.
    """
    position = np.full(kept.kinds, -1, dtype=np.int64)
    position[kinds] = np.arange(len(kinds))
    each = kept.tasks.astype(np.int64)
    return np.repeat(position[kept.kind], each), np.repeat(kept.server, each)


def take_kept(
    before: tuple[IntArray, IntArray], tasks: Tasks, limits: LimitsLeft, state: Servers
) -> None:
    """Take what kept tasks use from servers and limits."""
    job, server = before
    # Not left[server] -= ..., which counts a server with several tasks once.
    np.subtract.at(state.left, server, tasks.demand[job])
    row = state.row_of[server]
    np.maximum.at(state.opened, row, server + 1)
    if not len(limits.row):
        return
    for task, its_row in zip(job.tolist(), row.tolist(), strict=True):
        for at in range(limits.first[task], limits.first[task + 1]):
            if limits.where[limits.row[at], its_row]:
                limits.left[limits.row[at]] -= limits.need[at]


def gains(problem: Problem, choice: Choice, share: FloatArray, workloads: IntArray) -> FloatArray:
    """Return the vector (q, r) that one task adds, by which groups are compared.

    Args:
        share: (n,) what it adds to its tenant's share; workloads: (q,) of the problem.
    """
    if choice.share is ShareDefinition.ALONE:
        return np.ascontiguousarray(share[workloads, None])
    return np.ascontiguousarray(problem.demand_share[workloads])


def placement_rule(placement: str, resources: int) -> int:
    if placement != "best-fit":
        return RULES[placement]
    if resources < 2:
        return FIRST_FIT  # with one resource every H is 0 and the first by position wins
    return BEST_BY_SLOPE if resources == 2 else BEST_BY_SCAN


def limits_left(
    problem: Problem, whole: WholeServers, left: FloatArray, kinds: IntArray, rows: IntArray
) -> LimitsLeft:
    """Return the unused amounts of limits that can bind, for kinds of pieces (q,) in their order.

    Args:
        left: (l, m) whole unused amounts of all limits.
        rows: (R,) of the problem, as the servers are numbered.
    """
    pieces = problem.pieces
    position = np.full(len(pieces.demand), -1, dtype=np.int64)
    position[kinds] = np.arange(len(kinds))
    cells = np.argwhere(np.isfinite(whole.limits)).tolist()
    jobs, numbers = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    needs = [np.zeros(0)]
    where = np.zeros((len(cells), len(rows)), dtype=np.bool_)
    for number, (limit, resource) in enumerate(cells):
        item = problem.limited[limit]
        where[number] = item.rows[rows]
        mine = pieces.kinds_of(item.workloads)
        mine = mine[position[mine] >= 0]
        mine = mine[whole.demand[mine, resource] > 0]
        jobs.append(position[mine])
        numbers.append(np.full(len(mine), number))
        needs.append(whole.demand[mine, resource])
    job = np.concatenate(jobs)
    # Sorted by kind of pieces, so that one position per kind finds its entries.
    order = np.argsort(job, kind="stable")
    return LimitsLeft(
        left=np.array([left[limit, resource] for limit, resource in cells]),
        where=where,
        first=np.searchsorted(job[order], np.arange(len(kinds) + 1)),
        row=np.concatenate(numbers)[order],
        need=np.concatenate(needs)[order],
        closed=np.zeros(len(job), dtype=np.bool_),
    )


def gangs_of(
    problem: Problem,
    kinds: IntArray,
    queued: int,
    share: FloatArray,
    rows: IntArray,
    servers: IntArray,
) -> Gangs:
    """Return the gangs of queued workloads.

    Args:
        kinds: (q,) kinds of pieces, of which the first ``queued`` are those of the workloads.
        share: (q, m) share of the pool that one piece demands.
        rows: (R,) of the problem, as the servers are numbered; servers: (R,) number of each.
    """
    pieces, workloads = problem.pieces, kinds[:queued]
    second = pieces.second[workloads]
    number, none = np.zeros(queued, dtype=np.int64), np.full(queued, -1, dtype=np.int64)
    large, small = np.arange(queued), none.copy()
    small[second >= 0] = np.arange(queued, len(kinds))
    size = share.max(axis=1, initial=0.0)
    swapped = np.flatnonzero(small >= 0)
    # Kinds that are equal but for rounding stay in the order of the problem.
    swapped = swapped[size[small[swapped]] > size[swapped] * (1 + DISCRETE_TOLERANCE)]
    large[swapped], small[swapped] = small[swapped], swapped
    per_server, at_least, zone = number.copy(), number + 1, none.copy()
    # Labels that no row has share one array.
    distinct = {id(zone): zone for label, zone in problem.zones.items() if label}
    numbers = {key: number for number, key in enumerate(distinct)}
    for position, j in enumerate(workloads.tolist() if problem.gangs else ()):
        gang = problem.gangs.get(j)
        if gang is None:
            continue
        number[position] = int(gang.count.sum())
        per_server[position], at_least[position] = gang.per_server, gang.at_least
        if gang.together:
            zone[position] = numbers[id(problem.zones[gang.together])]
    zones = np.array([each[rows] for each in distinct.values()], dtype=np.int64)
    cluster = problem.clusters[rows]
    if not problem.gangs or (cluster == cluster[:1]).all():
        cluster = cluster[:0]
    return Gangs(
        most=np.array([max(1, int((number * at_least).max(initial=1)))]),
        per_task=number,
        large=large,
        small=small,
        number=pieces.count[kinds],
        per_server=per_server,
        at_least=at_least,
        zone=zone,
        zones=zones.reshape(len(distinct), len(rows)),
        cluster=cluster,
        on_server=np.zeros(int(servers.sum()) if problem.gangs else 0, dtype=np.int64),
    )


def tasks_of(demand: FloatArray, share_of_unit: FloatArray, allowed: BoolArray) -> Tasks:
    reference = np.zeros(len(demand), dtype=np.int64)
    ratio = demand * share_of_unit
    if len(share_of_unit):
        reference = (demand > 0).argmax(axis=1)
        ratio /= ratio[np.arange(len(ratio)), reference][:, None]
    pointer = np.zeros(len(demand), dtype=np.int64)
    return Tasks(demand, ratio, reference, ratio.sum(axis=1), allowed, pointer)


def servers_of(
    capacity: FloatArray, share_of_unit: FloatArray, servers: IntArray, rule: int
) -> Servers:
    total = int(servers.sum())
    row_start = np.concatenate([[0], np.cumsum(servers)])
    row_of = np.repeat(np.arange(len(servers)), servers)
    return Servers(
        left=capacity[row_of],
        share_of_unit=share_of_unit,
        row_of=row_of,
        row_start=row_start,
        opened=row_start[:-1].copy(),
        slopes=slope_index(total if rule == BEST_BY_SLOPE else 0),
        columns=columns_of(total if rule == BEST_BY_SCAN else 0, len(share_of_unit)),
    )
