"""Webhooks: whom to tell of which events, what was sent, and sending it again."""

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
    WebhookSettings,
    WithSecret,
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
    listed = True

    @lists(WebhookDocument, "List webhooks; a tenant sees its own")
    def get(self, request: Request) -> Response:
        """List webhooks, oldest first.

        An operator key sees all of them, a tenant key its own; billing keys cannot use webhooks.
        Secrets are not shown.
        """
        page = WEBHOOKS.page(webhooks_for(self.tenant), **self.query)
        return self.listing(page, webhook_document, list(WebhookDocument.fields))

    @creates(WebhookRequest, WebhookSecretDocument, "Have events sent to a URL, from now on")
    @writes
    def post(self, request: Request) -> Response:
        """Have events posted to a URL, signed, from now on.

        A tenant key makes webhooks for its own tenant, which get what that key sees in `GET /events/`;
        an operator's get all events, or those of one tenant. The answer shows `secret` this once: the
        receiver verifies signatures with it. An event is sent again for 24 hours until the answer is
        2xx, so it can arrive more than once. A tenant has at most 20 webhooks, operators 1,000 (409
        `webhook.too_many`); a URL must be https to a public address (422 `webhook.url`,
        `webhook.address`), unless the service was set up to allow others.
        """
        fields = self.read(WebhookRequest)
        items = Items([fields], alone=True)
        (tenant,) = tenants_named(items, "tenant", caller=self.tenant, required=False)
        made = webhook_create(
            tenant=tenant,
            pool=self._pool(fields["pool"]),
            settings=_settings(fields),
            allowed=settings.ENVIRONMENT.webhook_allowed_networks,
            secret_key=settings.SECRET_KEY,
            now=utc_now(),
        )
        response = _with_secret(made)
        response["Location"] = f"{request.path}{made.webhook.pk}/"
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
    """A route of one webhook, which is absent for whoever may not see it."""

    def webhook(self, webhook: str) -> Webhook:
        return webhook_get(webhook_id=uuid_or_none(webhook), tenant=self.tenant)


class WebhookView(OneWebhookView):
    scopes: ClassVar = dict.fromkeys(("GET", "PATCH", "DELETE"), OPERATOR_AND_TENANT)

    @shows(WebhookDocument, "Show a webhook")
    def get(self, request: Request, webhook: str) -> Response:
        """Show a webhook, with why it is disabled if it is.

        Send its `ETag` as `If-Match` to change or delete it. The secret is not shown. For a tenant key
        another tenant's webhook is 404 `webhook.not_found`.
        """
        return _shown(self.webhook(webhook))

    @updates(WebhookRequest, WebhookDocument, "Change a webhook, disable it, enable it again")
    @writes
    def patch(self, request: Request, webhook: str) -> Response:
        """Change a webhook's URL or events, disable it, or enable it again, by a JSON merge patch.

        It needs the webhook's `ETag` in `If-Match` (428 without it, 412 if the webhook has changed
        since). Disabling cancels all deliveries that are pending; enabling starts with the events of
        that moment on. `tenant` and `pool` cannot change (422 `field.immutable`).
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

    @retires("Tell a URL nothing more")
    @writes
    def delete(self, request: Request, webhook: str) -> Response:
        """Delete a webhook: nothing more is sent to it.

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
        "Give a webhook another secret, shown once",
        headers=("ETag",),
    )
    @writes
    def post(self, request: Request, webhook: str) -> Response:
        """Give a webhook a new secret, which the answer shows this once.

        Requests are signed with the old secret too for `overlap_seconds`: a day by default, at most
        seven. With 0 all older secrets end at once: use it for one that leaked. While an older secret
        is still in its overlap, another rotation with an overlap is refused with 409
        `webhook.rotating`.
        """
        found = self.webhook(webhook)
        overlap = timedelta(seconds=self.read(RotationRequest)["overlap_seconds"])
        made = webhook_rotate(
            webhook=found, overlap=overlap, secret_key=settings.SECRET_KEY, now=utc_now()
        )
        return _with_secret(made)


class TestWebhookView(OneWebhookView):
    scopes: ClassVar = {"POST": OPERATOR_AND_TENANT}

    @accepts(NoFields, DeliveryDocument, "Send an event of kind `webhook.test`")
    @writes
    def post(self, request: Request, webhook: str) -> Response:
        """Send an event of kind `webhook.test` to a webhook.

        The answer is the delivery that waits to be sent; read what came of it in the webhook's
        deliveries. A webhook that is disabled is refused with 409 `webhook.disabled`.
        """
        found = self.webhook(webhook)
        self.read(NoFields)
        return _accepted(webhook_test(webhook=found, now=utc_now()))


class DeliveriesView(OneWebhookView):
    scopes: ClassVar = {"GET": OPERATOR_AND_TENANT}
    parameters = DeliveryParameters
    listed = True

    @lists(DeliveryDocument, "List what was sent and what waits, newest first")
    def get(self, request: Request, webhook: str) -> Response:
        """List a webhook's deliveries, newest first, each with all its attempts.

        A `pending` delivery says in `due_at` when it is tried next; 24 hours without success make it
        `failed`. The log is kept for 30 days.
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

        Use it when the receiver was down for too long; a delivery that is still pending is tried at
        once. A webhook that is disabled is refused with 409 `webhook.disabled`.
        """
        found = delivery_get(webhook=self.webhook(webhook), delivery_id=uuid_or_none(delivery))
        self.read(NoFields)
        return _accepted(delivery_resend(delivery=found, now=utc_now()))


def _settings(fields: dict[str, Any]) -> WebhookSettings:
    return WebhookSettings(fields["url"], fields["events"], fields["enabled"])


def _shown(webhook: Webhook) -> Response:
    return Response(webhook_document(webhook), headers={"ETag": entity_tag(webhook.version)})


def _with_secret(made: WithSecret) -> Response:
    """The answer that shows a secret; what is kept for repeated requests does not."""
    shown = webhook_document(made.webhook)
    response = Response(
        {**shown, "secret": made.secret},
        HTTPStatus.CREATED,
        headers={"ETag": entity_tag(made.webhook.version)},
    )
    response.kept = {**shown, "secret": None}  # type: ignore[attr-defined]
    return response


def _accepted(delivery: Delivery) -> Response:
    return Response(delivery_document(delivery), HTTPStatus.ACCEPTED)
