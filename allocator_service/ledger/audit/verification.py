"""Verification of the ledger's order, chain of digests and sums.

Entries are read where they are. While some are archived, pools are verified one after the other, so that
only the archived entries of one pool are in a temporary table.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection, transaction

from allocator_service.core.errors import Unavailable
from allocator_service.core.snapshots import BEGIN_SNAPSHOT
from allocator_service.ledger.amounts.open_uses import IS_METERED, OPEN_ENTRIES
from allocator_service.ledger.amounts.totals import CHANGES, COUNTS_AS, bucket_parameters
from allocator_service.ledger.archive.reading import ENTRIES, entries_with_archived
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.audit.archives import archives_verify
from allocator_service.ledger.intake.chain import (
    CONTENT,
    DECISION_LINE,
    DOCUMENT_LINE,
    ENTRY_LINE,
    ENTRY_SOURCE,
    FORMAT,
    FORMAT_1_ENTRY,
    FORMAT_WITH_DOCUMENTS,
    block_digest,
)
from allocator_service.ledger.lookups import entry_lookup, is_entry
from allocator_service.ledger.models import Archive, Kind, TotalsCursor
from allocator_service.ledger.windows import amounts_in
from allocator_service.pools.models import Pool
from allocator_service.pools.windows import Past, past_of

STUCK_AFTER = timedelta(minutes=1)


@dataclass(frozen=True)
class LedgerCheck:
    """A property of the ledger. `detail` names the first place where it does not hold."""

    name: str
    holds: bool
    detail: str


# Without imported entries, and without the numbers that an import made this installation skip.
_GAPS = """
SELECT (SELECT COALESCE(max(sequence), 0) FROM ledger_seal)
       - COALESCE(sum(GREATEST(through - numbered, 0)), 0),
       (SELECT count(*) FROM ledger_seal) - COALESCE(sum(entries), 0)
FROM ledger_import
"""
# Whether a row is of the pool that is verified, or all pools are.
_OF_POOL = "(%(pool)s::bigint IS NULL OR {row}.pool_id = %(pool)s)"
_OF_SEAL = is_entry("e", "s.entry_id", "s.start")
_UNSEALED = """
SELECT count(*) FROM ledger_entry e
WHERE {of_pool} AND NOT EXISTS (SELECT FROM ledger_seal s WHERE s.entry_id = e.id)
  AND NOT EXISTS (SELECT FROM ledger_pending p WHERE p.entry_id = e.id)
""".replace("{of_pool}", _OF_POOL.format(row="e"))
_LOST = """
SELECT min(s.sequence) FROM ledger_seal s
WHERE {of_pool}
  AND NOT EXISTS (SELECT FROM ledger_entry e WHERE {of_seal})
""".replace("{of_pool}", _OF_POOL.format(row="s")).replace("{of_seal}", _OF_SEAL)
_UNSEALED_DECISIONS = """
SELECT count(*) FROM ledger_decision_pending WHERE effective_from < %(before)s
"""

_CHAIN = (
    """
WITH entries AS (
    SELECT s.pool_id, s.block, count(*) AS count, min(s.sequence) AS first, max(s.sequence) AS last,
           string_agg(CASE WHEN b.format = 1 THEN {format_1} ELSE {entry} END,
                      E'\\n' ORDER BY s.sequence) AS lines
    {from_entries}
    LEFT JOIN ledger_block b ON b.pool_id = s.pool_id AND b.number = s.block
    WHERE {sealed}
    GROUP BY s.pool_id, s.block),
decisions AS (
    SELECT d.pool_id, d.block, count(*) AS count,
           string_agg({decision}, E'\\n' ORDER BY d.run_id) AS lines
    FROM ledger_decision d JOIN pool ON pool.id = d.pool_id
    WHERE {decisions}
    GROUP BY d.pool_id, d.block),
documents AS (
    SELECT f.pool_id, f.block, count(*) AS count,
           string_agg({document}, E'\\n' ORDER BY f.id) AS lines
    FROM ledger_document f JOIN pool ON pool.id = f.pool_id
    WHERE {documents}
    GROUP BY f.pool_id, f.block),
{content}
SELECT pool.slug, COALESCE(b.number, content.block)
FROM (SELECT * FROM ledger_block n WHERE {blocks}) b
FULL JOIN content ON content.pool_id = b.pool_id AND content.block = b.number
LEFT JOIN ledger_block previous
       ON previous.pool_id = b.pool_id AND previous.number = b.number - 1
