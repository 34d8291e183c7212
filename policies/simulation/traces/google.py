"""Google's trace of 2011 at its first instant, with all tasks that waited or ran then.

One line per task, ``;`` between the fields, no header: time of submission in microseconds (always
0), job, index in the job, user, scheduling class, priority, run time in microseconds, end (-1: no
normal end was seen), CPU and memory as parts of the largest machine. Source: Reiss, Wilkes,
Hellerstein, 2011.
"""

from __future__ import annotations

from pathlib import Path

from policies.simulation.traces.lines import LineReader, Unusable, fields, number, require
from policies.simulation.traces.submitted import Submitted, Submitting

MICROSECONDS = 1e6


def read_google_t0(path: str | Path, *, skip_bad_lines: bool = False) -> Submitted:
    """Read the tasks of the first instant.

    Resources are ``cpu`` and ``memory``. Most tasks there run to the end of the trace, 29 days
    later. Tasks that ran for no time, or demand nothing, are left out and counted.

    Args:
        path: of the file, packed with gzip or not.
        skip_bad_lines: count lines that cannot be read instead of stopping at the first.

    Raises:
        TraceLineError: a bad line: its number and why.
    """
    reader, found = LineReader(path, skip_bad_lines=skip_bad_lines), Submitting(["cpu", "memory"])
    for line in reader.lines():
        if not line.strip():
            continue
        try:
            submit, job, _, user, _, _, run, _, cpu, memory = fields(line, ";", 10)
            seconds = number(run, "run time", least=0) / MICROSECONDS
            demand = number(cpu, "cpu", least=0), number(memory, "memory", least=0)
            at = number(submit, "time of submission", least=0) / MICROSECONDS
            require(bool(user and job), "a task needs a user and a job")
        except Unusable as error:
            reader.refuse(error)
            continue
        if seconds == 0:
            found.left_out["it ran for no time"] += 1
        elif not any(demand):
            found.left_out["it demands nothing"] += 1
        else:
            found.add(user, demand, at, seconds, job=job)
    return found.done(reader)
