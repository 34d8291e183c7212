"""Writes to webhooks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Max, Q

from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.errors import Conflict, Unacceptable
from allocator_service.core.locks import Lock, lock_in_transaction
from allocator_service.core.models import EventSeal
from allocator_service.core.notifications import DELIVERIES_CHANNEL, notify
from allocator_service.core.outbox import EVENT_KINDS, event_record
from allocator_service.core.versions import check_version
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from allocator_service.webhooks.models import (
    Delivery,
    DeliveryState,
    DisabledBecause,
    Webhook,
    WebhookQueue,
    WebhookScope,
    WebhookSecret,
)
from allocator_service.webhooks.selectors import TEST_KIND
from allocator_service.webhooks.signing import secret_generate
from allocator_service.webhooks.targets import Networks, target_parse

GIVE_UP_AFTER = timedelta(hours=24)
MAX_OVERLAP = timedelta(days=7)
WEBHOOKS_PER_TENANT = 20
WEBHOOKS_OF_OPERATORS = 1_000
WEBHOOKS_OF_BILLING = 100


@dataclass(frozen=True)
class WebhookSettings:
    """The editable settings of a webhook. No `events` means every kind."""

    url: str
    events: Sequence[str]
    enabled: bool = True


@dataclass(frozen=True)
class IssuedSecret:
    """A webhook and its new secret, which cannot be read again."""

    webhook: Webhook
    secret: str


@transaction.atomic
def webhook_create(
    *,
    tenant: Tenant | None,
    pool: Pool | None,
    settings: WebhookSettings,
    allowed: Networks,
    secret_key: str,
    now: datetime,
    scope: WebhookScope = WebhookScope.OPERATOR,
) -> IssuedSecret:
    """Subscribe a URL to the events from now on, of all pools or of one.

    Raises `Unacceptable` for a URL that is not permitted and for a tenant of a billing webhook,
    `Conflict` for too many webhooks.
    """
    _validate(settings, allowed)
    if scope == WebhookScope.BILLING and tenant is not None:
        raise Unacceptable(
            "A billing webhook gets the events of all tenants: omit `tenant`.",
            code="webhook.tenant",
            pointer="/tenant",
        )
    # Counted under a lock: requests at once would each find room for one more.
    lock_in_transaction(Lock.WEBHOOK, f"of {scope if tenant is None else tenant.slug}")
    limit = _max_webhooks(scope, tenant)
    if Webhook.objects.filter(tenant=tenant, scope=scope, retired_at=None).count() >= limit:
        raise Conflict(
            f"Expected at most {limit} webhooks: delete one first.", code="webhook.too_many"
        )
    webhook = Webhook.objects.create(
        tenant=tenant,
        pool=pool,
        scope=scope,
        url=settings.url,
        events=_event_kinds(settings),
        disabled_at=None if settings.enabled else now,
        disabled_because="" if settings.enabled else DisabledBecause.REQUESTED,
        # Events are sealed in one order, so the last sequence divides past from future events.
        since=EventSeal.objects.aggregate(last=Max("sequence"))["last"] or 0,
        created_at=now,
    )
    WebhookQueue.objects.create(webhook=webhook)
    text = _add_secret(webhook, secret_key, now)
    audit_record(action="webhook.create", instance=webhook, now=now, pool=_slug(pool))
    return IssuedSecret(webhook, text)


@transaction.atomic
def webhook_update(
    *,
    webhook: Webhook,
    settings: WebhookSettings,
    version: int | None,
    allowed: Networks,
    now: datetime,
) -> Webhook:
    """Change URL and events, disable the webhook, or enable it again.

    Disabling cancels the pending deliveries.
    """
    _validate(settings, allowed)
    webhook = _locked(webhook, version)
    before = stated_fields(webhook)
    webhook.url, webhook.events = settings.url, _event_kinds(settings)
    if settings.enabled and webhook.disabled_at is not None:
        webhook.disabled_at, webhook.disabled_because = None, ""
        # A new start: the failures before must neither delay nor disable it.
        webhook.failing_since = None
        WebhookQueue.objects.filter(webhook=webhook).update(failures=0, slow=False)
    elif not settings.enabled and webhook.disabled_at is None:
        webhook.disabled_at, webhook.disabled_because = now, DisabledBecause.REQUESTED
        _cancel(webhook, now)
    webhook.version += 1
    webhook.save()
    audit_record(
        action="webhook.update", instance=webhook, before=before, now=now, pool=_slug(webhook.pool)
    )
    return webhook


@transaction.atomic
def webhook_retire(*, webhook: Webhook, version: int | None, now: datetime) -> None:
    """Retire a webhook and delete its secrets. Its deliveries stay for their retention."""
    webhook = _locked(webhook, version)
    before = stated_fields(webhook)
    webhook.retired_at = now
    webhook.version += 1
    webhook.save(update_fields=["retired_at", "version"])
    _cancel(webhook, now)
    webhook.secrets.all().delete()
    audit_record(
        action="webhook.retire", instance=webhook, before=before, now=now, pool=_slug(webhook.pool)
    )


@transaction.atomic
def webhook_rotate(
    *, webhook: Webhook, overlap: timedelta, secret_key: str, now: datetime
) -> IssuedSecret:
    """Rotate a webhook's secret. The old one signs as well for the duration of `overlap`.

    Without an overlap all older secrets expire at once. Raises `Conflict` for an overlap while an
    older secret still signs: a request carries at most two signatures.
    """
    webhook = _locked(webhook, None)
    live = webhook.secrets.filter(Q(expires_at=None) | Q(expires_at__gt=now))
    # Two secrets sign at once at most. An overlap of 0 ends every earlier one, such as a stolen one.
    if overlap and live.filter(expires_at__isnull=False).exists():
        raise Conflict(
            "The previous secret still signs: wait until it expires, or rotate with `overlap_seconds` 0,"
            " which ends both.",
            code="webhook.rotating",
        )
    live.update(expires_at=now + overlap)
    text = _add_secret(webhook, secret_key, now)
    webhook.version += 1
    webhook.save(update_fields=["version"])
    audit_record(
        action="webhook.rotate",
        instance=webhook,
        now=now,
        pool=_slug(webhook.pool),
        extra={"overlap_seconds": int(overlap.total_seconds())},
    )
    return IssuedSecret(webhook, text)


@transaction.atomic
def webhook_test(*, webhook: Webhook, now: datetime) -> Delivery:
    """Queue a delivery of kind `webhook.test`. Raises `Conflict` for a disabled webhook."""
    webhook = _enabled(webhook)
    delivery = Delivery.objects.create(
        webhook=webhook,
        kind=TEST_KIND,
        due_at=now,
        give_up_at=now + GIVE_UP_AFTER,
        created_at=now,
    )
    WebhookQueue.objects.filter(webhook=webhook).update(due_at=now, failures=0)
    notify(DELIVERIES_CHANNEL)
    return delivery


@transaction.atomic
def delivery_resend(*, delivery: Delivery, now: datetime) -> Delivery:
    """Queue a delivery again, with the same id, for another 24 hours.

    A pending delivery becomes due at once. Raises `Conflict` for a disabled webhook.
    """
    webhook = _enabled(delivery.webhook)
    WebhookQueue.objects.filter(webhook=webhook).update(due_at=now, failures=0)
    delivery = Delivery.objects.select_for_update(no_key=True).get(pk=delivery.pk)
    delivery.state, delivery.finished_at = DeliveryState.PENDING, None
    delivery.due_at, delivery.give_up_at = now, now + GIVE_UP_AFTER
    delivery.save(update_fields=["state", "finished_at", "due_at", "give_up_at"])
    notify(DELIVERIES_CHANNEL)
    audit_record(
        action="webhook.resend",
        instance=webhook,
        now=now,
        pool=_slug(webhook.pool),
        extra={"delivery": str(delivery.pk)},
    )
    return delivery


def webhook_disable(*, webhook: Webhook, because: str, now: datetime) -> None:
    """Disable a locked webhook whose receiver fails, and record the event `webhook.disabled`."""
    before = stated_fields(webhook)
    webhook.disabled_at, webhook.disabled_because = now, because
    webhook.version += 1
    webhook.save(update_fields=["disabled_at", "disabled_because", "version"])
    _cancel(webhook, now)
    pool = _slug(webhook.pool)
    audit_record(action="webhook.disable", instance=webhook, before=before, now=now, pool=pool)
    event_record(
        kind="webhook.disabled",
        # The members of a pool see its events that concern no tenant, and no webhook of others.
        pool=None if webhook.tenant is None else pool,
        tenant=None if webhook.tenant is None else webhook.tenant.slug,
        payload={
            "webhook": str(webhook.pk),
            "because": because,
            "failing_since": webhook.failing_since and webhook.failing_since.isoformat(),
        },
        now=now,
    )


def webhook_lock(webhook_id: UUID) -> Webhook:
    """Lock a webhook and return it. Its queue and its deliveries are locked after it."""
    webhooks = Webhook.objects.select_for_update(of=("self",), no_key=True)
    return webhooks.select_related("tenant", "pool").get(pk=webhook_id)


def _locked(webhook: Webhook, version: int | None) -> Webhook:
    webhook = webhook_lock(webhook.pk)
    check_version(webhook.version, version)
    return webhook


def _enabled(webhook: Webhook) -> Webhook:
    webhook = webhook_lock(webhook.pk)
    if webhook.disabled_at is not None or webhook.retired_at is not None:
        raise Conflict("The webhook is disabled: enable it first.", code="webhook.disabled")
    return webhook


def _validate(settings: WebhookSettings, allowed: Networks) -> None:
    target_parse(settings.url, allowed=allowed)
    unknown = [kind for kind in settings.events if kind not in EVENT_KINDS]
    if unknown:
        raise Unacceptable(
            f"Expected event kinds from this list: {', '.join(EVENT_KINDS)}.",
            code="webhook.events",
            pointer="/events",
        )


def _max_webhooks(scope: WebhookScope, tenant: Tenant | None) -> int:
    if tenant is not None:
        return WEBHOOKS_PER_TENANT
    return WEBHOOKS_OF_BILLING if scope == WebhookScope.BILLING else WEBHOOKS_OF_OPERATORS


def _event_kinds(settings: WebhookSettings) -> list[str]:
    return sorted(set(settings.events))


def _cancel(webhook: Webhook, now: datetime) -> None:
    WebhookQueue.objects.filter(webhook=webhook).update(due_at=None)
    webhook.deliveries.filter(state=DeliveryState.PENDING).update(
        state=DeliveryState.CANCELLED, finished_at=now
    )


def _add_secret(webhook: Webhook, secret_key: str, now: datetime) -> str:
    secret = secret_generate(secret_key=secret_key)
    WebhookSecret.objects.create(
        webhook=webhook, nonce=secret.nonce, digest=secret.digest, created_at=now
    )
    return secret.text


def _slug(pool: Pool | None) -> str | None:
    return None if pool is None else pool.slug
