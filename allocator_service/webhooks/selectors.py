"""Reads of webhooks and their deliveries."""

from datetime import datetime
from typing import Any

import orjson
from django.db.models import Count, Min, Q, QuerySet

from allocator_service.core.outbox import event_document
from allocator_service.tenants.models import Scope, Tenant
from allocator_service.webhooks.models import Delivery, DeliveryState, Webhook, WebhookScope

TEST_KIND = "webhook.test"
# A larger body is sent without its `payload`, which the receiver can read from the feed.
BODY_BYTES = 256 * 1024


def webhooks_for(*, scope: Scope, tenant: Tenant | None) -> QuerySet[Webhook]:
    """Return the webhooks that a key of a scope and a tenant may see."""
    webhooks = Webhook.objects.filter(retired_at=None).select_related("tenant", "pool")
    if scope == Scope.OPERATOR:
        return webhooks
    if scope == Scope.BILLING:
        return webhooks.filter(scope=WebhookScope.BILLING)
    # Without a tenant, `tenant=None` would select the webhooks of operators.
    return webhooks.none() if tenant is None else webhooks.filter(tenant=tenant)


def message_of(delivery: Delivery) -> tuple[str, bytes]:
    """Return the message id and the body of a delivery's requests, equal in each attempt.

    The id is the event's, so that a receiver recognises an event in the feed.
    """
    event = delivery.event
    if event is None:
        content: dict[str, Any] = {"webhook": delivery.webhook_id}
        at = delivery.created_at
    else:
        content, at = event_document(event), event.occurred_at
    message = {"type": delivery.kind, "timestamp": at, "data": content}
    body = orjson.dumps(message, option=orjson.OPT_UTC_Z)
    if len(body) > BODY_BYTES:
        message["data"] = {**content, "payload": None, "payload_omitted": True}
        body = orjson.dumps(message, option=orjson.OPT_UTC_Z)
    return str(delivery.event_id or delivery.pk), body


def delivery_counts(*, failed_since: datetime) -> dict[str, Any]:
    """Count pending, recently failed and disabled over all webhooks, with the `oldest` pending one."""
    pending = Delivery.objects.filter(state=DeliveryState.PENDING)
    failed = Delivery.objects.filter(state=DeliveryState.FAILED, finished_at__gt=failed_since)
    stopped = Q(retired_at=None, disabled_at__isnull=False)
    return {
        **pending.aggregate(pending=Count("pk"), oldest=Min("created_at")),
        **failed.aggregate(failed=Count("pk")),
        **Webhook.objects.aggregate(disabled=Count("pk", filter=stopped)),
    }
