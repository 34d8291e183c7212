"""Writes to the ledger: usage that is reported, and corrections of it. Nothing is ever changed."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, localcontext
from typing import Any
from uuid import UUID

import orjson
from django.db import IntegrityError, connection, transaction
from psycopg.errors import UniqueViolation

from allocator_service.core.audit import audit_record
from allocator_service.core.copying import copy_rows
from allocator_service.core.errors import MAX_ERRORS, Conflict, FieldError, Unacceptable
from allocator_service.core.ids import new_ids
from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.ledger.models import Entry, Identity, Kind, PendingDecision, PendingEntry
from allocator_service.pools.models import Metering, Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
CLOCKS_DIFFER = timedelta(minutes=5)
LONGEST = timedelta(days=366)
MAX_EVENTS_PER_REQUEST = 10_000
_MICROSECOND = timedelta(microseconds=1)
_EXACT = Context(prec=60)


@dataclass(frozen=True)
class UsageEvent:
    """Something that was used: `vector` in the pool's order of resources, over `[start, end)`.

    `source` and `event_id` identify it permanently in its pool.
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
        """A digest of the content; it distinguishes a repeated event from a conflicting one."""
        content = [
            self.tenant.slug,
            None if self.workload is None else str(self.workload.pk),
            [decimal_text(amount) for amount in self.vector],
            self.start,
            self.end,
        ]
        return hashlib.sha256(orjson.dumps(content)).digest()


@dataclass(frozen=True)
class Recorded:
    """How many events of a request were new, and how many had been posted before."""

    accepted: int
    duplicates: int


def events_refuse_too_many(count: int) -> None:
    """Raise `Unacceptable` for more events than one request takes, before they are read."""
    if count > MAX_EVENTS_PER_REQUEST:
        raise Unacceptable(
            f"{count} events; a request takes at most {MAX_EVENTS_PER_REQUEST}.",
            code="bulk.too_many",
            pointer=f"/{MAX_EVENTS_PER_REQUEST}",
        )


@transaction.atomic
def usage_record(
    *, pool: Pool, events: Sequence[UsageEvent], now: datetime, members_only: bool = True
) -> Recorded:
    """Post what tenants report to have used, all or none; late and out of order is fine.

    A retired tenant's usage of before it was retired is taken too. Raises `Conflict` with
    `usage.metering` for a pool that meters itself and `usage.conflict` for an identity that was already
    posted with different content, `Unacceptable` for an impossible interval and, with `members_only`,
    for a tenant that was never admitted to the pool.
    """
    refuse_metered(pool)
    events_refuse_too_many(len(events))
    _refuse_impossible(events, now)
    if members_only:
        _refuse_strangers(pool, events)
    fresh = _claim(pool, events)
    entries_append(_rows(pool, fresh, now))
    return Recorded(len(fresh), len(events) - len(fresh))


def refuse_metered(pool: Pool) -> None:
    """Raise `Conflict` for a pool that meters itself: it takes no reports."""
    if pool.metering != Metering.REPORTED:
        raise Conflict(
            "This pool meters itself from its decisions and does not accept reported usage.",
            code="usage.metering",
        )


def entries_append(rows: Sequence[Mapping[str, Any]]) -> Sequence[UUID]:
    """Add entries within the open transaction; `rows` lack `id` and `amount`. Returns their ids."""
    if not rows:
        return []
    ids = new_ids(len(rows))
    days = {row["start"].astimezone(UTC).date() for row in rows}
    _make_partitions({day.replace(day=1) for day in days})
    columns = list(rows[0])
    copy_rows(
        Entry,
        ["id", "amount", *columns],
        (
            (id_, amount_of(row["quantity"], row["start"], row["end"]), *row.values())
            for id_, row in zip(ids, rows, strict=True)
        ),
    )
    copy_rows(
        PendingEntry,
        ["entry_id", "start"],
        ((id_, row["start"]) for id_, row in zip(ids, rows, strict=True)),
    )
    return ids


