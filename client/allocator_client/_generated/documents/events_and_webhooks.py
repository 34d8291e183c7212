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
    url: str
    # Kinds of events; none: every kind, those of later versions too.
    events: NotRequired[
        list[
            Literal[
                "allocation.changed",
                "budget.reached",
                "credit_note.created",
                "decision.failed",
                "decision.published",
                "enforcement.blocked",
                "enforcement.drift",
                "enforcement.returned",
                "enforcement.settled",
                "enforcement.silent",
                "enforcement.unblocked",
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
    # `requested`; `failing`: nothing was taken for five days; `gone`: it answered 410.
    disabled_because: Literal["requested", "failing", "gone"] | None
    # Of the first failure after the last success.
    failing_since: str | None
    version: int
    created_at: str


class WebhookRequest(TypedDict):
    # https, to public addresses.
    url: str
    # Kinds of events; none: every kind, those of later versions too.
    events: NotRequired[
        list[
            Literal[
                "allocation.changed",
                "budget.reached",
                "credit_note.created",
                "decision.failed",
                "decision.published",
                "enforcement.blocked",
                "enforcement.drift",
                "enforcement.returned",
                "enforcement.settled",
                "enforcement.silent",
                "enforcement.unblocked",
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
    # Whose events: what a key of this tenant may see. Null: all, for operators.
    tenant: NotRequired[str | None]
    # Events of this pool only; null: of all.
    pool: NotRequired[str | None]
    # False cancels what waits.
    enabled: NotRequired[bool]


class WebhookSecretDocument(TypedDict):
    id: str
    tenant: str | None
    pool: str | None
    url: str
    # Kinds of events; none: every kind, those of later versions too.
    events: NotRequired[
        list[
            Literal[
                "allocation.changed",
                "budget.reached",
                "credit_note.created",
                "decision.failed",
                "decision.published",
                "enforcement.blocked",
                "enforcement.drift",
                "enforcement.returned",
                "enforcement.settled",
                "enforcement.silent",
                "enforcement.unblocked",
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
    # `requested`; `failing`: nothing was taken for five days; `gone`: it answered 410.
    disabled_because: Literal["requested", "failing", "gone"] | None
    # Of the first failure after the last success.
    failing_since: str | None
    version: int
    created_at: str
    # Shown once: null when the request is repeated with its Idempotency-Key.
    secret: str | None


class WebhookRequestPatch(TypedDict):
    url: NotRequired[str | None]
    events: NotRequired[
        list[
            Literal[
                "allocation.changed",
                "budget.reached",
                "credit_note.created",
                "decision.failed",
                "decision.published",
                "enforcement.blocked",
                "enforcement.drift",
                "enforcement.returned",
                "enforcement.settled",
                "enforcement.silent",
                "enforcement.unblocked",
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
    # Of the answer, if there was one.
    status: int | None
    # Null when it was taken: see the guide.
    error: (
        Literal["status", "redirect", "address", "connection", "tls", "timeout", "answer", "secret"]
        | None
    )
    milliseconds: int


class DeliveryDocument(TypedDict):
    id: str
    # As in the feed; null for a test.
    event: str | None
    kind: Literal[
        "allocation.changed",
        "budget.reached",
        "credit_note.created",
        "decision.failed",
        "decision.published",
        "enforcement.blocked",
        "enforcement.drift",
        "enforcement.returned",
        "enforcement.settled",
        "enforcement.silent",
        "enforcement.unblocked",
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
    # Of the next attempt.
    due_at: str | None
    # Of the last attempt.
    give_up_at: str
    created_at: str
    finished_at: str | None


class RotationRequest(TypedDict):
    # For how long requests are signed with the old secret too; 0 ends it at once.
    overlap_seconds: NotRequired[int]
