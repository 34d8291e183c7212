"""The steps of every import.

Each row is classified first. Then all of them are written in one transaction, or none.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Any, ClassVar, Generic, TypeVar

from allocator_service.core.errors import FieldError
from allocator_service.imports.rows import (
    ImportChoice,
    ImportedFile,
    ImportReport,
    Outcome,
    Place,
    RefusedRow,
    Row,
    RowReport,
    SkippedRow,
)
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.services import MAX_TENANTS_PER_REQUEST, TenantDraft, tenants_create

Item = TypeVar("Item")
Progress = Callable[[str, int, int], None]
NAMES_PER_QUERY = 10_000


def no_progress(step: str, done: int, total: int) -> None:
    """Ignore the progress."""


class Owners:
    """The tenants that a file names, existing ones and those to register.

    With `retired`, retired tenants count as existing: their rows are about the time before.
    """

    def __init__(self, slugs: Iterable[str | None], choice: ImportChoice, *, retired: bool) -> None:
        named = {slug for slug in slugs if slug}
        found = list(Tenant.objects.filter(slug__in=named))
        self._present = {
            tenant.slug: tenant for tenant in found if retired or tenant.retired_at is None
        }
        self._retired = {tenant.slug for tenant in found} - self._present.keys()
        self._register = choice.register_tenants
        self._registering: dict[str, None] = {}

    def refusal(self, slug: str | None) -> FieldError | None:
        """Return the error of every row of this tenant, or None."""
        if slug is None or slug in self._present:
            return None
        if slug in self._retired:
            return FieldError("", "tenant.retired", f'The tenant "{slug}" is retired.')
        if not self._register:
            return FieldError("", "tenant.unknown", f'No tenant has the slug "{slug}".')
        # Registered only when the file is written, and not at all in a dry run.
        self._registering[slug] = None
        return None

    @property
    def registered(self) -> list[str]:
        """The tenants to register, in the order of the file."""
        return list(self._registering)

    def register(self, now: datetime) -> None:
        """Register the tenants that `refusal` accepted although they do not exist."""
        slugs = list(self._registering)
        for first in range(0, len(slugs), MAX_TENANTS_PER_REQUEST):
            some = slugs[first : first + MAX_TENANTS_PER_REQUEST]
            # A file has no names of tenants apart from their slugs.
            tenants = tenants_create(drafts=[TenantDraft(slug, slug) for slug in some], now=now)
            self._present |= {tenant.slug: tenant for tenant in tenants}

    def tenant(self, slug: str) -> Tenant:
        return self._present[slug]


class NameClaims:
    """The first row of a file for each name of an owner."""

    def __init__(self) -> None:
        self._first: dict[tuple[str | None, str], Place] = {}

    def refusal(self, owner: str | None, names: Sequence[str], place: Place) -> FieldError | None:
        """Claim the names for a row, or return the error if an earlier row has one of them."""
        for name in names:
            first = self._first.get((owner, name))
            if first is not None:
                detail = f'"{name}" of the same owner is at {first} already.'
                return FieldError("/name", "row.duplicate", detail)
        self._first.update({(owner, name): place for name in names})
        return None


class Work(ABC, Generic[Row]):
    """The part of an import that depends on the kind of its rows.

    It classifies each row, collects the changes and writes them.
    """

    row_type: type[Row]
    accepts_retired: ClassVar[bool] = False  # usage may be from before a tenant was retired

    @abstractmethod
    def errors(self, row: Row) -> Iterable[FieldError | None]:
        """Return the errors of a row, apart from those of its owner."""

    @abstractmethod
    def classify(self, row: Row) -> Outcome:
        """Return the outcome of an acceptable row, and collect its change."""

    @abstractmethod
    def has_changes(self) -> bool:
        """Return whether any change was collected."""

    @abstractmethod
    def write(self, owners: Owners, now: datetime, progress: Progress) -> None:
        """Write the collected changes."""

    def names(self, row: Row) -> Sequence[str]:
        """Return the names that a row claims."""
        return [row.name]

    def namespace(self, row: Row) -> str | None:
        """Return the owner within which the names must be unique."""
        return row.owner


def rows_import(
    *,
    pool: Pool | None,
    file: ImportedFile[Row],
    work: Work[Row],
    choice: ImportChoice,
    now: datetime,
    progress: Progress,
) -> ImportReport:
    """Classify every row of a file and write the changes within the open transaction.

    `pool` is None for tenants, which belong to no pool. Nothing is written in a dry run, or if a
    row is refused and refused rows are not skipped.
    """
    rows = rows_of(file, work.row_type)
    owners = Owners((row.owner for row in rows), choice, retired=work.accepts_retired)
    claims = NameClaims()
    reports = []
    for number, row in enumerate(file.rows):
        progress("checking", number, len(file.rows))
        reports.append(_report(row, work, owners, claims))
    writes = _may_write(choice, reports) and work.has_changes()
    if writes:
        # Tenants first: the rows refer to them.
        owners.register(now)
        work.write(owners, now, progress)
        if pool is not None:
            # Services count the change on a pool object of their own.
            pool.refresh_from_db(fields=["generation"])
    generation = 0 if pool is None else pool.generation
    return ImportReport(reports, file.ignored, owners.registered, generation, writes)


def rows_of(file: ImportedFile[Row], row_type: type[Row]) -> list[Row]:
    """Return the rows that were read without errors."""
    return [row for row in file.rows if isinstance(row, row_type)]


def _report(
    row: Row | RefusedRow | SkippedRow, work: Work[Any], owners: Owners, claims: NameClaims
) -> RowReport:
    if isinstance(row, RefusedRow):
        return RowReport(row.place, row.name, None, Outcome.REFUSED, errors=row.errors)
    if isinstance(row, SkippedRow):
        return RowReport(row.place, row.name, None, Outcome.SKIPPED, row.reason)
    found = [
        *work.errors(row),
        owners.refusal(row.owner),
        # A refused row claims its names as well: a later row is not what was meant in its place.
        claims.refusal(work.namespace(row), work.names(row), row.place),
    ]
    errors = [error for error in found if error is not None]
    if errors:
        return RowReport(row.place, row.name, row.owner, Outcome.REFUSED, errors=errors)
    # Only now, since it collects the row's change.
    outcome = work.classify(row)
    return RowReport(row.place, row.name, row.owner, outcome, objects=len(work.names(row)))


def _may_write(choice: ImportChoice, reports: Sequence[RowReport]) -> bool:
    """Return whether rows may be written, given the choice and the refused rows."""
    if choice.dry_run:
        return False
    return choice.skip_refused or all(row.outcome is not Outcome.REFUSED for row in reports)


def same_vector(stored: Sequence[Decimal], given: Sequence[Decimal]) -> bool:
    """Return whether two vectors are equal. Missing entries of the stored one are 0."""
    # Resources may have been added to the pool since the vector was stored.
    padded = [*stored, *[Decimal(0)] * (len(given) - len(stored))]
    return padded == list(given)


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in lists of at most `size`."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch
