"""Importing workloads: each is submitted, changes the one it is, or leaves it as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from allocator_service.core.errors import FieldError
from allocator_service.imports.importing import (
    NAMES_PER_QUERY,
    Claims,
    Owners,
    Progress,
    batches,
    may_write,
    no_progress,
    refused,
    same_vector,
    skipped,
)
from allocator_service.imports.rows import (
    ImportChoice,
    ImportReport,
    Outcome,
    RefusedRow,
    RowReport,
    SkippedRow,
    WorkloadFile,
    WorkloadRow,
)
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Pool
from allocator_service.workloads.models import Workload, WorkloadState
from allocator_service.workloads.services import (
    MAX_WORKLOADS_PER_REQUEST,
    WorkloadDraft,
    WorkloadSettings,
    workload_update,
    workloads_submit,
)

Present = dict[tuple[str, str], Workload]


@dataclass
class _Work:
    """What the accepted rows ask for."""

    added: list[WorkloadRow] = field(default_factory=list)
    changed: list[tuple[WorkloadRow, Workload]] = field(default_factory=list)


@transaction.atomic
def workloads_import(
    *,
    pool: Pool,
    file: WorkloadFile,
    choice: ImportChoice,
    now: datetime,
    progress: Progress = no_progress,
) -> ImportReport:
    """Make the pool's workloads as a file tells them; those it does not name stay as they are.

    A row is the workload of the same tenant and name; a paused one stays paused. Nothing is written
    in a dry run, or when a row is refused, unless the choice is to skip those.
    """
    if not choice.dry_run:
        pool = pool_lock(pool)
    rows = [row for row in file.rows if isinstance(row, WorkloadRow)]
    owners = Owners((row.owner for row in rows), choice)
    present = _present(pool, rows)
    claims, work = Claims(), _Work()
    reports = []
    for number, row in enumerate(file.rows):
        progress("checking", number, len(file.rows))
        reports.append(_judged(pool, row, owners, claims, present, work))
    writes = may_write(choice, reports) and bool(work.added or work.changed)
    if writes:
        owners.register(now)
        _add(pool, work, owners, now, progress)
        _change(work, now, progress)
        pool.refresh_from_db(fields=["generation"])
    return ImportReport(reports, file.ignored, owners.registered, pool.generation, writes)


def _present(pool: Pool, rows: list[WorkloadRow]) -> Present:
    """The workloads in the pool that have a name of the file."""
    return {
        (workload.tenant.slug, workload.name): workload
        for batch in batches((row.name for row in rows), NAMES_PER_QUERY)
        for workload in Workload.objects.filter(pool=pool, name__in=batch)
        .exclude(state=WorkloadState.WITHDRAWN)
        .select_related("tenant", "pool")
    }


def _judged(
    pool: Pool,
    row: WorkloadRow | RefusedRow | SkippedRow,
    owners: Owners,
    claims: Claims,
    present: Present,
    work: _Work,
) -> RowReport:
    if isinstance(row, RefusedRow):
        return refused(row)
    if isinstance(row, SkippedRow):
        return skipped(row)
    errors = [
        error
        for error in (
            _empty(row),
            _unplaced(pool, row),
            owners.refusal(row.owner),
            claims.refusal(row.owner, [row.name], row.place),
        )
        if error
    ]
    if errors:
        return RowReport(row.place, row.name, row.owner, Outcome.REFUSED, errors=errors)
    workload = present.get((row.owner, row.name))
    if workload is None:
        work.added.append(row)
        return RowReport(row.place, row.name, row.owner, Outcome.ADDED)
    if _differs(workload, row):
        work.changed.append((row, workload))
        return RowReport(row.place, row.name, row.owner, Outcome.CHANGED)
    return RowReport(row.place, row.name, row.owner, Outcome.UNCHANGED)


def _empty(row: WorkloadRow) -> FieldError | None:
    if any(row.demand):
        return None
    detail = "A task demands something: at least one resource above 0."
    return FieldError("/demand", "demand.zero", detail)


def _unplaced(pool: Pool, row: WorkloadRow) -> FieldError | None:
    if not row.selector or pool.policy_places:
        return None
    detail = f"The pool's policy, {pool.policy_name}, places nothing: no workload selects servers."
    return FieldError("/selector", "policy.no_placement", detail)


def _differs(workload: Workload, row: WorkloadRow) -> bool:
    return (
        not same_vector(workload.demand, row.demand)
        or (workload.tasks, workload.priority) != (row.tasks, row.priority)
        or _values(workload.server_selector) != _values(row.selector)
    )


def _values(selector: Mapping[str, str | Sequence[str]]) -> dict[str, set[str]]:
    return {
        label: {values} if isinstance(values, str) else set(values)
        for label, values in selector.items()
    }


def _add(pool: Pool, work: _Work, owners: Owners, now: datetime, progress: Progress) -> None:
    done = 0
    for batch in batches(work.added, MAX_WORKLOADS_PER_REQUEST):
        drafts = [
            WorkloadDraft(
                owners.tenant(row.owner),
                row.name,
                row.demand,
                row.tasks,
                row.priority,
                row.selector,
            )
            for row in batch
        ]
        workloads_submit(pool=pool, drafts=drafts, now=now)
        done += len(batch)
        progress("adding", done, len(work.added))


def _change(work: _Work, now: datetime, progress: Progress) -> None:
    for number, (row, workload) in enumerate(work.changed, start=1):
        settings = WorkloadSettings(
            workload.name, row.demand, row.tasks, row.priority, row.selector, workload.state
        )
        workload_update(workload=workload, settings=settings, version=None, now=now)
        progress("changing", number, len(work.changed))
