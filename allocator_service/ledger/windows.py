"""What a pool's window remembers: used and alone per tenant and resource, exactly as the ledger has it.

Whole buckets of the totals, the entries that begin or end in the quarter of an hour that an edge of
the window cuts, and the few entries that are not in the totals yet: the work does not grow with the
ledger, nor with the window. One statement, so that an entry is seen in one of the three.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection

from allocator_service.core.planning import indexes_only
from allocator_service.ledger.models import Kind, TotalsCursor
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


# `e` is an entry. The planner is told by a number where the totals end, and to seek rows one by one by
# their indexes (LATERAL ... OFFSET 0): else it takes the few entries beyond for a third of the ledger.
_ENTRIES = """
place AS MATERIALIZED (
    SELECT COALESCE(max(through), 0) AS through FROM ledger_totals_cursor
    WHERE pool_id = %(pool)s
      AND (%(half_life)s::float8 IS NULL OR half_life = %(half_life)s::float8)),
fresh AS MATERIALIZED (
    SELECT entry_id AS id, start FROM ledger_seal
    WHERE pool_id = %(pool)s AND sequence > %(through)s
    UNION ALL
    SELECT entry_id, start FROM ledger_pending),
added AS (
    SELECT e.tenant_id, e.resource, {counts_as} AS kind, e.quantity, e.start, e."end"
    FROM fresh, LATERAL (
        SELECT * FROM ledger_entry WHERE id = fresh.id AND start = fresh.start OFFSET 0) AS e
    WHERE e.pool_id = %(pool)s),
edge AS (
    SELECT * FROM unnest(%(edges)s::timestamptz[], %(instants)s::timestamptz[], %(signs)s::int[])
         AS edge (begin, upto, sign)),
edges AS (
    SELECT e.tenant_id, e.resource, {counts_as} AS kind, e.quantity AS rate, e.start AS instant,
           edge.upto, edge.sign
    FROM edge, LATERAL (
        SELECT * FROM ledger_entry
        WHERE pool_id = %(pool)s AND start >= edge.begin AND start < edge.upto OFFSET 0) AS e
    WHERE NOT EXISTS (SELECT FROM fresh WHERE fresh.id = e.id)
    UNION ALL
    SELECT e.tenant_id, e.resource, {counts_as}, -e.quantity, e."end", edge.upto, edge.sign
    FROM edge, LATERAL (
        SELECT * FROM ledger_entry
        WHERE pool_id = %(pool)s AND "end" >= edge.begin AND "end" < edge.upto OFFSET 0) AS e
    WHERE NOT EXISTS (SELECT FROM fresh WHERE fresh.id = e.id))
""".replace("{counts_as}", COUNTS_AS)

_BUCKETS = """
FROM unnest(%(levels)s::int[], %(widths)s::int[], %(firsts)s::bigint[], %(lasts)s::bigint[],
            %(uptos)s::timestamptz[], %(of)s::int[]) AS part (level, width, first, last, upto, sign)
CROSS JOIN LATERAL (
    SELECT * FROM ledger_total
    WHERE pool_id = %(pool)s AND level = part.level
      AND bucket >= part.first AND bucket < part.last OFFSET 0) AS t
WHERE (SELECT through FROM place) > 0
"""
# Where the totals ended when the statement was run.
_PLACE = """
UNION ALL SELECT NULL, NULL, NULL, through FROM place
"""

_WITHIN = (
    """
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
{place}""".replace("{entries}", _ENTRIES)
    .replace("{buckets}", _BUCKETS)
    .replace("{place}", _PLACE)
)

# The integral of each moment's weight: (1 - weight) / (ln 2 / half-life) of a rate since its change.
_DECAYED = (
    """
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
{place}""".replace("{entries}", _ENTRIES)
    .replace("{buckets}", _BUCKETS)
    .replace("{place}", _PLACE)
)


@dataclass(frozen=True)
class Known:
    """The entries of a pool that were there at an instant, for ever to be found again.

    Attributes:
        sealed_through: those with a number up to this one,
        unsealed: and these, which had none yet.
    """

    sealed_through: int
    unsealed: Sequence[UUID]


_KNOWN = """
SELECT (SELECT COALESCE(max(sequence), 0) FROM ledger_seal WHERE pool_id = %(pool)s),
       ARRAY(SELECT p.entry_id FROM ledger_pending p, LATERAL (
                 SELECT pool_id FROM ledger_entry WHERE id = p.entry_id AND start = p.start OFFSET 0
             ) AS e WHERE e.pool_id = %(pool)s ORDER BY 1)
"""


def known_entries(pool: Pool) -> Known:
    """The entries that everything else in this statement's snapshot counts."""
    with indexes_only(), connection.cursor() as cursor:
        cursor.execute(_KNOWN, {"pool": pool.pk})
        sealed_through, unsealed = cursor.fetchall()[0]
    return Known(sealed_through, unsealed)


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
        statement = _WITHIN if past.half_life is None else _DECAYED
        for tenant, resource, kind, amount in _rows(statement, parameters):
            amounts[kind][tenant, resource] = Decimal(amount)
    return WindowState(past, amounts[Kind.USAGE], amounts[Kind.ALONE])


def _rows(statement: str, parameters: dict[str, Any]) -> list[tuple[int, str, str, Any]]:
    """The rows of a statement that knows where the totals end: read again when they moved meanwhile."""
    through = 0
    place = TotalsCursor.objects.filter(pk=parameters["pool"]).first()
    if place is not None and parameters["half_life"] in (None, place.half_life):
        through = place.through
    while True:
        with indexes_only(), connection.cursor() as cursor:
            cursor.execute(statement, {**parameters, "through": through})
            rows = cursor.fetchall()
        (moved,) = (row for row in rows if row[0] is None)
        if moved[3] == through:
            return [row for row in rows if row[0] is not None]
        through = int(moved[3])
