"""Import of workloads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from django.db import transaction

from allocator_service.core.errors import FieldError
from allocator_service.imports.clusters import workload_elsewhere, workloads_in_cluster
from allocator_service.imports.importing import (
    NAMES_PER_QUERY,
    Owners,
    Progress,
    Work,
    batches,
    no_progress,
    rows_import,
    rows_of,
    same_vector,
)
from allocator_service.imports.rows import (
    ImportChoice,
    ImportReport,
    Outcome,
    WorkloadFile,
    WorkloadRow,
)
from allocator_service.pools.gangs import gang_refusal
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.member_services import MemberDraft, members_put
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import groups_of, members_of
from allocator_service.workloads.gangs import Gang, start_error
from allocator_service.workloads.models import Workload, WorkloadState
from allocator_service.workloads.services import (
    MAX_WORKLOADS_PER_REQUEST,
    WorkloadDraft,
    WorkloadSettings,
    workload_update,
    workloads_submit,
)

Present = dict[tuple[str, str], Workload]


@transaction.atomic
def workloads_import(
    *,
    pool: Pool,
    file: WorkloadFile,
    choice: ImportChoice,
    now: datetime,
    progress: Progress = no_progress,
) -> ImportReport:
    """Submit the workloads of a file to a pool and change those that differ.

    A row and a workload match by tenant and name. A paused workload stays paused, and workloads
    that the file does not name stay. Nothing is written in a dry run, or if a row is refused and
    refused rows are not skipped.
    """
    # Locked before the rows are compared, so that the comparison holds when they are written.
    if not choice.dry_run:
        pool = pool_lock(pool)
    file = _placeable(_runnable(file, pool, now), pool)
    file = workloads_in_cluster(file, choice.cluster, pool)
    present = _present(pool, rows_of(file, WorkloadRow))
    has_groups = any(row.group for row in rows_of(file, WorkloadRow))
    work = _Workloads(pool, present, choice.cluster, now, has_groups=has_groups)
    return rows_import(pool=pool, file=file, work=work, choice=choice, now=now, progress=progress)


def _runnable(file: WorkloadFile, pool: Pool, now: datetime) -> WorkloadFile:
    """Return the file with single tasks in place of the gangs that the pool cannot run."""
    if file.by_kinds is None:
        return file
    gangs = [row.gang for row in rows_of(file, WorkloadRow) if row.gang is not None]
    kinds = max((len(gang.pieces) for gang in gangs), default=0)
    most = kinds
    # Fewer kinds of pieces, until the pool can run them. 0 stands for single tasks.
    while most and gang_refusal(pool, two_kinds=most > 1, at_least=False, now=now):
        most -= 1
    return file if most == kinds else replace(file, rows=file.by_kinds(most), by_kinds=None)


def _placeable(file: WorkloadFile, pool: Pool) -> WorkloadFile:
    """Return the file without selections of servers if the pool's policy places nothing."""
    if not file.selects_if_placed or pool.policy_places:
        return file
    rows = [
        replace(row, selector={}, gang=row.gang and replace(row.gang, together=""))
        if isinstance(row, WorkloadRow)
        else row
        for row in file.rows
    ]
    return replace(file, rows=rows)


class _Workloads(Work[WorkloadRow]):
    """Workloads of a file, matched with those of the pool."""

    row_type = WorkloadRow

    def __init__(
        self, pool: Pool, present: Present, cluster: str, now: datetime, *, has_groups: bool
    ) -> None:
        self._pool, self._present, self._cluster, self._now = pool, present, cluster, now
        self._groups, self._members = set[str](), set[str]()
        if has_groups:
            self._groups.update(groups_of(pool=pool).values_list("slug", flat=True))
            members = members_of(pool=pool).values_list("membership__tenant__slug", flat=True)
            self._members.update(members)
        self._refusals: dict[tuple[bool, bool], str] = {}
        self._added: list[WorkloadRow] = []
        self._changed: list[tuple[WorkloadRow, Workload]] = []

    def errors(self, row: WorkloadRow) -> list[FieldError | None]:
        present = self._present.get((row.owner, row.name))
        return [
            _empty(row),
            _unplaced(self._pool, row),
            _not_the_sum(present, row),
            workload_elsewhere(row, present, self._cluster),
            self._not_for_gangs(row),
            start_error(row.gang, row.tasks, "") if row.gang and present is None else None,
            self._without_group(row),
        ]

    def classify(self, row: WorkloadRow) -> Outcome:
        workload = self._present.get((row.owner, row.name))
        if workload is None:
            self._added.append(row)
            return Outcome.ADDED
        if _differs(workload, row):
            self._changed.append((row, workload))
            return Outcome.CHANGED
        return Outcome.UNCHANGED

    def _not_for_gangs(self, row: WorkloadRow) -> FieldError | None:
        """Return the error of a gang that the pool's policy cannot run."""
        if row.gang is None or row.gang.is_plain:
            return None
        of_gang = len(row.gang.pieces) > 1, row.gang.at_least > 1
        # Nothing else of a gang decides, and each refusal reads the database.
        if of_gang not in self._refusals:
            two_kinds, at_least = of_gang
            self._refusals[of_gang] = gang_refusal(
                self._pool, two_kinds=two_kinds, at_least=at_least, now=self._now
            )
        why = self._refusals[of_gang]
        return FieldError("/pieces", "workload.pieces", why) if why else None

    def _without_group(self, row: WorkloadRow) -> FieldError | None:
        """Return the error of a new member's group that the pool does not have."""
        if not row.group or row.group in self._groups or row.owner in self._members:
            return None
        return FieldError("/group", "group.unknown", f'The pool has no group "{row.group}".')

    def has_changes(self) -> bool:
        return bool(self._added or self._changed)

    def write(self, owners: Owners, now: datetime, progress: Progress) -> None:
        # First: a workload would admit its tenant to the pool itself.
        self._join_groups(owners, now)
        _add(self._pool, self._added, owners, now, progress)
        _change(self._changed, now, progress)

    def _join_groups(self, owners: Owners, now: datetime) -> None:
        """Admit new members to their groups. Those who are members stay where they are."""
        groups = {
            row.owner: row.group
            for row in reversed(self._added)  # the first row of a tenant counts
            if row.group and row.owner not in self._members
        }
        drafts = [
            MemberDraft(owners.tenant(slug), Decimal(1), group, 0) for slug, group in groups.items()
        ]
        if drafts:
            members_put(pool=self._pool, drafts=drafts, now=now)


def _present(pool: Pool, rows: list[WorkloadRow]) -> Present:
    """Return the pool's workloads that the file names, and some of others with the same names."""
    present = {}
    for batch in batches(rows, NAMES_PER_QUERY):
        # Both, because a thousand tenants may have workloads of one name.
        tenants, names = {row.owner for row in batch}, {row.name for row in batch}
        found = Workload.objects.filter(pool=pool, tenant__slug__in=tenants, name__in=names)
        for workload in found.exclude(state=WorkloadState.WITHDRAWN).select_related("tenant"):
            workload.pool = pool
            present[workload.tenant.slug, workload.name] = workload
    return present


def _empty(row: WorkloadRow) -> FieldError | None:
    if any(row.demand):
        return None
    detail = "A task must demand at least one resource of the pool."
    return FieldError("/demand", "demand.zero", detail)


def _unplaced(pool: Pool, row: WorkloadRow) -> FieldError | None:
    if not row.selector or pool.policy_places:
        return None
    detail = f"The pool's policy, {pool.policy_name}, does not place tasks: remove the selector."
    return FieldError("/selector", "policy.no_placement", detail)


def _not_the_sum(workload: Workload | None, row: WorkloadRow) -> FieldError | None:
    keeps_pieces = row.gang is None and workload is not None and workload.pieces
    if workload is None or not keeps_pieces or same_vector(workload.demand, row.demand):
        return None
    detail = "The workload has pieces, whose sum is its demand: change these instead."
    return FieldError("/demand", "workload.pieces", detail)


def _differs(workload: Workload, row: WorkloadRow) -> bool:
    return (
        not same_vector(workload.demand, row.demand)
        or (workload.tasks, workload.priority) != (row.tasks, row.priority)
        or _values(workload.server_selector) != _values(row.selector)
        or (row.gang is not None and row.gang != Gang.of(workload))
        or row.minimum_run not in ("", workload.minimum_run)
    )


def _values(selector: Mapping[str, str | Sequence[str]]) -> dict[str, set[str]]:
    return {
        label: {values} if isinstance(values, str) else set(values)
        for label, values in selector.items()
    }


def _add(
    pool: Pool,
    rows: Sequence[WorkloadRow],
    owners: Owners,
    now: datetime,
    progress: Progress,
) -> None:
    done = 0
    for batch in batches(rows, MAX_WORKLOADS_PER_REQUEST):
        drafts = [
            WorkloadDraft(
                owners.tenant(row.owner),
                row.name,
                row.demand,
                row.tasks,
                row.priority,
                row.selector,
                gang=row.gang or Gang(),
                minimum_run=row.minimum_run,
            )
            for row in batch
        ]
        workloads_submit(pool=pool, drafts=drafts, now=now)
        done += len(batch)
        progress("adding", done, len(rows))


def _change(
    rows: Sequence[tuple[WorkloadRow, Workload]], now: datetime, progress: Progress
) -> None:
    for number, (row, workload) in enumerate(rows, start=1):
        settings = WorkloadSettings(
            workload.name,
            row.demand,
            row.tasks,
            row.priority,
            row.selector,
            workload.state,
            gang=row.gang,
            minimum_run=row.minimum_run or None,
        )
        workload_update(workload=workload, settings=settings, version=None, now=now)
        progress("changing", number, len(rows))
