"""Life cycle of deliveries.

A delivery is created from a sealed event, claimed, attempted until it succeeds or 24 hours have
passed, and deleted after its retention.

A claim is a lease on the webhook's queue row, committed before the request is sent. If a sender
dies, another takes over when its lease expires. The claim's token fences the outcome: a sender that
comes back after its lease was taken over records nothing. Each webhook gets one request at a time,
the oldest event first. After a failure, the webhook rests for a short time and the delivery backs
off for longer.

Lock order: the webhook, its queue, its deliveries.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, Min, OuterRef, Value
from django.db.models.functions import Coalesce

from allocator_service.core.outbox import KINDS_FOR_OPERATORS
from allocator_service.webhooks.models import (
    Delivery,
    DeliveryCursor,
    DeliveryState,
    DisabledBecause,
    Webhook,
    WebhookQueue,
)
from allocator_service.webhooks.selectors import message_of
from allocator_service.webhooks.sending import Outcome
from allocator_service.webhooks.services import (
    GIVE_UP_AFTER,
    webhook_disable,
    webhook_lock,
)
from allocator_service.webhooks.signing import SecretLost, signed_headers, signing_key

EVENTS_PER_BATCH = 200
# Longer than a request may take (ten seconds), so that a lease expires only if its sender has died.
LEASE = timedelta(seconds=45)
SLOW_SECONDS = 2.0
SHORTEST_RETRY, LONGEST_RETRY = timedelta(seconds=5), timedelta(hours=2)
SHORTEST_REST, LONGEST_REST = timedelta(seconds=1), timedelta(minutes=5)
DISABLED_AFTER = timedelta(days=5)
RETENTION = timedelta(days=30)
DELETIONS_PER_BATCH = 10_000
GONE = 410

# A webhook gets the events that `core.outbox.events_after` shows to a key of its tenant, or without
# one to operator and billing keys, which see all: the two conditions must stay equal. Ids are UUIDs
# of version 7, made in SQL so that a batch is one statement.
_CREATE = """
WITH event AS (
    SELECT s.sequence, e.id, e.kind, e.pool, e.tenant
    FROM core_event_seal s JOIN core_event e ON e.id = s.event_id
    WHERE s.sequence > %(after)s AND s.sequence <= %(through)s),
