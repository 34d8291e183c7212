"""Putting the whole ledger to the proof: its order, its chain of digests, its sums."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction

from allocator_service.ledger.sealing import ENTRY_TEXT

STUCK_AFTER = timedelta(minutes=1)


@dataclass(frozen=True)
class LedgerCheck:
    """One thing that must hold of the ledger; `detail` names the first place where it does not."""

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
_CHAIN = """
WITH content AS (
    SELECT s.pool_id, s.block, count(*) AS entries,
           min(s.sequence) AS first, max(s.sequence) AS last,
           convert_to(string_agg({text}, E'\\n' ORDER BY s.sequence), 'UTF8') AS text
    FROM ledger_seal s JOIN ledger_entry e ON e.id = s.entry_id AND e.start = s.start
    GROUP BY s.pool_id, s.block)
SELECT pool.slug, COALESCE(b.number, content.block)
FROM ledger_block b
FULL JOIN content ON content.pool_id = b.pool_id AND content.block = b.number
LEFT JOIN ledger_block previous
       ON previous.pool_id = b.pool_id AND previous.number = b.number - 1
JOIN pool ON pool.id = COALESCE(b.pool_id, content.pool_id)
WHERE b.number IS NULL OR content.block IS NULL
   OR (b.number > 1 AND previous.number IS NULL)
   OR b.entries <> content.entries OR b.first_sequence <> content.first
   OR b.last_sequence <> content.last
   OR b.digest <> sha256(COALESCE(previous.digest, ''::bytea) || content.text)
ORDER BY 1, 2 LIMIT 1
""".replace("{text}", ENTRY_TEXT)
_AMOUNTS = """
SELECT min(id::text) FROM ledger_entry
WHERE amount <> quantity * extract(epoch FROM "end" - start)
"""
_OVERCORRECTED = """
SELECT min(c.corrects::text) FROM ledger_entry c
WHERE c.kind = 'correction'
  AND NOT EXISTS (SELECT FROM ledger_entry e WHERE e.id = c.corrects AND e.kind <> 'correction')
"""
_STUCK = """
SELECT count(*) FROM ledger_pending p
JOIN ledger_entry e ON e.id = p.entry_id AND e.start = p.start WHERE e.recorded_at < %(before)s
"""


def ledger_verify(*, now: datetime) -> list[LedgerCheck]:
    """Read all of the ledger at one instant and check what must hold of it."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
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
            _none("sealed_in_time", first(_STUCK), "entries have waited for a minute"),
        ]
        broken = first(_CHAIN)
    where = "" if broken is None else f"the chain of pool {broken[0]} breaks in block {broken[1]}"
    return [*checks, LedgerCheck("chain", broken is None, where)]


def _none(name: str, row: tuple[object, ...] | None, detail: str) -> LedgerCheck:
    found = row[0] if row else None
    return LedgerCheck(name, not found, f"{detail} {found}" if found else "")
