"""Reads of tenants and keys."""

from datetime import datetime

from django.db.models import QuerySet

from allocator_service.core.errors import Missing
from allocator_service.tenants.models import ApiKey, Tenant
from allocator_service.tenants.services import api_key_digest


def tenants_for(tenant: Tenant | None) -> QuerySet[Tenant]:
    """The tenants a caller may see: all of them, or the one a tenant key is bound to."""
    tenants = Tenant.objects.filter(retired_at=None)
    return tenants if tenant is None else tenants.filter(pk=tenant.pk)


def tenant_get(*, slug: str, within: QuerySet[Tenant] | None = None) -> Tenant:
    """The tenant of this slug. Raises `Missing`."""
    tenants = Tenant.objects.filter(retired_at=None) if within is None else within
    tenant = tenants.filter(slug=slug).first()
    if tenant is None:
        raise Missing("There is no such tenant.", code="tenant.not_found")
    return tenant


def api_key_live(*, text: str, now: datetime) -> ApiKey | None:
    """The key with this text if it is neither revoked nor expired."""
    return (
        ApiKey.objects.live_at(now)
        .select_related("tenant")
        .filter(digest=api_key_digest(text))
        .first()
    )
