"""Usage from traces in the Standard Workload Format.

A job has 18 numbers, -1 for an unknown one.

Source: Chapin et al., Benchmarks and Standards for the Evaluation of Parallel Job Schedulers, 1999;
the Parallel Workloads Archive.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.checks import check_slug
from allocator_service.imports.measures import ROUND_REQUEST, Measures
from allocator_service.imports.reading import check_row_count, errors_of
from allocator_service.imports.rows import (
    Owner,
    Place,
    RefusedRow,
    SkippedRow,
    UsageFile,
    UsageRow,
)

FIELDS = 18
TENANT_FIELDS = {"user": 11, "group": 12, "queue": 14, "partition": 15}
_JOB, _SUBMIT, _WAIT, _RUN, _PROCESSORS, _MEMORY, _ASKED_PROCESSORS, _ASKED_MEMORY = (
    0, 1, 2, 3, 4, 6, 7, 9,
)  # fmt: skip
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,6})?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 1, 1, tzinfo=UTC)
_START = re.compile(r";\s*UnixStartTime:\s*([0-9]{1,12})", re.ASCII)


def swf_usage(
    content: str,
    resources: Sequence[Resource],
    owner: Owner,
    source: str,
    begin: datetime | None = None,
) -> UsageFile:
    """Read the jobs that ran, with processors as `cpu` and known memory as `memory`.

    A job starts at `begin`, or the trace's UnixStartTime, plus the seconds of its submission and
    its wait. The tenant is `user-<number>`, or the number of another field that `owner` names:
    group, queue or partition. Raises `Unacceptable` for a trace without a start.
    """
    lines = content.splitlines()
    check_row_count(len(lines))
    began = begin or _trace_start(lines)
    field = owner.label or "user"
    if field not in TENANT_FIELDS:
        raise Unacceptable(
            f"Expected a field of {', '.join(TENANT_FIELDS)}, got {field[:40]}.",
            code="import.owner",
        )
    measures = Measures(resources)
    rows: list[UsageRow | RefusedRow | SkippedRow] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        place, values = Place("line", number), line.split()
        try:
            rows.append(_row(place, values, measures, owner.slug, field, source, began))
        except Unacceptable as error:
            rows.append(RefusedRow(place, values[0][:80], errors_of(error)))
    return UsageFile(rows, measures.ignored)


def _trace_start(lines: Sequence[str]) -> datetime:
    for line in lines:
        match = _START.match(line)
        if match:
            return _instant_after(_EPOCH, int(match[1]))
    raise Unacceptable(
        "The trace has no UnixStartTime: give the instant at which it begins.", code="import.shape"
    )


def _row(
    place: Place,
    values: Sequence[str],
    measures: Measures,
    slug: str | None,
    field: str,
    source: str,
    began: datetime,
) -> UsageRow | SkippedRow:
    if len(values) != FIELDS or not all(_NUMBER.fullmatch(value) for value in values):
        raise Unacceptable(f"Expected {FIELDS} numbers in a job.", code="row.cells")
    seconds = [float(value) for value in values[: _RUN + 1]]
    if seconds[_RUN] <= 0:
        return SkippedRow(place, values[_JOB], "The job has no known run time.")
    # The numbers used are preferred; many traces have only the requested ones.
    processors = _first_positive(values[_PROCESSORS], values[_ASKED_PROCESSORS])
    if processors is None:
        return SkippedRow(place, values[_JOB], "The job has no known number of processors.")
    amounts: dict[str, object] = {"cpu": processors}
    # The format counts memory per processor.
    kibibytes = _first_positive(values[_MEMORY], values[_ASKED_MEMORY])
    if kibibytes is not None:
        amounts["memory"] = f"{int(float(kibibytes) * float(processors))}Ki"
    # Unknown times are -1 in the format, and must not move a start into the past.
    start = _instant_after(began, max(seconds[_SUBMIT], 0) + max(seconds[_WAIT], 0))
    return UsageRow(
        place,
        values[_JOB],
        slug or check_slug(f"{field}-{values[TENANT_FIELDS[field]]}", f"/{field}"),
        source,
        measures.vector(amounts, rounding=ROUND_REQUEST, pointer=""),
        start,
        _instant_after(start, seconds[_RUN]),
    )


def _instant_after(instant: datetime, seconds: float) -> datetime:
    """Return the instant some seconds later. Raises `Unacceptable` from the year 9999 on."""
    if seconds >= (_LAST - instant).total_seconds():
        raise Unacceptable(
            f"Expected a time before the year 9999, got {seconds:g} s after {instant:%Y-%m-%d}.",
            code="field.range",
        )
    return instant + timedelta(seconds=seconds)


def _first_positive(*values: str) -> str | None:
    """Return the first number greater than 0, or None."""
    return next((value for value in values if float(value) > 0), None)
