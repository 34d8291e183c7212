"""Totals of the ledger, kept up while it grows, so that any stretch of time is read from a few rows.

Time is cut into buckets of four widths, each width a whole multiple of the one before; a bucket holds
how the rate of use changed in it (`Total`). What was used before an instant follows from the whole
buckets before it, the widest that fit: at most 15 + 23 + 31 of a tenant's and resource's and those of
128 days, whatever the ledger has grown to. Every sealed entry is added once: the cursor of its pool
moves in the same transaction.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from django.db import connection, transaction

from allocator_service.core.planning import indexes_only
from allocator_service.ledger.models import Total, TotalsCursor
from allocator_service.pools.models import Pool
from allocator_service.pools.windows import half_life_of

QUARTER = 900
WIDTHS = (QUARTER, 16 * QUARTER, 16 * 24 * QUARTER, 16 * 24 * 32 * QUARTER)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ADDED_AT_ONCE = 20_000

_QUARTER = timedelta(seconds=QUARTER)

# What an entry counts as: a correction, as what it corrects.
COUNTS_AS = """
CASE WHEN e.kind <> 'correction' THEN e.kind ELSE (
    SELECT o.kind FROM ledger_entry o WHERE o.id = e.corrects AND o.start = e.start) END
"""

# `entries` by id, start, "end", tenant_id, resource, quantity and kind; as many rows as buckets change.
CHANGES = """
changes AS (
    SELECT tenant_id, resource, kind, quantity AS rate, extract(epoch FROM start) AS instant
    FROM entries
    UNION ALL
    SELECT tenant_id, resource, kind, -quantity, extract(epoch FROM "end") FROM entries),
narrow AS (
    SELECT floor(instant / %(narrowest)s) AS bucket, tenant_id, resource, kind,
           sum(rate) AS rate, sum(rate * instant) AS moment, sum(abs(rate)) AS volume,
           sum(rate * ledger_weight((floor(instant / %(narrowest)s) + 1) * %(narrowest)s - instant,
                                    %(half_life)s::float8)) AS decayed
    FROM changes GROUP BY 1, 2, 3, 4),
buckets AS (
    SELECT level - 1 AS level, floor(bucket * %(narrowest)s / width) AS bucket,
           tenant_id, resource, kind, sum(rate) AS rate, sum(moment) AS moment, sum(volume) AS volume,
           sum(decayed * ledger_weight(
               (floor(bucket * %(narrowest)s / width) + 1) * width - (bucket + 1) * %(narrowest)s,
               %(half_life)s::float8)) AS decayed
    FROM narrow, unnest(%(widths)s::numeric[]) WITH ORDINALITY AS widths (width, level)
    GROUP BY 1, 2, 3, 4, 5)
"""

_ADD = """
WITH sealed AS MATERIALIZED (
    SELECT sequence, entry_id, start FROM ledger_seal
    WHERE pool_id = %(pool)s AND sequence > %(through)s ORDER BY sequence LIMIT %(limit)s),
entries AS (
    SELECT e.start, e."end", e.tenant_id, e.resource, e.quantity, {counts_as} AS kind
    FROM sealed JOIN ledger_entry e ON e.id = sealed.entry_id AND e.start = sealed.start),
{changes},
added AS (
    INSERT INTO ledger_total (pool_id, level, bucket, tenant_id, resource, kind, rate, moment, decayed)
    SELECT %(pool)s, level, bucket, tenant_id, resource, kind, rate, moment, decayed FROM buckets
    ON CONFLICT (pool_id, level, bucket, tenant_id, resource, kind) DO UPDATE SET
        rate = ledger_total.rate + EXCLUDED.rate,
        moment = ledger_total.moment + EXCLUDED.moment,
        decayed = ledger_total.decayed + EXCLUDED.decayed)
SELECT count(*), max(sequence) FROM sealed
""".replace("{counts_as}", COUNTS_AS).replace("{changes}", CHANGES)

_BEHIND = """
SELECT pool.id FROM pool LEFT JOIN ledger_totals_cursor c ON c.pool_id = pool.id
WHERE EXISTS (SELECT FROM ledger_seal s
              WHERE s.pool_id = pool.id AND s.sequence > COALESCE(c.through, 0))
ORDER BY pool.id
"""


def totals_advance() -> int:
    """Add sealed entries to the totals of their pools; returns how many were added.

    Each pool's are a transaction of their own, of which a large backlog takes several calls.
    """
    with connection.cursor() as cursor:
        cursor.execute(_BEHIND)
        behind = [pool_id for (pool_id,) in cursor.fetchall()]
    return sum(_advance(pool_id) for pool_id in behind)


@transaction.atomic
def _advance(pool_id: int) -> int:
    TotalsCursor.objects.bulk_create([TotalsCursor(pool_id=pool_id)], ignore_conflicts=True)
    place = (
        TotalsCursor.objects.select_for_update(of=("self",), skip_locked=True, no_key=True)
        .filter(pk=pool_id)
        .first()
    )
    if place is None:  # another process is at it
        return 0
    half_life = half_life_of(Pool.objects.get(pk=pool_id))
    if half_life is not None and half_life != place.half_life:
        Total.objects.filter(pool_id=pool_id).delete()
        place.through, place.half_life = 0, half_life
    with indexes_only(), connection.cursor() as cursor:
        cursor.execute(
            _ADD,
            {
                "pool": pool_id,
                "through": place.through,
                "limit": ADDED_AT_ONCE,
                **bucket_parameters(place.half_life),
            },
        )
        count, last = cursor.fetchall()[0]
    place.through = last or place.through
    place.save(update_fields=["through", "half_life"])
    return int(count)


def bucket_parameters(half_life: float | None) -> dict[str, int | list[int] | float | None]:
    """What `CHANGES` is told: the widths of buckets, and the half-life in seconds."""
    return {"narrowest": QUARTER, "widths": list(WIDTHS), "half_life": half_life}


@dataclass(frozen=True)
class Buckets:
    """The buckets `[first, last)` of a level."""

    level: int
    first: int
    last: int


def quarter_of(instant: datetime) -> datetime:
    """The beginning of the narrowest bucket around an instant."""
    return EPOCH + (instant - EPOCH) // _QUARTER * _QUARTER


def buckets_before(instant: datetime) -> list[Buckets]:
    """The whole buckets that make up all time before `quarter_of(instant)`, the widest last."""
    parts, upto = [], (instant - EPOCH) // _QUARTER
    for level, (width, wider) in enumerate(pairwise(WIDTHS)):
        of = wider // width
        parts.append(Buckets(level, upto // of * of, upto))
        upto //= of
    return [*parts, Buckets(len(WIDTHS) - 1, 0, upto)]