def decision_chain(
    *,
    pool: Pool,
    run_id: UUID,
    generation: int,
    effective_from: datetime,
    digests: Mapping[str, str],
) -> None:
    """Have the sealer put a decision into its pool's chain; call it in the transaction that publishes.

    `digests` are those of its proof's `input` and `answer`, in hexadecimal.
    """
    PendingDecision.objects.create(
        pool=pool,
        run_id=run_id,
        generation=generation,
        effective_from=effective_from,
        input=bytes.fromhex(digests["input"]),
        answer=bytes.fromhex(digests["answer"]),
    )


def amount_of(quantity: Decimal, start: datetime, end: datetime) -> Decimal:
    """Quantity × seconds, exactly: microseconds are six of the amount's eighteen digits."""
    microseconds = (end - start) // _MICROSECOND
    return _EXACT.multiply(quantity, Decimal(microseconds).scaleb(-6))


@transaction.atomic
def entry_correct(
    *, entry: Entry, quantity: Decimal, reason: str, now: datetime, resource: str | None = None
) -> Entry:
    """Say what an entry's quantity should have been: a new entry holds the difference.

    The entry and its corrections of a resource add up to what is right. `resource` names another one
    that the entry's event reported, or left out. Raises `Unacceptable` without a reason or for a
    quantity that is right already, `Conflict` for a correction of a correction.
    """
    if entry.kind == Kind.CORRECTION:
        raise Conflict(
            "This entry is a correction: correct the original entry instead.",
            code="entry.correction",
        )
    if not reason.strip():
        raise Unacceptable(
            "A correction needs a reason.", code="correction.reason", pointer="/reason"
        )
    entry, corrected = _entry_of_resource(entry, resource)
    with connection.cursor() as cursor:  # corrections of one entry come one after the other
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"correct:{entry.pk}"]
        )
    corrections = Entry.objects.filter(corrects=entry.pk, resource=corrected.name)
    reported = entry.quantity if corrected.name == entry.resource else Decimal(0)
    with localcontext(prec=60):
        present = reported + sum(corrections.values_list("quantity", flat=True), Decimal(0))
        difference = quantity - present
    if quantity == present:
        raise Unacceptable(
            f"The quantity is already {decimal_text(present)}.",
            code="correction.nothing",
            pointer="/quantity",
        )
    kept = ("pool_id", "tenant_id", "server_owner_id", "workload_id", "start", "end", "source",
            "run_id")  # fmt: skip
    row = {name: getattr(entry, name) for name in kept} | {
        "resource": corrected.name,
        "unit": corrected.unit,
        "quantity": difference,
        "kind": Kind.CORRECTION.value,
        "corrects": entry.pk,
        "reason": reason,
        "event_id": None,
        "recorded_at": now,
    }
    (id_,) = entries_append([row])
    correction = Entry.objects.get(pk=id_)
    audit_record(action="entry.correct", instance=correction, pool=entry.pool.slug, now=now)
    return correction


def _entry_of_resource(entry: Entry, name: str | None) -> tuple[Entry, Resource]:
    """The entry of the same event that holds a resource, or that one if none does; the resource."""
    if name is None or name == entry.resource:
        return entry, Resource(entry.resource, entry.unit)
    resource = next((each for each in resources_of(entry.pool) if each.name == name), None)
    if resource is None or entry.event_id is None:
        raise Unacceptable(
            f'"{name}" is not a resource of the pool.'
            if resource is None
            else f"This entry is metered: correct the entry of {name}.",
            code="correction.resource",
            pointer="/resource",
        )
    of_event = Entry.objects.filter(
        pool=entry.pool, source=entry.source, event_id=entry.event_id, start=entry.start
    ).exclude(kind=Kind.CORRECTION)
    # All corrections of what an event left out are of its first entry: they add up.
    first = of_event.order_by("pk").first()
    return of_event.filter(resource=name).first() or first or entry, resource


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
    """What an event's entries hold: what is above 0, or else one 0, so that it can be corrected."""
    pairs = list(zip(resources, event.vector, strict=False))
    return [(resource, quantity) for resource, quantity in pairs if quantity] or pairs[:1]


