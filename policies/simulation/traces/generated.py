"""Servers and days drawn by a seed from Google's mix of servers and a trace's jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.errors import ProblemError
from policies.simulation.trace import Trace
from policies.simulation.traces.submitted import Submitted

# Wang et al., TPDS 2015, Table 1: servers, CPU and memory of one, as parts of the largest.
GOOGLE_SERVERS = (
    (6732, 0.50, 0.50), (3863, 0.50, 0.25), (1001, 0.50, 0.75), (795, 1.00, 1.00), (126, 0.25, 0.25),
    (52, 0.50, 0.12), (5, 0.50, 0.03), (5, 0.50, 0.97), (3, 1.00, 0.50), (1, 0.50, 0.06),
)  # fmt: skip
DAY = 86_400.0


@dataclass(frozen=True, eq=False, kw_only=True)
class ServerRows:
    """Rows of alike servers, as ``Problem.create`` takes them.

    Attributes:
        resources: (m) names; capacity: (k, m) of one server; server_count: (k,); server_labels: (k).
    """

    resources: tuple[str, ...]
    capacity: FloatArray
    server_count: IntArray
    server_labels: tuple[Mapping[str, str], ...]


def google_servers(count: int, *, seed: int) -> ServerRows:
    """So many servers drawn from Table 1, each class as likely as it is frequent there.

    Raises:
        ProblemError: less than one server.
    """
    if count < 1:
        raise ProblemError("server.count", f"{count} servers; it must be 1 or more")
    table = np.array(GOOGLE_SERVERS)
    drawn = np.random.default_rng(seed).multinomial(count, table[:, 0] / table[:, 0].sum())
    some = drawn > 0
    return ServerRows(
        resources=("cpu", "memory"),
        capacity=table[some, 1:],
        server_count=drawn[some],
        server_labels=({},) * int(some.sum()),
    )


def resampled_day(
    submitted: Submitted,
    *,
    tasks: int,
    median_seconds: float,
    seed: int,
    deviation: float = 1.0,
    seconds: float = DAY,
) -> Submitted:
    """Return a day of arrivals made of a trace's jobs.

    The jobs give tenants, numbers of tasks and demands. They are drawn one after the other, each as
    likely as the others, with all of their tasks, until there are at least ``tasks``. Each is
    submitted at a time drawn evenly over the day. A task's duration is drawn log-normal, each by
    itself: the tasks of a trace's first instant are those that run for weeks, so their own
    durations are not those of a day.

    Args:
        submitted: the jobs to draw from.
        tasks: how many at least, from 1 on.
        median_seconds: of durations, above 0; deviation: of their logarithm.
        seed: of everything that is drawn.
        seconds: the length of the day.

    Raises:
        ProblemError: a trace without tasks; a number that is not above 0.
    """
    if not submitted.trace.tasks or tasks < 1:
        raise ProblemError("trace.empty", "a day is made of at least one task of a trace")
    if not (0 < median_seconds < np.inf and 0 <= deviation < 20 and 0 < seconds < np.inf):
        raise ProblemError("trace.time", "durations and the day must be above 0 and finite")
    trace, random = submitted.trace, np.random.default_rng(seed)
    by_job = np.argsort(trace.job, kind="stable")
    edges = np.flatnonzero(np.diff(trace.job[by_job], prepend=-1, append=-1))
    sizes = np.diff(edges)
    chosen: list[IntArray] = []
    drawn = 0
    while drawn < tasks:
        # In batches, as the sizes of drawn jobs decide how many are needed.
        some = random.integers(len(sizes), size=max(16, int((tasks - drawn) / sizes.mean()) + 1))
        beyond = np.searchsorted(np.cumsum(sizes[some]), tasks - drawn)
        chosen.append(some[: beyond + 1])
        drawn += int(sizes[chosen[-1]].sum())
    jobs = np.concatenate(chosen)
    job = np.repeat(np.arange(len(jobs)), sizes[jobs])
    within = np.arange(len(job)) - np.repeat(np.cumsum(sizes[jobs]) - sizes[jobs], sizes[jobs])
    task = by_job[np.repeat(edges[:-1][jobs], sizes[jobs]) + within]
    return Submitted(
        resources=submitted.resources,
        tenants=submitted.tenants,
        workload_tenant=submitted.workload_tenant,
        demand=submitted.demand,
        priority=submitted.priority,
        selectors=submitted.selectors,
        trace=Trace.create(
            workload=trace.workload[task],
            submit=(random.random(len(jobs)) * seconds)[job],
            duration=random.lognormal(np.log(median_seconds), deviation, len(task)),
            job=job,
        ),
    )
