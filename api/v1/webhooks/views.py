"""Webhooks and their deliveries."""

from datetime import timedelta
from http import HTTPStatus
from typing import Any, ClassVar

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Unacceptable
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import pools_for
from allocator_service.webhooks.models import Delivery, Webhook
from allocator_service.webhooks.selectors import delivery_get, webhook_get, webhooks_for
from allocator_service.webhooks.services import (
    IssuedSecret,
    WebhookSettings,
    delivery_resend,
    webhook_create,
    webhook_retire,
    webhook_rotate,
    webhook_test,
    webhook_update,
)
from api.auth import OPERATOR_AND_TENANT
from api.contract.bulk import Items, tenants_named
from api.contract.conditional import entity_tag, expected_version
from api.contract.documents import NoFields
from api.contract.fields import uuid_or_none
from api.contract.pagination import by_id
from api.contract.parameters import PageParameters
from api.openapi.describing import accepts, creates, lists, retires, shows, updates
from api.v1.webhooks.serializers import (
    DeliveryDocument,
    DeliveryParameters,
    RotationRequest,
    WebhookDocument,
    WebhookRequest,
    WebhookSecretDocument,
    delivery_document,
    webhook_document,
    webhook_fields,
)
from api.views import ContractView, writes

WEBHOOKS = by_id("webhooks")
DELIVERIES = by_id("deliveries", descending=True)


class WebhooksView(ContractView):
    scopes: ClassVar = {"GET": OPERATOR_AND_TENANT, "POST": OPERATOR_AND_TENANT}
    parameters = PageParameters

    @lists(WebhookDocument, "List webhooks; a tenant sees its own")
    def get(self, request: Request) -> Response:
        """List webhooks, oldest first.

        An operator key sees all of them, a tenant key its own; billing keys cannot use webhooks.
        Secrets are not shown.
        """
        page = WEBHOOKS.page(webhooks_for(self.tenant), **self.query)
        return self.listing(page, webhook_document, list(WebhookDocument.fields))

    @creates(WebhookRequest, WebhookSecretDocument, "Subscribe a URL to events from now on")
    @writes
    def post(self, request: Request) -> Response:
        """Subscribe a URL to events from now on, in signed requests.

        A tenant key creates webhooks for its own tenant. They get the events that the key sees in
        `GET /events/`. An operator's webhooks get all events, or those of one tenant. The answer
        shows `secret` once: the receiver verifies signatures with it. An event is sent again for 24
        hours until the answer is 2xx, so it can arrive more than once. A tenant has at most 20
        webhooks, operators 1,000 (409 `webhook.too_many`). A URL must be https to a public address
        (422 `webhook.url`, `webhook.address`), unless the service is configured to allow other
        networks.
        """
        fields = self.read(WebhookRequest)
        items = Items([fields], alone=True)
        (tenant,) = tenants_named(items, "tenant", caller=self.tenant, required=False)
        issued = webhook_create(
            tenant=tenant,
            pool=self._pool(fields["pool"]),
            settings=_settings(fields),
            allowed=settings.ENVIRONMENT.webhook_allowed_networks,
            secret_key=settings.SECRET_KEY,
            now=utc_now(),
        )
        response = _with_secret(issued)
        response["Location"] = f"{request.path}{issued.webhook.pk}/"
        return response

    def _pool(self, slug: str | None) -> Pool | None:
        if slug is None:
            return None
        pool = pools_for(self.tenant).filter(slug=slug).first()
        if pool is None:
            raise Unacceptable(
                f'No pool has the slug "{slug}".', code="pool.unknown", pointer="/pool"
            )
        return pool


class OneWebhookView(ContractView):
    """A route of one webhook. It is 404 for a caller that cannot see the webhook."""

    def webhook(self, webhook: str) -> Webhook:
        return webhook_get(webhook_id=uuid_or_none(webhook), tenant=self.tenant)


class WebhookView(OneWebhookView):
    scopes: ClassVar = dict.fromkeys(("GET", "PATCH", "DELETE"), OPERATOR_AND_TENANT)

    @shows(WebhookDocument, "Show a webhook")
    def get(self, request: Request, webhook: str) -> Response:
        """Show a webhook, including the reason if it is disabled.

        Send its `ETag` as `If-Match` to change or delete it. The secret is not shown. For a tenant
        key another tenant's webhook is 404 `webhook.not_found`.
        """
        return _shown(self.webhook(webhook))

    @updates(WebhookRequest, WebhookDocument, "Change a webhook, disable it, enable it again")
    @writes
    def patch(self, request: Request, webhook: str) -> Response:
        """Change a webhook's URL or events, disable it, or enable it again, by a JSON merge patch.

        It needs the webhook's `ETag` in `If-Match` (428 without it, 412 if the webhook has changed
        since). Disabling cancels all pending deliveries. Enabling starts with the events from then
        on. `tenant` and `pool` cannot change (422 `field.immutable`).
        """
        found = self.webhook(webhook)
        version = expected_version(request, actual=found.version)
        current = webhook_fields(found)
        fields = self.patched(WebhookRequest, current, fixed=["tenant", "pool"])
        changed = webhook_update(
            webhook=found,
            settings=_settings(fields),
            version=version,
            allowed=settings.ENVIRONMENT.webhook_allowed_networks,
            now=utc_now(),
        )
        return _shown(changed)

    @retires("Delete a webhook")
    @writes
    def delete(self, request: Request, webhook: str) -> Response:
        """Delete a webhook and stop sending to it.

        It needs the webhook's `ETag` in `If-Match` (428 without it, 412 if the webhook has changed
        since). Pending deliveries are cancelled, the secrets are deleted, and its deliveries can no
        longer be read through the API.
        """
        found = self.webhook(webhook)
        version = expected_version(request, actual=found.version)
        webhook_retire(webhook=found, version=version, now=utc_now())
        return Response(status=HTTPStatus.NO_CONTENT)


