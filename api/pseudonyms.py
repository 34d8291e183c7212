"""How a tenant sees the others in a transparent pool: by names that stay the same and say nothing."""

import hashlib
import hmac
from functools import cache

from django.conf import settings

from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant


def tenant_name(slug: str, *, pool: Pool, caller: Tenant | None) -> str:
    """The tenant's slug for its own keys and for whoever sees all, its pseudonym for the others."""
    if caller is None or caller.slug == slug:
        return slug
    return pseudonym("member", slug, pool=pool)


def pseudonym(kind: str, text: str, *, pool: Pool) -> str:
    """A name for `text` that is the same everywhere in the pool and cannot be undone."""
    digest = hmac.new(_secret(), f"{pool.pk}:{kind}:{text}".encode(), hashlib.sha256)
    return f"{kind}-{digest.hexdigest()[:12]}"


@cache
def _secret() -> bytes:
    return hmac.new(settings.SECRET_KEY.encode(), b"pseudonyms", hashlib.sha256).digest()
