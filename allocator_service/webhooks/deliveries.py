"""A delivery's way: made from a sealed event, claimed, settled by what came of it, dropped when old.

A claim is a lease on the webhook's queue row, committed before anything is sent: who dies while sending
is succeeded when the lease ends, and who comes back late settles nothing. One request at a time goes to
a webhook, the oldest event first; after a failure the webhook rests for a moment, the event for longer.
Locks: the webhook, its queue, its deliveries.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, Min, OuterRef, Value
from django.db.models.functions import Coalesce

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
from allocator_service.webhooks.signing import SecretLost, secret_of, signed_headers

MADE_AT_ONCE = 200
LEASE = timedelta(seconds=45)
SLOW_SECONDS = 2.0
FIRST_RETRY = timedelta(seconds=5)
LAST_RETRY = timedelta(hours=2)
FIRST_REST = timedelta(seconds=1)
LAST_REST = timedelta(minutes=5)
DISABLED_AFTER = timedelta(days=5)
RETENTION = timedelta(days=30)
PRUNED_AT_ONCE = 10_000
GONE = 410

# Who may see an event: as `core.outbox.events_after` has it for a key of the webhook's tenant.
_MAKE = """
WITH told AS (
    SELECT s.sequence, e.id, e.kind, e.pool, e.tenant
    FROM core_event_seal s JOIN core_event e ON e.id = s.event_id
    WHERE s.sequence > %(after)s AND s.sequence <= %(upto)s),
