"""Single sealed and metered entries with their corrections, read in batches."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import count
from typing import Any, NamedTuple

from django.db import connection

from allocator_service.billing.plans.timeline import Timeline
from allocator_service.billing.rating.amounts import OF_EVENT
from allocator_service.core.planning import indexes_only
from allocator_service.ledger.amounts.open_uses import IS_METERED, OPEN_ENTRIES
from allocator_service.ledger.amounts.totals import COUNTS_AS
from allocator_service.ledger.archive.reading import ENTRIES, entries_with_archived
from allocator_service.ledger.archive.selections import Selection
from allocator_service.pools.models import Pool

ROWS_AT_ONCE = 5_000
# What has no number yet follows all that has.
_UNNUMBERED = 2**62

# Corrections merge into their entry: quantities add up, and the lowest sequence number counts.
_ENTRIES = """
    SELECT e.*, {counts_as} AS counts_as, {of_event} AS of_event
    FROM {of} e
    WHERE e.pool_id = %(pool)s AND {when} AND (e.tenant_id, e.resource) IN (SELECT * FROM pairs)
"""
_USED = """
WITH pairs AS MATERIALIZED (
    SELECT * FROM unnest(%(tenants)s::bigint[], %(resources)s::text[]) AS pair (tenant_id, resource)),
entries AS ({within_time} UNION ALL {reaching} UNION ALL {open})
SELECT e.tenant_id, e.resource, e.server_owner_id, min(s.sequence), e.start, e."end",
       sum(e.quantity),
       sum(sum(e.quantity) * {within}) OVER (
           PARTITION BY e.tenant_id, e.resource
           ORDER BY min(s.sequence) NULLS LAST, COALESCE(e.corrects, e.id))
       - sum(e.quantity) * {within},
       CASE WHEN bool_or(e.of_event) THEN
           CASE (%(increments)s::text[])[width_bucket(e."end" - interval '1 microsecond',
                                                      %(edges)s::timestamptz[])]
               WHEN 'second-min-60' THEN greatest(60, ceil({seconds})) - {seconds}
               WHEN 'hour-up' THEN ceil({seconds} / 3600) * 3600 - {seconds} ELSE 0 END
           ELSE 0 END
FROM entries e LEFT JOIN ledger_seal s ON s.entry_id = e.id
WHERE e.counts_as = 'usage'
  AND CASE WHEN %(through)s::bigint IS NULL THEN s.sequence IS NOT NULL OR {is_metered}
      ELSE s.sequence <= %(through)s END
GROUP BY e.tenant_id, e.resource, e.server_owner_id, COALESCE(e.corrects, e.id), e.start, e."end"
HAVING sum(e.quantity) <> 0
ORDER BY e.tenant_id, e.resource, e.start, min(s.sequence) NULLS LAST, COALESCE(e.corrects, e.id)
"""
_STATEMENT = (
    # Two scans: partitions hold the starts of a month, and few entries reach into the next one.
    _USED.replace(
        "{within_time}", _ENTRIES.replace("{when}", "e.start >= %(begin)s AND e.start < %(end)s")
    )
    .replace(
        "{open}",
        _ENTRIES.replace("{of}", f"({OPEN_ENTRIES})").replace(
            "{when}",
            '%(through)s::bigint IS NULL AND e.start < %(end)s AND e."end" > %(begin)s',
        ),
    )
    .replace(
        "{reaching}", _ENTRIES.replace("{when}", 'e.start < %(begin)s AND e."end" > %(begin)s')
    )
    .replace("{of}", "ledger_entry")
    .replace("{is_metered}", IS_METERED)
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

    `sequence` is above all numbers for a metered entry that is not sealed, or still open.
    `before` is the unit × seconds of earlier entries, by sequence, of the same tenant and resource
    within the interval read. `increments` are the seconds that an event's increment adds to its
    duration.
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
    """Yield the sealed and metered entries of tenants and resources within the time of `prices`.

    They may begin before it and end after it. The order is tenant, resource, start, sequence. With
    `through`, only entries numbered through it are yielded.
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
    archived = Selection(pool=pool.pk, begin=prices.edges[0], end=prices.edges[-1])
    with (
        indexes_only(),
        entries_with_archived(archived) as relation,
        connection.chunked_cursor() as cursor,
    ):
        cursor.execute(_STATEMENT.replace(ENTRIES, relation), parameters)
        unnumbered = count(_UNNUMBERED)
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            for tenant, resource, owner, sequence, *rest in rows:
                # Each has a number of its own, in the order of the statement.
                number = next(unnumbered) if sequence is None else sequence
                yield UsedEntry(tenant, resource, owner, number, *rest)