JOIN pool ON pool.id = COALESCE(b.pool_id, content.pool_id)
WHERE b.number IS NULL OR content.block IS NULL
   OR (b.number > 1 AND previous.number IS NULL)
   OR (b.format < previous.format AND b.format = 1)
   OR b.format <> CASE WHEN b.documents > 0 THEN {with_documents} ELSE least(b.format, {format}) END
   OR b.entries <> content.entries OR b.decisions <> content.decisions
   OR b.documents <> content.documents
   OR b.first_sequence IS DISTINCT FROM content.first
   OR b.last_sequence IS DISTINCT FROM content.last
   OR b.digest <> CASE b.format
          WHEN 1 THEN sha256(COALESCE(previous.digest, ''::bytea)
                             || convert_to(content.entry_lines, 'UTF8'))
          ELSE {digest} END
ORDER BY 1, 2 LIMIT 1
""".replace("{format_1}", FORMAT_1_ENTRY)
    .replace("{entry}", ENTRY_LINE)
    .replace("{from_entries}", ENTRY_SOURCE)
    .replace("{decision}", DECISION_LINE)
    .replace("{document}", DOCUMENT_LINE)
    .replace("{content}", CONTENT)
    .replace("{with_documents}", str(FORMAT_WITH_DOCUMENTS))
    .replace("{format}", str(FORMAT))
    .replace(
        "{digest}",
        block_digest(
            number="b.number",
            entries="b.entries",
            decisions="b.decisions",
            documents="b.documents",
        ),
    )
)
_WHOLE_CHAIN = (
    _CHAIN.replace("{sealed}", _OF_POOL.format(row="s"))
    .replace("{decisions}", _OF_POOL.format(row="d"))
    .replace("{documents}", _OF_POOL.format(row="f"))
    .replace("{blocks}", _OF_POOL.format(row="n"))
)
# The blocks from that of a sequence to that of another one.
_BLOCK_RANGE = """
{row}.pool_id = %(pool)s AND {row}.{number} BETWEEN
    (SELECT block FROM ledger_seal WHERE pool_id = %(pool)s AND sequence = %(first)s)
    AND (SELECT block FROM ledger_seal WHERE pool_id = %(pool)s AND sequence = %(last)s)
"""
_BETWEEN_SEQUENCES = """
s.pool_id = %(pool)s AND s.sequence BETWEEN
    (SELECT b.first_sequence FROM ledger_seal t JOIN ledger_block b
         ON b.pool_id = t.pool_id AND b.number = t.block
     WHERE t.pool_id = %(pool)s AND t.sequence = %(first)s)
    AND (SELECT b.last_sequence FROM ledger_seal t JOIN ledger_block b
             ON b.pool_id = t.pool_id AND b.number = t.block
         WHERE t.pool_id = %(pool)s AND t.sequence = %(last)s)
"""
_CHAIN_BETWEEN = (
    _CHAIN.replace("{sealed}", _BETWEEN_SEQUENCES)
    .replace("{decisions}", _BLOCK_RANGE.format(row="d", number="block"))
    .replace("{documents}", _BLOCK_RANGE.format(row="f", number="block"))
    .replace("{blocks}", _BLOCK_RANGE.format(row="n", number="number"))
)
_AMOUNTS = """
SELECT min(id::text) FROM ledger_entry e
WHERE amount <> quantity * extract(epoch FROM "end" - start) AND {of_pool}
""".replace("{of_pool}", _OF_POOL.format(row="e"))
_OVERCORRECTED = """
SELECT min(c.corrects::text) FROM ledger_entry c
WHERE c.kind = 'correction' AND {of_pool}
  AND NOT EXISTS (SELECT FROM ledger_entry e WHERE e.id = c.corrects AND e.kind <> 'correction')
""".replace("{of_pool}", _OF_POOL.format(row="c"))
# An open use lasts from the end of its tenant's metered entries through where the pool is metered.
_OPEN_TWICE = """
SELECT count(*) FROM ledger_open_use o JOIN pool_meter m ON m.pool_id = o.pool_id
WHERE {of_pool} AND (o.start >= m.metered_until OR EXISTS (
    SELECT FROM ledger_entry e
    WHERE e.pool_id = o.pool_id AND e."end" > o.start AND e.tenant_id = o.tenant_id AND {is_metered}))
""".replace("{is_metered}", IS_METERED).replace("{of_pool}", _OF_POOL.format(row="o"))
_STUCK = """
SELECT count(*) FROM ledger_pending p, {entry} AS e WHERE e.recorded_at < %(before)s
""".replace("{entry}", entry_lookup("p.entry_id", "p.start"))

_TOTALS = (
    """
