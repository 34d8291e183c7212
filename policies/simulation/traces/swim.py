"""Facebook's submission times of 2009 (SWIM) with H-MRF's mix of jobs.

SWIM has one line per job, tabs between the fields, no header: name, time of submission and gap to the
one before in seconds, and bytes of input, shuffle and output: no users, CPU or memory. Tang et al.,
TPDS 2018, §7.1, took its times of submission for a mix of 100 jobs of nine kinds (Table 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from policies.errors import ProblemError
from policies.simulation.traces.lines import LineReader, Unusable, fields, number
from policies.simulation.traces.submitted import Submitted, Submitting

Tasks = tuple[int, tuple[float, float]]


@dataclass(frozen=True)
class JobKind:
    """Kind of jobs, with its number in 100 and its map and reduce phases.

    A phase is (tasks, (cores, GB each)).
    """

    jobs: int
    map_tasks: Tasks
    reduce_tasks: Tasks | None = None


# Table 3 of Tang et al., TPDS 2018.
FACEBOOK_MIX = (
    JobKind(38, (1, (1, 1))),
    JobKind(18, (2, (1, 1.5))),
    JobKind(14, (10, (2, 0.5)), (2, (4, 2))),
    JobKind(10, (50, (4, 1))),
    JobKind(6, (100, (2, 1.5)), (10, (2, 2))),
    JobKind(6, (200, (3, 2))),
    JobKind(4, (400, (2, 1))),
    JobKind(2, (400, (1, 2)), (30, (2, 0.5))),
    JobKind(2, (800, (2, 0.5)), (60, (1, 3))),
)
MEDIAN_SECONDS = 30.0


def read_swim(
    path: str | Path,
    *,
    seed: int,
    jobs: int = 100,
    tenant: str = "facebook",
    tenants: int | None = None,
    median_seconds: float = MEDIAN_SECONDS,
    most_tasks: int | None = None,
    skip_bad_lines: bool = False,
) -> Submitted:
    """Read the first times of submission and give each one of Table 3's kinds of jobs.

    Per 100 jobs each kind comes as often as in the table, in an order drawn by the seed. Nothing
    states how long tasks run: each of them is drawn log-normal, of the given median and a deviation
    of 1/2 of the logarithm. A job's reduce tasks are submitted with its map tasks. Times of
    submission count from the first job's.

    Args:
        path: of the file, packed with gzip or not.
        seed: of kinds and durations.
        jobs: how many to read, at most; tenant: whose they are.
        tenants: they are of so many tenants in turn instead, ``user-1`` and so on.
        median_seconds: above 0.
        most_tasks: how many the trace may have at most; any number unless given.
        skip_bad_lines: count lines that cannot be read instead of stopping at the first.

    Raises:
        TraceLineError: a bad line: its number and why.
        ProblemTooLargeError: more tasks than allowed.
        ProblemError: a median that is not above 0, or less than one tenant.
    """
    if not 0 < median_seconds < np.inf:
        raise ProblemError("trace.time", f"median_seconds is {median_seconds}; it must be above 0")
    if tenants is not None and tenants < 1:
        raise ProblemError("trace.tenants", f"tenants is {tenants}; it must be 1 or more")
    reader = LineReader(path, skip_bad_lines=skip_bad_lines)
    found = Submitting(["cpu", "memory"], most_tasks)
    random = np.random.default_rng(seed)
    kinds = [kind for kind in FACEBOOK_MIX for _ in range(kind.jobs)]
    order: list[int] = []
    submitted: list[float] = []
    for line in reader.lines():
        if len(submitted) == jobs:
            break
        if not line.strip():
            continue
        try:
            submit = number(fields(line, "\t", 6)[1], "time of submission", least=0)
        except Unusable as error:
            reader.refuse(error)
            continue
        if not order:
            order = random.permutation(len(kinds)).tolist()
        kind, job = kinds[order.pop()], len(submitted)
        owner = tenant if tenants is None else f"user-{job % tenants + 1}"
        submitted.append(submit)
        for phase in (kind.map_tasks, kind.reduce_tasks):
            if phase is not None:
                count, demand = phase
                seconds = random.lognormal(np.log(median_seconds), 0.5, count)
                found.add(owner, demand, submit - submitted[0], seconds, job=job, tasks=count)
    return found.done(reader)
