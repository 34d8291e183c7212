"""Intake of reported usage, in which each event is recorded once."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import orjson
from django.db import IntegrityError, connection, transaction
from psycopg.errors import UniqueViolation

from allocator_service.core.copying import copy_rows
from allocator_service.core.errors import MAX_ERRORS, Conflict, FieldError, Unacceptable
from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.models import Identity, Kind
from allocator_service.pools.models import Metering, Pool
from allocator_service.pools.moving import refuse_moved
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
# The clock of a machine that reports may be ahead of the service's.
CLOCKS_DIFFER = timedelta(minutes=5)
LONGEST = timedelta(days=366)
MAX_EVENTS_PER_REQUEST = 10_000


@dataclass(frozen=True)
class UsageEvent:
    """Use of resources over `[start, end)`, with the vector in the pool's order of resources.

    `source` and `event_id` identify the event permanently in its pool.
    """

    source: str
    event_id: str
    tenant: Tenant
    workload: Workload | None
    vector: Sequence[Decimal]
    start: datetime
    end: datetime
    pointer: str = ""

    @property
    def digest(self) -> bytes:
        """The digest of the content, which distinguishes a repeated event from a conflicting one."""
        content = [
            self.tenant.slug,
            None if self.workload is None else str(self.workload.pk),
            # Without trailing zeros: 1.0 and 1 are the same content.
            [decimal_text(amount) for amount in self.vector],
            self.start,
            self.end,
        ]
        return hashlib.sha256(orjson.dumps(content)).digest()


@dataclass(frozen=True)
class Recorded:
    """The numbers of new and of repeated events of a request."""

    accepted: int
    duplicates: int


def events_refuse_too_many(count: int) -> None:
    """Raise `Unacceptable` for more than 10,000 events, before they are read."""
    if count > MAX_EVENTS_PER_REQUEST:
        raise Unacceptable(
            f"Expected at most {MAX_EVENTS_PER_REQUEST:,} events, got {count:,}.",
            code="bulk.too_many",
            pointer=f"/{MAX_EVENTS_PER_REQUEST}",
        )


@transaction.atomic
def usage_record(
    *, pool: Pool, events: Sequence[UsageEvent], now: datetime, members_only: bool = True
) -> Recorded:
    """Post reported usage, all events or none.

    Events may be late and in any order, and a retired tenant's usage before its retirement is
    accepted. Raises `Conflict` with `usage.metering` for a pool that meters itself and
    `usage.conflict` for an identity that was posted with different content, `Unacceptable` for an
    invalid interval and, with `members_only`, for a tenant that was never a member of the pool.
    """
    refuse_metered(pool)
    events_refuse_too_many(len(events))
    refuse_moved(pool.pk)
    _refuse_invalid(events, now)
    if members_only:
        _refuse_non_members(pool, events)
    fresh = _claim(pool, events)
    entries_append(_rows(pool, fresh, now))
    return Recorded(len(fresh), len(events) - len(fresh))


def refuse_metered(pool: Pool) -> None:
    """Raise `Conflict` for a pool that meters itself."""
    if pool.metering != Metering.REPORTED:
        raise Conflict(
            "This pool meters itself from its decisions and does not accept reported usage.",
            code="usage.metering",
        )


def _rows(pool: Pool, events: Sequence[UsageEvent], now: datetime) -> list[dict[str, Any]]:
    resources = resources_of(pool)
    alike = {
        "pool_id": pool.pk,
        "server_owner_id": None,
        "kind": Kind.USAGE.value,
        "corrects": None,
        "reason": "",
        "run_id": None,
        "recorded_at": now,
    }
    return [
        {
            **alike,
            "tenant_id": event.tenant.id,
            "workload_id": None if event.workload is None else event.workload.id,
            "resource": resource.name,
            "unit": resource.unit,
            "quantity": quantity,
            "start": event.start,
            "end": event.end,
            "source": event.source,
            "event_id": event.event_id,
        }
        for event in events
        for resource, quantity in _reported(event, resources)
    ]


def _reported(event: UsageEvent, resources: Sequence[Resource]) -> list[tuple[Resource, Decimal]]:
    """Return the quantities above 0, or one 0 if there are none, so that the event can be corrected."""
    pairs = list(zip(resources, event.vector, strict=False))
    return [(resource, quantity) for resource, quantity in pairs if quantity] or pairs[:1]


def _refuse_invalid(events: Sequence[UsageEvent], now: datetime) -> None:
    errors = [error for event in events if (error := interval_error(event, now)) is not None]
    if errors:
        raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors[:MAX_ERRORS])


def _refuse_non_members(pool: Pool, events: Sequence[UsageEvent]) -> None:
    tenants = {event.tenant.pk for event in events}
    # Former members too: their usage may arrive late.
    members = set(pool.memberships.filter(tenant__in=tenants).values_list("tenant", flat=True))
    errors = [
        membership_error(event.tenant.slug, f"{event.pointer}/tenant")
        for event in events
        if event.tenant.pk not in members
    ]
    if errors:
        raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors[:MAX_ERRORS])


def membership_error(slug: str, pointer: str) -> FieldError:
    """Return the error of usage of a tenant that was never a member."""
    detail = f'The tenant "{slug}" is not a member of the pool: admit it, or ask for non-members.'
    return FieldError(pointer, "usage.not_member", detail)


def interval_error(event: UsageEvent, now: datetime) -> FieldError | None:
    """Return the error of an event's interval, or None."""
    end, start = f"{event.pointer}/end", f"{event.pointer}/start"
    if event.end <= event.start:
        return FieldError(end, "usage.interval", "end must be after start.")
    if event.end > now + CLOCKS_DIFFER:
        detail = "end must not be in the future: report past usage."
        return FieldError(end, "usage.future", detail)
    if event.start < EARLIEST:
        return FieldError(start, "usage.interval", f"start must be in {EARLIEST:%Y} or later.")
    if event.end - event.start > LONGEST:
        detail = f"an event must last at most {LONGEST.days} days."
        return FieldError(end, "usage.interval", detail)
    retired_at = event.tenant.retired_at
    if retired_at is not None and event.end > retired_at:
        detail = f'The tenant "{event.tenant.slug}" was retired at {retired_at:%Y-%m-%dT%H:%M:%SZ}.'
        return FieldError(end, "tenant.retired", detail)
    return None