WITH entries AS (
    SELECT e.start, e."end", e.tenant_id, e.server_owner_id AS owner_id, e.resource, e.quantity,
           {counts_as} AS kind
    FROM ledger_seal s JOIN ledger_entry e ON {of_seal}
    WHERE s.pool_id = %(pool)s AND s.sequence <= %(through)s),
{changes},
stored AS (SELECT * FROM ledger_total WHERE pool_id = %(pool)s AND %(totals)s),
stored_by_owner AS (SELECT * FROM ledger_owner_total WHERE pool_id = %(pool)s AND %(owner_totals)s)
SELECT (SELECT count(*)
        FROM (SELECT * FROM buckets WHERE %(totals)s) b
        FULL JOIN stored t USING (level, bucket, tenant_id, resource, kind)
        WHERE b.rate IS DISTINCT FROM t.rate OR b.moment IS DISTINCT FROM t.moment
           OR (b.decayed IS NULL) <> (t.decayed IS NULL)
           OR abs(b.decayed - t.decayed) > 1e-9 * b.volume)
     + (SELECT count(*)
        FROM (SELECT * FROM owner_buckets WHERE %(owner_totals)s) b
        FULL JOIN stored_by_owner t USING (level, bucket, owner_id, tenant_id, resource)
        WHERE b.rate IS DISTINCT FROM t.rate OR b.moment IS DISTINCT FROM t.moment)
""".replace("{of_seal}", _OF_SEAL)
    .replace("{counts_as}", COUNTS_AS)
    .replace("{changes}", CHANGES)
)
_PLAIN = """
SELECT tenant_id, resource, kind,
       sum(quantity * extract(epoch FROM till - since)) AS amount,
       sum(quantity * (
           ledger_weight(extract(epoch FROM %(until)s - till), %(half_life)s::float8)
           - ledger_weight(extract(epoch FROM %(until)s - since), %(half_life)s::float8)))
           * %(half_life)s::float8 / ln(2::float8) AS decayed,
       sum(abs(quantity)) AS volume
FROM (SELECT e.tenant_id, e.resource, {counts_as} AS kind, e.quantity,
             LEAST(e."end", %(until)s) AS till,
             GREATEST(e.start, COALESCE(%(since)s::timestamptz, e.start)) AS since
      FROM (SELECT * FROM ledger_entry WHERE pool_id = %(pool)s
            UNION ALL
            {open_entries}) AS e
      WHERE e.start < %(until)s
        AND (%(since)s::timestamptz IS NULL OR e."end" > %(since)s)) AS counted
WHERE since < till GROUP BY 1, 2, 3
""".replace("{counts_as}", COUNTS_AS).replace("{open_entries}", OPEN_ENTRIES)


def ledger_verify(*, now: datetime) -> list[LedgerCheck]:
    """Read all of the ledger at one instant and check its properties."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(BEGIN_SNAPSHOT)
        # Reading a large ledger takes longer than any other statement may.
        cursor.execute("SET LOCAL statement_timeout = 0")

        def first(statement: str, **parameters: Any) -> tuple[Any, ...] | None:
            cursor.execute(statement, {"before": now - STUCK_AFTER, **parameters})
            row: tuple[Any, ...] | None = cursor.fetchone()
            return row

        last, count = first(_GAPS) or (0, 0)
        archives = list(Archive.objects.all())
        checks = {
            "gapless": LedgerCheck("gapless", last == count, f"{count} numbers of {last}"),
        }
        # Of the checks of each pool, the first that does not hold counts.
        pools = Pool.objects.order_by("slug")
        for pool in pools if archives else [None]:
            for check in _entries_verify(pool, first, now):
                if check.name not in checks or checks[check.name].holds:
                    checks[check.name] = check
        checks["decisions_sealed"] = _none(
            "decisions_sealed", first(_UNSEALED_DECISIONS), "decisions have waited for a minute"
        )
        checks["sealed_in_time"] = _none(
            "sealed_in_time", first(_STUCK), "entries have waited for a minute"
        )
        checks["archives"] = LedgerCheck("archives", *archives_verify(archives))
    return [checks[name] for name in _NAMES]


def imported_ledger_verify(pool: Pool) -> list[LedgerCheck]:
    """Check the chain and the totals of a pool that has no archived entries, in the open transaction."""
    return [_chain_holds(pool, ENTRIES), _totals_agree(pool, ENTRIES)]


# Checks that read entries, which may be archived, before and after those of what waits for a seal.
_OF_ENTRIES = (
    "every_entry_is_sealed_or_waits", "no_entry_is_lost", "amounts", "corrections", "open_uses",
)  # fmt: skip
_OF_SUMS = ("totals", "windows", "chain")
_NAMES = ("gapless", *_OF_ENTRIES, "sealed_in_time", "decisions_sealed", *_OF_SUMS, "archives")


