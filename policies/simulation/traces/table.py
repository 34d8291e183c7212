"""A table of tasks of our own: CSV with a header, one line per task or per job of alike tasks.

| column | what |
| --- | --- |
| ``tenant`` | a name |
| ``submit`` | seconds from any origin; lines in any order |
| ``duration`` | seconds, above 0, that each task runs |
| ``demand.<resource>`` | amount of each resource that one task needs, 0 or more, one above 0 |
| ``tasks`` | how many such tasks, 1 unless given |
| ``job`` | a name; lines with the same tenant and job are one job; unless given, each line is one |
| ``priority`` | a whole number, 0 unless given; higher first within a tenant |
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from policies.simulation.traces.lines import LineReader, TraceLineError, Unusable, number, require
from policies.simulation.traces.submitted import Submitted, Submitting

NEEDED = ("tenant", "submit", "duration")
OPTIONAL = ("tasks", "job", "priority")
DEMAND = "demand."
MOST_TASKS_OF_A_LINE = 1_000_000


def read_table(
    path: str | Path,
    *,
    tenants: Sequence[str] | None = None,
    most_tasks: int | None = None,
    skip_bad_lines: bool = False,
) -> Submitted:
    """Read a table of tasks, packed with gzip or not, of any length.

    Args:
        path: of the file.
        tenants: those who may be named; anybody unless given.
        most_tasks: how many the trace may have at most; any number unless given.
        skip_bad_lines: count lines that cannot be read instead of stopping at the first.

    Raises:
        TraceLineError: the header, or a bad line: its number and why.
        ProblemTooLargeError: more tasks than allowed.
    """
    reader = LineReader(path, skip_bad_lines=skip_bad_lines)
    rows = csv.reader(reader.lines(), strict=True)
    known = None if tenants is None else frozenset(tenants)
    try:
        header = next(rows, [])
        resources = _resources(header)
        found = Submitting(resources, most_tasks)
        for row in rows:
            if not row:
                continue
            try:
                same = len(row) == len(header)
                require(same, f"it has {len(row)} fields; the header has {len(header)}")
                _add(found, dict(zip(header, row, strict=True)), known, reader.number)
            except Unusable as error:
                reader.refuse(error)
    except csv.Error as error:
        raise TraceLineError(reader.number, f"this is not CSV: {error}") from error
    return found.done(reader)


def _resources(header: Sequence[str]) -> list[str]:
    unknown = [
        name for name in header if name not in NEEDED + OPTIONAL and not name.startswith(DEMAND)
    ]
    missing = [name for name in NEEDED if name not in header]
    resources = [name.removeprefix(DEMAND) for name in header if name.startswith(DEMAND)]
    if unknown or missing or not resources or len(set(header)) != len(header):
        raise TraceLineError(
            1,
            f"the header is {','.join(header)[:200]!r}; it needs {', '.join(NEEDED)} and demand.<name> "
            f"of each resource, may have {', '.join(OPTIONAL)}, and each column once",
        )
    return resources


def _add(
    found: Submitting, row: Mapping[str, str], known: frozenset[str] | None, line: int
) -> None:
    tenant = row["tenant"]
    if not tenant:
        raise Unusable("tenant is empty")
    if known is not None and tenant not in known:
        raise Unusable(f"there is no tenant {tenant[:40]!r}")
    demand = [number(row[DEMAND + name], DEMAND + name, least=0) for name in found.resources]
    if not any(demand):
        raise Unusable("it demands nothing")
    duration = number(row["duration"], "duration", least=0)
    if duration == 0:
        raise Unusable("duration is 0; it must be above 0")
    tasks = _whole(row.get("tasks") or "1", "tasks")
    if not 1 <= tasks <= MOST_TASKS_OF_A_LINE:
        raise Unusable(f"tasks is {tasks}; it must be from 1 to {MOST_TASKS_OF_A_LINE}")
    found.add(
        tenant,
        demand,
        number(row["submit"], "submit"),
        duration,
        job=(tenant, row["job"]) if row.get("job") else line,
        tasks=tasks,
        priority=_whole(row.get("priority") or "0", "priority"),
    )


def _whole(text: str, what: str) -> int:
    value = number(text, what)
    if value % 1:
        raise Unusable(f"{what} is {text[:40]!r}; it must be a whole number")
    return int(value)
