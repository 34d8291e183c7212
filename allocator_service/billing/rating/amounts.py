"""Exact amounts of sealed and metered usage per price segment.

The ledger's totals give the exact amount of any interval, at a cost independent of the number of
entries. They have neither events, whose time may be rounded up by an increment, nor sequence numbers.
Where these matter, PostgreSQL sums the entries, grouped by the segments in which they begin and end. The
amount in each segment follows from a group's sums of quantity, quantity × start and quantity × end. Each
entry is read once in the database, so that memory grows only with tenants, owners, resources and edges.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Context, Decimal
from itertools import chain
from typing import NamedTuple

from django.db import connection

from allocator_service.core.planning import hashed
from allocator_service.core.quantities import EXACT_DIGITS
from allocator_service.ledger.amounts.open_uses import IS_METERED, OPEN_ENTRIES
from allocator_service.ledger.amounts.rate_changes import amounts_between, used_of_owners
from allocator_service.ledger.amounts.totals import COUNTS_AS, EPOCH
from allocator_service.ledger.archive.reading import ENTRIES, entries_with_archived
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.lookups import is_entry
from allocator_service.ledger.models import Kind
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant

_EXACT = Context(prec=EXACT_DIGITS)
_MICROSECOND = timedelta(microseconds=1)

# The plan in force at an event's end sets its increment, also for the event's corrections.
OF_EVENT = """
(e.event_id IS NOT NULL OR e.corrects IS NOT NULL AND EXISTS (
    SELECT FROM ledger_entry o
    WHERE {corrected} AND o.event_id IS NOT NULL))
""".replace("{corrected}", is_entry("o", "e.corrects", "e.start"))
_ADDED = """
e.quantity * CASE (%(increments)s::text[])[last]
    WHEN 'second-min-60' THEN greatest(60, ceil(seconds)) - seconds
    WHEN 'hour-up' THEN ceil(seconds / 3600) * 3600 - seconds ELSE 0 END
"""
_ENTRIES = """
SELECT e.*, width_bucket(e.start, %(edges)s::timestamptz[]) AS first,
       width_bucket(e."end" - interval '1 microsecond', %(edges)s::timestamptz[]) AS last,
       extract(epoch FROM e."end" - e.start) AS seconds
FROM {of} e
WHERE e.pool_id = %(pool)s AND {when}
  AND (%(tenant)s::bigint IS NULL OR e.tenant_id = %(tenant)s OR e.server_owner_id = %(tenant)s)
  AND (NOT EXISTS (SELECT FROM unnumbered u WHERE u.entry_id = e.id)
       OR %(through)s::bigint IS NULL AND {is_metered})
""".replace("{is_metered}", IS_METERED)
_SUMS = """
WITH unnumbered AS MATERIALIZED (
    SELECT entry_id FROM ledger_pending
    UNION ALL
    SELECT entry_id FROM ledger_seal
    WHERE pool_id = %(pool)s AND %(through)s::bigint IS NOT NULL AND sequence > %(through)s)
SELECT e.tenant_id, e.server_owner_id, e.resource, {counts_as} AS kind, first, last,
       sum(e.quantity), sum(e.amount),
       COALESCE(sum(e.quantity * extract(epoch FROM e.start)) FILTER (WHERE first <> last), 0),
       COALESCE(sum(e.quantity * extract(epoch FROM e."end")) FILTER (WHERE first <> last), 0),
       {added}
