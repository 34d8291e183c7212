"""Replay of whole tasks, handed out again one by one and compared with an answer.

The order is the policy's. A launch that the answer does not have ends the replay. The rules are those
of ``turns`` and ``servers``, written down as they are defined. A tenant's next task comes from its
highest-priority workload that still fits, then from the older one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, TextArray, grouped_sum
from policies.verification.gangs import GangRule, tasks_at_once
from policies.verification.groups import InGroups
from policies.verification.servers import BETWEEN_LOOKS, NOWHERE, Servers
from policies.verification.turns import ByHistory, ByShare

# Tasks that are handed out again, some 30 µs each.
MOST_REPLAYED = 5_000_000
_NOTHING: tuple[IntArray, IntArray] = (np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class ReplayResult:
    """Tasks that a replay handed out.

    Attributes:
        tasks: (n,) of each workload; job, server: (L,) kind and server of each piece, in order.
        agrees: True if the tasks are those of the answer. If not, the replay ended at the difference.
    """

    tasks: FloatArray
    job: IntArray
    server: IntArray
    agrees: bool


@dataclass(frozen=True, eq=False)
class Round:
    """Tenants that take turns until none has a task that fits.

    Attributes:
        tenants: those of the round; once: True if each leaves as soon as it has launched a task.
    """

    tenants: IntArray
    once: bool = False


def queues(
    owner: IntArray, priority: IntArray, reasons: TextArray, tenants: int
) -> list[list[int]]:
    """Return each tenant's workloads that can run, in the order in which its tasks are taken."""
    waiting: list[list[int]] = [[] for _ in range(tenants)]
    for j in np.lexsort((np.arange(len(owner)), -priority)).tolist():
        if not reasons[j]:
            waiting[owner[j]].append(j)
    return waiting


def replay(
    waiting: Sequence[Sequence[int]],
    limit: FloatArray,
    rounds: Sequence[Round],
    turns: ByShare | ByHistory | InGroups,
    servers: Servers,
    rule: Callable[[int], int],
    expected: FloatArray,
    *,
    launch: Callable[[int, int], None] | None = None,
    started: tuple[IntArray, IntArray] = _NOTHING,
    gangs: GangRule | None = None,
) -> ReplayResult:
    """Hand out tasks until none fits.

    Args:
        waiting: each tenant's workloads in order; limit: (n,) tasks at most.
        rounds: one after the other; turns: order of tenants; servers: where there is room.
        rule: the server of a workload's next task, or ``NOWHERE``.
        expected: (n,) tasks that the answer has.
        launch: called with server and workload before the task is taken.
        started: kind and server of pieces that run already, and are taken from the servers.
        gangs: the rule for tasks of several pieces.
    """
    several = {} if gangs is None else gangs.stated.problem.gangs
    looked = 0
    jobs, places = started[0].tolist(), started[1].tolist()
    count = np.bincount(started[0], minlength=len(limit))[: len(limit)].astype(np.float64)
    # Of a gang's pieces those of the first kind were counted.
    for j, gang in several.items():
        count[j] /= gang.count[0]
    at = [0] * len(waiting)

    def result(agrees: bool) -> ReplayResult:
        return ReplayResult(count, np.array(jobs, np.int64), np.array(places, np.int64), agrees)

    for round_ in rounds:
        going = {i for i in round_.tenants.tolist() if at[i] < len(waiting[i])}
        for i in sorted(going):
            turns.enter(i)
        while going:
            tenant = turns.next()
            job = waiting[tenant][at[tenant]]
            server = NOWHERE
            if not turns.may_go_on(tenant):
                turns.leave(tenant)
                going.discard(tenant)
                continue
            at_once = tasks_at_once(several.get(job), count[job])
            placed: list[tuple[int, int]] = []
            if count[job] + at_once <= limit[job]:
                if gangs is not None and job in several:
                    placed = gangs.launch(job, at_once)
                    server = placed[0][1] if placed else NOWHERE
                else:
                    server = rule(job)
            if server == NOWHERE:
                if count[job] != expected[job]:
                    return result(agrees=False)
                at[tenant] += 1
                if at[tenant] == len(waiting[tenant]):
                    turns.leave(tenant)
                    going.discard(tenant)
                continue
            if count[job] == expected[job]:
                # Counted, so that the result shows the difference.
                count[job] += at_once
                return result(agrees=False)
            if launch is not None:
                launch(server, job)
            if not placed:
                servers.take(server, job)
                placed = [(job, server)]
            count[job] += at_once
            jobs += [piece for piece, _ in placed]
            places += [where for _, where in placed]
            for _ in range(at_once):
                turns.launched(tenant, job)
            if round_.once:
                turns.leave(tenant)
                going.discard(tenant)
            # Full servers slow down each search, and to look for them after each task would cost
            # more.
            if len(jobs) - looked >= BETWEEN_LOOKS:
                looked = len(jobs)
                still = [j for i in range(len(at)) for j in waiting[i][at[i] :]]
                if gangs is not None:
                    still = [q for j in still for q in gangs.stated.pieces.of(j)]
                servers.drop_full(np.unique(still))
    return result(agrees=bool(np.array_equal(count, expected)))


def tasks_by_server(
    job: IntArray, server: IntArray, tasks: FloatArray, workloads: int
) -> tuple[IntArray, FloatArray]:
    """Return keys (p,) ``server × workloads + workload``, ascending, and the tasks (p,) of each."""
    keys, where = np.unique(server * workloads + job, return_inverse=True)
    return keys, grouped_sum(tasks, where, len(keys))


def every_server(which: IntArray, servers: IntArray) -> tuple[IntArray, IntArray]:
    """Return the position (q,) and number (q,) of each of so many servers (p,).

    They are numbered from 0 within each of ``which`` (p,).
    """
    position = np.repeat(np.arange(len(which)), servers)
    within = np.arange(int(servers.sum())) - np.repeat(np.cumsum(servers) - servers, servers)
    return position, which[position] + within


def left_out(reasons: TextArray, misfit: BoolArray, reason: str) -> TextArray:
    """Return the reasons, with one more for workloads that have none and fit nowhere."""
    result = reasons.copy()
    result[(reasons == "") & misfit] = reason
    return result
