"""Webhooks, subscriptions of URLs to events."""

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any, ClassVar

from django.conf import settings
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.outbox import EVENT_KINDS
from allocator_service.pools.selectors import pools_for
from allocator_service.tenants.models import Scope
from allocator_service.webhooks.models import MAX_URL, DisabledBecause, Webhook, WebhookScope
from allocator_service.webhooks.selectors import webhooks_for
from allocator_service.webhooks.services import (
    MAX_OVERLAP,
    IssuedSecret,
    WebhookSettings,
    webhook_create,
    webhook_retire,
    webhook_rotate,
    webhook_update,
)
from api.auth import EVERY_SCOPE
from api.contract import documents
from api.contract.bulk import Items, tenants_named
from api.contract.operations import creates, lists, retires, shows, updates
from api.contract.pagination import by_id
from api.contract.parameters import PageParameters
from api.resources import Resource
from api.v1.pools import pool_named
from api.views import writes
from policies.fields import Schema

DEFAULT_OVERLAP = 86_400


class UrlField(documents.StringField):
    """A URL, which the service validates."""

    def describe(self) -> Schema:
        return {"type": "string", "format": "uri", "pattern": "^https?://", "maxLength": MAX_URL}


class WebhookDocument(documents.Document):
    id = documents.IdField()
    tenant = documents.SlugField(
        source="tenant.slug",
        allow_null=True,
        writable={
            "required": False,
            "description": "Tenant whose visible events are sent. Null means all events; for"
            " operator and billing keys only. A billing key cannot name a tenant.",
        },
    )
    pool = documents.SlugField(
        source="pool.slug",
        allow_null=True,
        writable={
            "required": False,
            "description": "Pool whose events are sent. Null means all pools.",
        },
    )
    scope = documents.ChoiceField(
        choices=(*WebhookScope.values, Scope.TENANT.value),
        source=lambda webhook, _: webhook.scope if webhook.tenant is None else Scope.TENANT.value,
        description="Scope of the keys that manage the webhook. Operator keys manage every webhook.",
    )
    url = UrlField(writable={"description": "HTTPS URL with a public address."})
    events = documents.ListField(
        documents.ChoiceField(choices=EVENT_KINDS, code="webhook.events"),
        min_items=0,
        max_items=len(EVENT_KINDS),
        default=list,
        description="Event kinds. An empty list means every kind, including those of later versions.",
        writable=True,
    )
    enabled = documents.BooleanField(
        source=lambda webhook, _: webhook.disabled_at is None,
        writable={
            "default": True,
            "description": "Delivery of events. False cancels pending deliveries.",
        },
    )
    disabled_because = documents.ChoiceField(
        choices=DisabledBecause.values,
        source=lambda webhook, _: webhook.disabled_because or None,
        allow_null=True,
        description="`requested` by a client, `failing` for five days, or `gone` (answered 410).",
    )
    failing_since = documents.TimestampField(
        allow_null=True, description="Instant of the first failure after the last success."
    )
    version = documents.VersionField()
    created_at = documents.TimestampField()


WebhookRequest = WebhookDocument.writable(
    "WebhookRequest", only=("url", "events", "tenant", "pool", "enabled")
)


class WebhookSecretDocument(WebhookDocument):
    secret = documents.StringField(
        allow_null=True,
        description="Signing secret, shown once. Null in the answer to a repeated Idempotency-Key.",
    )


class RotationRequest(documents.Document):
    overlap_seconds = documents.IntegerField(
        minimum=0,
        maximum=int(MAX_OVERLAP.total_seconds()),
        default=DEFAULT_OVERLAP,
        description="Seconds for which the old secret signs as well. 0 expires it at once.",
    )


class WebhookResource(Resource):
    document = WebhookDocument
    change = WebhookRequest
    fixed = ("tenant", "pool")
    not_found = "webhook.not_found"
    ordering = by_id("webhooks")

    def queryset(self) -> QuerySet[Webhook]:
        return webhooks_for(scope=self.caller.scope, tenant=self.tenant)

    def update(self, found: Webhook, fields: Mapping[str, Any], version: int) -> Webhook:
        return webhook_update(
            webhook=found,
            settings=_settings(fields),
            version=version,
            allowed=settings.ENVIRONMENT.webhook_allowed_networks,
            now=utc_now(),
        )

    def retire(self, found: Webhook, version: int) -> None:
        webhook_retire(webhook=found, version=version, now=utc_now())

    def answer_secret(self, issued: IssuedSecret) -> Response:
        """Answer a webhook with its secret, which the copy for repeated requests hides."""
        response = self.answer_one(issued.webhook, HTTPStatus.CREATED)
        # The secret is never stored with the answer of an Idempotency-Key.
        response.kept = {**response.data, "secret": None}  # type: ignore[attr-defined]
        response.data["secret"] = issued.secret
        return response


