"""Traces in the Standard Workload Format, as usage: 18 numbers a job, -1 where one is not known.

Source: Chapin et al., Benchmarks and Standards for the Evaluation of Parallel Job Schedulers, 1999;
the Parallel Workloads Archive.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.checks import checked_slug
from allocator_service.imports.measures import ASKED, Measures
from allocator_service.imports.reading import findings_of, refuse_too_many
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
    """The jobs that ran: their processors as `cpu`, their memory if it is known as `memory`.

    A job's start is `begin`, or the trace's UnixStartTime, and the seconds of its submission and its
    wait. The tenant is `user-<number>`, or that of another field which `owner` names: group, queue,
    partition. Raises `Unacceptable` for a trace that does not say when it began.
    """
    lines = content.splitlines()
    refuse_too_many(len(lines))
    began = begin or _began(lines)
    field = owner.label or "user"
    if field not in TENANT_FIELDS:
        raise Unacceptable(
            f"A trace names tenants by {', '.join(TENANT_FIELDS)}, not by {field}.",
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
            rows.append(RefusedRow(place, values[0][:80], findings_of(error)))
    return UsageFile(rows, measures.ignored)


def _began(lines: Sequence[str]) -> datetime:
    for line in lines:
        match = _START.match(line)
        if match:
            return _after(_EPOCH, int(match[1]))
    raise Unacceptable("The trace has no UnixStartTime: state when it begins.", code="import.shape")


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
        raise Unacceptable(f"A job has {FIELDS} numbers.", code="row.cells")
    seconds = [float(value) for value in values[: _RUN + 1]]
    if seconds[_RUN] <= 0:
        return SkippedRow(place, values[_JOB], "It ran for no time that is known.")
    processors = _known(values[_PROCESSORS], values[_ASKED_PROCESSORS])
    if processors is None:
        return SkippedRow(place, values[_JOB], "Its number of processors is not known.")
    amounts: dict[str, object] = {"cpu": processors}
    kibibytes = _known(values[_MEMORY], values[_ASKED_MEMORY])
    if kibibytes is not None:
        amounts["memory"] = f"{int(float(kibibytes) * float(processors))}Ki"
    start = _after(began, max(seconds[_SUBMIT], 0) + max(seconds[_WAIT], 0))
    return UsageRow(
        place,
        values[_JOB],
        slug or checked_slug(f"{field}-{values[TENANT_FIELDS[field]]}", f"/{field}"),
        source,
        measures.vector(amounts, rounding=ASKED, pointer=""),
        start,
        _after(start, seconds[_RUN]),
    )


def _after(instant: datetime, seconds: float) -> datetime:
    """The instant some seconds after another one. Raises `Unacceptable` from the year 9999 on."""
    if seconds >= (_LAST - instant).total_seconds():
        raise Unacceptable(
            f"Expected a time before the year 9999, got {seconds:g} s after {instant:%Y-%m-%d}.",
            code="field.range",
        )
    return instant + timedelta(seconds=seconds)


def _known(*values: str) -> str | None:
    """The first that is above 0."""
    return next((value for value in values if float(value) > 0), None)
