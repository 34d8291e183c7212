"""What was numbered after its month was closed: a line per entry, at the prices of its own time."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Context, Decimal
from fractions import Fraction
from typing import NamedTuple
from uuid import UUID

from django.db import connection, transaction

from allocator_service.billing.models import LateCursor, LineKind, Posting, PricePlan
from allocator_service.billing.months import Month
from allocator_service.billing.plans.timeline import Timeline
from allocator_service.billing.rating.amounts import seconds
from allocator_service.billing.rating.lines import (
    HOUR_SECONDS,
    NO_PLAN,
    NO_PRICE,
    Rated,
    Unrated,
    balanced,
    minor_digits,
)
from allocator_service.core.money import rounded
from allocator_service.ledger.amounts.intervals import EXACT_DIGITS
from allocator_service.ledger.amounts.totals import COUNTS_AS
from allocator_service.ledger.models import Kind
from allocator_service.pools.models import Pool

READ_AT_ONCE = 10_000
_EXACT = Context(prec=EXACT_DIGITS)

_LATE = """
SELECT s.sequence, e.id, e.tenant_id, e.server_owner_id, e.resource, e.quantity, e.start, e."end",
       {counts_as},
       e.event_id IS NOT NULL OR e.corrects IS NOT NULL AND EXISTS (
           SELECT FROM ledger_entry o
           WHERE o.id = e.corrects AND o.start = e.start AND o.event_id IS NOT NULL),
       e.reason
FROM (
    SELECT sequence, entry_id, start FROM billing_late_entry
    WHERE pool_id = %(pool)s AND sequence > %(after)s
    UNION
    SELECT sequence, entry_id, start FROM ledger_seal
    WHERE pool_id = %(pool)s AND start < %(before)s AND sequence > greatest(%(after)s, (
        SELECT through FROM billing_late_cursor WHERE pool_id = %(pool)s))) AS s
JOIN ledger_entry e ON e.id = s.entry_id AND e.start >= s.start AND e.start <= s.start
WHERE s.start < %(before)s
  AND (%(upto)s::bigint IS NULL OR s.sequence <= %(upto)s)
  AND (%(tenant)s::bigint IS NULL OR e.tenant_id = %(tenant)s OR e.server_owner_id = %(tenant)s)
ORDER BY s.sequence LIMIT %(limit)s
"""


class Late(NamedTuple):
    """An entry as it is adjusted for."""

    sequence: int
    id: UUID
    tenant: int
    owner: int | None
    resource: str
    quantity: Decimal
    start: datetime
    end: datetime
    kind: str
    of_event: bool
    reason: str


def late_entries(
    *, pool: Pool, after: int, upto: int | None, before: datetime, tenant: int | None = None
) -> Iterator[Late]:
    """Usage numbered above `after`, and up to `upto`, that began before an instant, in their order."""
    while True:
        with connection.cursor() as cursor:
            cursor.execute(
                _LATE.replace("{counts_as}", COUNTS_AS),
                {
                    "pool": pool.pk,
                    "after": after,
                    "upto": upto,
                    "before": before,
                    "tenant": tenant,
                    "limit": READ_AT_ONCE,
                },
            )
            found = [Late(*row) for row in cursor.fetchall()]
        yield from (entry for entry in found if entry.kind == Kind.USAGE)
        if len(found) < READ_AT_ONCE:
            return
        after = found[-1].sequence


# Seals are read on from where the last reader of the pool's ended; what is late is kept.
_PLACE = """
SELECT through FROM billing_late_cursor WHERE pool_id = %(pool)s FOR NO KEY UPDATE SKIP LOCKED
"""
_FIND = """
WITH read AS (
    SELECT sequence, entry_id, start FROM ledger_seal
    WHERE pool_id = %(pool)s AND sequence > %(through)s ORDER BY sequence LIMIT %(limit)s),
found AS (
    INSERT INTO billing_late_entry (sequence, pool_id, entry_id, start)
    SELECT sequence, %(pool)s, entry_id, start FROM read
    WHERE start < (SELECT max("end") FROM billing_closing WHERE pool_id = %(pool)s)
    ON CONFLICT DO NOTHING)
