"""Totals of the ledger, from which any interval is read in a few rows.

Time is divided into buckets of four widths, each a whole multiple of the one before. A bucket holds
the changes of the rate of use within it (`Total`, and `OwnerTotal` by the owner of the servers).
The use before an instant follows from the whole buckets before it, the widest that fit. For a
tenant and a resource these are at most 15 + 23 + 31 and those of 128 days, however large the ledger
is. Each sealed entry is added once, because the cursor of its pool moves in the same transaction.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from django.db import connection, transaction

from allocator_service.core.planning import indexes_only
from allocator_service.core.snapshots import LEDGER_LOCK
from allocator_service.ledger.archive.reading import ENTRIES, archives_of, entries_with_archived
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.lookups import entry_lookup, is_entry
from allocator_service.ledger.models import Seal, Total, TotalsCursor
from allocator_service.pools.models import Pool
from allocator_service.pools.windows import half_life_of

QUARTER = 900
# A quarter of an hour, 4 hours, 4 days and 128 days.
WIDTHS = (QUARTER, 16 * QUARTER, 16 * 24 * QUARTER, 16 * 24 * 32 * QUARTER)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ADDED_AT_ONCE = 20_000

_QUARTER = timedelta(seconds=QUARTER)

# The kind that an entry counts as. A correction counts as the entry that it corrects.
COUNTS_AS = """
CASE WHEN e.kind <> 'correction' THEN e.kind ELSE (
    SELECT o.kind FROM ledger_entry o WHERE {corrected}) END
""".replace("{corrected}", is_entry("o", "e.corrects", "e.start"))

# `entries` by start, "end", tenant_id, owner_id, resource, quantity and kind; as many rows as
# buckets change, in `Total` and in `OwnerTotal`.
CHANGES = """
changes AS (
    SELECT tenant_id, owner_id, resource, kind, quantity AS rate, extract(epoch FROM start) AS instant
    FROM entries
    UNION ALL
    SELECT tenant_id, owner_id, resource, kind, -quantity, extract(epoch FROM "end") FROM entries),
narrow AS (
    SELECT floor(instant / %(narrowest)s) AS bucket, tenant_id, owner_id, resource, kind,
           sum(rate) AS rate, sum(rate * instant) AS moment, sum(abs(rate)) AS volume,
           sum(rate * ledger_weight((floor(instant / %(narrowest)s) + 1) * %(narrowest)s - instant,
                                    %(half_life)s::float8)) AS decayed
    FROM changes GROUP BY 1, 2, 3, 4, 5),
by_owner AS (
    SELECT level - 1 AS level, floor(bucket * %(narrowest)s / width) AS bucket,
           tenant_id, owner_id, resource, kind,
           sum(rate) AS rate, sum(moment) AS moment, sum(volume) AS volume,
           sum(decayed * ledger_weight(
               (floor(bucket * %(narrowest)s / width) + 1) * width - (bucket + 1) * %(narrowest)s,
               %(half_life)s::float8)) AS decayed
    FROM narrow, unnest(%(widths)s::numeric[]) WITH ORDINALITY AS widths (width, level)
    GROUP BY 1, 2, 3, 4, 5, 6),
buckets AS (
    SELECT level, bucket, tenant_id, resource, kind, sum(rate) AS rate, sum(moment) AS moment,
           sum(volume) AS volume, sum(decayed) AS decayed
    FROM by_owner GROUP BY 1, 2, 3, 4, 5),
owner_buckets AS (
    SELECT level, bucket, owner_id, tenant_id, resource, rate, moment
    FROM by_owner WHERE owner_id IS NOT NULL AND kind = 'usage')
"""

_ADD = (
    """
WITH sealed AS MATERIALIZED (
    SELECT sequence, entry_id, start FROM ledger_seal
    WHERE pool_id = %(pool)s AND sequence > %(after)s
      AND (%(through)s::bigint IS NULL OR sequence <= %(through)s)
    ORDER BY sequence LIMIT %(limit)s),
entries AS (
    SELECT e.start, e."end", e.tenant_id, e.server_owner_id AS owner_id, e.resource, e.quantity,
           {counts_as} AS kind
    FROM sealed CROSS JOIN {entry} AS e),
{changes},
added AS (
    INSERT INTO ledger_total (pool_id, level, bucket, tenant_id, resource, kind, rate, moment, decayed)
    SELECT %(pool)s, level, bucket, tenant_id, resource, kind, rate, moment, decayed FROM buckets
    WHERE %(totals)s
    ON CONFLICT (pool_id, level, bucket, tenant_id, resource, kind) DO UPDATE SET
        rate = ledger_total.rate + EXCLUDED.rate,
        moment = ledger_total.moment + EXCLUDED.moment,
        decayed = ledger_total.decayed + EXCLUDED.decayed),
added_by_owner AS (
    INSERT INTO ledger_owner_total (pool_id, level, bucket, owner_id, tenant_id, resource, rate, moment)
    SELECT %(pool)s, level, bucket, owner_id, tenant_id, resource, rate, moment FROM owner_buckets
    WHERE %(owner_totals)s
    ON CONFLICT (pool_id, level, bucket, owner_id, tenant_id, resource) DO UPDATE SET
        rate = ledger_owner_total.rate + EXCLUDED.rate,
        moment = ledger_owner_total.moment + EXCLUDED.moment)
