"""What importing nodes and importing workloads have in common."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import TypeVar

from allocator_service.core.errors import FieldError
from allocator_service.imports.rows import (
    ImportChoice,
    Outcome,
    Place,
    RefusedRow,
    RowReport,
    SkippedRow,
)
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.services import tenant_create

Item = TypeVar("Item")
Progress = Callable[[str, int, int], None]
NAMES_PER_QUERY = 10_000


def no_progress(step: str, done: int, total: int) -> None:
    """For whoever does not look on."""


class Owners:
    """The tenants that a file names: those there are, and those that may be registered."""

    def __init__(self, slugs: Iterable[str | None], choice: ImportChoice) -> None:
        wanted = {slug for slug in slugs if slug}
        found = list(Tenant.objects.filter(slug__in=wanted))
        self._present = {tenant.slug: tenant for tenant in found if tenant.retired_at is None}
        self._retired = {tenant.slug for tenant in found} - self._present.keys()
        self._register = choice.register_tenants
        self.registered: list[str] = []

    def refusal(self, slug: str | None) -> FieldError | None:
        """Why no row of this tenant can be imported, if none can."""
        if slug is None or slug in self._present:
            return None
        if slug in self._retired:
            return FieldError("", "tenant.retired", f'The tenant "{slug}" is retired.')
        if not self._register:
            return FieldError("", "tenant.unknown", f'There is no tenant "{slug}".')
        if slug not in self.registered:
            self.registered.append(slug)
        return None

    def register(self, now: datetime) -> None:
        """Register the tenants that `refusal` let pass without being there."""
        for slug in self.registered:
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


def refused(row: RefusedRow) -> RowReport:
    return RowReport(row.place, row.name, None, Outcome.REFUSED, errors=row.errors)


def skipped(row: SkippedRow) -> RowReport:
    return RowReport(row.place, row.name, None, Outcome.SKIPPED, row.reason)


def may_write(choice: ImportChoice, reports: Sequence[RowReport]) -> bool:
    """Whether rows are written: not in a dry run, nor beside refused ones unless that was asked."""
    if choice.dry_run:
        return False
    return choice.skip_refused or all(row.outcome is not Outcome.REFUSED for row in reports)


def same_vector(stored: Sequence[Decimal], told: Sequence[Decimal]) -> bool:
    """Whether two vectors are equal; what a shorter one leaves out is 0."""
    padded = [*stored, *[Decimal(0)] * (len(told) - len(stored))]
    return padded == list(told)


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of at most `size`."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch
