"""The state with which a simulation of a cluster begins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.filling.best_fit import NOWHERE
from policies.filling.servers import servers_of, tasks_of
from policies.filling.state import Gangs, Tasks
from policies.filling.state import Servers as ServerState
from policies.long_term.windows import Window
from policies.model.problem import Problem
from policies.model.quantities import POOL, quantities_read
from policies.model.queues import Queues
from policies.model.tolerance import DISCRETE_TOLERANCE
from policies.simulation.cluster import Cluster
from policies.simulation.memory import DECAY, SLIDING, TUMBLING, UNBOUNDED
from policies.simulation.placing import AWAY, EVENEST
from policies.simulation.state import (
    Arrivals,
    Evenness,
    Placed,
    Plan,
    Progress,
    Tally,
    Tenants,
)
from policies.simulation.trace import Trace

_INT: Any = np.int64


def plan_of(cluster: Cluster, rule: int, window: Window, step: float) -> Plan:
    """Return the rule, the window and the step of a simulation."""
    kind, length = UNBOUNDED, 0.0
    if window.kind == "tumbling":
        kind = TUMBLING
    elif window.kind == "sliding" and math.isfinite(window.length):
        kind, length = SLIDING, window.length
    elif window.kind == "decay" and math.isfinite(window.half_life):
        kind, length = DECAY, window.half_life
    timeout = cluster.choice.option("starvation_timeout")
    # A wait that is as long but for rounding counts.
    timeout = math.inf if timeout is None else float(timeout) * (1.0 - DISCRETE_TOLERANCE)
    return Plan(
        cluster.order, rule, kind, float(length), float(step), timeout,
        np.array(window.boundaries, dtype=np.float64),
    )  # fmt: skip


def arrivals_of(problem: Problem, queues: Queues, trace: Trace, by_time: IntArray) -> Arrivals:
    """Return the tasks that arrive, by time."""
    jobs = np.full(problem.n, NOWHERE, dtype=_INT)
    jobs[queues.workloads] = np.arange(len(queues.workloads))
    job_of = jobs[trace.workload[by_time]]
    order = np.argsort(job_of, kind="stable")
    count = len(by_time)
    return Arrivals(
        submit=trace.submit[by_time],
        duration=trace.duration[by_time],
        job=job_of,
        order=order,
        first=np.searchsorted(job_of[order], np.arange(len(queues.workloads))),
        start=np.full(count, np.nan),
        end=np.full(count, np.nan),
        server=np.full(count, NOWHERE, dtype=_INT),
    )


def tenants_of(problem: Problem, queues: Queues) -> Tenants:
    """Return the weights and workloads of tenants."""
    whole = quantities_read(problem, POOL)
    owner = problem.workload_tenant[queues.workloads]
    return Tenants(
        first=queues.first,
        stop=queues.stop,
        owner=np.ascontiguousarray(owner),
        limit=queues.limit,
        share=np.zeros(len(queues.workloads)),
        weight=queues.weight,
        second_stage=queues.second_stage,
        amount=np.ascontiguousarray(whole.demand[queues.workloads]),
        natural=_natural(problem, whole.demand, whole.capacity),
        gain=np.ascontiguousarray(problem.demand[queues.workloads]),
        partition=np.zeros((problem.t, problem.m)),
        share_of_total=np.zeros(problem.m),
    )


def _natural(problem: Problem, demand: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return the factor and the divisor (2, m) that convert a whole amount to the resource's unit.

    One of the two is 1.
    """
    natural = np.ones((2, problem.m))
    for r in range(problem.m):
        whole = np.concatenate([demand[:, r], capacity[:, r]])
        amount = np.concatenate([problem.demand[:, r], problem.capacity[:, r]])
        usable = (whole > 0) & (whole < AWAY)
        if usable.any():
            # The largest amount has the least relative error.
            at = int(np.where(usable, whole, 0.0).argmax())
            per_unit = whole[at] / amount[at]
            natural[:, r] = (
                (1.0, np.round(per_unit)) if per_unit >= 1 else (np.round(1 / per_unit), 1)
            )
    return natural


def state_of(cluster: Cluster, rule: int, kinds: IntArray) -> tuple[Tasks, ServerState]:
    """Return the demands of tasks, and servers on which nothing runs."""
    p = cluster.demand.shape[1]
    tasks = tasks_of(
        np.ascontiguousarray(cluster.demand[kinds]),
        np.ones(p),
        np.ascontiguousarray(cluster.allowed[kinds]),
    )
    capacity = np.ascontiguousarray(cluster.capacity)
    return tasks, servers_of(capacity, np.ones(p), cluster.servers, rule)


def placed_of(
    tally: Tally, queues: Queues, gangs: Gangs, job: IntArray, servers: ServerState
) -> Placed:
    """Return room for the pieces of all tasks that arrive."""
    pieces = np.append(gangs.per_task, 0)[job]  # the last one is that of tasks that cannot run
    count, most, p = int(pieces.sum()), int(gangs.most[0]), servers.left.shape[1]
    none = np.zeros(0, dtype=_INT)
    return Placed(
        progress=Progress(tally.running, queues.limit, np.zeros(p), np.zeros(0), none, none),
        first=(np.cumsum(pieces) - pieces).astype(_INT),
        kind=np.zeros(count, dtype=_INT),
        server=np.zeros(count, dtype=_INT),
        log_kind=np.zeros(most, dtype=_INT),
        log_server=np.zeros(most, dtype=_INT),
        free=np.zeros(p),
    )


def evenness_of(cluster: Cluster, rule: int, servers: ServerState) -> Evenness:
    """Return how even servers are used, for the placement that reads it."""
    even = rule == EVENEST
    size, p = (len(servers.left) if even else 0), servers.left.shape[1]
    capacity = np.array(cluster.capacity)
    several = (capacity > 0).sum(axis=1, keepdims=True) > 1
    spread = np.where(several, np.ones(capacity.shape), 0.0)[servers.row_of[:size]]
    return Evenness(
        capacity, np.zeros((size, p)), np.zeros((size, p)), np.ascontiguousarray(spread),
        np.zeros(size), np.ones(size),
    )  # fmt: skip


def tally_of(queues: Queues, m: int, p: int) -> Tally:
    """Return counts of tasks, of which none has arrived."""
    q, t = len(queues.workloads), len(queues.weight)
    return Tally(
        arrived=np.zeros(q, dtype=_INT),
        launched=np.zeros(q, dtype=_INT),
        running=np.zeros(q),
        blocked=np.zeros(q, dtype=np.bool_),
        listed=np.zeros(q, dtype=np.bool_),
        active=np.zeros(q, dtype=_INT),
        actives=np.zeros(t, dtype=_INT),
        waiting=np.zeros(t, dtype=_INT),
        running_tasks=np.zeros(t, dtype=_INT),
        idle_since=np.full(t, np.inf),
        in_use=np.zeros((t, m)),
        least=np.full((p, t), np.inf),
        fresh=np.zeros(t, dtype=np.bool_),
    )
