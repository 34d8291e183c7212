"""The sealer, which gives committed entries one gapless order and each pool a chain of digests.

A consumer that pages by time or id misses entries that commit late. The sealed order is given to
committed entries only, by one process at a time, so that a consumer that has read through a number
has missed none before it. A block's digest covers the digest of the block before it, its entries
and the decisions that were published meanwhile. A row that is changed behind the ledger's back no
longer agrees with its block, nor a decision with its digest.
"""

from datetime import datetime

from django.db import connection, transaction

from allocator_service.core.locks import Lock, try_lock_in_transaction
from allocator_service.ledger.intake.chain import (
    CONTENT,
    DECISION_LINE,
    DOCUMENT_LINE,
    ENTRY_LINE,
    FORMAT,
    FORMAT_WITH_DOCUMENTS,
    block_digest,
    entries_by,
)
from allocator_service.ledger.lookups import entry_lookup

SEALED_AT_ONCE = 10_000

_SEAL = """
WITH taken AS (
    DELETE FROM ledger_pending
    WHERE entry_id = ANY(
        ARRAY(SELECT entry_id FROM ledger_pending ORDER BY entry_id LIMIT %(limit)s))
    RETURNING entry_id, start),
numbered AS (
    SELECT taken.entry_id, taken.start, e.pool_id, e.tenant_id,
           (SELECT COALESCE(max(sequence), 0) FROM ledger_seal)
           + row_number() OVER (ORDER BY taken.entry_id) AS sequence
    FROM taken, {entry_of_taken} AS e),
last AS (
    SELECT pool_id, (SELECT max(number) FROM ledger_block b WHERE b.pool_id = p.pool_id) AS number
    FROM (SELECT DISTINCT pool_id FROM numbered) p)
INSERT INTO ledger_seal (sequence, entry_id, start, pool_id, tenant_id, block)
SELECT sequence, entry_id, start, numbered.pool_id, tenant_id, COALESCE(last.number, 0) + 1
FROM numbered JOIN last USING (pool_id)
RETURNING sequence
""".replace("{entry_of_taken}", entry_lookup("taken.entry_id", "taken.start"))

# Run at least once a second, hence one cheap statement.
_WAITS = """
SELECT EXISTS (SELECT FROM ledger_pending) OR EXISTS (SELECT FROM ledger_decision_pending)
    OR EXISTS (SELECT FROM ledger_document_pending)
"""

_SEAL_DECISIONS = """
WITH taken AS (
    DELETE FROM ledger_decision_pending
    WHERE run_id = ANY(ARRAY(SELECT run_id FROM ledger_decision_pending ORDER BY run_id LIMIT %(limit)s))
    RETURNING run_id, pool_id, generation, effective_from, input, answer)
INSERT INTO ledger_decision (run_id, pool_id, generation, effective_from, input, answer, block)
SELECT run_id, pool_id, generation, effective_from, input, answer,
       COALESCE((SELECT max(number) FROM ledger_block b WHERE b.pool_id = taken.pool_id), 0) + 1
FROM taken
RETURNING run_id
"""

_SEAL_DOCUMENTS = """
WITH taken AS (
    DELETE FROM ledger_document_pending
    WHERE id = ANY(ARRAY(SELECT id FROM ledger_document_pending ORDER BY id LIMIT %(limit)s))
    RETURNING id, pool_id, kind, name, sha256)
INSERT INTO ledger_document (id, pool_id, kind, name, sha256, block)
SELECT id, pool_id, kind, name, sha256,
       COALESCE((SELECT max(number) FROM ledger_block b WHERE b.pool_id = taken.pool_id), 0) + 1
FROM taken
RETURNING id
"""

