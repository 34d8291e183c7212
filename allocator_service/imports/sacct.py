"""Usage from `sacct --allocations --parsable2`, for the jobs that have ended.

Slurm counts memory in binary units: `16G` are 16 GiB. Its times have no offset, so it must print
UTC.
"""

import re
from collections.abc import Sequence

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.checks import (
    check_instant,
    check_text,
    check_width,
    slug_from_name,
)
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
from allocator_service.imports.tres import tres_quantities

REQUIRED = ("JobIDRaw", "Start", "End", "AllocTRES")
TENANT_COLUMN = "Account"
COMMAND = (
    "TZ=UTC sacct --allusers --allocations --parsable2"
    " --format=JobIDRaw,Account,User,Start,End,AllocTRES"
)
_UNKNOWN = ("", "Unknown", "None")
_STEP = re.compile(r"[0-9_]+\.", re.ASCII)
Cells = dict[str, str]


def sacct_usage(
    content: str, resources: Sequence[Resource], owner: Owner, source: str
) -> UsageFile:
    """Read the allocation of each job that has ended, from its start to its end.

    The id is the job's number and its start, because a requeued job runs again under the same
    number. The tenant is the account, or the column that `owner` names. Raises `Unacceptable` for
    content that is not the output of sacct.
    """
    lines = content.splitlines()
    header = lines[0].split("|") if lines else []
    tenant_column = owner.label or TENANT_COLUMN
    needed = [*REQUIRED, *([] if owner.slug else [tenant_column])]
    missing = [name for name in needed if name not in header]
    if missing:
        raise Unacceptable(
            f"Line 1 lacks the columns {', '.join(missing)}: import the output of {COMMAND}.",
            code="import.shape",
        )
    check_row_count(len(lines) - 1)
    measures = Measures(resources)
    rows: list[UsageRow | RefusedRow | SkippedRow] = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("|")
        if not line.strip():
            continue
        place = Place("line", number)
        try:
            check_width(cells, header)
            job = dict(zip(header, cells, strict=True))
            rows.append(_row(place, job, measures, owner.slug or job[tenant_column], source))
        except Unacceptable as error:
            rows.append(RefusedRow(place, cells[0][:80], errors_of(error)))
    return UsageFile(rows, measures.ignored)


def _row(
    place: Place, job: Cells, measures: Measures, tenant: str, source: str
) -> UsageRow | SkippedRow:
    number = check_text(job["JobIDRaw"], "/JobIDRaw")
    # A step runs within the allocation of its job, and would be billed a second time.
    if _STEP.match(number):
        return SkippedRow(place, number, "A step of a job, which is counted as a whole.")
    # A job that was cancelled in the queue has no start, or one equal to its end.
    if job["Start"] in _UNKNOWN or job["Start"] == job["End"]:
        return SkippedRow(place, number, "The job never ran.")
    if job["End"] in _UNKNOWN:
        return SkippedRow(place, number, "The job has not ended.")
    start = check_instant(job["Start"], "/Start")
    return UsageRow(
        place,
        f"{number}@{start:%Y-%m-%dT%H:%M:%SZ}",
        slug_from_name(tenant, "/tenant"),
        source,
        measures.vector(_tres(job["AllocTRES"]), rounding=ROUND_REQUEST, pointer="/AllocTRES"),
        start,
        check_instant(job["End"], "/End"),
    )


def _tres(text: str) -> dict[str, object]:
    """Return the quantities of `cpu=4,mem=16G,gres/gpu=1`."""
    amounts = tres_quantities(text, "/AllocTRES")
    # `gres/gpu` is the total, and `gres/gpu:a100` a part of it: the parts count only without the
    # total.
    kinds = {name for name in amounts if ":" not in name}
    return {
        name.partition(":")[0]: amount
        for name, amount in amounts.items()
        if name in kinds or name.partition(":")[0] not in kinds
    }
