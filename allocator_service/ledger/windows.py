"""What a pool's window remembers: used and alone per tenant and resource, exactly as the ledger has it.

Whole buckets of the totals, the entries that begin or end in the quarter of an hour that an edge of
the window cuts, and the few entries that are not in the totals yet: the work does not grow with the
ledger, nor with the window. One statement, so that an entry is seen in one of the three.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import connection

from allocator_service.ledger.models import Kind
from allocator_service.ledger.totals import COUNTS_AS, WIDTHS, buckets_before, quarter_of
from allocator_service.pools.models import Pool
from allocator_service.pools.windows import Past, past_of

Key = tuple[int, str]
"""A tenant's primary key and the name of a resource."""


@dataclass(frozen=True)
class WindowState:
    """Resource × seconds within a window; who or what is not named has none.

    Attributes:
        used, alone: exact, but for windows that decay, whose amounts are rounded to doubles.
    """

    past: Past
    used: Mapping[Key, Decimal]
    alone: Mapping[Key, Decimal]

    def sharing_degree(self, tenant: int) -> float | None:
        """β of a tenant: the least of used ÷ alone over resources; None without any alone."""
        degrees = [
            float(self.used.get(key, Decimal(0)) / alone)
            for key, alone in self.alone.items()
            if key[0] == tenant and alone > 0
        ]
        return min(degrees, default=None)


# Each gives tenant_id, resource, kind and an amount; `e` is an entry.
_ENTRIES = """
place AS MATERIALIZED (
    SELECT COALESCE(max(through), 0) AS through FROM ledger_totals_cursor
    WHERE pool_id = %(pool)s
      AND (%(half_life)s::float8 IS NULL OR half_life = %(half_life)s::float8)),
fresh AS MATERIALIZED (
    SELECT s.entry_id AS id, s.start FROM ledger_seal s
    WHERE s.pool_id = %(pool)s AND s.sequence > (SELECT through FROM place)
    UNION ALL
    SELECT entry_id, start FROM ledger_pending),
added AS (
    SELECT e.tenant_id, e.resource, {counts_as} AS kind, e.quantity, e.start, e."end"
    FROM fresh JOIN ledger_entry e ON e.id = fresh.id AND e.start = fresh.start
    WHERE e.pool_id = %(pool)s),
edges AS (
    SELECT e.tenant_id, e.resource, {counts_as} AS kind, e.quantity AS rate, e.start AS instant,
           edge.upto, edge.sign
    FROM unnest(%(edges)s::timestamptz[], %(instants)s::timestamptz[], %(signs)s::int[])
         AS edge (begin, upto, sign)
    JOIN ledger_entry e ON e.pool_id = %(pool)s AND e.start >= edge.begin AND e.start < edge.upto
    WHERE NOT EXISTS (SELECT FROM fresh WHERE fresh.id = e.id)
    UNION ALL
    SELECT e.tenant_id, e.resource, {counts_as}, -e.quantity, e."end", edge.upto, edge.sign
    FROM unnest(%(edges)s::timestamptz[], %(instants)s::timestamptz[], %(signs)s::int[])
         AS edge (begin, upto, sign)
    JOIN ledger_entry e ON e.pool_id = %(pool)s AND e."end" >= edge.begin AND e."end" < edge.upto
    WHERE NOT EXISTS (SELECT FROM fresh WHERE fresh.id = e.id))
""".replace("{counts_as}", COUNTS_AS)

_BUCKETS = """
FROM unnest(%(levels)s::int[], %(widths)s::int[], %(firsts)s::bigint[], %(lasts)s::bigint[],
            %(uptos)s::timestamptz[], %(of)s::int[]) AS part (level, width, first, last, upto, sign)
JOIN ledger_total t ON t.pool_id = %(pool)s AND t.level = part.level
                   AND t.bucket >= part.first AND t.bucket < part.last
WHERE (SELECT through FROM place) > 0
"""

