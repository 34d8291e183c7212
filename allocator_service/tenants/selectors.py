"""Reads of tenants and keys."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from allocator_service.core.rows import RowReader, only_row, selecting
from allocator_service.core.selecting import get_or_missing
from allocator_service.tenants.models import ApiKey, Tenant
from allocator_service.tenants.services import api_key_digest


def tenants_for(tenant: Tenant | None) -> QuerySet[Tenant]:
    """Return the tenants that a caller may see, which for a tenant key is the one it is bound to."""
    tenants = Tenant.objects.filter(retired_at=None)
    # A list of one rather than an error: callers page and filter it like any other.
    return tenants if tenant is None else tenants.filter(pk=tenant.pk)


def tenants_with_retired() -> QuerySet[Tenant]:
    """Return all tenants, including retired ones, which past entries and statements name."""
    return Tenant.objects.all()


def tenant_get(*, slug: str, within: QuerySet[Tenant] | None = None) -> Tenant:
    """Return the tenant of this slug. Raises `Missing`."""
    tenants = Tenant.objects.filter(retired_at=None) if within is None else within
    return get_or_missing(tenants, "tenant.not_found", slug=slug)


class KeyReader:
    """A reader of keys with their tenants from rows of `api_key` LEFT JOIN `tenant`."""

    def __init__(self) -> None:
        self._key, self._tenant = RowReader(ApiKey, "api_key"), RowReader(Tenant, "tenant")
        self.columns = f"{self._key.columns}, {self._tenant.columns}"
        self.width = self._key.width + self._tenant.width

    def read(self, row: Sequence[Any]) -> ApiKey:
        """Return the key in the first `width` values of a row."""
        key = self._key.read(row)
        key.tenant = self._tenant.read(row[self._key.width :]) if key.tenant_id else None
        return key


_KEY = KeyReader()
_KEY_BY_DIGEST = selecting(
    """
    SELECT {key}
    FROM api_key LEFT JOIN tenant ON tenant.id = api_key.tenant_id WHERE api_key.digest = %s
    """,
    key=_KEY,
)


def api_key_of(text: str) -> ApiKey | None:
    """Return the key with this text, revoked and expired ones too, with its tenant."""
    row = only_row(_KEY_BY_DIGEST, [api_key_digest(text)])
    return None if row is None else _KEY.read(row)


def api_key_get(key_id: UUID) -> ApiKey | None:
    """Return the key of this id, revoked and expired ones too, with its tenant."""
    return ApiKey.objects.select_related("tenant").filter(pk=key_id).first()