created AS (
    INSERT INTO webhook_delivery (id, webhook_id, event_id, kind, sequence, state, attempts, due_at,
                                  give_up_at, created_at)
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing
               substring(int8send(%(milliseconds)s) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid,
           w.id, event.id, event.kind, event.sequence, 'pending', '[]', %(now)s, %(give_up)s, %(now)s
    FROM event JOIN webhook w
      ON w.retired_at IS NULL AND w.disabled_at IS NULL AND w.since < event.sequence
     AND (w.events = '{}' OR event.kind = ANY (w.events))
    LEFT JOIN tenant t ON t.id = w.tenant_id
    LEFT JOIN pool p ON p.id = w.pool_id
    WHERE (w.pool_id IS NULL OR p.slug = event.pool)
      AND (t.id IS NULL OR t.retired_at IS NULL AND event.kind <> ALL (%(for_operators)s) AND (
               event.tenant = t.slug
               OR event.tenant IS NULL AND EXISTS (
                   SELECT FROM pool_membership m JOIN pool o ON o.id = m.pool_id
                   WHERE m.tenant_id = t.id AND o.slug = event.pool AND o.retired_at IS NULL
                     AND m.ended_at IS NULL)))
    ORDER BY event.sequence
    ON CONFLICT DO NOTHING
    RETURNING webhook_id)
SELECT DISTINCT webhook_id FROM created
"""


@transaction.atomic
def deliveries_create(*, now: datetime) -> bool:
    """Create the deliveries of the next sealed events and return whether more events remain.

    Deliveries and cursor are written in one transaction: each event gets a delivery for each
    webhook that may see it, exactly once, even if a sender dies or several senders call this.
    """
    DeliveryCursor.objects.get_or_create(pk=1)
    cursor = DeliveryCursor.objects.select_for_update(skip_locked=True).filter(pk=1).first()
    if cursor is None:  # another sender holds the cursor
        return False
    with connection.cursor() as sql:
        sql.execute("SELECT COALESCE(max(sequence), 0) FROM core_event_seal")
        (last,) = sql.fetchall()[0]
        through = min(last, cursor.sequence + EVENTS_PER_BATCH)
        if through <= cursor.sequence:
            return False
        sql.execute(
            _CREATE,
            {
                "for_operators": list(KINDS_FOR_OPERATORS),
                "after": cursor.sequence,
                "through": through,
                "now": now,
                "give_up": now + GIVE_UP_AFTER,
                "milliseconds": int(now.timestamp() * 1000),
            },
        )
        webhooks = [webhook for (webhook,) in sql.fetchall()]
    # The update locks the queue rows. A sender that releases one concurrently either committed
    # before, so that its due time is kept or an idle queue is woken here, or it waits and then sees
    # the deliveries.
    WebhookQueue.objects.filter(webhook__in=webhooks).update(due_at=Coalesce("due_at", Value(now)))
    cursor.sequence = through
    cursor.save()
    return bool(through < last)


@dataclass(frozen=True)
class Claim:
    """One request to send now, with the token that fences its outcome.

    `headers` are empty if the secret is lost. Such a request must not be sent.
    """

    webhook: UUID
    delivery: UUID
    token: UUID
    url: str
    headers: dict[str, str]
    body: bytes


# MATERIALIZED: without it the planner may run the subquery once per row of a join, each time with a
# limit of its own, and claim more queues than asked for.
_CLAIM = """
WITH due AS MATERIALIZED (
    SELECT webhook_id FROM webhook_queue
    WHERE slow = %(slow)s AND due_at <= %(now)s
      AND (claimed_until IS NULL OR claimed_until <= %(now)s)
    ORDER BY due_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED)
UPDATE webhook_queue AS queue SET claimed_until = %(until)s, token = gen_random_uuid()
FROM due WHERE queue.webhook_id = due.webhook_id RETURNING queue.webhook_id, queue.token
"""
_FIRST_DUE = """
SELECT first.id FROM unnest(%(webhooks)s::uuid[]) AS claimed (webhook_id)
CROSS JOIN LATERAL (
    SELECT id FROM webhook_delivery d
    WHERE d.webhook_id = claimed.webhook_id AND d.state = 'pending' AND d.due_at <= %(now)s
    ORDER BY d.sequence, d.id LIMIT 1) AS first
"""


@transaction.atomic
def deliveries_claim(*, slow: bool, limit: int, secret_key: str, now: datetime) -> list[Claim]:
    """Claim the next delivery of up to `limit` webhooks.

    The caller must commit before it sends: a lease that is not committed protects nothing.

    `slow` selects the webhooks whose last answer took long, or all others.
    """
    with connection.cursor() as sql:
        sql.execute(_CLAIM, {"now": now, "until": now + LEASE, "slow": slow, "limit": limit})
        tokens = dict(sql.fetchall())
        if not tokens:
            return []
        sql.execute(_FIRST_DUE, {"webhooks": list(tokens), "now": now})
        ids = [id_ for (id_,) in sql.fetchall()]
    found = (
        Delivery.objects.filter(pk__in=ids)
        .select_related("event", "webhook__tenant")
        .prefetch_related("webhook__secrets")
    )
    claims = []
    for delivery in found:
        webhook = delivery.webhook
        if _is_stopped(webhook):  # deliveries were created while the webhook was being stopped
            webhook.deliveries.filter(state=DeliveryState.PENDING).update(
                state=DeliveryState.CANCELLED, finished_at=now
            )
            continue
        token = tokens.pop(webhook.pk)
        message, body = message_of(delivery)
        headers = _sign(webhook, message, body, secret_key, now)
        claims.append(Claim(webhook.pk, delivery.pk, token, webhook.url, headers, body))
    # The queues that are left had no delivery due: it was sent, cancelled, or backs off.
    for idle in tokens:
        _release_queue(idle, not_before=now)
    return claims


def _is_stopped(webhook: Webhook) -> bool:
    """Return whether the webhook is retired or disabled, or its tenant is retired."""
    tenant = webhook.tenant
    retired = webhook.retired_at is not None or (tenant and tenant.retired_at is not None)
    return bool(retired or webhook.disabled_at is not None)


def _sign(
    webhook: Webhook, message: str, body: bytes, secret_key: str, now: datetime
) -> dict[str, str]:
    live = [
        each for each in webhook.secrets.all() if each.expires_at is None or each.expires_at > now
    ]
    # Both secrets sign during a rotation's overlap. The newest signature comes first.
    live.sort(key=lambda each: each.created_at, reverse=True)
    try:
        keys = [signing_key(each, secret_key=secret_key) for each in live]
    except SecretLost:
        return {}
    return signed_headers(message=message, timestamp=int(now.timestamp()), body=body, keys=keys)


@transaction.atomic
def attempt_record(*, claim: Claim, outcome: Outcome, jitter: float, now: datetime) -> None:
    """Record the outcome of a claim's request and schedule the webhook's next one.

    `jitter`, from 0 to 1, lengthens each wait by up to half. A claim whose lease was taken over
    changes nothing.
    """
    webhook = webhook_lock(claim.webhook)
    queue = (
        WebhookQueue.objects.select_for_update(no_key=True)
        .filter(webhook=webhook, token=claim.token)
        .first()
    )
    delivery = Delivery.objects.select_for_update(no_key=True).filter(pk=claim.delivery).first()
    if queue is None or delivery is None:
        return
    failed = bool(outcome.error)
    _append_attempt(delivery, outcome, jitter, now)
    queue.failures = queue.failures + 1 if failed else 0
    queue.slow = outcome.seconds >= SLOW_SECONDS
    queue.save(update_fields=["failures", "slow"])
    rest = _backoff(SHORTEST_REST, LONGEST_REST, queue.failures, jitter) if failed else timedelta(0)
    _release_queue(webhook.pk, not_before=now + rest)
    if not failed:
        if webhook.failing_since is not None:
            webhook.failing_since = None
            webhook.save(update_fields=["failing_since"])
        return
    if webhook.failing_since is None:
        webhook.failing_since = now
        webhook.save(update_fields=["failing_since"])
    # It may have been disabled or retired while the request was in flight.
    if webhook.disabled_at is None and webhook.retired_at is None:
        if outcome.status == GONE:
            webhook_disable(webhook=webhook, because=DisabledBecause.GONE, now=now)
        elif now - webhook.failing_since >= DISABLED_AFTER:
            webhook_disable(webhook=webhook, because=DisabledBecause.FAILING, now=now)


def _append_attempt(delivery: Delivery, outcome: Outcome, jitter: float, now: datetime) -> None:
    delivery.attempts = [
        *delivery.attempts,
        {
            "at": now.isoformat(),
            "status": outcome.status,
            "error": outcome.error or None,
            "milliseconds": round(outcome.seconds * 1000),
        },
    ]
    # A delivery that was cancelled while its request was in flight stays cancelled.
    if delivery.state == DeliveryState.PENDING:
        if not outcome.error:
            delivery.state, delivery.finished_at = DeliveryState.DELIVERED, now
        elif now >= delivery.give_up_at:
            delivery.state, delivery.finished_at = DeliveryState.FAILED, now
        else:
            wait = _backoff(SHORTEST_RETRY, LONGEST_RETRY, len(delivery.attempts), jitter)
            delivery.due_at = min(now + wait, delivery.give_up_at)
    delivery.save(update_fields=["attempts", "state", "finished_at", "due_at"])


def _backoff(shortest: timedelta, longest: timedelta, failures: int, jitter: float) -> timedelta:
    """Return the wait after a number of failures, doubled with each one up to `longest`, with jitter."""
    doubled: int = 2 ** min(failures - 1, 20)  # bounded, since a timedelta overflows
    return min(shortest * doubled, longest) * (1 + jitter / 2)


def _release_queue(webhook: UUID, *, not_before: datetime) -> None:
    """Release a locked queue row and make it due with its first pending delivery, if there is one."""
    pending = Delivery.objects.filter(webhook=webhook, state=DeliveryState.PENDING)
    first = pending.aggregate(first=Min("due_at"))["first"]
    WebhookQueue.objects.filter(webhook=webhook).update(
        due_at=None if first is None else max(first, not_before), claimed_until=None, token=None
    )


def next_due() -> datetime | None:
    """Return the first instant at which a queue is due and not leased, if a delivery is pending."""
    with connection.cursor() as sql:
        sql.execute(
            "SELECT min(GREATEST(due_at, claimed_until)) FROM webhook_queue WHERE due_at IS NOT NULL"
        )
        due: datetime | None = sql.fetchall()[0][0]
    return due


def queues_wake(*, now: datetime) -> int:
    """Make idle queues due that have pending deliveries, and return how many there were.

    A repair: services keep queues due, so the number is 0 unless rows were edited by hand.
    """
    pending = Delivery.objects.filter(webhook=OuterRef("webhook"), state=DeliveryState.PENDING)
    return WebhookQueue.objects.filter(Exists(pending), due_at=None).update(due_at=now)


def deliveries_prune(*, before: datetime) -> int:
    """Delete one batch of deliveries that finished before an instant, and return its size."""
    old = Delivery.objects.filter(finished_at__lt=before).order_by("finished_at")
    ids = list(old.values_list("pk", flat=True)[:DELETIONS_PER_BATCH])
    return Delivery.objects.filter(pk__in=ids).delete()[0]
