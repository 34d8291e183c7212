"""Documents of events and webhooks.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Any, Literal, NotRequired, TypedDict


class EventDocument(TypedDict):
    id: str
    kind: str
    pool: str | None
    tenant: str | None
    payload: dict[str, Any]
    occurred_at: str


class WebhookDocument(TypedDict):
    id: str
    tenant: str | None
    pool: str | None
    # Scope of the keys that manage the webhook. Operator keys manage every webhook.
    scope: Literal["operator", "billing", "tenant"]
    url: str
    # Event kinds. An empty list means every kind, including those of later versions.
    events: NotRequired[
        list[
            Literal[
                "allocation.changed",
                "budget.reached",
                "cluster.left",
                "cluster.returned",
                "credit_note.created",
                "decision.failed",
                "decision.published",
                "enforcement.blocked",
                "enforcement.drift",
                "enforcement.notice",
                "enforcement.returned",
                "enforcement.settled",
                "enforcement.silent",
                "enforcement.taken_back",
                "enforcement.unblocked",
                "guarantee.unmet",
                "price_plan.published",
                "rerating.applied",
                "service_units.exhausted",
                "statement.closed",
                "tenant.starved",
                "webhook.disabled",
                "workload.unsatisfiable",
            ]
        ]
    ]
    enabled: bool
    # `requested` by a client, `failing` for five days, or `gone` (answered 410).
    disabled_because: Literal["requested", "failing", "gone"] | None
    # Instant of the first failure after the last success.
    failing_since: str | None
    version: int
    created_at: str


class WebhookRequest(TypedDict):
    # HTTPS URL with a public address.
    url: str
    # Event kinds. An empty list means every kind, including those of later versions.
    events: NotRequired[
        list[
            Literal[
                "allocation.changed",
                "budget.reached",
                "cluster.left",
                "cluster.returned",
                "credit_note.created",
                "decision.failed",
                "decision.published",
                "enforcement.blocked",
                "enforcement.drift",
                "enforcement.notice",
                "enforcement.returned",
                "enforcement.settled",
                "enforcement.silent",
                "enforcement.taken_back",
                "enforcement.unblocked",
                "guarantee.unmet",
                "price_plan.published",
                "rerating.applied",
                "service_units.exhausted",
                "statement.closed",
                "tenant.starved",
                "webhook.disabled",
                "workload.unsatisfiable",
            ]
        ]
    ]
    # Tenant whose visible events are sent. Null means all events; for operator and billing keys
    # only. A billing key cannot name a tenant.
    tenant: NotRequired[str | None]
    # Pool whose events are sent. Null means all pools.
    pool: NotRequired[str | None]
    # Delivery of events. False cancels pending deliveries.
    enabled: NotRequired[bool]


class WebhookSecretDocument(TypedDict):
    id: str
    tenant: str | None
    pool: str | None
    # Scope of the keys that manage the webhook. Operator keys manage every webhook.
    scope: Literal["operator", "billing", "tenant"]
    url: str
    # Event kinds. An empty list means every kind, including those of later versions.
    events: NotRequired[
        list[
            Literal[
                "allocation.changed",
                "budget.reached",
                "cluster.left",
                "cluster.returned",
                "credit_note.created",
                "decision.failed",
                "decision.published",
                "enforcement.blocked",
                "enforcement.drift",
                "enforcement.notice",
                "enforcement.returned",
                "enforcement.settled",
                "enforcement.silent",
                "enforcement.taken_back",
                "enforcement.unblocked",
                "guarantee.unmet",
                "price_plan.published",
                "rerating.applied",
                "service_units.exhausted",
                "statement.closed",
                "tenant.starved",
                "webhook.disabled",
                "workload.unsatisfiable",
            ]
        ]
    ]
    enabled: bool
    # `requested` by a client, `failing` for five days, or `gone` (answered 410).
    disabled_because: Literal["requested", "failing", "gone"] | None
    # Instant of the first failure after the last success.
    failing_since: str | None
    version: int
    created_at: str
    # Signing secret, shown once. Null in the answer to a repeated Idempotency-Key.
    secret: str | None


class WebhookRequestPatch(TypedDict):
    url: NotRequired[str | None]
    events: NotRequired[
        list[
            Literal[
                "allocation.changed",
                "budget.reached",
                "cluster.left",
                "cluster.returned",
                "credit_note.created",
                "decision.failed",
                "decision.published",
                "enforcement.blocked",
                "enforcement.drift",
                "enforcement.notice",
                "enforcement.returned",
                "enforcement.settled",
                "enforcement.silent",
                "enforcement.taken_back",
                "enforcement.unblocked",
                "guarantee.unmet",
                "price_plan.published",
                "rerating.applied",
                "service_units.exhausted",
                "statement.closed",
                "tenant.starved",
                "webhook.disabled",
                "workload.unsatisfiable",
            ]
        ]
        | None
    ]
    tenant: NotRequired[str | None | None]
    pool: NotRequired[str | None | None]
    enabled: NotRequired[bool | None]


class DeliveryAttempt(TypedDict):
    at: str
    # HTTP status of the answer. Null without an answer.
    status: int | None
    # Reason of the failure. Null after a success.
    error: (
        Literal["status", "redirect", "address", "connection", "tls", "timeout", "answer", "secret"]
        | None
    )
    milliseconds: int


class DeliveryDocument(TypedDict):
    id: str
    # Event id, as in the feed. Null for a test.
    event: str | None
    kind: Literal[
        "allocation.changed",
        "budget.reached",
        "cluster.left",
        "cluster.returned",
        "credit_note.created",
        "decision.failed",
        "decision.published",
        "enforcement.blocked",
        "enforcement.drift",
        "enforcement.notice",
        "enforcement.returned",
        "enforcement.settled",
        "enforcement.silent",
        "enforcement.taken_back",
        "enforcement.unblocked",
        "guarantee.unmet",
        "price_plan.published",
        "rerating.applied",
        "service_units.exhausted",
        "statement.closed",
        "tenant.starved",
        "webhook.disabled",
        "workload.unsatisfiable",
        "webhook.test",
    ]
    state: Literal["pending", "delivered", "failed", "cancelled"]
    attempts: list[DeliveryAttempt]
    # Time of the next attempt.
    due_at: str | None
    # Time after which no attempt is made.
    give_up_at: str
    created_at: str
    finished_at: str | None


class RotationRequest(TypedDict):
    # Seconds for which the old secret signs as well. 0 expires it at once.
    overlap_seconds: NotRequired[int]