def _entries_verify(
    pool: Pool | None, first: Callable[..., tuple[Any, ...] | None], now: datetime
) -> Iterator[LedgerCheck]:
    """Yield the checks of the entries of a pool, or of all pools if none is archived."""
    archived = [Selection(pool=pool.pk)] if pool else [Selection(ids=[])]
    pools = Pool.objects.order_by("slug") if pool is None else [pool]
    try:
        with entries_with_archived(*archived) as relation:

            def found(statement: str) -> tuple[Any, ...] | None:
                return first(statement.replace(ENTRIES, relation), pool=pool and pool.pk)

            yield _none(
                "every_entry_is_sealed_or_waits", found(_UNSEALED), "entries are in no order"
            )
            yield _none("no_entry_is_lost", found(_LOST), "the entry of this number is gone:")
            yield _none("amounts", found(_AMOUNTS), "amount is not quantity × seconds:")
            yield _none("corrections", found(_OVERCORRECTED), "corrects what is not there:")
            yield _none("open_uses", found(_OPEN_TWICE), "uses are open and in entries at once:")
            yield _totals_agree(pool, relation)
            yield _windows_agree(pools, now, relation)
            yield _chain_holds(pool, relation)
    except Unavailable as error:
        # Without a file nothing of its pools can be stated.
        for name in (*_OF_ENTRIES, *_OF_SUMS):
            yield LedgerCheck(name, False, f"not checked in pool {pool}: {error.detail}")


def _chain_holds(pool: Pool | None, relation: str) -> LedgerCheck:
    """Check the digests of a pool's blocks, or of all blocks."""
    with connection.cursor() as cursor:
        parameters = {"pool": None if pool is None else pool.pk}
        cursor.execute(_WHOLE_CHAIN.replace(ENTRIES, relation), parameters)
        broken = cursor.fetchone()
    where = "" if broken is None else f"the chain of pool {broken[0]} breaks in block {broken[1]}"
    return LedgerCheck("chain", broken is None, where)


def blocks_broken(
    cursor: Any, relation: str, *, pool: int, first: int, last: int
) -> tuple[str, int] | None:
    """Return the pool and number of the first broken block between those of two entries, or None.

    `relation` has the pool's entries. The blocks are those of the entries numbered `first` and `last`,
    and all between.
    """
    parameters = {"pool": pool, "first": first, "last": last}
    cursor.execute(_CHAIN_BETWEEN.replace(ENTRIES, relation), parameters)
    row: tuple[str, int] | None = cursor.fetchone()
    return row


def _none(name: str, row: tuple[object, ...] | None, detail: str) -> LedgerCheck:
    found = row[0] if row else None
    return LedgerCheck(name, not found, f"{detail} {found}" if found else "")


def _totals_agree(pool: Pool | None, relation: str) -> LedgerCheck:
    """Check the totals of a pool, or of every pool, against the sealed entries."""
    places = TotalsCursor.objects.select_related("pool")
    for place in places if pool is None else places.filter(pool=pool):
        ends = {place.through, place.owner_through}  # one, except while a table is built again
        wrong = sum(_wrong_totals(place, end, relation) for end in ends)
        if wrong:
            return LedgerCheck("totals", False, f"{wrong} totals of pool {place.pool} are others")
    return LedgerCheck("totals", True, "")


def _wrong_totals(place: TotalsCursor, through: int, relation: str) -> int:
    """Count the totals through a number that differ from those of the entries through it."""
    parameters = {
        "pool": place.pool_id,
        "through": through,
        "totals": place.through == through,
        "owner_totals": place.owner_through == through,
        **bucket_parameters(place.half_life),
    }
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS.replace(ENTRIES, relation), parameters)
        (wrong,) = cursor.fetchall()[0]
    return int(wrong)


def _windows_agree(pools: Iterable[Pool], now: datetime, relation: str) -> LedgerCheck:
    """Check the windows of pools, and so every β, against plain sums of their entries."""
    for pool in pools:
        past = past_of(pool, now)
        state = amounts_in(pool, past)
        read = {(*key, Kind.USAGE.value): amount for key, amount in state.used.items()}
        read |= {(*key, Kind.ALONE.value): amount for key, amount in state.alone.items()}
        for key, amount, volume in _plain_sums(pool, past, relation):
            found = read.pop(key, Decimal(0))
            noise = 1e-9 * past.half_life * float(volume) if past.half_life else 0
            if abs(found - Decimal(amount)) > noise:
                return LedgerCheck("windows", False, f"of pool {pool}, {key[1]} is another")
        if past.half_life is None and read:
            return LedgerCheck("windows", False, f"of pool {pool}, something was never used")
    return LedgerCheck("windows", True, "")


def _plain_sums(
    pool: Pool, past: Past, relation: str
) -> list[tuple[tuple[int, str, str], Decimal | float, Decimal]]:
    """Return by tenant, resource and kind the amount and the sum of absolute quantities."""
    with connection.cursor() as cursor:
        span = {"since": past.since, "until": past.until, "half_life": past.half_life}
        cursor.execute(_PLAIN.replace(ENTRIES, relation), {"pool": pool.pk, **span})
        return [
            ((tenant, resource, kind), amount if decayed is None else decayed, volume)
            for tenant, resource, kind, amount, decayed, volume in cursor.fetchall()
        ]