def _refuse_impossible(events: Sequence[UsageEvent], now: datetime) -> None:
    errors = [error for event in events if (error := what_is_impossible(event, now)) is not None]
    if errors:
        raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors[:MAX_ERRORS])


def _refuse_strangers(pool: Pool, events: Sequence[UsageEvent]) -> None:
    tenants = {event.tenant.pk for event in events}
    members = set(pool.memberships.filter(tenant__in=tenants).values_list("tenant", flat=True))
    errors = [
        not_a_member(event.tenant.slug, f"{event.pointer}/tenant")
        for event in events
        if event.tenant.pk not in members
    ]
    if errors:
        raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors[:MAX_ERRORS])


def not_a_member(slug: str, pointer: str) -> FieldError:
    """Why usage of a tenant that was never admitted is not taken."""
    detail = f'The tenant "{slug}" is not a member of the pool: admit it, or ask for non-members.'
    return FieldError(pointer, "usage.not_member", detail)


def what_is_impossible(event: UsageEvent, now: datetime) -> FieldError | None:
    """Why the interval of an event cannot be, if it cannot."""
    end, start = f"{event.pointer}/end", f"{event.pointer}/start"
    if event.end <= event.start:
        return FieldError(end, "usage.interval", "end is not after start.")
    if event.end > now + CLOCKS_DIFFER:
        detail = "end is in the future: report what has been used."
        return FieldError(end, "usage.future", detail)
    if event.start < EARLIEST:
        return FieldError(start, "usage.interval", f"start is before {EARLIEST:%Y}.")
    if event.end - event.start > LONGEST:
        detail = f"an event lasts at most {LONGEST.days} days."
        return FieldError(end, "usage.interval", detail)
    retired_at = event.tenant.retired_at
    if retired_at is not None and event.end > retired_at:
        detail = f'The tenant "{event.tenant.slug}" was retired at {retired_at:%Y-%m-%dT%H:%M:%SZ}.'
        return FieldError(end, "tenant.retired", detail)
    return None


# A repeat waits for whoever posts the same event; in one order, so that no two wait for each other.
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
    """Take the identities of new events; those taken before must say the same.

    The claim comes first and is atomic: of two that post the same event, one posts it and the other
    waits and finds it posted.
    """
    sent: dict[tuple[str, str], UsageEvent] = {}
    digests: dict[tuple[str, str], bytes] = {}
    for event in events:
        key, digest = (event.source, event.event_id), event.digest
        sent.setdefault(key, event)
        if digests.setdefault(key, digest) != digest:
            raise _contradiction(event)
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
    _refuse_contradictions(pool, repeated, digests)
    return [event for key, event in sent.items() if key in new]


def _claim_all(pool: Pool, digests: Mapping[tuple[str, str], bytes]) -> bool:
    """Take all identities if none was taken before, else none; returns whether they were.

    Most requests repeat nothing, and PostgreSQL adds rows that it need not compare at half the cost.
    """
    try:
        with transaction.atomic():
            copy_rows(
                Identity,
                ["pool_id", "source", "event_id", "digest"],
                ((pool.pk, *key, digests[key]) for key in sorted(digests)),
            )
    except IntegrityError as error:
        if isinstance(error.__cause__, UniqueViolation):
            return False
        raise
    return True


def _refuse_contradictions(
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
                raise _contradiction(repeated[source, event_id])


def _contradiction(event: UsageEvent) -> Conflict:
    return Conflict(
        f'The event "{event.event_id}" of {event.source} was already posted with different content.',
        code="usage.conflict",
        pointer=event.pointer,
    )


def partitions_make_ahead(*, now: datetime) -> None:
    """Make the partitions of this month and the next two, so that hardly any request has to."""
    first = now.astimezone(UTC).date().replace(day=1)
    months = [first]
    for _ in range(2):
        months.append((months[-1] + timedelta(days=32)).replace(day=1))
    _make_partitions(months)


def _make_partitions(months: Iterable[date]) -> None:
    with connection.cursor() as cursor:
        for month in sorted(months):
            cursor.execute("SELECT ledger_partition(%s)", [month])
