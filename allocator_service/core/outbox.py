"""Events, written in the transaction of their cause and then sealed into one order.

A reader that pages by time or by id misses events that commit late. Readers here page by seal, which is
given to committed events only, without gaps, by one process at a time.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Max, Q
from psycopg.types.json import Jsonb
from structlog.contextvars import get_contextvars

from allocator_service.core.copying import copy_rows
from allocator_service.core.errors import Gone
from allocator_service.core.ids import new_ids
from allocator_service.core.locks import Lock, try_lock_in_transaction
from allocator_service.core.models import Event, EventSeal, PendingEvent
from allocator_service.core.notifications import EVENTS_CHANNEL, notify

# All event kinds. `tests/unit/test_event_kinds.py` compares the list with the code.
EVENT_KINDS = (
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
)

# Their payload names groups, tenants and labels of the whole pool.
KINDS_FOR_OPERATORS = ("guarantee.unmet",)


def event_record(
    *,
    kind: str,
    payload: dict[str, Any],
    now: datetime,
    pool: str | None = None,
    tenant: str | None = None,
) -> Event:
    """Store an event. The request that caused it is taken from the logging context."""
    event = Event.objects.create(
        kind=kind,
        pool=pool,
        tenant=tenant,
        payload=payload,
        occurred_at=now,
        request_id=request_id(),
    )
    # In a table of its own: the sealer need not search all events for those without a number.
    PendingEvent.objects.create(event=event)
    return event


def events_record(
    *, kind: str, pool: str, payloads: Mapping[str, dict[str, Any]], now: datetime
) -> None:
    """Store an event of the same kind for each tenant that `payloads` names by its slug."""
    if not payloads:
        return
    ids, request = new_ids(len(payloads)), request_id()
    copy_rows(
        Event,
        ["id", "kind", "pool", "tenant", "payload", "occurred_at", "request_id"],
        (
            (id_, kind, pool, tenant, Jsonb(payload), now, request)
            for id_, (tenant, payload) in zip(ids, payloads.items(), strict=True)
        ),
    )
    copy_rows(PendingEvent, ["event_id"], ((id_,) for id_ in ids))


# Events of imported pools have numbers below 1. An array is computed once. Under statistics of an empty
# table the planner would run `IN (SELECT ... LIMIT)` again for each row: 100 s for 10,000 events.
_SEAL = """
WITH taken AS (
    DELETE FROM core_event_pending
    WHERE event_id = ANY(ARRAY(SELECT event_id FROM core_event_pending ORDER BY event_id LIMIT %s))
    RETURNING event_id)
INSERT INTO core_event_seal (sequence, event_id)
SELECT (SELECT GREATEST(max(sequence), 0) FROM core_event_seal)
       + row_number() OVER (ORDER BY event_id), event_id
FROM taken
"""
# Asked at least once a second: one statement.
_WAITS = "SELECT EXISTS (SELECT FROM core_event_pending)"
SEALED_AT_ONCE = 10_000


def events_seal() -> int:
    """Number the committed events that have no number yet, and return how many got one.

    An event of a transaction that is still open is not visible here and gets a later number when it is.
    A reader that has read through a number has therefore missed nothing before it. One sealer works at a
    time.
    """
    with connection.cursor() as cursor:
        cursor.execute(_WAITS)
        if cursor.fetchall() == [(False,)]:
            return 0
    with transaction.atomic(), connection.cursor() as cursor:
        if not try_lock_in_transaction(Lock.EVENT_SEAL, "events"):
            return 0
        cursor.execute(_SEAL, [SEALED_AT_ONCE])
        sealed = int(cursor.rowcount)
        if sealed:
            notify(EVENTS_CHANNEL)
        return sealed


def events_prune(*, before: datetime) -> None:
    """Delete sealed events before an instant, except for the last seal, from which numbers continue."""
    last = EventSeal.objects.aggregate(last=Max("sequence"))["last"]
    Event.objects.filter(occurred_at__lt=before, seal__sequence__lt=last or 0).delete()


def events_after(
    cursor: UUID | None, *, tenant: str | None, pools: Sequence[str], limit: int
) -> list[Event]:
    """Return the sealed events that follow the event `cursor` in their order, or the oldest ones.

    `tenant` limits them to those that a tenant key may see: its own events, and those of `pools` (the
    pools it is a member of) that concern no tenant in particular. A cursor is an event's id, which does
    not reveal how many events others had. Raises `Gone` once the event is no longer kept.
    """
    events = Event.objects.filter(seal__isnull=False).order_by("seal__sequence")
    if tenant is not None:
        events = events.filter(Q(tenant=tenant) | Q(tenant=None, pool__in=pools))
        events = events.exclude(kind__in=KINDS_FOR_OPERATORS)
    if cursor is not None:
        position = EventSeal.objects.filter(event=cursor).values_list("sequence", flat=True).first()
        if position is None:
            raise Gone(
                "The cursor's event is no longer kept: start again without `after`.",
                code="cursor.expired",
            )
        events = events.filter(seal__sequence__gt=position)
    return list(events[:limit])


def event_document(event: Event) -> dict[str, Any]:
    """Return an event as the feed shows it and webhooks carry it."""
    return {
        "id": event.pk,
        "kind": event.kind,
        "pool": event.pool,
        "tenant": event.tenant,
        "payload": event.payload,
        "occurred_at": event.occurred_at,
    }


def request_id() -> str:
    """Return the id of the request that is being served, or an empty string outside one."""
    return str(get_contextvars().get("request_id", ""))
