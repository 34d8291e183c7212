"""Import of tenants."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from allocator_service.core.errors import FieldError, Unacceptable
from allocator_service.core.quantities import pointer_token
from allocator_service.imports.checks import check_slug, check_title
from allocator_service.imports.csv_files import TENANT_COLUMNS, csv_tenants
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
from allocator_service.imports.reading import errors_of, json_items
from allocator_service.imports.rows import (
    ImportChoice,
    ImportReport,
    Outcome,
    Place,
    RefusedRow,
    TenantFile,
    TenantRow,
)
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.services import (
    MAX_TENANTS_PER_REQUEST,
    TenantDraft,
    tenant_update,
    tenants_create,
)

TENANT_FORMATS = ("csv", "json")


def read_tenants(content: str, file_format: str) -> TenantFile:
    """Read tenants from a CSV with slug and name, or from a JSON array of objects with them.

    Errors of a row are in the row. Raises `Unacceptable` if the content as a whole is not of the
    format.
    """
    if file_format == "csv":
        return csv_tenants(content)
    return TenantFile([_from_item(number, item) for number, item in enumerate(json_items(content))])


def _from_item(number: int, item: Any) -> TenantRow | RefusedRow:
    place = Place("item", number)
    try:
        return _row(place, item)
    except Unacceptable as error:
        slug = item.get("slug") if isinstance(item, dict) else None
        return RefusedRow(place, str(slug or "")[:80], errors_of(error))


def _row(place: Place, item: Any) -> TenantRow:
    if not isinstance(item, dict):
        raise Unacceptable("Expected a JSON object.", code="import.shape")
    for name in item:
        if name not in TENANT_COLUMNS:
            detail = f'The field "{name[:80]}" is unknown; there are: {", ".join(TENANT_COLUMNS)}.'
            raise Unacceptable(detail, code="field.unknown", pointer=f"/{pointer_token(name)}")
    slug = check_slug(item.get("slug"), "/slug")
    return TenantRow(place, slug, check_title(item.get("name", slug), "/name"))


@transaction.atomic
def tenants_import(
    *,
    file: TenantFile,
    choice: ImportChoice,
    now: datetime,
    progress: Progress = no_progress,
) -> ImportReport:
    """Register the tenants of a file and rename those whose name differs.

    A row and a tenant match by slug. Nothing is written in a dry run, or if a row is refused and
    refused rows are not skipped.
    """
    # Matched before anything is written, so that a dry run and the import report the same.
    work = _Tenants(_present(rows_of(file, TenantRow)))
    return rows_import(pool=None, file=file, work=work, choice=choice, now=now, progress=progress)


class _Tenants(Work[TenantRow]):
    """Tenants of a file, matched with registered ones."""

    row_type = TenantRow

    def __init__(self, present: Mapping[str, Tenant]) -> None:
        self._present = present
        self._added: list[TenantRow] = []
        self._changed: list[tuple[TenantRow, Tenant]] = []

    def errors(self, row: TenantRow) -> Iterable[FieldError | None]:
        present = self._present.get(row.name)
        if present is None or present.retired_at is None:
            return ()
        detail = f'The tenant "{row.name}" is retired: choose another slug.'
        return [FieldError("/slug", "tenant.retired", detail)]

    def classify(self, row: TenantRow) -> Outcome:
        tenant = self._present.get(row.name)
        if tenant is None:
            self._added.append(row)
            return Outcome.ADDED
        if tenant.name == row.title:
            return Outcome.UNCHANGED
        self._changed.append((row, tenant))
        return Outcome.CHANGED

    def has_changes(self) -> bool:
        return bool(self._added or self._changed)

    def write(self, owners: Owners, now: datetime, progress: Progress) -> None:  # noqa: ARG002
        for batch in batches(self._added, MAX_TENANTS_PER_REQUEST):
            tenants_create(drafts=[TenantDraft(row.name, row.title) for row in batch], now=now)
        progress("adding", len(self._added), len(self._added))
        for row, tenant in self._changed:
            tenant_update(tenant=tenant, name=row.title, version=None, now=now)


def _present(rows: Sequence[TenantRow]) -> dict[str, Tenant]:
    """Return the tenants that the file names, retired ones included."""
    return {
        tenant.slug: tenant
        for batch in batches((row.name for row in rows), NAMES_PER_QUERY)
        for tenant in Tenant.objects.filter(slug__in=batch)
    }
