"""Import of usage.

Each row is posted to the ledger once, identified by its source and id.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db import transaction

from allocator_service.core.errors import FieldError
from allocator_service.imports.importing import (
    NAMES_PER_QUERY,
    Owners,
    Progress,
    Work,
    batches,
    no_progress,
    rows_import,
    rows_of,
)
from allocator_service.imports.rows import ImportChoice, ImportReport, Outcome, UsageFile, UsageRow
from allocator_service.ledger.intake.sources import clusters_of_sources, sources_claim
from allocator_service.ledger.intake.usage import (
    MAX_EVENTS_PER_REQUEST,
    UsageEvent,
    interval_error,
    membership_error,
    refuse_metered,
    usage_record,
)
from allocator_service.ledger.models import Identity
from allocator_service.pools.clusters import other_cluster
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant

Posted = dict[tuple[str, str], bytes]


@transaction.atomic
def usage_import(
    *,
    pool: Pool,
    file: UsageFile,
    choice: ImportChoice,
    now: datetime,
    progress: Progress = no_progress,
) -> ImportReport:
    """Post the usage of a file that was not posted before.

    A row that was posted with different content is refused. Nothing is written in a dry run, or if
    a row is refused and refused rows are not skipped. Raises `Conflict` for a pool that meters
    itself.
    """
    refuse_metered(pool)
    rows = rows_of(file, UsageRow)
    sources = clusters_of_sources(pool, choice.cluster, {row.source for row in rows})
    work = _Usage(pool, _posted(pool, rows), choice, now, sources)
    return rows_import(pool=pool, file=file, work=work, choice=choice, now=now, progress=progress)


class _Usage(Work[UsageRow]):
    """Usage of a file, matched with posted events."""

    row_type = UsageRow
    accepts_retired = True

    def __init__(
        self,
        pool: Pool,
        posted: Posted,
        choice: ImportChoice,
        now: datetime,
        sources: Mapping[str, str],
    ) -> None:
        self._pool, self._posted, self._now = pool, posted, now
        self._cluster, self._sources = choice.cluster, sources
        self._members_only = not choice.register_tenants
        # Read once: `errors` is called for each of up to 200,000 rows.
        others = Tenant.objects.exclude(memberships__pool=pool)
        self._non_members = set(others.values_list("slug", flat=True) if self._members_only else ())
        retired = Tenant.objects.exclude(retired_at=None)
        self._retired = {tenant.slug: tenant for tenant in retired}
        self._added: list[UsageRow] = []

    def namespace(self, row: UsageRow) -> str:
        return row.source

    def errors(self, row: UsageRow) -> list[FieldError | None]:
        # The digest contains the tenant's slug and nothing else of it, so a tenant that is not
        # registered yet can be compared.
        event = _event(row, self._retired.get(row.owner) or Tenant(slug=row.owner))
        posted = self._posted.get((row.source, row.name))
        conflict = None
        if posted is not None and posted != event.digest:
            detail = f'"{row.name}" of {row.source} was already posted with different content.'
            conflict = FieldError("/id", "usage.conflict", detail)
        non_member = None
        if posted is None and row.owner in self._non_members:
            non_member = membership_error(row.owner, "/tenant")
        return [interval_error(event, self._now), conflict, non_member, self._elsewhere(row)]

    def _elsewhere(self, row: UsageRow) -> FieldError | None:
        """Return the error of usage whose source is of another cluster than the caller's key."""
        cluster = self._sources.get(row.source, self._cluster)
        if cluster == self._cluster:
            return None
        return other_cluster(cluster, self._cluster, "/source")

    def classify(self, row: UsageRow) -> Outcome:
        if (row.source, row.name) in self._posted:
            return Outcome.UNCHANGED
        self._added.append(row)
        return Outcome.ADDED

    def has_changes(self) -> bool:
        return bool(self._added)

    def write(self, owners: Owners, now: datetime, progress: Progress) -> None:
        # Before the events: another cluster may claim a source meanwhile.
        sources_claim(self._pool, self._cluster, {row.source for row in self._added})
        done = 0
        for batch in batches(self._added, MAX_EVENTS_PER_REQUEST):
            events = [_event(row, owners.tenant(row.owner)) for row in batch]
            usage_record(pool=self._pool, events=events, now=now, members_only=self._members_only)
            done += len(batch)
            progress("adding", done, len(self._added))


def _event(row: UsageRow, tenant: Tenant) -> UsageEvent:
    return UsageEvent(row.source, row.name, tenant, None, row.amounts, row.start, row.end)


def _posted(pool: Pool, rows: Sequence[UsageRow]) -> Posted:
    """Return the digests of the rows that were posted before."""
    sources = {row.source for row in rows}
    return {
        (source, event_id): bytes(digest)
        for batch in batches((row.name for row in rows), NAMES_PER_QUERY)
        for source, event_id, digest in Identity.objects.filter(
            pool=pool, source__in=sources, event_id__in=batch
        ).values_list("source", "event_id", "digest")
    }