# A repeat waits for the transaction that posts the same event. The one order of keys prevents
# deadlocks.
_CLAIM = """
INSERT INTO ledger_identity (pool_id, source, event_id, digest)
SELECT %(pool)s, source, event_id, digest
FROM unnest(%(sources)s::text[], %(ids)s::text[], %(digests)s::bytea[])
     AS sent (source, event_id, digest)
ORDER BY source COLLATE "C", event_id COLLATE "C"
ON CONFLICT ON CONSTRAINT ledger_identity_once DO NOTHING
RETURNING source, event_id
"""


def _claim(pool: Pool, events: Sequence[UsageEvent]) -> list[UsageEvent]:
    """Claim the identities of new events, and return these events.

    An event that was claimed before must have the same content. The claim comes first and is
    atomic: of two requests with the same event, one posts it, and the other waits and finds it
    posted.
    """
    sent: dict[tuple[str, str], UsageEvent] = {}
    digests: dict[tuple[str, str], bytes] = {}
    for event in events:
        key, digest = (event.source, event.event_id), event.digest
        # One request may repeat an event as well.
        sent.setdefault(key, event)
        if digests.setdefault(key, digest) != digest:
            raise _conflict(event)
    if _claim_all(pool, digests):
        return list(sent.values())
    with connection.cursor() as cursor:
        cursor.execute(
            _CLAIM,
            {
                "pool": pool.pk,
                "sources": [source for source, _ in digests],
                "ids": [event_id for _, event_id in digests],
                "digests": list(digests.values()),
            },
        )
        new = set(cursor.fetchall())
    repeated = {key: event for key, event in sent.items() if key not in new}
    _refuse_conflicts(pool, repeated, digests)
    return [event for key, event in sent.items() if key in new]


def _claim_all(pool: Pool, digests: Mapping[tuple[str, str], bytes]) -> bool:
    """Claim all identities if none was claimed before, and return whether that was so.

    Most requests repeat no event, and COPY costs half of an INSERT with ON CONFLICT.
    """
    try:
        # A savepoint: the violation must not end the transaction of the request.
        with transaction.atomic():
            copy_rows(
                Identity,
                ["pool_id", "source", "event_id", "digest"],
                # In the order of `_CLAIM`, which prevents deadlocks.
                ((pool.pk, *key, digests[key]) for key in sorted(digests)),
            )
    except IntegrityError as error:
        if isinstance(error.__cause__, UniqueViolation):
            return False
        raise
    return True


def _refuse_conflicts(
    pool: Pool,
    repeated: Mapping[tuple[str, str], UsageEvent],
    digests: Mapping[tuple[str, str], bytes],
) -> None:
    ids: dict[str, list[str]] = {}
    for source, event_id in repeated:
        ids.setdefault(source, []).append(event_id)
    for source, of_source in ids.items():
        stored = Identity.objects.filter(pool=pool, source=source, event_id__in=of_source)
        for event_id, digest in stored.values_list("event_id", "digest"):
            if bytes(digest) != digests[source, event_id]:
                raise _conflict(repeated[source, event_id])


def _conflict(event: UsageEvent) -> Conflict:
    return Conflict(
        f'The event "{event.event_id}" of {event.source} was already posted with different content.',
        code="usage.conflict",
        pointer=event.pointer,
    )