class WebhooksView(WebhookResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": EVERY_SCOPE}
    parameters = PageParameters

    @lists(WebhookDocument, "List webhooks that the key manages")
    def get(self, request: Request) -> Response:
        """List webhooks, oldest first.

        An operator key sees all of them, a tenant key its own, a billing key those that billing keys
        have created. Secrets are not shown.
        """
        return self.answer_list()

    @creates(WebhookRequest, WebhookSecretDocument, "Subscribe a URL to events from now on")
    @writes
    def post(self, request: Request) -> Response:
        """Subscribe a URL to events from now on, in signed requests.

        A tenant key creates webhooks for its own tenant. They get the events that the key sees in
        `GET /events/`. An operator's webhooks get all events, or those of one tenant. Billing keys
        share webhooks of their own, which get the events of all tenants (422 `webhook.tenant` for
        one of a tenant). The answer shows `secret` once: the receiver verifies signatures with it.
        An event is sent again for 24 hours until the answer is 2xx, so it can arrive more than
        once. A tenant has at most 20 webhooks, billing keys 100, operators 1,000 (409
        `webhook.too_many`). A URL must be https to a public address
        (422 `webhook.url`, `webhook.address`), unless the service is configured to allow other
        networks.
        """
        fields = self.read(WebhookRequest)
        # As one item, for the same refusals as in resources that take many.
        items = Items([fields], alone=True)
        (tenant,) = tenants_named(items, "tenant", caller=self.tenant, required=False)
        slug = fields["pool"]
        # It stays with the webhook, and decides which keys manage it after the key that made it is
        # revoked.
        billing = self.caller.scope == Scope.BILLING
        issued = webhook_create(
            tenant=tenant,
            pool=None if slug is None else pool_named(slug, pools_for(self.tenant)),
            scope=WebhookScope.BILLING if billing else WebhookScope.OPERATOR,
            settings=_settings(fields),
            allowed=settings.ENVIRONMENT.webhook_allowed_networks,
            secret_key=settings.SECRET_KEY,
            now=utc_now(),
        )
        response = self.answer_secret(issued)
        response["Location"] = f"{request.path}{issued.webhook.pk}/"
        return response


class WebhookView(WebhookResource):
    scopes: ClassVar = dict.fromkeys(("GET", "PATCH", "DELETE"), EVERY_SCOPE)

    @shows(WebhookDocument, "Show a webhook")
    def get(self, request: Request, webhook: str) -> Response:
        """Show a webhook, including the reason if it is disabled.

        Send its `ETag` as `If-Match` to change or delete it. The secret is not shown. For a tenant
        key another tenant's webhook is 404 `webhook.not_found`, as is a webhook of operators or
        tenants for a billing key.
        """
        return self.answer_one(self.find(webhook))

    @updates(WebhookRequest, WebhookDocument, "Change a webhook, disable it, enable it again")
    @writes
    def patch(self, request: Request, webhook: str) -> Response:
        """Change a webhook's URL or events, disable it, or enable it again, by a JSON merge patch.

        It needs the webhook's `ETag` in `If-Match` (428 without it, 412 if the webhook has changed
        since). Disabling cancels all pending deliveries. Enabling starts with the events from then
        on. `tenant` and `pool` cannot change (422 `field.immutable`).
        """
        return self.answer_update(webhook)

    @retires("Delete a webhook")
    @writes
    def delete(self, request: Request, webhook: str) -> Response:
        """Delete a webhook and stop sending to it.

        It needs the webhook's `ETag` in `If-Match` (428 without it, 412 if the webhook has changed
        since). Pending deliveries are cancelled, the secrets are deleted, and its deliveries can no
        longer be read through the API.
        """
        return self.answer_retire(webhook)


class RotateSecretView(WebhookResource):
    scopes: ClassVar = {"POST": EVERY_SCOPE}

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
        found = self.find(webhook)
        overlap = timedelta(seconds=self.read(RotationRequest)["overlap_seconds"])
        issued = webhook_rotate(
            webhook=found, overlap=overlap, secret_key=settings.SECRET_KEY, now=utc_now()
        )
        return self.answer_secret(issued)


def _settings(fields: Mapping[str, Any]) -> WebhookSettings:
    return WebhookSettings(fields["url"], fields["events"], fields["enabled"])
