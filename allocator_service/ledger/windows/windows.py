"""What a pool's window remembers: used and alone per tenant and resource, exactly as the ledger has it.

Read from the changes of rates (`ledger.changes`), entries that are not sealed yet included: the work
does not grow with the ledger, nor with the window. A window that decays is read in the same way, each
change by its weight.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection

from allocator_service.core.planning import indexes_only
from allocator_service.ledger.amounts.intervals import Use
from allocator_service.ledger.amounts.rate_changes import amounts_between
from allocator_service.ledger.amounts.totals import (
    COUNTS_AS,
    EPOCH,
    WIDTHS,
    buckets_between,
    quarter_of,
)
from allocator_service.ledger.models import Kind, TotalsCursor
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


# Of a rate since its change, (1 - weight of the change) / (ln 2 / half-life) counts: the integral of
# each moment's weight. `e` is an entry; how the planner is told of rows is said in `ledger.changes`.
_DECAYED = """
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
    FROM fresh, LATERAL (
        SELECT * FROM ledger_entry WHERE id = fresh.id AND start = fresh.start OFFSET 0) AS e
    WHERE e.pool_id = %(pool)s AND e.start < %(until)s
) AS amounts GROUP BY 1, 2, 3
UNION ALL SELECT NULL, NULL, NULL, through FROM place
""".replace("{counts_as}", COUNTS_AS)


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
    if past.half_life is not None:
        amounts: Iterable[tuple[Use, Decimal]] = _decayed(pool, past.until, past.half_life)
    elif past.since is None:
        amounts = amounts_between(pool=pool, edges=[past.until], unsealed=True).before()
    elif past.since < past.until:
        edges = [past.since, past.until]
        within = amounts_between(pool=pool, edges=edges, unsealed=True)
        amounts = ((use, amount) for use, _, amount in within.all_pieces())
    else:
        amounts = ()
    by_kind: dict[str, dict[Key, Decimal]] = {Kind.USAGE: {}, Kind.ALONE: {}}
    for use, amount in amounts:
        by_kind[use.kind][use.tenant, use.resource] = amount
    return WindowState(past, by_kind[Kind.USAGE], by_kind[Kind.ALONE])


def _decayed(pool: Pool, until: datetime, half_life: float) -> Iterable[tuple[Use, Decimal]]:
    """The amounts before an instant, each moment by its weight."""
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
    while True:  # again where the totals' end moved meanwhile
        with indexes_only(), connection.cursor() as cursor:
            cursor.execute(_DECAYED, {**parameters, "through": through})
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
