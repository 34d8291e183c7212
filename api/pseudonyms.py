"""How a tenant sees the others in a transparent pool: by names that stay the same and say nothing."""

import hashlib
import hmac
from collections.abc import Collection
from functools import cache

from django.conf import settings

from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import groups_of
from allocator_service.tenants.models import Tenant


def tenant_name(slug: str, *, pool: Pool, caller: Tenant | None) -> str:
    """The tenant's slug for its own keys and for whoever sees all, its pseudonym for the others."""
    if caller is None or caller.slug == slug:
        return slug
    return pseudonym("member", slug, pool=pool)


def groups_known(*, pool: Pool, caller: Tenant | None) -> set[str] | None:
    """Return the slugs of the groups on the caller's own path.

    None stands for callers who may know every group.
    """
    if caller is None:
        return None
    return set(groups_of(pool=pool, tenant=caller).values_list("slug", flat=True))


def group_name(slug: str, *, pool: Pool, known: Collection[str] | None) -> str:
    """The group's slug if it is among the known ones, its pseudonym if not."""
    if known is None or slug in known:
        return slug
    return pseudonym("group", slug, pool=pool)


def pseudonym(kind: str, text: str, *, pool: Pool) -> str:
    """A name for `text` that is the same everywhere in the pool and cannot be undone."""
    digest = hmac.new(_secret(), f"{pool.pk}:{kind}:{text}".encode(), hashlib.sha256)
    return f"{kind}-{digest.hexdigest()[:12]}"


@cache
def _secret() -> bytes:
    return hmac.new(settings.SECRET_KEY.encode(), b"pseudonyms", hashlib.sha256).digest()
