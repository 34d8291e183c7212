"""The export of a pool that was closed for its move."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from allocator_service import __version__
from allocator_service.core.display import counted
from allocator_service.core.errors import Conflict, Unacceptable
from allocator_service.core.ids import new_id
from allocator_service.core.outbox import events_seal
from allocator_service.core.snapshots import LEDGER_LOCK
from allocator_service.core.streams import SnapshotConnection
from allocator_service.ledger.archive.reading import load_pool_entries, pool_files
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.lookups import entry_lookup
from allocator_service.pools.models import Pool
from allocator_service.pools.moving import pool_move
from allocator_service.transfers.archive import ArchiveWriter
from allocator_service.transfers.content import PoolContent, content_of, migrations_applied
from allocator_service.transfers.tables import TABLES, tenants_statement

PAUSE_SECONDS = 0.2
ENTRIES = "ledger.Entry"
Clock = Callable[[], datetime]

# Rows that this release cannot carry to other keys, with the reasons.
_OLD = """
SELECT 'blocks whose digests cover keys of this database (format 1)', count(*)
FROM ledger_block WHERE pool_id = %(pool)s AND format = 1
UNION ALL
SELECT 'lines of commitments that an early release posted', count(*)
FROM billing_posting
WHERE pool_id = %(pool)s AND commitment_id IS NULL AND note LIKE 'commitment %%'
  AND kind IN ('commitment', 'commitment_unused', 'upfront')
"""
_WAITING = """
SELECT 'entries', count(*) FROM ledger_pending p, {entry} AS e WHERE e.pool_id = %(pool)s
UNION ALL
SELECT 'decisions', count(*) FROM ledger_decision_pending WHERE pool_id = %(pool)s
UNION ALL
SELECT 'digests of documents', count(*) FROM ledger_document_pending WHERE pool_id = %(pool)s
UNION ALL
SELECT 'events', count(*) FROM core_event_pending p JOIN core_event e ON e.id = p.event_id
WHERE e.pool = %(slug)s
""".replace("{entry}", entry_lookup("p.entry_id", "p.start"))
# By the index of the pool, so that a month without entries costs one look, and months that are archived.
_MONTHS = """
WITH RECURSIVE months (first) AS (
    SELECT date_trunc('month', min(start)) FROM ledger_entry WHERE pool_id = %(pool)s
    UNION ALL
    SELECT (SELECT date_trunc('month', min(e.start)) FROM ledger_entry e
            WHERE e.pool_id = %(pool)s AND e.start >= months.first + interval '1 month')
    FROM months WHERE months.first IS NOT NULL)
SELECT COALESCE(array_agg(DISTINCT to_char(first, 'YYYY-MM-DD')), '{}') FROM (
    SELECT first FROM months WHERE first IS NOT NULL
    UNION ALL
    SELECT a.month FROM ledger_archive a JOIN ledger_archived_pool p ON p.archive_id = a.id
    WHERE p.pool_id = %(pool)s) AS found
"""


@dataclass(frozen=True)
class Exported:
    """A written archive."""

    archive: UUID
    size: int
    sha256: str
    content: PoolContent


def pool_export(
    *, pool: Pool, path: Path, to: str | None, patience: float, clock: Clock
) -> Exported:
    """Close a pool for its move and write it to a file that must not exist yet.

    Waits for `patience` seconds at most until everything committed is sealed. Raises `Conflict` if
    something still waits then, or if the pool has rows that cannot move, and `Unavailable` if a file of
    archived entries is missing or altered.
    """
    # Everything that can be refused is refused before the pool is closed.
    _refuse_old(pool)
    _refuse_missing_files(pool)
    try:
        # Never replaces a file, which may be the only copy of a pool. It has hashes of keys, names and
        # amounts: only the operator may read it.
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise Unacceptable(
            f"The file {path} exists already: name another one.", code="file.exists"
        ) from error
    try:
        with open(opened, "wb") as file:  # noqa: PTH123
            closed = pool_move(pool=pool, to=to, now=clock())
            _seal(closed, patience, clock)
            exported = _write(closed, file)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return exported


def _refuse_missing_files(pool: Pool) -> None:
    """Raise `Unavailable` if a file of the pool's archived entries is missing or altered."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LEDGER_LOCK)
        pool_files(pool.pk)


def _refuse_old(pool: Pool) -> None:
    """Raise `Conflict` for a pool with rows of early releases that cannot move."""
    with connection.cursor() as cursor:
        cursor.execute(_OLD, {"pool": pool.pk})
        found = [f"{count:,} {what}" for what, count in cursor.fetchall() if count]
    if found:
        raise Conflict(
            f"The pool {pool.slug} has {' and '.join(found)}, which name objects by keys that another"
            " installation does not have. It cannot move.",
            code="export.old",
        )


def _seal(pool: Pool, patience: float, clock: Clock) -> None:
    """Seal what is committed, as the relay does, until nothing of the pool waits."""
    until = time.monotonic() + patience
    while True:
        events_seal()
        entries_seal(now=clock())
        with connection.cursor() as cursor:
            cursor.execute(_WAITING, {"pool": pool.pk, "slug": pool.slug})
            waiting = [f"{count:,} {what}" for what, count in cursor.fetchall() if count]
        if not waiting:
            return
        if time.monotonic() >= until:
            raise Conflict(
                f"{', '.join(waiting)} of the pool {pool.slug} wait for their seal. Another process"
                " seals: try again.",
                code="export.waits",
            )
        time.sleep(PAUSE_SECONDS)


def _write(pool: Pool, file: Any) -> Exported:
    snapshot = SnapshotConnection()
    try:
        of_pool: dict[str, Any] = {"pool": pool.pk, "slug": pool.slug}
        content = content_of(pool.slug, lambda statement: snapshot.row(statement, of_pool))
        tenants = snapshot.rows(tenants_statement(), of_pool)
        of_pool["tenants"] = [key for (key,) in tenants]
        months = snapshot.row(_MONTHS, of_pool)
        archive = new_id()
        header = {
            "archive": str(archive),
            "release": __version__,
            "migrations": migrations_applied(),
            "closed_at": pool.moved_at,
            "months": months[0] if months else [],
            **content.document,
        }
        with ArchiveWriter(file, header) as writer:
            for table in TABLES:
                columns = ", ".join(f't."{column}"' for column in table.columns)
                selected = (
                    f"COPY (SELECT {columns} FROM {table.name} t WHERE {table.where}) TO STDOUT"
                )
                rows = snapshot.copied(selected, of_pool)
                if table.label == ENTRIES:
                    rows = chain(rows, _archived_entries(snapshot, pool, columns))
                writer.add_rows(table.name, rows)
            size, sha256 = writer.finish()
    finally:
        snapshot.close()
    return Exported(archive, size, sha256, content)


def _archived_entries(snapshot: SnapshotConnection, pool: Pool, columns: str) -> Iterator[bytes]:
    """Yield the archived entries of a pool as rows like those in the database."""
    with snapshot.cursor() as cursor:
        for part in load_pool_entries(cursor, pool.pk):
            yield from snapshot.copied(f"COPY (SELECT {columns} FROM {part} t) TO STDOUT", {})


def summary(exported: Exported) -> list[str]:
    """Return what an archive has, as lines."""
    return [
        *exported.content.lines,
        f"archive  {exported.archive}, {counted(exported.size, 'byte')}",
        f"sha256   {exported.sha256}",
    ]
