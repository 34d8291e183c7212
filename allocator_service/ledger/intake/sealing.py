"""The sealer: committed entries get one gapless order, and a chain of digests for every pool.

A consumer that pages by time or id misses what commits late; this one order is given to what is
committed, by one process at a time, so whoever has read up to a number has missed nothing before it.
A block's digest covers the digest of the block before it and every entry in it as text: a row that
was changed behind the ledger's back no longer agrees with its block.
"""

from datetime import datetime

from django.db import connection, transaction

from allocator_service.core.locks import Lock, try_lock_in_transaction

SEALED_AT_ONCE = 10_000

# An entry as text, unambiguously; `s` is its seal and `e` the entry.
ENTRY_TEXT = """
jsonb_build_array(
    s.sequence, e.id, e.pool_id, e.tenant_id, e.server_owner_id, e.workload_id, e.resource, e.unit,
    e.quantity, extract(epoch FROM e.start), extract(epoch FROM e."end"), e.amount, e.kind, e.corrects,
    e.reason, e.source, e.event_id, e.run_id, extract(epoch FROM e.recorded_at))::text
"""

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
    FROM taken JOIN ledger_entry e ON e.id = taken.entry_id AND e.start = taken.start),
last AS (
    SELECT pool_id, (SELECT max(number) FROM ledger_block b WHERE b.pool_id = p.pool_id) AS number
    FROM (SELECT DISTINCT pool_id FROM numbered) p)
INSERT INTO ledger_seal (sequence, entry_id, start, pool_id, tenant_id, block)
SELECT sequence, entry_id, start, numbered.pool_id, tenant_id, COALESCE(last.number, 0) + 1
FROM numbered JOIN last USING (pool_id)
RETURNING sequence
"""

_BLOCKS = """
INSERT INTO ledger_block (pool_id, number, first_sequence, last_sequence, entries, digest, sealed_at)
SELECT s.pool_id, s.block, min(s.sequence), max(s.sequence), count(*),
       sha256(COALESCE((SELECT digest FROM ledger_block b
                        WHERE b.pool_id = s.pool_id AND b.number = s.block - 1), ''::bytea)
              || convert_to(string_agg({text}, E'\\n' ORDER BY s.sequence), 'UTF8')),
       %(now)s
FROM ledger_seal s JOIN ledger_entry e ON e.id = s.entry_id AND e.start = s.start
WHERE s.sequence >= %(first)s
GROUP BY s.pool_id, s.block
""".replace("{text}", ENTRY_TEXT)


@transaction.atomic
def entries_seal(*, now: datetime) -> int:
    """Number committed entries that have no number yet, at most `SEALED_AT_ONCE`; returns how many.

    An entry of a transaction that is still open is not visible here, and gets a later number.
    """
    if not try_lock_in_transaction(Lock.LEDGER_SEAL, "ledger"):
        return 0
    with connection.cursor() as cursor:
        # Entries come by the 10^5 before the planner's statistics of them do. With those of an empty
        # table it would read all that waits once for every entry, so: an array, and indexes only.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(_SEAL, {"limit": SEALED_AT_ONCE})
        sequences = [sequence for (sequence,) in cursor.fetchall()]
        if sequences:
            cursor.execute(_BLOCKS, {"now": now, "first": min(sequences)})
    return len(sequences)


def entries_seal_all(*, now: datetime) -> None:
    """Number what waits, unless another process is at it."""
    while entries_seal(now=now) == SEALED_AT_ONCE:
        pass