FROM ({within} UNION ALL {reaching} UNION ALL {open}) AS e
GROUP BY 1, 2, 3, 4, 5, 6
"""
_LEDGER = "ledger_entry"
_PARTS = {
    "counts_as": COUNTS_AS,
    "within": _ENTRIES.format(of=_LEDGER, when="e.start >= %(begin)s AND e.start < %(end)s"),
    "reaching": _ENTRIES.format(of=_LEDGER, when='e.start < %(begin)s AND e."end" > %(begin)s'),
    "open": _ENTRIES.format(
        of=f"({OPEN_ENTRIES})",
        when='%(through)s::bigint IS NULL AND e.start < %(end)s AND e."end" > %(begin)s',
    ),
}
_EXACTLY = _SUMS.format(added="0::numeric", **_PARTS)
_IN_STEPS = _SUMS.format(added=f"COALESCE(sum({_ADDED}) FILTER (WHERE {OF_EVENT}), 0)", **_PARTS)


class Use(NamedTuple):
    """Unit × seconds that a tenant used of an owner's servers within a segment.

    `amount` is the ledger's; `counted` includes the increments of events.
    """

    tenant: int
    owner: int | None
    resource: str
    kind: str
    segment: int
    amount: Decimal
    counted: Decimal


def used_by_now(
    *, pool: Pool, edges: Sequence[datetime], tenant: int | None = None
) -> Iterator[Use]:
    """Yield all sealed and metered uses, at exact times, from the ledger's totals."""
    limit = None if tenant is None else Tenant(pk=tenant)
    used = used_of_owners(pool=pool, edges=edges, tenant=limit)
    alone = amounts_between(pool=pool, edges=edges, tenant=limit, kinds=[Kind.ALONE])
    for of, interval, amount in chain(used.all_intervals(), alone.all_intervals()):
        yield Use(of.tenant, of.owner, of.resource, of.kind, interval, amount, amount)


def used_between(
    *,
    pool: Pool,
    edges: Sequence[datetime],
    increments: Sequence[str],
    through: int | None,
    tenant: int | None = None,
) -> Iterator[Use]:
    """Yield sealed and metered uses between edges, per tenant, owner, resource, kind and segment.

    `increments` has one increment per segment. With `through`, only entries numbered through it count.
    `tenant` limits the uses to those of one tenant or of its servers. A correction has the kind of the
    entry that it corrects.
    """
    exactly = all(increment == "exact" for increment in increments)
    archived = Selection(pool=pool.pk, begin=edges[0], end=edges[-1])
    with hashed(), entries_with_archived(archived) as relation, connection.cursor() as cursor:
        cursor.execute(
            (_EXACTLY if exactly else _IN_STEPS).replace(ENTRIES, relation),
            {
                "pool": pool.pk,
                "edges": list(edges),
                "begin": edges[0],
                "end": edges[-1],
                "increments": list(increments),
                "through": through,
                "tenant": tenant,
            },
        )
        rows = cursor.fetchall()
    instants = [seconds(edge - EPOCH) for edge in edges]
    for user, owner, resource, kind, first, last, *sums in rows:
        for segment, amount, added in _parts(instants, first, last, *sums):
            counted = _EXACT.add(amount, added)
            yield Use(user, owner, resource, kind, segment, amount, counted)


def seconds(time: timedelta) -> Decimal:
    """Return the exact seconds of a duration."""
    return Decimal(time // _MICROSECOND).scaleb(-6)


def _parts(
    instants: Sequence[Decimal],
    first: int,
    last: int,
    quantity: Decimal,
    amount: Decimal,
    from_start: Decimal,
    to_end: Decimal,
    added: Decimal,
) -> Iterator[tuple[int, Decimal, Decimal]]:
    """Yield (segment, amount, increments) for a group from bucket `first` through bucket `last`.

    Segment 0 is bucket 1. Buckets before the first and after the last edge belong to no segment.
    """
    segments = len(instants) - 1
    for bucket in range(max(first, 1), min(last, segments) + 1):
        begin, end = instants[bucket - 1], instants[bucket]
        # Where the event ends, whose plan sets the increment.
        here = added if bucket == last else Decimal(0)
        if first == last:
            part = amount
        elif bucket == first:
            # Σ quantity · (end - start) = end · Σ quantity - Σ quantity · start.
            part = _EXACT.subtract(_EXACT.multiply(quantity, end), from_start)
        elif bucket == last:
            # Σ quantity · (end of the entry - begin), likewise.
            part = _EXACT.subtract(to_end, _EXACT.multiply(quantity, begin))
        else:
            part = _EXACT.multiply(quantity, _EXACT.subtract(end, begin))
        yield bucket - 1, part, here
