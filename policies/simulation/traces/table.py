"""Reader of the project's own table of tasks, a CSV file with a header.

A line is a task, or a job of alike tasks.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from policies.model.gangs import MOST_PIECES, Gang
from policies.simulation.traces.lines import LineReader, TraceLineError, Unusable, number, require
from policies.simulation.traces.submitted import Submitted, Submitting

NEEDED = ("tenant", "submit", "duration")
GANG = ("pieces", "second_pieces", "per_server", "together", "at_least")
OPTIONAL = ("tasks", "job", "priority", *GANG)
DEMAND, SECOND = "demand.", "second_demand."
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
        tenants: those that may be named; any tenant unless given.
        most_tasks: how many the trace may have at most; any number unless given.
        skip_bad_lines: count lines that cannot be read instead of stopping at the first.

    Raises:
        TraceLineError: the header, or a bad line: its number and why.
        ProblemTooLargeError: more tasks than allowed.
    """
    reader = LineReader(path, skip_bad_lines=skip_bad_lines)
    # Strict: without it a quote in the wrong place joins lines silently.
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
    resources = [name.removeprefix(DEMAND) for name in header if name.startswith(DEMAND)]
    unknown = [
        name
        for name in header
        if name not in NEEDED + OPTIONAL
        and not name.startswith(DEMAND)
        and not (name.startswith(SECOND) and name.removeprefix(SECOND) in resources)
    ]
    missing = [name for name in NEEDED if name not in header]
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
    gang = _gang(row, demand, found.resources)
    duration = number(row["duration"], "duration", least=0)
    if duration == 0:
        raise Unusable("duration is 0; it must be above 0")
    tasks = _whole(row.get("tasks") or "1", "tasks")
    if not 1 <= tasks <= MOST_TASKS_OF_A_LINE:
        raise Unusable(f"tasks is {tasks}; it must be from 1 to {MOST_TASKS_OF_A_LINE}")
    # Two tenants may use the same number of a job.
    found.add(
        tenant,
        demand,
        number(row["submit"], "submit"),
        duration,
        job=(tenant, row["job"]) if row.get("job") else line,
        tasks=tasks,
        priority=_whole(row.get("priority") or "0", "priority"),
        gang=gang,
    )


def _gang(row: Mapping[str, str], demand: list[float], resources: Sequence[str]) -> Gang | None:
    """Return the pieces of a task, None if it has one piece and starts by itself."""
    second = [number(row.get(SECOND + name) or "0", SECOND + name, least=0) for name in resources]
    kinds = [(_count(row, "pieces") or 1, demand)]
    if any(second) or row.get("second_pieces"):
        require(any(second), "a piece of the second kind demands nothing")
        kinds.append((_count(row, "second_pieces") or 1, second))
    per_server, at_least = _count(row, "per_server"), _count(row, "at_least") or 1
    pieces, together = sum(count for count, _ in kinds), row.get("together", "")
    most = f"at_least times pieces is {at_least * pieces}; it must be at most {MOST_PIECES}"
    require(at_least * pieces <= MOST_PIECES, most)
    if pieces == 1 and at_least == 1:
        require(not per_server and not together, "per_server and together are for several pieces")
        return None
    return Gang(
        np.array([count for count, _ in kinds]), np.array([each for _, each in kinds]),
        per_server=per_server, together=together, at_least=at_least,
    )  # fmt: skip


def _count(row: Mapping[str, str], what: str) -> int:
    """Return the number in a column, 0 if the cell is empty."""
    if not row.get(what):
        return 0
    value = _whole(row[what], what)
    require(1 <= value <= MOST_PIECES, f"{what} is {value}; it must be from 1 to {MOST_PIECES}")
    return value


def _whole(text: str, what: str) -> int:
    value = number(text, what)
    if value % 1:
        raise Unusable(f"{what} is {text[:40]!r}; it must be a whole number")
    return int(value)
