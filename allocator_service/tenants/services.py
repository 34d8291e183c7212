"""Writes to tenants and keys."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.db import DatabaseError, transaction
from django.db.models import Q

from allocator_service.core.audit import audit_record, audit_record_made, stated_fields
from allocator_service.core.errors import (
    MAX_ERRORS,
    Conflict,
    FieldError,
    TooLarge,
    Unacceptable,
)
from allocator_service.core.labels import LABEL_LENGTH, line_mistakes
from allocator_service.core.locks import Lock, lock_in_transaction
from allocator_service.core.standby import primary
from allocator_service.core.versions import check_version
from allocator_service.tenants.models import (
    ACCESS_OF_GROUPS,
    BINDING,
    CLUSTER_OF_AGENTS,
    KEY_NAME_LENGTH,
    SLUG_TAKEN,
    Access,
    ApiKey,
    Scope,
    Tenant,
)

KEY_PREFIX = "alloc_"
LIVE_KEYS_PER_NAME = 2
MAX_TENANTS_PER_REQUEST = 10_000
USE_KEPT_EVERY = timedelta(minutes=1)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class TenantDraft:
    """A tenant to register.

    `pointer` is its place in the request.
    """

    slug: str
    name: str
    pointer: str = ""


def tenant_create(*, slug: str, name: str, now: datetime) -> Tenant:
    """Register a tenant. Raises `Conflict` for a slug in use, also by a retired tenant."""
    (tenant,) = tenants_create(drafts=[TenantDraft(slug, name)], now=now)
    return tenant


@transaction.atomic
def tenants_create(*, drafts: Sequence[TenantDraft], now: datetime) -> list[Tenant]:
    """Register tenants, all or none.

    Raises `Conflict`, naming up to 20 items, for slugs in use, also by retired tenants, or twice in the
    request, and `TooLarge` for more than 10,000.
    """
    if len(drafts) > MAX_TENANTS_PER_REQUEST:
        raise TooLarge(
            f"{len(drafts)} tenants in one request; at most {MAX_TENANTS_PER_REQUEST} are taken.",
            code="tenants.too_many",
        )
    _refuse_taken(drafts)
    tenants = Tenant.objects.bulk_create(
        Tenant(slug=draft.slug, name=draft.name, created_at=now) for draft in drafts
    )
    audit_record_made(action="tenant.create", instances=tenants, now=now)
    return tenants


def _refuse_taken(drafts: Sequence[TenantDraft]) -> None:
    slugs = [draft.slug for draft in drafts]
    seen = set(Tenant.objects.filter(slug__in=slugs).values_list("slug", flat=True))
    errors = []
    for draft in drafts:
        if draft.slug in seen:
            errors.append(FieldError(f"{draft.pointer}/slug", "tenant.exists", SLUG_TAKEN))
        seen.add(draft.slug)
    if errors:
        raise Conflict(SLUG_TAKEN, code="tenant.exists", errors=errors[:MAX_ERRORS])


@transaction.atomic
def tenant_update(*, tenant: Tenant, name: str, version: int | None, now: datetime) -> Tenant:
    """Rename a tenant that is still at `version`."""
    # The version is compared under the lock, or two writers could both find theirs present.
    tenant = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    check_version(tenant.version, version)
    before = stated_fields(tenant)
    tenant.name = name
    tenant.version += 1
    tenant.save(update_fields=["name", "version"])
    audit_record(action="tenant.update", instance=tenant, before=before, now=now)
    return tenant


@transaction.atomic
def tenant_retire(*, tenant: Tenant, version: int | None, now: datetime) -> None:
    """Retire a tenant and revoke its keys. Its history and its slug stay.

    Raises `Conflict` while it has servers that are not retired or workloads not withdrawn.
    """
    # The whole row: a server or workload that is being added waits, or is seen here.
    tenant = Tenant.objects.select_for_update().get(pk=tenant.pk)
    check_version(tenant.version, version)
    if (
        tenant.servers.exclude(state="retired").exists()
        or tenant.workloads.exclude(state="withdrawn").exists()
    ):
        raise Conflict(
            "The tenant has servers or workloads: retire and withdraw them first.", code="in_use"
        )
    before = stated_fields(tenant)
    revoked = tenant.keys.filter(revoked_at=None).update(revoked_at=now)
    tenant.retired_at = now
    tenant.version += 1
    tenant.save(update_fields=["retired_at", "version"])
    audit_record(
        action="tenant.retire",
        instance=tenant,
        before=before,
        now=now,
        extra={"keys_revoked": revoked},
    )


@dataclass(frozen=True)
class IssuedKey:
    """A new key with its text, which is shown once and cannot be retrieved again."""

    key: ApiKey
    text: str


@transaction.atomic
def api_key_create(
    *,
    scope: str,
    name: str,
    tenant: Tenant | None,
    expires_at: datetime,
    now: datetime,
    pool: str = "",
    group: int | None = None,
    access: str = Access.MANAGE,
    cluster: str = "",
) -> IssuedKey:
    """Issue a key under a name that no live key has. `api_key_rotate` issues a second one.

    `pool` is the slug of the pool that the key is bound to, `group` the primary key of the pool's group,
    `access` the permission there, `cluster` the pool's cluster. Raises `Unacceptable` for a binding that
    the scope does not have, a cluster that no server's label can name or an expiry in the past, and
    `Conflict` when a live key has the name.
    """
    unbound = scope in (Scope.AGENT, Scope.GROUP) and not pool
    of_group = (scope == Scope.GROUP) == (group is not None)
    of_tenant = (scope == Scope.TENANT) == (tenant is not None)
    if unbound or not of_group or not of_tenant or (tenant and pool):
        raise Unacceptable(BINDING, code="api_key.binding")
    if access != Access.MANAGE and scope != Scope.GROUP:
        raise Unacceptable(ACCESS_OF_GROUPS, code="api_key.access")
    if cluster and scope != Scope.AGENT:
        raise Unacceptable(CLUSTER_OF_AGENTS, code="api_key.cluster")
    _check_line("name", name, KEY_NAME_LENGTH)
    if cluster:
        _check_line("cluster", cluster, LABEL_LENGTH)
    if "|" in cluster:
        raise Unacceptable("The name of a cluster has no |.", code="api_key.cluster")
    if expires_at <= now:
        raise Unacceptable("The expiry lies in the past.", code="api_key.expiry")
    lock_in_transaction(Lock.API_KEY_NAME, name)
    if ApiKey.objects.live_at(now).filter(name=name).exists():
        raise Conflict(
            f'A live key already has the name "{name}": rotate or revoke it, or choose another name.',
            code="api_key.name",
        )
    return _issue(
        scope=scope,
        name=name,
        tenant=tenant,
        pool=pool,
        group=group,
        access=access,
        cluster=cluster,
        expires_at=expires_at,
        now=now,
    )


@transaction.atomic
def api_key_rotate(*, name: str, expires_at: datetime, now: datetime) -> IssuedKey:
    """Issue a successor with the name, scope and binding of a live key, which stays valid.

    At most two keys of one name live at once, so that a rotation is finished before the next.
    """
    lock_in_transaction(Lock.API_KEY_NAME, name)
    live = list(ApiKey.objects.live_at(now).filter(name=name).order_by("pk"))
    if not live:
        raise Unacceptable(f'No live key has the name "{name}".', code="api_key.unknown")
    if len(live) >= LIVE_KEYS_PER_NAME:
        raise Conflict(
            f'Two live keys have the name "{name}": revoke {live[0].prefix}… first.',
            code="api_key.name",
        )
    old = live[0]
    return _issue(
        scope=old.scope,
        name=name,
        tenant=old.tenant,
        pool=old.pool,
        group=old.group,
        access=old.access,
        cluster=old.cluster,
        expires_at=expires_at,
        now=now,
    )


@transaction.atomic
def api_key_revoke(*, identifier: str, now: datetime) -> int:
    """Revoke the live keys that have this name or this prefix, and return their number."""
    keys = list(
        ApiKey.objects.live_at(now)
        .select_for_update(no_key=True)
        .filter(Q(name=identifier) | Q(prefix=identifier))
        .order_by("pk")
    )
    for key in keys:
        before = stated_fields(key)
        key.revoked_at = now
        key.save(update_fields=["revoked_at"])
        audit_record(action="api_key.revoke", instance=key, before=before, now=now)
    return len(keys)


_USED = """
UPDATE api_key SET last_used_at = %(now)s
WHERE id = (SELECT id FROM api_key WHERE id = %(key)s FOR NO KEY UPDATE SKIP LOCKED)
"""


def api_key_used(*, key: ApiKey, now: datetime) -> None:
    """Record the use of a key to the minute, without waiting for a transaction that changes it.

    A database that accepts no writes (its disk is full, it is read-only) may still answer the request.
    """
    if key.last_used_at is not None and now - key.last_used_at < USE_KEPT_EVERY:
        return
    database = primary()
    try:
        with database.cursor() as cursor:
            cursor.execute(_USED, {"key": key.pk, "now": now})
    except DatabaseError:
        # PostgreSQL aborts a transaction with its first failed statement, so this one cannot go on.
        if database.in_atomic_block:  # in which every further statement fails
            raise
        # A read must not fail for the sake of its own record.
        log.warning("key_use_not_noted", exc_info=True)


def api_key_digest(text: str) -> bytes:
    """Return the stored digest of a key. Its 256 random bits make a slow hash unnecessary."""
    return hashlib.sha256(text.encode()).digest()


def _check_line(name: str, text: str, max_length: int) -> None:
    """Raise `Unacceptable` for a text that is not one line of at most this length."""
    for mistake in line_mistakes(text, max_length):
        raise Unacceptable(f"`{name}`: {mistake}", code="field.text", pointer=f"/{name}")


def _issue(
    *,
    scope: str,
    name: str,
    tenant: Tenant | None,
    pool: str,
    group: int | None,
    access: str,
    cluster: str,
    expires_at: datetime,
    now: datetime,
) -> IssuedKey:
    # The stored prefix names a key in lists. Its six characters leave 220 of the 256 bits secret.
    text = KEY_PREFIX + secrets.token_urlsafe(32)
    key = ApiKey.objects.create(
        scope=scope,
        name=name,
        tenant=tenant,
        pool=pool,
        group=group,
        access=access,
        cluster=cluster,
        digest=api_key_digest(text),
        prefix=text[: len(KEY_PREFIX) + 6],
        created_at=now,
        expires_at=expires_at,
    )
    audit_record(action="api_key.create", instance=key, now=now)
    return IssuedKey(key, text)