_BLOCKS = (
    """
WITH entries AS (
    SELECT s.pool_id, s.block, min(s.sequence) AS first, max(s.sequence) AS last, count(*) AS count,
           string_agg({entry}, E'\\n' ORDER BY s.sequence) AS lines
    {from_entries}
    WHERE s.sequence >= %(first)s::bigint
    GROUP BY s.pool_id, s.block),
decisions AS (
    SELECT d.pool_id, d.block, count(*) AS count,
           string_agg({decision}, E'\\n' ORDER BY d.run_id) AS lines
    FROM ledger_decision d JOIN pool ON pool.id = d.pool_id
    WHERE d.run_id = ANY(%(runs)s::uuid[])
    GROUP BY d.pool_id, d.block),
documents AS (
    SELECT f.pool_id, f.block, count(*) AS count,
           string_agg({document}, E'\\n' ORDER BY f.id) AS lines
    FROM ledger_document f JOIN pool ON pool.id = f.pool_id
    WHERE f.id = ANY(%(documents)s::uuid[])
    GROUP BY f.pool_id, f.block),
{content}
INSERT INTO ledger_block
    (pool_id, number, format, first_sequence, last_sequence, entries, decisions, documents, digest,
     sealed_at)
SELECT content.pool_id, content.block,
       CASE WHEN content.documents > 0 THEN {with_documents} ELSE {format} END,
       content.first, content.last, content.entries, content.decisions, content.documents, {digest},
       %(now)s
FROM content JOIN pool ON pool.id = content.pool_id
LEFT JOIN ledger_block previous
       ON previous.pool_id = content.pool_id AND previous.number = content.block - 1
""".replace("{entry}", ENTRY_LINE)
    .replace(
        "{from_entries}", entries_by(f"CROSS JOIN {entry_lookup('s.entry_id', 's.start')} AS e")
    )
    .replace("{decision}", DECISION_LINE)
    .replace("{document}", DOCUMENT_LINE)
    .replace("{content}", CONTENT)
    .replace("{with_documents}", str(FORMAT_WITH_DOCUMENTS))
    .replace("{format}", str(FORMAT))
    .replace(
        "{digest}",
        block_digest(
            number="content.block",
            entries="content.entries",
            decisions="content.decisions",
            documents="content.documents",
        ),
    )
)


def entries_seal(*, now: datetime) -> int:
    """Seal at most `SEALED_AT_ONCE` committed entries, and return the number sealed.

    An entry of an open transaction is not visible here and gets a later number. Waiting decisions
    and digests of documents, at most as many each, go into the same blocks. The result is the
    largest of the three counts.
    """
    with connection.cursor() as cursor:
        cursor.execute(_WAITS)
        if cursor.fetchall() == [(False,)]:
            return 0
    with transaction.atomic(), connection.cursor() as cursor:
        if not try_lock_in_transaction(Lock.LEDGER_SEAL, "ledger"):
            return 0
        # 10^5 entries may arrive before the planner's statistics know of them. With those of an
        # empty table it would read all waiting rows, or a month's entries, once per entry. An array
        # of ids, indexes only and `entry_lookup` prevent that. A bitmap of one row costs more than its
        # index, and compiling a statement more than running it.
        cursor.execute(
            "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off"
        )
        cursor.execute(_SEAL, {"limit": SEALED_AT_ONCE})
        sequences = [sequence for (sequence,) in cursor.fetchall()]
        cursor.execute(_SEAL_DECISIONS, {"limit": SEALED_AT_ONCE})
        runs = [run for (run,) in cursor.fetchall()]
        cursor.execute(_SEAL_DOCUMENTS, {"limit": SEALED_AT_ONCE})
        documents = [document for (document,) in cursor.fetchall()]
        if sequences or runs or documents:
            of_blocks = {
                "first": min(sequences, default=None),
                "runs": runs,
                "documents": documents,
            }
            cursor.execute(_BLOCKS, {"now": now, **of_blocks})
    return max(len(sequences), len(runs), len(documents))


def entries_seal_all(*, now: datetime) -> None:
    """Seal all waiting entries, unless another process is sealing."""
    while entries_seal(now=now) == SEALED_AT_ONCE:
        pass
