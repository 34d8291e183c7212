"""What all imports have in common: each row is judged, then all are written or none."""

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
from allocator_service.tenants.services import tenant_create

Item = TypeVar("Item")
Progress = Callable[[str, int, int], None]
NAMES_PER_QUERY = 10_000


def no_progress(step: str, done: int, total: int) -> None:
    """For whoever does not look on."""


class Owners:
    """The tenants that a file names: those there are, and those that may be registered.

    With `retired`, those that are retired count as there: their rows are of the time before.
    """

    def __init__(self, slugs: Iterable[str | None], choice: ImportChoice, *, retired: bool) -> None:
        wanted = {slug for slug in slugs if slug}
        found = list(Tenant.objects.filter(slug__in=wanted))
        self._present = {
            tenant.slug: tenant for tenant in found if retired or tenant.retired_at is None
        }
        self._retired = {tenant.slug for tenant in found} - self._present.keys()
        self._register = choice.register_tenants
        self._registering: dict[str, None] = {}

    def refusal(self, slug: str | None) -> FieldError | None:
        """Why no row of this tenant can be imported, if none can."""
        if slug is None or slug in self._present:
            return None
        if slug in self._retired:
            return FieldError("", "tenant.retired", f'The tenant "{slug}" is retired.')
        if not self._register:
            return FieldError("", "tenant.unknown", f'No tenant has the slug "{slug}".')
        self._registering[slug] = None
        return None

    @property
    def registered(self) -> list[str]:
        """The tenants that are registered, in the order in which the file names them."""
        return list(self._registering)

    def register(self, now: datetime) -> None:
        """Register the tenants that `refusal` let pass without being there."""
        for slug in self._registering:
            self._present[slug] = tenant_create(slug=slug, name=slug, now=now)

    def tenant(self, slug: str) -> Tenant:
        return self._present[slug]


class Claims:
    """Which row of a file was the first to have a name of an owner."""

    def __init__(self) -> None:
        self._first: dict[tuple[str | None, str], Place] = {}

    def refusal(self, owner: str | None, names: Sequence[str], place: Place) -> FieldError | None:
        """Claim the names for the row; why that is impossible, if a row before has one of them."""
        for name in names:
            first = self._first.get((owner, name))
            if first is not None:
                detail = f'"{name}" stands at {first} already, for the same owner.'
                return FieldError("/name", "row.duplicate", detail)
        self._first.update({(owner, name): place for name in names})
        return None


class Work(ABC, Generic[Row]):
    """What one kind of import does with its rows: judges each, remembers what it asks for, writes."""

    row_type: type[Row]
    of_the_past: ClassVar[bool] = False  # its rows tell of a time in which tenants were not retired

    @abstractmethod
    def findings(self, row: Row) -> Iterable[FieldError | None]:
        """Why the row cannot be imported, whoever's it is."""

    @abstractmethod
    def judge(self, row: Row) -> Outcome:
        """What an acceptable row asks for, which is remembered for writing."""

    @abstractmethod
    def pending(self) -> bool:
        """Whether any row asks for a change."""

    @abstractmethod
    def write(self, owners: Owners, now: datetime, progress: Progress) -> None:
        """Do what the rows ask for."""

    def names(self, row: Row) -> Sequence[str]:
        """The names that the row takes."""
        return [row.name]

    def namespace(self, row: Row) -> str | None:
        """Whose names they are."""
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
    """Judge every row of a file, and write what they ask for within the open transaction.

    `pool` is None for what belongs to none. Nothing is written in a dry run, or when a row is refused,
    unless the choice is to skip those.
    """
    rows = rows_of(file, work.row_type)
    owners = Owners((row.owner for row in rows), choice, retired=work.of_the_past)
    claims = Claims()
    reports = []
    for number, row in enumerate(file.rows):
        progress("checking", number, len(file.rows))
        reports.append(_judged(row, work, owners, claims))
    writes = _may_write(choice, reports) and work.pending()
    if writes:
        owners.register(now)
        work.write(owners, now, progress)
        if pool is not None:
            pool.refresh_from_db(fields=["generation"])
    generation = 0 if pool is None else pool.generation
    return ImportReport(reports, file.ignored, owners.registered, generation, writes)


def rows_of(file: ImportedFile[Row], row_type: type[Row]) -> list[Row]:
    """The rows that could be read and ask for something."""
    return [row for row in file.rows if isinstance(row, row_type)]


def _judged(
    row: Row | RefusedRow | SkippedRow, work: Work[Any], owners: Owners, claims: Claims
) -> RowReport:
    if isinstance(row, RefusedRow):
        return RowReport(row.place, row.name, None, Outcome.REFUSED, errors=row.errors)
    if isinstance(row, SkippedRow):
        return RowReport(row.place, row.name, None, Outcome.SKIPPED, row.reason)
    findings = [
        *work.findings(row),
        owners.refusal(row.owner),
        claims.refusal(work.namespace(row), work.names(row), row.place),
    ]
    errors = [finding for finding in findings if finding is not None]
    if errors:
        return RowReport(row.place, row.name, row.owner, Outcome.REFUSED, errors=errors)
    outcome = work.judge(row)
    return RowReport(row.place, row.name, row.owner, outcome, objects=len(work.names(row)))


def _may_write(choice: ImportChoice, reports: Sequence[RowReport]) -> bool:
    """Whether rows are written: not in a dry run, nor beside refused ones unless that was asked."""
    if choice.dry_run:
        return False
    return choice.skip_refused or all(row.outcome is not Outcome.REFUSED for row in reports)


def same_vector(stored: Sequence[Decimal], given: Sequence[Decimal]) -> bool:
    """Whether two vectors are equal; what a shorter one leaves out is 0."""
    padded = [*stored, *[Decimal(0)] * (len(given) - len(stored))]
    return padded == list(given)


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of at most `size`."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch
