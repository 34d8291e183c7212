"""Tenants as documents."""

from typing import Any

from allocator_service.tenants.models import Tenant
from api.contract.fields import SlugField, TimestampField
from policies.fields import Document, IntegerField, TextField

MAX_VERSION = 2**31 - 1


class TenantRequest(Document):
    slug = SlugField()
    name = TextField(max_length=200)


class TenantDocument(Document):
    slug = SlugField()
    name = TextField(max_length=200)
    version = IntegerField(minimum=1, maximum=MAX_VERSION)
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
