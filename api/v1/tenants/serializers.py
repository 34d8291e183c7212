"""Tenants as documents."""

from typing import Any

from allocator_service.tenants.models import Tenant
from api.contract.fields import SlugField, TimestampField, VersionField
from policies.fields import Document, TextField


class TenantRequest(Document):
    slug = SlugField()
    name = TextField(max_length=200)


class TenantDocument(Document):
    slug = SlugField()
    name = TextField(max_length=200)
    version = VersionField()
    created_at = TimestampField()


def tenant_document(tenant: Tenant) -> dict[str, Any]:
    return {
        "slug": tenant.slug,
        "name": tenant.name,
        "version": tenant.version,
        "created_at": tenant.created_at,
    }


def tenant_fields(tenant: Tenant) -> dict[str, Any]:
    """What a merge-patch changes."""
    return {"slug": tenant.slug, "name": tenant.name}
