"""Pseudonyms of tenants and groups, constant within a pool, for readers that may not know them."""

import hashlib
import hmac
from collections.abc import Collection
from functools import cache
from typing import Any

from django.conf import settings

from allocator_service.allocation.reasons import reason_renamed
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import groups_of
from allocator_service.tenants.models import Tenant
from api.contract.fields import SlugField


def tenant_name(slug: str, *, pool: Pool, caller: Tenant | None) -> str:
    """Return the slug of a tenant to itself and to callers without a tenant, otherwise a pseudonym."""
    if caller is None or caller.slug == slug:
        return slug
    return pseudonym("member", slug, pool=pool)


def server_name(name: str, *, owner: int | None, pool: Pool) -> str:
    """Return the pseudonym of a server that a tenant contributed."""
    # With the owner: servers of two owners may have one name, and must not have one pseudonym.
    return pseudonym("server", f"{owner}:{name}", pool=pool)


def groups_known(*, pool: Pool, caller: Tenant | None) -> set[str] | None:
    """Return the slugs of the groups on the caller's own path.

    None stands for callers who may know every group.
    """
    if caller is None:
        return None
    return set(groups_of(pool=pool, tenant=caller).values_list("slug", flat=True))


def group_name(slug: str, *, pool: Pool, known: Collection[str] | None) -> str:
    """Return the slug of a known group, or the pseudonym of another."""
    if known is None or slug in known:
        return slug
    return pseudonym("group", slug, pool=pool)


def reason_known(limited_by: str, *, pool: Pool, known: Collection[str] | None) -> str:
    """Return a reason of a decision, in which groups that are not known have pseudonyms."""
    return reason_renamed(limited_by, lambda slug: group_name(slug, pool=pool, known=known))


class TenantNameField(SlugField):
    """The name by which the reader knows a tenant."""

    def write(self, value: Any, context: Any) -> Any:
        return tenant_name(value, pool=context.pool, caller=context.reader)


class GroupNameField(SlugField):
    """The name by which the reader knows a group, or null for the pool itself."""

    def write(self, value: Any, context: Any) -> Any:
        if value is None:
            return None
        return group_name(value, pool=context.pool, known=context.known_groups)

    def exact(self, value: Any, context: Any) -> Any:
        return value


def pseudonym(kind: str, text: str, *, pool: Pool) -> str:
    """Return a name for `text` that is constant within the pool and cannot be reversed."""
    # Keyed by the pool too: pseudonyms of two pools cannot be matched.
    digest = hmac.new(secret(), f"{pool.pk}:{kind}:{text}".encode(), hashlib.sha256)
    # 48 bits: two of 10,000 members share a pseudonym with a probability below one in a million.
    return f"{kind}-{digest.hexdigest()[:12]}"


@cache
def secret() -> bytes:
    """Return the key of pseudonyms."""
    # A key of its own: what callers see must not be digests under the key that signs sessions.
    return hmac.new(settings.SECRET_KEY.encode(), b"pseudonyms", hashlib.sha256).digest()