UPDATE billing_late_cursor SET through = last.sequence
FROM (SELECT max(sequence) AS sequence, count(*) AS count FROM read) AS last
WHERE pool_id = %(pool)s AND last.sequence IS NOT NULL
RETURNING last.count
"""
FOUND_AT_ONCE = 100_000


def late_entries_begin(*, pool: Pool, through: int) -> None:
    """A month was closed: only what has a higher number can be late from now on."""
    LateCursor.objects.update_or_create(
        pool=pool, defaults={"through": through}, create_defaults={"through": through}
    )


@transaction.atomic
def late_entries_find(*, pool: Pool) -> int:
    """Keep which of the pool's newly numbered entries are of closed months; returns how many were read.

    So that a reader of the open month need not look at all that was numbered in it.
    """
    with connection.cursor() as cursor:
        # First the cursor, then, in a later snapshot, which months are closed: a month that is closed
        # meanwhile puts the cursor back to its own number.
        cursor.execute(_PLACE, {"pool": pool.pk})
        place = cursor.fetchone()
        if place is None:
            return 0
        cursor.execute(_FIND, {"pool": pool.pk, "through": place[0], "limit": FOUND_AT_ONCE})
        rows = cursor.fetchall()
    return int(rows[0][0]) if rows else 0


def adjustment_lines(
    *,
    pool: Pool,
    month: Month,
    closed: Sequence[Month],
    prices: Timeline,
    entries: Iterator[Late],
    units: Mapping[str, str],
) -> Rated:
    """Lines on the statement of `month`, per entry, closed month and plan.

    `prices` are those of the closed months, one after the other.
    """
    rated = Rated()
    for entry in entries:
        for service_month in closed:
            if entry.start < service_month.end and service_month.start < entry.end:
                _adjust(rated, pool, month, service_month, prices, entry, units)
    return rated


def _adjust(
    rated: Rated,
    pool: Pool,
    month: Month,
    service_month: Month,
    prices: Timeline,
    entry: Late,
    units: Mapping[str, str],
) -> None:
    sums: dict[object, tuple[PricePlan, datetime, datetime, Decimal, Decimal, set[Decimal]]] = {}
    for number, segment in enumerate(prices.segments):
        start = max(entry.start, segment.start, service_month.start)
        end = min(entry.end, segment.end, service_month.end)
        if start >= end:
            continue
        amount = _EXACT.multiply(entry.quantity, seconds(end - start))
        price = prices.price(number, entry.resource, entry.tenant, entry.owner)
        if segment.plan is None or price is None:
            reason = NO_PLAN if segment.plan is None else NO_PRICE
            rated.unrated.append(
                Unrated(entry.tenant, entry.resource, service_month, reason, start, end, amount)
            )
            continue
        counted = amount
        if entry.of_event and end == entry.end:
            counted = _EXACT.add(amount, in_steps(entry, segment.plan.increment))
        known = sums.get(segment.plan.pk)
        begun, so_far, priced, of = (
            (known[1], *known[3:]) if known else (start, Decimal(0), Decimal(0), set())
        )
        sums[segment.plan.pk] = (
            segment.plan, begun, end, _EXACT.add(so_far, amount),
            _EXACT.add(priced, _EXACT.multiply(counted, price)), of | {price},
        )  # fmt: skip
    for plan, start, end, amount, priced, of in sums.values():
        if not amount and not priced:
            continue
        charge = rounded(Fraction(priced) / HOUR_SECONDS, minor_digits(pool))
        rated.lines.append(
            Posting(
                pool=pool,
                month=month.first,
                service_month=service_month.first,
                kind=LineKind.ADJUSTMENT,
                tenant_id=entry.tenant,
                owner_id=entry.owner,
                plan=plan,
                resource=entry.resource,
                unit=units.get(entry.resource, ""),
                start=start,
                end=end,
                amount=amount,
                price=next(iter(of)) if len(of) == 1 else None,
                currency=pool.currency,
                entry=entry.id,
                note=entry.reason,
                **balanced(charge, plan.fee, entry.tenant, entry.owner, minor_digits(pool)),
            )
        )


def in_steps(entry: Late, increment: str) -> Decimal:
    """What the steps of a plan add to an event's amount."""
    lasted = seconds(entry.end - entry.start)
    if increment == "second-min-60":
        whole = max(Decimal(60), lasted.to_integral_value("ROUND_CEILING"))
    elif increment == "hour-up":
        whole = (lasted / HOUR_SECONDS).to_integral_value("ROUND_CEILING") * HOUR_SECONDS
    else:
        return Decimal(0)
    return _EXACT.multiply(entry.quantity, whole - lasted)