class RotateSecretView(OneWebhookView):
    scopes: ClassVar = {"POST": OPERATOR_AND_TENANT}

    @creates(
        RotationRequest,
        WebhookSecretDocument,
        "Rotate a webhook's secret, shown once",
        headers=("ETag",),
    )
    @writes
    def post(self, request: Request, webhook: str) -> Response:
        """Rotate a webhook's secret. The answer shows the new one once.

        The old secret signs requests as well for `overlap_seconds`, a day by default and at most
        seven. With 0 all older secrets expire at once: use it for a leaked secret. While an older
        secret is in its overlap, another rotation with an overlap is rejected with 409
        `webhook.rotating`.
        """
        found = self.webhook(webhook)
        overlap = timedelta(seconds=self.read(RotationRequest)["overlap_seconds"])
        issued = webhook_rotate(
            webhook=found, overlap=overlap, secret_key=settings.SECRET_KEY, now=utc_now()
        )
        return _with_secret(issued)


class TestWebhookView(OneWebhookView):
    scopes: ClassVar = {"POST": OPERATOR_AND_TENANT}

    @accepts(NoFields, DeliveryDocument, "Send an event of kind `webhook.test`")
    @writes
    def post(self, request: Request, webhook: str) -> Response:
        """Send an event of kind `webhook.test` to a webhook.

        The answer is the pending delivery. Its outcome is in the webhook's deliveries. A disabled
        webhook is rejected with 409 `webhook.disabled`.
        """
        found = self.webhook(webhook)
        self.read(NoFields)
        return _accepted(webhook_test(webhook=found, now=utc_now()))


class DeliveriesView(OneWebhookView):
    scopes: ClassVar = {"GET": OPERATOR_AND_TENANT}
    parameters = DeliveryParameters

    @lists(DeliveryDocument, "List deliveries, newest first")
    def get(self, request: Request, webhook: str) -> Response:
        """List a webhook's deliveries, newest first, each with all its attempts.

        `due_at` is the time of a `pending` delivery's next attempt. After 24 hours without success
        it is `failed`. Deliveries are kept for 30 days.
        """
        found = self.webhook(webhook).deliveries.filter(**self.filters())
        page = DELIVERIES.page(found, cursor=self.query["cursor"], limit=self.query["limit"])
        return self.listing(page, delivery_document, list(DeliveryDocument.fields))


class ResendView(OneWebhookView):
    scopes: ClassVar = {"POST": OPERATOR_AND_TENANT}

    @accepts(NoFields, DeliveryDocument, "Send a delivery again, with the same id")
    @writes
    def post(self, request: Request, webhook: str, delivery: str) -> Response:
        """Send a delivery again, with the same id, for up to another 24 hours.

        Use it after a long outage of the receiver. A pending delivery is attempted at once. A
        disabled webhook is rejected with 409 `webhook.disabled`.
        """
        found = delivery_get(webhook=self.webhook(webhook), delivery_id=uuid_or_none(delivery))
        self.read(NoFields)
        return _accepted(delivery_resend(delivery=found, now=utc_now()))


def _settings(fields: dict[str, Any]) -> WebhookSettings:
    return WebhookSettings(fields["url"], fields["events"], fields["enabled"])


def _shown(webhook: Webhook) -> Response:
    return Response(webhook_document(webhook), headers={"ETag": entity_tag(webhook.version)})


def _with_secret(issued: IssuedSecret) -> Response:
    """Return an answer that shows the secret. The copy kept for repeated requests hides it."""
    shown = webhook_document(issued.webhook)
    response = Response(
        {**shown, "secret": issued.secret},
        HTTPStatus.CREATED,
        headers={"ETag": entity_tag(issued.webhook.version)},
    )
    response.kept = {**shown, "secret": None}  # type: ignore[attr-defined]
    return response


def _accepted(delivery: Delivery) -> Response:
    return Response(delivery_document(delivery), HTTPStatus.ACCEPTED)
