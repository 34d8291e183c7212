"""Amounts before an instant, halved per half-life that has passed."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection

from allocator_service.core.planning import indexes_only
from allocator_service.ledger.amounts.intervals import Use
from allocator_service.ledger.amounts.open_uses import OPEN_ENTRIES
from allocator_service.ledger.amounts.totals import (
    COUNTS_AS,
    EPOCH,
    WIDTHS,
    buckets_between,
    quarter_of,
)
from allocator_service.ledger.archive.reading import ENTRIES, entries_with_archived
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.lookups import entry_lookup
from allocator_service.ledger.models import TotalsCursor
from allocator_service.pools.models import Pool

# A rate counts (1 - weight of its change) / (ln 2 / half-life), the integral of the weights since
# the change. `e` is an entry. `rate_changes` explains the hints about row counts.
_DECAYED = (
    """
WITH place AS MATERIALIZED (
    SELECT COALESCE(max(through), 0) AS through FROM ledger_totals_cursor
    WHERE pool_id = %(pool)s AND half_life = %(half_life)s::float8),
fresh AS MATERIALIZED (
    SELECT entry_id AS id, start FROM ledger_seal
    WHERE pool_id = %(pool)s AND sequence > %(through)s
    UNION ALL
    SELECT entry_id, start FROM ledger_pending),
cut_entries AS (
    SELECT e.id, e.tenant_id, e.resource, {counts_as} AS kind, e.quantity AS rate, e.start AS instant
    FROM ledger_entry e
    WHERE pool_id = %(pool)s AND start >= %(quarter)s AND start < %(until)s
    UNION ALL
    SELECT e.id, e.tenant_id, e.resource, {counts_as}, -e.quantity, e."end"
    FROM ledger_entry e
    WHERE pool_id = %(pool)s AND "end" >= %(quarter)s AND "end" < %(until)s)
SELECT tenant_id, resource, kind, sum(amount) * %(half_life)s::float8 / ln(2::float8) FROM (
    SELECT t.tenant_id, t.resource, t.kind,
           sum(t.rate)::float8 - sum(t.decayed * ledger_weight(
               extract(epoch FROM %(until)s::timestamptz) - (t.bucket + 1) * part.width,
               %(half_life)s::float8)) AS amount
    FROM unnest(%(levels)s::int[], %(widths)s::int[], %(firsts)s::bigint[], %(lasts)s::bigint[])
         AS part (level, width, first, last)
    CROSS JOIN LATERAL (
        SELECT * FROM ledger_total
        WHERE pool_id = %(pool)s AND level = part.level
          AND bucket >= part.first AND bucket < part.last OFFSET 0) AS t
    WHERE (SELECT through FROM place) > 0
    GROUP BY 1, 2, 3
    UNION ALL
    SELECT tenant_id, resource, kind,
           rate * (1 - ledger_weight(extract(epoch FROM %(until)s - instant), %(half_life)s::float8))
    FROM cut_entries AS c WHERE NOT EXISTS (SELECT FROM fresh WHERE fresh.id = c.id)
    UNION ALL
    SELECT e.tenant_id, e.resource, {counts_as}, e.quantity * (
               ledger_weight(extract(epoch FROM %(until)s - LEAST(e."end", %(until)s)),
                             %(half_life)s::float8)
             - ledger_weight(extract(epoch FROM %(until)s - e.start), %(half_life)s::float8))
    FROM (SELECT e.* FROM fresh, {fresh_entry} AS e
          WHERE e.pool_id = %(pool)s
          UNION ALL
          {open_entries}) AS e
    WHERE e.start < %(until)s
) AS amounts GROUP BY 1, 2, 3
UNION ALL SELECT NULL, NULL, NULL, through FROM place
""".replace("{counts_as}", COUNTS_AS)
    .replace("{fresh_entry}", entry_lookup("fresh.id", "fresh.start"))
    .replace("{open_entries}", OPEN_ENTRIES)
)


def decayed_amounts(pool: Pool, until: datetime, half_life: float) -> Iterable[tuple[Use, Decimal]]:
    """Return the amounts before an instant, each moment by its weight."""
    parts = buckets_between(EPOCH, until)
    parameters: dict[str, Any] = {
        "pool": pool.pk,
        "until": until,
        "quarter": quarter_of(until),
        "half_life": half_life,
        "levels": [part.level for part in parts],
        "widths": [WIDTHS[part.level] for part in parts],
        "firsts": [part.first for part in parts],
        "lasts": [part.last for part in parts],
    }
    place = TotalsCursor.objects.filter(pk=pool.pk, half_life=half_life).first()
    through = 0 if place is None else place.through
    # The statement was planned for a given end of the totals. If they advanced meanwhile, it is run
    # again.
    while True:
        archived = [
            Selection(pool=pool.pk, changes=[(parameters["quarter"], until)]),
            Selection(pool=pool.pk, after=through),
        ]
        with (
            indexes_only(),
            entries_with_archived(*archived) as relation,
            connection.cursor() as cursor,
        ):
            cursor.execute(_DECAYED.replace(ENTRIES, relation), {**parameters, "through": through})
            rows = cursor.fetchall()
        (moved,) = (row[3] for row in rows if row[0] is None)
        if moved == through:
            break
        through = int(moved)
    return [
        (Use(None, tenant, kind, resource), Decimal(amount))
        for tenant, resource, kind, amount in rows
        if tenant is not None
    ]
