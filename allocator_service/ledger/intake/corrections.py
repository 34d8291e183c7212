"""Corrections of entries, which are entries of the difference."""

from datetime import datetime
from decimal import Decimal, localcontext

from django.db import connection, transaction

from allocator_service.core.audit import audit_record
from allocator_service.core.errors import Conflict, Unacceptable
from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.models import Entry, Kind
from allocator_service.ledger.selectors import entry_present
from allocator_service.pools.moving import refuse_moved
from allocator_service.pools.selectors import resources_of


@transaction.atomic
def entry_correct(
    *, entry: Entry, quantity: Decimal, reason: str, now: datetime, resource: str | None = None
) -> Entry:
    """Correct the quantity of an entry by a new entry with the difference.

    The entry and its corrections of a resource add up to the correct quantity. `resource` names
    another resource that the entry's event reported or omitted. Raises `Unacceptable` without a
    reason or without a difference, `Conflict` for a correction of a correction or of an archived
    entry.
    """
    # All corrections refer to one entry, so that they add up without a chain to follow.
    if entry.kind == Kind.CORRECTION:
        raise Conflict(
            "This entry is a correction: correct the original entry instead.",
            code="entry.correction",
        )
    if not reason.strip():
        raise Unacceptable(
            "A correction must have a reason.", code="correction.reason", pointer="/reason"
        )
    refuse_moved(entry.pool_id)
    entry_present(entry_id=entry.pk)
    entry, corrected = _entry_of_resource(entry, resource)
    # Concurrent corrections of one entry are serialised: each computes its difference from those
    # before.
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"correct:{entry.pk}"]
        )
    corrections = Entry.objects.filter(corrects=entry.pk, resource=corrected.name)
    reported = entry.quantity if corrected.name == entry.resource else Decimal(0)
    # The default of 28 digits would round quantities of 36.
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
        # A correction is not an event of the source, whose identity stays with the original.
        "event_id": None,
        "recorded_at": now,
    }
    (id_,) = entries_append([row])
    correction = Entry.objects.get(pk=id_)
    audit_record(action="entry.correct", instance=correction, pool=entry.pool.slug, now=now)
    return correction


def _entry_of_resource(entry: Entry, name: str | None) -> tuple[Entry, Resource]:
    """Return the entry of a resource of the same event, or the given one, and the resource."""
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
    # All corrections of an omitted resource refer to the event's first entry, so that they add up.
    first = of_event.order_by("pk").first()
    return of_event.filter(resource=name).first() or first or entry, resource
