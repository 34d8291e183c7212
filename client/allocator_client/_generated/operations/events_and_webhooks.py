"""What happened, read by cursor or sent to a URL.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Literal

from allocator_client._generated.documents.events_and_webhooks import (
    DeliveryDocument,
    EventDocument,
    RotationRequest,
    WebhookDocument,
    WebhookRequest,
    WebhookRequestPatch,
    WebhookSecretDocument,
)
from allocator_client.answers import Answer, Rows
from allocator_client.transport import Transport, path_part


class EventsAndWebhooks(Transport):
    """What happened, read by cursor or sent to a URL."""

    def events_list(self, *, after: str | None = None, limit: int = 1000) -> Rows[EventDocument]:
        """Follow what happens, in the order in which it was committed.

        Keep `next_cursor` and send it as `after`: every event comes exactly once, however many
        clients write meanwhile, and an empty page repeats the cursor that you sent. Without `after`
        the feed starts with the oldest event that is kept. A tenant key sees its own events and
        those of its pools that concern no tenant in particular. A cursor past the retention of 90
        days answers 410 `cursor.expired`.
        """
        return self._rows("/api/v1/events/", {"after": after, "limit": limit}, "after")

    def webhooks_list(
        self, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[WebhookDocument]:
        """List webhooks, oldest first.

        An operator key sees all of them, a tenant key its own, a billing key those that billing keys
        have created. Secrets are not shown.
        """
        return self._rows("/api/v1/webhooks/", {"limit": limit, "cursor": cursor}, "cursor")

    def webhooks_create(
        self, body: WebhookRequest, *, idempotency_key: str | None = None
    ) -> Answer[WebhookSecretDocument]:
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
        return self._post("/api/v1/webhooks/", body, idempotency_key)

    def webhooks_show(self, webhook: str) -> Answer[WebhookDocument]:
        """Show a webhook, including the reason if it is disabled.

        Send its `ETag` as `If-Match` to change or delete it. The secret is not shown. For a tenant
        key another tenant's webhook is 404 `webhook.not_found`, as is a webhook of operators or
        tenants for a billing key.
        """
        return self._read(f"/api/v1/webhooks/{path_part(webhook)}/")

    def webhooks_update(
        self, webhook: str, body: WebhookRequestPatch | None = None, *, if_match: str | None = None
    ) -> Answer[WebhookDocument]:
        """Change a webhook's URL or events, disable it, or enable it again, by a JSON merge patch.

        It needs the webhook's `ETag` in `If-Match` (428 without it, 412 if the webhook has changed
        since). Disabling cancels all pending deliveries. Enabling starts with the events from then
        on. `tenant` and `pool` cannot change (422 `field.immutable`).
        """
        return self._change(
            "PATCH", f"/api/v1/webhooks/{path_part(webhook)}/", body or {}, if_match=if_match
        )

    def webhooks_retire(self, webhook: str, *, if_match: str | None = None) -> Answer[None]:
        """Delete a webhook and stop sending to it.

        It needs the webhook's `ETag` in `If-Match` (428 without it, 412 if the webhook has changed
        since). Pending deliveries are cancelled, the secrets are deleted, and its deliveries can no
        longer be read through the API.
        """
        return self._change("DELETE", f"/api/v1/webhooks/{path_part(webhook)}/", if_match=if_match)

    def webhooks_deliveries_list(
        self,
        webhook: str,
        *,
        limit: int = 1000,
        cursor: str | None = None,
        state: Literal["pending", "delivered", "failed", "cancelled"] | None = None,
    ) -> Rows[DeliveryDocument]:
        """List a webhook's deliveries, newest first, each with all its attempts.

        `due_at` is the time of a `pending` delivery's next attempt. After 24 hours without success
        it is `failed`. Deliveries are kept for 30 days.

        Parameters
        ----------
        state
            State of the deliveries to list. Disabling a webhook makes them `cancelled`.
        """
        return self._rows(
            f"/api/v1/webhooks/{path_part(webhook)}/deliveries/",
            {"limit": limit, "cursor": cursor, "state": state},
            "cursor",
        )

    def webhooks_deliveries_resend_request(
        self, webhook: str, delivery: str, *, idempotency_key: str | None = None
    ) -> Answer[DeliveryDocument]:
        """Send a delivery again, with the same id, for up to another 24 hours.

        Use it after a long outage of the receiver. A pending delivery is attempted at once. A
        disabled webhook is rejected with 409 `webhook.disabled`.

        Parameters
        ----------
        delivery
            The id of a delivery: one event to one webhook.
        """
        return self._post(
            f"/api/v1/webhooks/{path_part(webhook)}/deliveries/{path_part(delivery)}/resend/",
            {},
            idempotency_key,
        )

    def webhooks_rotate_secret_create(
        self,
        webhook: str,
        body: RotationRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Answer[WebhookSecretDocument]:
        """Rotate a webhook's secret. The answer shows the new one once.

        The old secret signs requests as well for `overlap_seconds`, a day by default and at most
        seven. With 0 all older secrets expire at once: use it for a leaked secret. While an older
        secret is in its overlap, another rotation with an overlap is rejected with 409
        `webhook.rotating`.
        """
        return self._post(
            f"/api/v1/webhooks/{path_part(webhook)}/rotate-secret/", body or {}, idempotency_key
        )

    def webhooks_test_request(
        self, webhook: str, *, idempotency_key: str | None = None
    ) -> Answer[DeliveryDocument]:
        """Send an event of kind `webhook.test` to a webhook.

        The answer is the pending delivery. Its outcome is in the webhook's deliveries. A disabled
        webhook is rejected with 409 `webhook.disabled`.
        """
        return self._post(f"/api/v1/webhooks/{path_part(webhook)}/test/", {}, idempotency_key)
