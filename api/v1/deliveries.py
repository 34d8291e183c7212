"""Deliveries, each of one event to one webhook."""

from functools import cached_property
from http import HTTPStatus
from typing import ClassVar

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.outbox import EVENT_KINDS
from allocator_service.core.selecting import get_or_missing
from allocator_service.webhooks.models import Delivery, DeliveryState, Webhook
from allocator_service.webhooks.selectors import TEST_KIND, webhooks_for
from allocator_service.webhooks.services import delivery_resend, webhook_test
from api.auth import EVERY_SCOPE
from api.contract import documents
from api.contract.fields import uuid_or_none
from api.contract.operations import accepts, lists
from api.contract.pagination import by_id
from api.contract.parameters import PageParameters
from api.resources import Resource
from api.views import writes

ERRORS = ("status", "redirect", "address", "connection", "tls", "timeout", "answer", "secret")


class AttemptDocument(documents.Document):
    at = documents.TimestampField()
    status = documents.IntegerField(
        minimum=100,
        maximum=999,
        allow_null=True,
        description="HTTP status of the answer. Null without an answer.",
    )
    error = documents.ChoiceField(
        choices=ERRORS, allow_null=True, description="Reason of the failure. Null after a success."
    )
    milliseconds = documents.IntegerField(minimum=0, maximum=10**9)


class DeliveryDocument(documents.Document):
    id = documents.IdField()
    event = documents.IdField(
        source="event_id",
        allow_null=True,
        description="Event id, as in the feed. Null for a test.",
    )
    kind = documents.ChoiceField(choices=[*EVENT_KINDS, TEST_KIND])
    state = documents.ChoiceField(choices=DeliveryState.values)
    attempts = documents.ListField(documents.DocumentField(AttemptDocument), min_items=0)
    due_at = documents.TimestampField(
        source=lambda found, _: found.due_at if found.state == DeliveryState.PENDING else None,
        allow_null=True,
        description="Time of the next attempt.",
    )
    give_up_at = documents.TimestampField(description="Time after which no attempt is made.")
    created_at = documents.TimestampField()
    finished_at = documents.TimestampField(allow_null=True)


class DeliveryParameters(PageParameters):
    state = documents.ChoiceField(
        choices=DeliveryState.values,
        required=False,
        description="State of the deliveries to list. Disabling a webhook makes them `cancelled`.",
    )


class DeliveryResource(Resource):
    scopes: ClassVar = {"POST": EVERY_SCOPE}
    document = DeliveryDocument
    not_found = "delivery.not_found"
    ordering = by_id("deliveries", descending=True)

    @cached_property
    def webhook(self) -> Webhook:
        """The webhook of the path. Raises `Missing`."""
        key = uuid_or_none(self.kwargs["webhook"])
        # Through the webhook, whose visibility decides: a delivery's id alone opens nothing.
        return get_or_missing(
            webhooks_for(scope=self.caller.scope, tenant=self.tenant), "webhook.not_found", pk=key
        )

    def queryset(self) -> QuerySet[Delivery]:
        return self.webhook.deliveries.all()

    def answer_pending(self, delivery: Delivery) -> Response:
        """Answer a delivery that the sender will attempt."""
        # Without `Location`: a delivery has no route of its own, and its id is in the list.
        return Response(self.write(delivery), HTTPStatus.ACCEPTED)


class DeliveriesView(DeliveryResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE}
    parameters = DeliveryParameters

    @lists(DeliveryDocument, "List deliveries, newest first")
    def get(self, request: Request, webhook: str) -> Response:
        """List a webhook's deliveries, newest first, each with all its attempts.

        `due_at` is the time of a `pending` delivery's next attempt. After 24 hours without success
        it is `failed`. Deliveries are kept for 30 days.
        """
        return self.answer_list()


class ResendView(DeliveryResource):
    @accepts(documents.NoFields, DeliveryDocument, "Send a delivery again, with the same id")
    @writes
    def post(self, request: Request, webhook: str, delivery: str) -> Response:
        """Send a delivery again, with the same id, for up to another 24 hours.

        Use it after a long outage of the receiver. A pending delivery is attempted at once. A
        disabled webhook is rejected with 409 `webhook.disabled`.
        """
        found = self.find(delivery)
        self.read(documents.NoFields)
        return self.answer_pending(delivery_resend(delivery=found, now=utc_now()))


class TestWebhookView(DeliveryResource):
    @accepts(documents.NoFields, DeliveryDocument, "Send an event of kind `webhook.test`")
    @writes
    def post(self, request: Request, webhook: str) -> Response:
        """Send an event of kind `webhook.test` to a webhook.

        The answer is the pending delivery. Its outcome is in the webhook's deliveries. A disabled
        webhook is rejected with 409 `webhook.disabled`.
        """
        found = self.webhook
        self.read(documents.NoFields)
        return self.answer_pending(webhook_test(webhook=found, now=utc_now()))
