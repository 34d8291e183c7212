"""Webhooks and their deliveries as documents."""

from typing import Any

from allocator_service.core.outbox import EVENT_KINDS
from allocator_service.webhooks.models import (
    MAX_URL,
    Delivery,
    DeliveryState,
    DisabledBecause,
    Webhook,
)
from allocator_service.webhooks.selectors import TEST_KIND
from allocator_service.webhooks.services import MAX_OVERLAP
from api.contract.fields import IdField, SlugField, TimestampField, VersionField
from api.contract.parameters import PageParameters
from policies.fields import (
    BooleanField,
    ChoiceField,
    Document,
    DocumentField,
    IntegerField,
    ListField,
    StringField,
)

ERRORS = ("status", "redirect", "address", "connection", "tls", "timeout", "answer", "secret")
DEFAULT_OVERLAP = 86_400


class UrlField(StringField):
    """A URL, which the service validates."""

    def describe(self) -> dict[str, Any]:
        return {"type": "string", "format": "uri", "pattern": "^https?://", "maxLength": MAX_URL}


EVENTS = ListField(
    ChoiceField(choices=EVENT_KINDS, code="webhook.events"),
    min_items=0,
    max_items=len(EVENT_KINDS),
    default=list,
    description="Event kinds. An empty list means every kind, including those of later versions.",
)


class WebhookRequest(Document):
    url = UrlField(description="HTTPS URL with a public address.")
    events = EVENTS
    tenant = SlugField(
        required=False,
        allow_null=True,
        description="Tenant whose visible events are sent. Null means all events; for operators only.",
    )
    pool = SlugField(
        required=False,
        allow_null=True,
        description="Pool whose events are sent. Null means all pools.",
    )
    enabled = BooleanField(
        default=True, description="Delivery of events. False cancels pending deliveries."
    )


class WebhookDocument(Document):
    id = IdField()
    tenant = SlugField(allow_null=True)
    pool = SlugField(allow_null=True)
    url = UrlField()
    events = EVENTS
    enabled = BooleanField()
    disabled_because = ChoiceField(
        choices=DisabledBecause.values,
        allow_null=True,
        description="`requested` by a client, `failing` for five days, or `gone` (answered 410).",
    )
    failing_since = TimestampField(
        allow_null=True, description="Instant of the first failure after the last success."
    )
    version = VersionField()
    created_at = TimestampField()


class WebhookSecretDocument(WebhookDocument):
    secret = StringField(
        allow_null=True,
        description="Signing secret, shown once. Null in the answer to a repeated Idempotency-Key.",
    )


class RotationRequest(Document):
    overlap_seconds = IntegerField(
        minimum=0,
        maximum=int(MAX_OVERLAP.total_seconds()),
        default=DEFAULT_OVERLAP,
        description="Seconds for which the old secret signs as well. 0 expires it at once.",
    )


class DeliveryParameters(PageParameters):
    state = ChoiceField(
        choices=DeliveryState.values,
        required=False,
        description="State of the deliveries to list. Disabling a webhook makes them `cancelled`.",
    )


class AttemptDocument(Document):
    at = TimestampField()
    status = IntegerField(
        minimum=100,
        maximum=999,
        allow_null=True,
        description="HTTP status of the answer. Null without an answer.",
    )
    error = ChoiceField(
        choices=ERRORS, allow_null=True, description="Reason of the failure. Null after a success."
    )
    milliseconds = IntegerField(minimum=0, maximum=10**9)


class DeliveryDocument(Document):
    id = IdField()
    event = IdField(allow_null=True, description="Event id, as in the feed. Null for a test.")
    kind = ChoiceField(choices=[*EVENT_KINDS, TEST_KIND])
    state = ChoiceField(choices=DeliveryState.values)
    attempts = ListField(DocumentField(AttemptDocument), min_items=0)
    due_at = TimestampField(allow_null=True, description="Time of the next attempt.")
    give_up_at = TimestampField(description="Time after which no attempt is made.")
    created_at = TimestampField()
    finished_at = TimestampField(allow_null=True)


def webhook_document(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": webhook.pk,
        **webhook_fields(webhook),
        "disabled_because": webhook.disabled_because or None,
        "failing_since": webhook.failing_since,
        "version": webhook.version,
        "created_at": webhook.created_at,
    }


def webhook_fields(webhook: Webhook) -> dict[str, Any]:
    """Return the fields that a merge patch may change."""
    return {
        "tenant": None if webhook.tenant is None else webhook.tenant.slug,
        "pool": None if webhook.pool is None else webhook.pool.slug,
        "url": webhook.url,
        "events": list(webhook.events),
        "enabled": webhook.disabled_at is None,
    }


def delivery_document(delivery: Delivery) -> dict[str, Any]:
    return {
        "id": delivery.pk,
        "event": delivery.event_id,
        "kind": delivery.kind,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "due_at": delivery.due_at if delivery.state == DeliveryState.PENDING else None,
        "give_up_at": delivery.give_up_at,
        "created_at": delivery.created_at,
        "finished_at": delivery.finished_at,
    }
