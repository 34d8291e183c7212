"""Reader of the Standard Workload Format, with 18 numbers a job, -1 where one is not known.

The file may have any length.

Source: Chapin et al., Benchmarks and Standards for the Evaluation of Parallel Job Schedulers, 1999;
the Parallel Workloads Archive.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from policies.errors import ProblemError
from policies.model.gangs import MOST_PIECES, Gang
from policies.simulation.traces.lines import LineReader, Unusable, fields, number, require
from policies.simulation.traces.submitted import Submitted, Submitting

FIELDS = 18
OWNERS = {"user": 11, "group": 12, "queue": 14, "partition": 15}
_SUBMIT, _RUN, _PROCESSORS, _MEMORY, _ASKED_PROCESSORS, _ASKED_MEMORY = 1, 3, 4, 6, 7, 9
MOST_TASKS_OF_A_JOB = 1_000_000


def read_swf(
    path: str | Path,
    *,
    tenant: Literal["user", "group", "queue", "partition"] = "user",
    memory: bool = False,
    processors_per_task: int | None = None,
    processors_per_node: int | None = None,
    most_tasks: int | None = None,
    skip_bad_lines: bool = False,
) -> Submitted:
    """Read jobs with their submission times, run times and numbers of processors.

    A job holds its processors together, as one task of one piece, unless there is a size of tasks
    or of nodes. With ``processors_per_task`` a job is several tasks of at most so many processors,
    which start one by one. With ``processors_per_node`` a job of more processors is a gang, with a
    piece on each node that it fills and one for the rest. Jobs whose run time or processors are not
    known, or 0, are left out and counted.

    Args:
        path: of the file, packed with gzip or not.
        tenant: owner of a job: ``user-12``, ``group-1``, ...
        memory: a second resource, in KiB per processor; a job of which it is not known needs none.
        processors_per_task, processors_per_node: at least 1, one of the two at most.
        most_tasks: greatest number of tasks in the trace; unlimited unless given.
        skip_bad_lines: count lines that cannot be read instead of stopping at the first.

    Raises:
        TraceLineError: a bad line: its number and why.
        ProblemTooLargeError: more tasks than allowed.
        ProblemError: no such owner of jobs, less than one processor per task or node, or both sizes.
    """
    if tenant not in OWNERS:
        raise ProblemError(
            "trace.tenant", f"tenant is {tenant!r}; it must be one of {', '.join(OWNERS)}"
        )
    if processors_per_task is not None and processors_per_task < 1:
        raise ProblemError(
            "trace.tasks", f"processors_per_task is {processors_per_task}; it must be 1 or more"
        )
    if processors_per_node is not None:
        if processors_per_node < 1:
            raise ProblemError(
                "trace.nodes", f"processors_per_node is {processors_per_node}; it must be 1 or more"
            )
        if processors_per_task is not None:
            raise ProblemError(
                "trace.nodes", "processors_per_node and processors_per_task exclude each other"
            )
    reader = LineReader(path, skip_bad_lines=skip_bad_lines)
    found = Submitting(["cpu", "memory"] if memory else ["cpu"], most_tasks)
    for line in reader.lines():
        # The header of the format is lines that begin with a semicolon.
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        try:
            values = [number(text, "a field") for text in fields(line, None, FIELDS)]
            submit, seconds = values[_SUBMIT], values[_RUN]
            require(submit >= 0, f"time of submission is {submit:g}; it must be 0 or more")
            processors = _known(values[_PROCESSORS], values[_ASKED_PROCESSORS])
            require(processors % 1 == 0, f"{processors:g} processors; it must be a whole number")
            is_gang = processors_per_node is not None and processors > processors_per_node
            full, rest = _parts(int(processors), processors_per_node or processors_per_task)
            if is_gang:
                pieces = full[1] + rest[1]
                require(pieces <= MOST_PIECES, f"{pieces} nodes in one job; at most {MOST_PIECES}")
            many = f"{full[1]} tasks in one job; at most {MOST_TASKS_OF_A_JOB}"
            require(full[1] <= MOST_TASKS_OF_A_JOB, many)
        except Unusable as error:
            reader.refuse(error)
            continue
        if seconds <= 0:
            found.left_out["its run time is not known, or 0"] += 1
            continue
        if processors == 0:
            found.left_out["its number of processors is not known"] += 1
            continue
        kibibytes = _known(values[_MEMORY], values[_ASKED_MEMORY])
        owner, job = f"{tenant}-{values[OWNERS[tenant]]:g}", reader.number
        parts = [(size, count) for size, count in (full, rest) if count]
        demands = [[size, size * kibibytes][: len(found.resources)] for size, _ in parts]
        if is_gang:
            gang = Gang(
                np.array([count for _, count in parts]), np.array(demands, dtype=np.float64)
            )
            found.add(owner, (), submit, seconds, job=job, gang=gang)
            continue
        for (_, count), demand in zip(parts, demands, strict=True):
            found.add(owner, list(map(float, demand)), submit, seconds, job=job, tasks=count)
    return found.done(reader)


def _parts(processors: int, size: int | None) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (processors, number) of the parts of a size, and of the rest."""
    if size is None or processors <= size:
        return (processors, 1), (0, 0)
    full, rest = divmod(processors, size)
    return (size, full), (rest, int(rest > 0))


def _known(*values: float) -> float:
    """Return the first value above 0, or 0 without one."""
    return next((value for value in values if value > 0), 0.0)
