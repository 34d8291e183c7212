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
from api.contract.fields import IdField, SlugField, TimestampField
from api.contract.parameters import PageParameters
from api.v1.tenants.serializers import MAX_VERSION
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
    """A URL, judged by the service."""

    def describe(self) -> dict[str, Any]:
        return {"type": "string", "format": "uri", "pattern": "^https?://", "maxLength": MAX_URL}


EVENTS = ListField(
    ChoiceField(choices=EVENT_KINDS, code="webhook.events"),
    min_items=0,
    max_items=len(EVENT_KINDS),
    default=list,
    description="Kinds of events; none: every kind, those of later versions too.",
)


class WebhookRequest(Document):
    url = UrlField(description="https, to public addresses.")
    events = EVENTS
    tenant = SlugField(
        required=False,
        allow_null=True,
        description="Whose events: what a key of this tenant may see. Null: all, for operators.",
    )
    pool = SlugField(
        required=False, allow_null=True, description="Events of this pool only; null: of all."
    )
    enabled = BooleanField(default=True, description="False cancels what waits.")


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
        description="`requested`; `failing`: nothing was taken for five days; `gone`: it answered 410.",
    )
    failing_since = TimestampField(
        allow_null=True, description="Of the first failure after the last success."
    )
    version = IntegerField(minimum=1, maximum=MAX_VERSION)
    created_at = TimestampField()


class WebhookSecretDocument(WebhookDocument):
    secret = StringField(
        allow_null=True,
        description="Shown once: null when the request is repeated with its Idempotency-Key.",
    )


class RotationRequest(Document):
    overlap_seconds = IntegerField(
        minimum=0,
        maximum=int(MAX_OVERLAP.total_seconds()),
        default=DEFAULT_OVERLAP,
        description="For how long requests are signed with the old secret too; 0 ends it at once.",
    )


class DeliveryParameters(PageParameters):
    state = ChoiceField(
        choices=DeliveryState.values,
        required=False,
        description="Deliveries in this state only; `cancelled` by disabling the webhook.",
    )


class AttemptDocument(Document):
    at = TimestampField()
    status = IntegerField(
        minimum=100, maximum=999, allow_null=True, description="Of the answer, if there was one."
    )
    error = ChoiceField(
        choices=ERRORS, allow_null=True, description="Null when it was taken: see the guide."
    )
    milliseconds = IntegerField(minimum=0, maximum=10**9)


class DeliveryDocument(Document):
    id = IdField()
    event = IdField(allow_null=True, description="As in the feed; null for a test.")
    kind = ChoiceField(choices=[*EVENT_KINDS, TEST_KIND])
    state = ChoiceField(choices=DeliveryState.values)
    attempts = ListField(DocumentField(AttemptDocument), min_items=0)
    due_at = TimestampField(allow_null=True, description="Of the next attempt.")
    give_up_at = TimestampField(description="Of the last attempt.")
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
    """What a merge-patch changes."""
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
