"""Verification of the ledger's order, chain of digests and sums."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db import connection, transaction

from allocator_service.ledger.amounts.open_uses import IS_METERED, OPEN_ENTRIES
from allocator_service.ledger.amounts.totals import CHANGES, COUNTS_AS, bucket_parameters
from allocator_service.ledger.intake.chain import (
    CONTENT,
    DECISION_LINE,
    DOCUMENT_LINE,
    ENTRIES,
    ENTRY_LINE,
    FORMAT,
    FORMAT_1_ENTRY,
    FORMAT_WITH_DOCUMENTS,
    block_digest,
)
from allocator_service.ledger.models import Kind, TotalsCursor
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


_GAPS = """
SELECT COALESCE(max(sequence), 0), count(*) FROM ledger_seal
"""
_UNSEALED = """
SELECT count(*) FROM ledger_entry e
WHERE NOT EXISTS (SELECT FROM ledger_seal s WHERE s.entry_id = e.id)
  AND NOT EXISTS (SELECT FROM ledger_pending p WHERE p.entry_id = e.id)
"""
_LOST = """
SELECT min(s.sequence) FROM ledger_seal s
WHERE NOT EXISTS (SELECT FROM ledger_entry e WHERE e.id = s.entry_id AND e.start = s.start)
"""
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
    GROUP BY s.pool_id, s.block),
decisions AS (
    SELECT d.pool_id, d.block, count(*) AS count,
           string_agg({decision}, E'\\n' ORDER BY d.run_id) AS lines
    FROM ledger_decision d JOIN pool ON pool.id = d.pool_id
    GROUP BY d.pool_id, d.block),
documents AS (
    SELECT f.pool_id, f.block, count(*) AS count,
           string_agg({document}, E'\\n' ORDER BY f.id) AS lines
    FROM ledger_document f JOIN pool ON pool.id = f.pool_id
    GROUP BY f.pool_id, f.block),
{content}
SELECT pool.slug, COALESCE(b.number, content.block)
FROM ledger_block b
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
    .replace("{from_entries}", ENTRIES)
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
_AMOUNTS = """
SELECT min(id::text) FROM ledger_entry
WHERE amount <> quantity * extract(epoch FROM "end" - start)
"""
_OVERCORRECTED = """
SELECT min(c.corrects::text) FROM ledger_entry c
WHERE c.kind = 'correction'
  AND NOT EXISTS (SELECT FROM ledger_entry e WHERE e.id = c.corrects AND e.kind <> 'correction')
"""
# An open use lasts from the end of its tenant's metered entries through where the pool is metered.
_OPEN_TWICE = """
SELECT count(*) FROM ledger_open_use o JOIN pool_meter m ON m.pool_id = o.pool_id
WHERE o.start >= m.metered_until OR EXISTS (
    SELECT FROM ledger_entry e
    WHERE e.pool_id = o.pool_id AND e."end" > o.start AND e.tenant_id = o.tenant_id AND {is_metered})
""".replace("{is_metered}", IS_METERED)
_STUCK = """
SELECT count(*) FROM ledger_pending p
JOIN ledger_entry e ON e.id = p.entry_id AND e.start = p.start WHERE e.recorded_at < %(before)s
"""

_TOTALS = """
WITH entries AS (
    SELECT e.start, e."end", e.tenant_id, e.server_owner_id AS owner_id, e.resource, e.quantity,
           {counts_as} AS kind
    FROM ledger_seal s JOIN ledger_entry e ON e.id = s.entry_id AND e.start = s.start
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
""".replace("{counts_as}", COUNTS_AS).replace("{changes}", CHANGES)
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
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # Reading a large ledger takes longer than any other statement may.
        cursor.execute("SET LOCAL statement_timeout = 0")

        def first(statement: str) -> tuple[object, ...] | None:
            cursor.execute(statement, {"before": now - STUCK_AFTER})
            row: tuple[object, ...] | None = cursor.fetchone()
            return row

        last, count = first(_GAPS) or (0, 0)
        checks = [
            LedgerCheck("gapless", last == count, f"{count} numbers up to {last}"),
            _none("every_entry_is_sealed_or_waits", first(_UNSEALED), "entries are in no order"),
            _none("no_entry_is_lost", first(_LOST), "the entry of this number is gone:"),
            _none("amounts", first(_AMOUNTS), "amount is not quantity × seconds:"),
            _none("corrections", first(_OVERCORRECTED), "corrects what is not there:"),
            _none("open_uses", first(_OPEN_TWICE), "uses are open and in entries at once:"),
            _none("sealed_in_time", first(_STUCK), "entries have waited for a minute"),
            _none(
                "decisions_sealed", first(_UNSEALED_DECISIONS), "decisions have waited for a minute"
            ),
        ]
        checks += [_totals_agree(), _windows_agree(now)]
        broken = first(_CHAIN)
    where = "" if broken is None else f"the chain of pool {broken[0]} breaks in block {broken[1]}"
    return [*checks, LedgerCheck("chain", broken is None, where)]


def _none(name: str, row: tuple[object, ...] | None, detail: str) -> LedgerCheck:
    found = row[0] if row else None
    return LedgerCheck(name, not found, f"{detail} {found}" if found else "")


def _totals_agree() -> LedgerCheck:
    """Check the totals of every pool against its sealed entries."""
    for place in TotalsCursor.objects.select_related("pool"):
        ends = {place.through, place.owner_through}  # one, except while a table is built again
        wrong = sum(_wrong_totals(place, end) for end in ends)
        if wrong:
            return LedgerCheck("totals", False, f"{wrong} totals of pool {place.pool} are others")
    return LedgerCheck("totals", True, "")


def _wrong_totals(place: TotalsCursor, through: int) -> int:
    """Count the totals through a number that differ from those of the entries through it."""
    parameters = {
        "pool": place.pool_id,
        "through": through,
        "totals": place.through == through,
        "owner_totals": place.owner_through == through,
        **bucket_parameters(place.half_life),
    }
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS, parameters)
        (wrong,) = cursor.fetchall()[0]
    return int(wrong)


def _windows_agree(now: datetime) -> LedgerCheck:
    """Check the window of every pool, and so every β, against plain sums of its entries."""
    for pool in Pool.objects.order_by("slug"):
        past = past_of(pool, now)
        state = amounts_in(pool, past)
        read = {(*key, Kind.USAGE.value): amount for key, amount in state.used.items()}
        read |= {(*key, Kind.ALONE.value): amount for key, amount in state.alone.items()}
        for key, amount, volume in _plain_sums(pool, past):
            found = read.pop(key, Decimal(0))
            noise = 1e-9 * past.half_life * float(volume) if past.half_life else 0
            if abs(found - Decimal(amount)) > noise:
                return LedgerCheck("windows", False, f"of pool {pool}, {key[1]} is another")
        if past.half_life is None and read:
            return LedgerCheck("windows", False, f"of pool {pool}, something was never used")
    return LedgerCheck("windows", True, "")


def _plain_sums(
    pool: Pool, past: Past
) -> list[tuple[tuple[int, str, str], Decimal | float, Decimal]]:
    """Return by tenant, resource and kind the amount and the sum of absolute quantities."""
    with connection.cursor() as cursor:
        span = {"since": past.since, "until": past.until, "half_life": past.half_life}
        cursor.execute(_PLAIN, {"pool": pool.pk, **span})
        return [
            ((tenant, resource, kind), amount if decayed is None else decayed, volume)
            for tenant, resource, kind, amount, decayed, volume in cursor.fetchall()
        ]
