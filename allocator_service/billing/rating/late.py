"""Late entries, numbered after their month was closed."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection, transaction

from allocator_service.billing.models import Closing, LateCursor, PricePlan
from allocator_service.billing.months import Month
from allocator_service.ledger.amounts.totals import COUNTS_AS
from allocator_service.ledger.archive.reading import ENTRIES, entries_with_archived
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.lookups import entry_lookup
from allocator_service.ledger.models import Kind
from allocator_service.pools.models import Pool

READ_AT_ONCE = 10_000

Pair = tuple[int, str]
"""Tenant's primary key and resource name."""

_LATE = """
SELECT s.sequence, e.id, e.tenant_id, e.server_owner_id, e.resource, e.start, e."end",
       {counts_as}, e.reason
FROM (
    SELECT sequence, entry_id, start FROM billing_late_entry
    WHERE pool_id = %(pool)s AND sequence > %(after)s
    UNION
    SELECT sequence, entry_id, start FROM ledger_seal
    WHERE pool_id = %(pool)s AND start < %(before)s AND sequence > greatest(%(after)s, (
        SELECT through FROM billing_late_cursor WHERE pool_id = %(pool)s))) AS s
CROSS JOIN {entry} AS e
WHERE s.start < %(before)s
  AND (%(tenant)s::bigint IS NULL OR e.tenant_id = %(tenant)s OR e.server_owner_id = %(tenant)s
       OR e.tenant_id = ANY(%(also)s::bigint[]))
ORDER BY s.sequence LIMIT %(limit)s
""".replace("{entry}", entry_lookup("s.entry_id", "s.start"))


class Late(NamedTuple):
    """Fields of a late entry that identify and explain its difference."""

    sequence: int
    id: UUID
    tenant: int
    owner: int | None
    resource: str
    start: datetime
    end: datetime
    kind: str
    reason: str


def late_entries(
    *,
    pool: Pool,
    after: int,
    before: datetime,
    tenant: int | None = None,
    also: Collection[int] = (),
) -> Iterator[Late]:
    """Yield late usage numbered above `after` that began before `before`, by sequence.

    `tenant` limits it to usage by that tenant, on its servers, or by the tenants in `also`.
    """
    while True:
        archived = Selection(pool=pool.pk, after=after, end=before)
        with (
            transaction.atomic(),
            entries_with_archived(archived) as relation,
            connection.cursor() as cursor,
        ):
            cursor.execute(
                _LATE.replace("{counts_as}", COUNTS_AS).replace(ENTRIES, relation),
                {
                    "pool": pool.pk,
                    "after": after,
                    "before": before,
                    "tenant": tenant,
                    "also": list(also),
                    "limit": READ_AT_ONCE,
                },
            )
            found = [Late(*row) for row in cursor.fetchall()]
        # Use alone is never charged.
        yield from (entry for entry in found if entry.kind == Kind.USAGE)
        if len(found) < READ_AT_ONCE:
            return
        # By number, so that rows which arrive meanwhile shift nothing.
        after = found[-1].sequence


# The cursor continues where the pool's last read ended; late entries are stored.
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
    """Set the cursor of a pool after a closing.

    Only entries numbered above `through` can be late from then on.
    """
    LateCursor.objects.update_or_create(
        pool=pool, defaults={"through": through}, create_defaults={"through": through}
    )


@transaction.atomic
def late_entries_find(*, pool: Pool) -> int:
    """Store which newly numbered entries belong to closed months and return the number read.

    Spares readers of the open month a scan of all entries numbered in it.
    """
    with connection.cursor() as cursor:
        # The cursor is read first, the closings in a later snapshot: a closing in between resets the
        # cursor to its own number.
        cursor.execute(_PLACE, {"pool": pool.pk})
        place = cursor.fetchone()
        if place is None:
            return 0
        cursor.execute(_FIND, {"pool": pool.pk, "through": place[0], "limit": FOUND_AT_ONCE})
        rows = cursor.fetchall()
    return int(rows[0][0]) if rows else 0


def late_causes(
    entries: Iterable[Late], closed: Sequence[Month]
) -> dict[date, dict[Pair, list[Late]]]:
    """Group late entries by closed month, then by tenant and resource.

    An entry is listed in every closed month that it reaches into.
    """
    causes: dict[date, dict[Pair, list[Late]]] = {}
    for entry in entries:
        for month in closed:
            if entry.start < month.end and month.start < entry.end:
                of_month = causes.setdefault(month.first, {})
                of_month.setdefault((entry.tenant, entry.resource), []).append(entry)
    return causes


def reason_to_keep(pool: Pool, end: datetime, sequence: int) -> str:
    """Return why entries that end by an instant, numbered through a sequence, must not be archived.

    A pool with price plans bills its entries. The months in which they lie must be closed, and late ones
    must be in a closed month, too. A pool that has moved to another installation is billed there. The
    text is empty if nothing keeps the entries.
    """
    if pool.moved_at is not None:
        return ""
    closed = Closing.objects.filter(pool=pool).defer("document").order_by("-month").first()
    if closed is None:
        if PricePlan.objects.filter(pool=pool).exclude(number=None).exists():
            return f"pool {pool} has price plans and no closed month"
        return ""
    if closed.end < end:
        return f"the months of pool {pool} are closed only through {closed}"
    if closed.sequence < sequence:
        return f"late entries of pool {pool} are in no closed month yet"
    return ""