SELECT count(*), max(sequence) FROM sealed
""".replace("{entry}", entry_lookup("sealed.entry_id", "sealed.start"))
    .replace("{counts_as}", COUNTS_AS)
    .replace("{changes}", CHANGES)
)

# By the last number of each pool. For EXISTS (a higher one) the planner would read all seals.
_BEHIND = """
SELECT pool.id FROM pool LEFT JOIN ledger_totals_cursor c ON c.pool_id = pool.id
WHERE (SELECT max(s.sequence) FROM ledger_seal s WHERE s.pool_id = pool.id) > COALESCE(c.through, 0)
ORDER BY pool.id
"""
_OWNERS_BEHIND = """
SELECT pool_id FROM ledger_totals_cursor WHERE owner_through < through ORDER BY pool_id
"""


def totals_advance() -> int:
    """Add sealed entries to the totals of their pools, and return the number added.

    Each pool is one transaction, and a large backlog takes several calls. Totals by owner that are
    behind the others catch up by one batch per call over all pools, so that new entries do not wait
    for them.
    """
    added = sum(_advance(pool_id) for pool_id in _ids(_BEHIND))
    caught_up = 0
    for pool_id in _ids(_OWNERS_BEHIND):
        if caught_up < ADDED_AT_ONCE:
            caught_up += _catch_up(pool_id)
    return added + caught_up


def _ids(statement: str) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [pool_id for (pool_id,) in cursor.fetchall()]


@transaction.atomic
def _advance(pool_id: int) -> int:
    """Add the following entries to the totals, and to those by owner if these are as far."""
    if not TotalsCursor.objects.filter(pk=pool_id).exists():  # an insert would wait for a lock
        TotalsCursor.objects.bulk_create([TotalsCursor(pool_id=pool_id)], ignore_conflicts=True)
    place = _locked(pool_id)
    if place is None:
        return 0
    half_life = half_life_of(Pool.objects.get(pk=pool_id))
    # `decayed` depends on the half-life, so that a change of it invalidates all rows.
    if half_life is not None and half_life != place.half_life:
        Total.objects.filter(pool_id=pool_id).delete()
        place.through, place.half_life = 0, half_life
    count = 0
    if place.through < place.owner_through:  # built again, first as far as those by owner
        count, place.through = _add(place, place.through, place.owner_through, owner_totals=False)
    if count < ADDED_AT_ONCE:
        together = place.through == place.owner_through
        more, place.through = _add(place, place.through, None, owner_totals=together)
        count += more
        if together:
            place.owner_through = place.through
    place.save(update_fields=["through", "owner_through", "half_life"])
    return count


@transaction.atomic
def _catch_up(pool_id: int) -> int:
    """Add entries that the totals have to the totals by owner."""
    place = _locked(pool_id)
    if place is None or place.owner_through >= place.through:
        return 0
    count, place.owner_through = _add(place, place.owner_through, place.through, totals=False)
    place.save(update_fields=["owner_through"])
    return count


def _locked(pool_id: int) -> TotalsCursor | None:
    """Lock and return the cursor of a pool's totals, or None if another process holds it."""
    return (
        TotalsCursor.objects.select_for_update(of=("self",), skip_locked=True, no_key=True)
        .filter(pk=pool_id)
        .first()
    )


def _add(
    place: TotalsCursor,
    after: int,
    through: int | None,
    *,
    totals: bool = True,
    owner_totals: bool = True,
) -> tuple[int, int]:
    """Add the entries after a number. Return their count and the number of the last."""
    archived = _archived_after(place.pool_id, after)
    with indexes_only(), entries_with_archived(archived) as relation, connection.cursor() as cursor:
        cursor.execute(
            _ADD.replace(ENTRIES, relation),
            {
                "pool": place.pool_id,
                "after": after,
                "through": through,
                "limit": ADDED_AT_ONCE,
                "totals": totals,
                "owner_totals": owner_totals,
                **bucket_parameters(place.half_life),
            },
        )
        count, last = cursor.fetchall()[0]
    return int(count), after if last is None else int(last)


def _archived_after(pool_id: int, after: int) -> Selection:
    """Return the selection of the archived entries that are added next, when totals are built again."""
    selection = Selection(pool=pool_id, after=after)
    with connection.cursor() as cursor:
        cursor.execute(LEDGER_LOCK)
    if not archives_of(selection):
        return Selection(ids=[])
    following = Seal.objects.filter(pool=pool_id, sequence__gt=after).order_by("sequence")
    ends = following.values_list("sequence", flat=True)[ADDED_AT_ONCE - 1 : ADDED_AT_ONCE]
    return replace(selection, through=ends.first())


def bucket_parameters(half_life: float | None) -> dict[str, int | list[int] | float | None]:
    """Return the parameters of `CHANGES`, with the half-life in seconds."""
    return {"narrowest": QUARTER, "widths": list(WIDTHS), "half_life": half_life}


@dataclass(frozen=True)
class Buckets:
    """The buckets `[first, last)` of a level."""

    level: int
    first: int
    last: int


def quarter_of(instant: datetime) -> datetime:
    """Return the start of the narrowest bucket around an instant."""
    return EPOCH + (instant - EPOCH) // _QUARTER * _QUARTER


def buckets_between(begin: datetime, end: datetime) -> list[Buckets]:
    """Return the fewest buckets that cover the time between the quarters of two instants."""
    parts, first, last = [], (begin - EPOCH) // _QUARTER, (end - EPOCH) // _QUARTER
    level = 0
    for width, wider in pairwise(WIDTHS):
        of = wider // width
        # Rounded up and down: wider buckets that lie inside as a whole.
        inner_first, inner_last = -(-first // of), last // of
        if inner_first >= inner_last:
            break
        # Buckets of this width on both sides of the wider ones.
        parts += [Buckets(level, first, inner_first * of), Buckets(level, inner_last * of, last)]
        first, last, level = inner_first, inner_last, level + 1
    return [part for part in (*parts, Buckets(level, first, last)) if part.first < part.last]
