"""Single entries, where sums over a segment do not say enough: read one after the other, never all."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from django.db import connection

from allocator_service.billing.plans.timeline import Timeline
from allocator_service.billing.rating.amounts import OF_EVENT
from allocator_service.core.planning import indexes_only
from allocator_service.ledger.amounts.totals import COUNTS_AS
from allocator_service.pools.models import Pool

ROWS_AT_ONCE = 5_000

# A correction is part of the entry that it corrects: quantities add up, and the first number counts.
_ENTRIES = """
    SELECT e.*, {counts_as} AS counts_as, {of_event} AS of_event
    FROM ledger_entry e
    WHERE e.pool_id = %(pool)s AND {when} AND (e.tenant_id, e.resource) IN (SELECT * FROM pairs)
"""
_USED = """
WITH pairs AS MATERIALIZED (
    SELECT * FROM unnest(%(tenants)s::bigint[], %(resources)s::text[]) AS pair (tenant_id, resource)),
entries AS ({within_time} UNION ALL {reaching})
SELECT e.tenant_id, e.resource, e.server_owner_id, min(s.sequence), e.start, e."end",
       sum(e.quantity),
       sum(sum(e.quantity) * {within}) OVER (
           PARTITION BY e.tenant_id, e.resource ORDER BY min(s.sequence))
       - sum(e.quantity) * {within},
       CASE WHEN bool_or(e.of_event) THEN
           CASE (%(increments)s::text[])[width_bucket(e."end" - interval '1 microsecond',
                                                      %(edges)s::timestamptz[])]
               WHEN 'second-min-60' THEN greatest(60, ceil({seconds})) - {seconds}
               WHEN 'hour-up' THEN ceil({seconds} / 3600) * 3600 - {seconds} ELSE 0 END
           ELSE 0 END
FROM entries e JOIN ledger_seal s ON s.entry_id = e.id
WHERE e.counts_as = 'usage' AND (%(through)s::bigint IS NULL OR s.sequence <= %(through)s)
GROUP BY e.tenant_id, e.resource, e.server_owner_id, COALESCE(e.corrects, e.id), e.start, e."end"
HAVING sum(e.quantity) <> 0
ORDER BY e.tenant_id, e.resource, e.start, min(s.sequence)
"""
_STATEMENT = (
    # As two: partitions hold a month's starts, and few entries reach into the month after.
    _USED.replace(
        "{within_time}", _ENTRIES.replace("{when}", "e.start >= %(begin)s AND e.start < %(end)s")
    )
    .replace(
        "{reaching}", _ENTRIES.replace("{when}", 'e.start < %(begin)s AND e."end" > %(begin)s')
    )
    .replace("{counts_as}", COUNTS_AS)
    .replace("{of_event}", OF_EVENT)
    .replace(
        "{within}",
        'extract(epoch FROM least(e."end", %(end)s) - greatest(e.start, %(begin)s))',
    )
    .replace("{seconds}", 'extract(epoch FROM e."end" - e.start)')
)


class UsedEntry(NamedTuple):
    """An entry with its corrections.

    `before` is unit × seconds of the tenant and resource, in the time that was read, of entries with
    lower numbers; `increments` are the seconds by which an event counts longer than it lasted.
    """

    tenant: int
    resource: str
    owner: int | None
    sequence: int
    start: datetime
    end: datetime
    quantity: Decimal
    before: Decimal
    increments: Decimal


def entries_used(
    *, pool: Pool, prices: Timeline, pairs: Sequence[tuple[int, str]], through: int | None
) -> Iterator[UsedEntry]:
    """Yield the sealed entries of tenants and resources that reach into the time of `prices`.

    They come by tenant, resource, start and sequence. Only those numbered up to `through` count, if it
    is given.
    """
    if not pairs:
        return
    parameters: dict[str, Any] = {
        "pool": pool.pk,
        "tenants": [tenant for tenant, _ in pairs],
        "resources": [resource for _, resource in pairs],
        "begin": prices.edges[0],
        "end": prices.edges[-1],
        "edges": list(prices.edges),
        "increments": prices.increments,
        "through": through,
    }
    with indexes_only(), connection.chunked_cursor() as cursor:
        cursor.execute(_STATEMENT, parameters)
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            for row in rows:
                yield UsedEntry(*row)