made AS (
    INSERT INTO webhook_delivery (id, webhook_id, event_id, kind, sequence, state, attempts, due_at,
                                  give_up_at, created_at)
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing
               substring(int8send(%(milliseconds)s) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid,
           w.id, told.id, told.kind, told.sequence, 'pending', '[]', %(now)s, %(give_up)s, %(now)s
    FROM told JOIN webhook w
      ON w.retired_at IS NULL AND w.disabled_at IS NULL AND w.since < told.sequence
     AND (w.events = '{}' OR told.kind = ANY (w.events))
    LEFT JOIN tenant t ON t.id = w.tenant_id
    LEFT JOIN pool p ON p.id = w.pool_id
    WHERE (w.pool_id IS NULL OR p.slug = told.pool)
      AND (t.id IS NULL OR t.retired_at IS NULL AND (
               told.tenant = t.slug
               OR told.tenant IS NULL AND EXISTS (
                   SELECT FROM pool_membership m JOIN pool o ON o.id = m.pool_id
                   WHERE m.tenant_id = t.id AND o.slug = told.pool AND o.retired_at IS NULL
                     AND m.ended_at IS NULL)))
    ORDER BY told.sequence
    ON CONFLICT DO NOTHING
    RETURNING webhook_id)
SELECT DISTINCT webhook_id FROM made
"""


@transaction.atomic
def deliveries_make(*, now: datetime) -> bool:
    """Make the deliveries of the events that were sealed since; returns whether more wait.

    What was made and up to where is one transaction: every event is delivered to whom it concerns, and
    no event twice, whoever dies and however many call this.
    """
    DeliveryCursor.objects.get_or_create(pk=1)
    cursor = DeliveryCursor.objects.select_for_update(skip_locked=True).filter(pk=1).first()
    if cursor is None:
        return False
    with connection.cursor() as sql:
        sql.execute("SELECT COALESCE(max(sequence), 0) FROM core_event_seal")
        (last,) = sql.fetchall()[0]
        upto = min(last, cursor.sequence + MADE_AT_ONCE)
        if upto <= cursor.sequence:
            return False
        sql.execute(
            _MAKE,
            {
                "after": cursor.sequence,
                "upto": upto,
                "now": now,
                "give_up": now + GIVE_UP_AFTER,
                "milliseconds": int(now.timestamp() * 1000),
            },
        )
        webhooks = [webhook for (webhook,) in sql.fetchall()]
    # The rows are locked here, so that whoever settles meanwhile sees what was made, or is seen.
    WebhookQueue.objects.filter(webhook__in=webhooks).update(due_at=Coalesce("due_at", Value(now)))
    cursor.sequence = upto
    cursor.save()
    return bool(upto < last)


@dataclass(frozen=True)
class Claim:
    """A request that is to be made now, and the token that its outcome is settled with.

    `headers` are empty when the secret is lost: then nothing is sent.
    """

    webhook: UUID
    delivery: UUID
    token: UUID
    url: str
    headers: dict[str, str]
    body: bytes


# MATERIALIZED: a join may run a subquery again, whose limit would then hold for each time.
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
    """Take the next request of up to `limit` webhooks; commit before sending.

    `slow` chooses between webhooks that answered late the last time and the others.
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
        if _is_stopped(webhook):
            webhook.deliveries.filter(state=DeliveryState.PENDING).update(
                state=DeliveryState.CANCELLED, finished_at=now
            )
            continue
        token = tokens.pop(webhook.pk)
        message, body = message_of(delivery)
        headers = _signed(webhook, message, body, secret_key, now)
        claims.append(Claim(webhook.pk, delivery.pk, token, webhook.url, headers, body))
    for idle in tokens:  # what made them due was sent, cancelled, or waits
        _queue_release(idle, not_before=now)
    return claims


def _is_stopped(webhook: Webhook) -> bool:
    """Whether nothing is sent, though something was made while it was being stopped."""
    tenant = webhook.tenant
    retired = webhook.retired_at is not None or (tenant and tenant.retired_at is not None)
    return bool(retired or webhook.disabled_at is not None)


def _signed(
    webhook: Webhook, message: str, body: bytes, secret_key: str, now: datetime
) -> dict[str, str]:
    live = [
        each for each in webhook.secrets.all() if each.expires_at is None or each.expires_at > now
    ]
    live.sort(key=lambda each: each.created_at, reverse=True)
    try:
        keys = [secret_of(each, secret_key=secret_key) for each in live]
    except SecretLost:
        return {}
    return signed_headers(message=message, timestamp=int(now.timestamp()), body=body, keys=keys)


@transaction.atomic
def delivery_settle(*, claim: Claim, outcome: Outcome, jitter: float, now: datetime) -> None:
    """Store what came of a claim's request, and when its webhook is due again.

    `jitter`, from 0 to 1, makes waits up to half as long again. A claim whose lease ended and was taken
    over changes nothing.
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
    _attempt_keep(delivery, outcome, jitter, now)
    queue.failures = queue.failures + 1 if failed else 0
    queue.slow = outcome.seconds >= SLOW_SECONDS
    queue.save(update_fields=["failures", "slow"])
    rest = _doubled(FIRST_REST, LAST_REST, queue.failures, jitter) if failed else timedelta(0)
    _queue_release(webhook.pk, not_before=now + rest)
    if not failed:
        if webhook.failing_since is not None:
            webhook.failing_since = None
            webhook.save(update_fields=["failing_since"])
        return
    if webhook.failing_since is None:
        webhook.failing_since = now
        webhook.save(update_fields=["failing_since"])
    if webhook.disabled_at is None and webhook.retired_at is None:
        if outcome.status == GONE:
            webhook_disable(webhook=webhook, because=DisabledBecause.GONE, now=now)
        elif now - webhook.failing_since >= DISABLED_AFTER:
            webhook_disable(webhook=webhook, because=DisabledBecause.FAILING, now=now)


def _attempt_keep(delivery: Delivery, outcome: Outcome, jitter: float, now: datetime) -> None:
    delivery.attempts = [
        *delivery.attempts,
        {
            "at": now.isoformat(),
            "status": outcome.status,
            "error": outcome.error or None,
            "milliseconds": round(outcome.seconds * 1000),
        },
    ]
    if delivery.state == DeliveryState.PENDING:
        if not outcome.error:
            delivery.state, delivery.finished_at = DeliveryState.DELIVERED, now
        elif now >= delivery.give_up_at:
            delivery.state, delivery.finished_at = DeliveryState.FAILED, now
        else:
            wait = _doubled(FIRST_RETRY, LAST_RETRY, len(delivery.attempts), jitter)
            delivery.due_at = min(now + wait, delivery.give_up_at)
    delivery.save(update_fields=["attempts", "state", "finished_at", "due_at"])


def _doubled(first: timedelta, last: timedelta, number: int, jitter: float) -> timedelta:
    """The wait after the `number`-th failure: twice the one before it, at most `last`, and jitter."""
    doublings: int = 2 ** min(number - 1, 20)
    return min(first * doublings, last) * (1 + jitter / 2)


def _queue_release(webhook: UUID, *, not_before: datetime) -> None:
    """Let go of a locked queue row: due with the first that waits, idle if nothing does."""
    pending = Delivery.objects.filter(webhook=webhook, state=DeliveryState.PENDING)
    first = pending.aggregate(first=Min("due_at"))["first"]
    WebhookQueue.objects.filter(webhook=webhook).update(
        due_at=None if first is None else max(first, not_before), claimed_until=None, token=None
    )


def queues_wake(*, now: datetime) -> int:
    """Set what waits in an idle queue due; returns how many were, which is 0 unless rows were edited."""
    waiting = Delivery.objects.filter(webhook=OuterRef("webhook"), state=DeliveryState.PENDING)
    return WebhookQueue.objects.filter(Exists(waiting), due_at=None).update(due_at=now)


def deliveries_prune(*, before: datetime) -> int:
    """Drop deliveries that ended before an instant; returns how many. Call again while there are."""
    old = Delivery.objects.filter(finished_at__lt=before).order_by("finished_at")
    ids = list(old.values_list("pk", flat=True)[:PRUNED_AT_ONCE])
    return Delivery.objects.filter(pk__in=ids).delete()[0]