_WITHIN = """
WITH {entries}
SELECT tenant_id, resource, kind, sum(amount) FROM (
    SELECT t.tenant_id, t.resource, t.kind,
           sum(part.sign * (extract(epoch FROM part.upto) * t.rate - t.moment)) AS amount
    {buckets}
    GROUP BY 1, 2, 3
    UNION ALL
    SELECT tenant_id, resource, kind, sign * rate * extract(epoch FROM upto - instant) FROM edges
    UNION ALL
    SELECT tenant_id, resource, kind, quantity * extract(epoch FROM
               LEAST("end", %(until)s) - GREATEST(start, COALESCE(%(since)s::timestamptz, start)))
    FROM added
    WHERE start < %(until)s AND (%(since)s::timestamptz IS NULL OR "end" > %(since)s)
) AS amounts GROUP BY 1, 2, 3 HAVING sum(amount) <> 0
""".replace("{entries}", _ENTRIES).replace("{buckets}", _BUCKETS)

# The integral of each moment's weight: (1 - weight) / (ln 2 / half-life) of a rate since its change.
_DECAYED = """
WITH {entries}
SELECT tenant_id, resource, kind, sum(amount) * %(half_life)s::float8 / ln(2::float8) FROM (
    SELECT t.tenant_id, t.resource, t.kind,
           sum(t.rate)::float8 - sum(t.decayed * ledger_weight(
               extract(epoch FROM part.upto) - (t.bucket + 1) * part.width,
               %(half_life)s::float8)) AS amount
    {buckets}
    GROUP BY 1, 2, 3
    UNION ALL
    SELECT tenant_id, resource, kind,
           rate * (1 - ledger_weight(extract(epoch FROM upto - instant), %(half_life)s::float8))
    FROM edges
    UNION ALL
    SELECT tenant_id, resource, kind, quantity * (
               ledger_weight(extract(epoch FROM %(until)s - LEAST("end", %(until)s)),
                             %(half_life)s::float8)
             - ledger_weight(extract(epoch FROM %(until)s - start), %(half_life)s::float8))
    FROM added WHERE start < %(until)s
) AS amounts GROUP BY 1, 2, 3
""".replace("{entries}", _ENTRIES).replace("{buckets}", _BUCKETS)


def window_state(pool: Pool, at: datetime, step_end: datetime | None = None) -> WindowState:
    """What the pool's window remembers at an instant, for a decision until `step_end` if given."""
    return amounts_in(pool, past_of(pool, at, step_end))


def amounts_in(pool: Pool, past: Past) -> WindowState:
    """What tenants used, and would have used alone, in a stretch of time."""
    signs = {past.until: 1}
    if past.since is not None and past.since < past.until:
        signs[past.since] = -1
    amounts: dict[str, dict[Key, Decimal]] = {Kind.USAGE: {}, Kind.ALONE: {}}
    if past.since is None or past.since < past.until:
        parts = [
            (part, upto, sign) for upto, sign in signs.items() for part in buckets_before(upto)
        ]
        parameters = {
            "pool": pool.pk,
            "since": past.since,
            "until": past.until,
            "half_life": past.half_life,
            "edges": [quarter_of(upto) for upto in signs],
            "instants": list(signs),
            "signs": list(signs.values()),
            "levels": [part.level for part, _, _ in parts],
            "widths": [WIDTHS[part.level] for part, _, _ in parts],
            "firsts": [part.first for part, _, _ in parts],
            "lasts": [part.last for part, _, _ in parts],
            "uptos": [upto for _, upto, _ in parts],
            "of": [sign for _, _, sign in parts],
        }
        with connection.cursor() as cursor:
            cursor.execute(_WITHIN if past.half_life is None else _DECAYED, parameters)
            for tenant, resource, kind, amount in cursor.fetchall():
                amounts[kind][tenant, resource] = Decimal(amount)
    return WindowState(past, amounts[Kind.USAGE], amounts[Kind.ALONE])
