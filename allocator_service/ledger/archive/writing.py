"""Writing of a month's file, which is read again and compared with the database."""

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from allocator_service.core.errors import Conflict, Unavailable
from allocator_service.core.planning import without_time_limit
from allocator_service.ledger.archive.files import (
    COLUMNS,
    FORMAT,
    archive_path,
    file_digest,
    file_write,
    group_ends,
)
from allocator_service.ledger.archive.months import MonthContent, next_month, partition_of
from allocator_service.ledger.archive.reading import ENTRIES, ArchivedEntries, archives_of
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.audit.verification import blocks_broken
from allocator_service.ledger.exporting import export_statement
from allocator_service.ledger.selectors import BEGINNING, SEALED, Place, after_place, place_after
from allocator_service.ledger.selectors import COLUMNS as LINE_COLUMNS

_EXACT_TEXT = 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'


@dataclass(frozen=True)
class MonthFile:
    """A complete file under its final name."""

    path: Path
    size: int
    sha256: bytes
    lines_sha256: bytes

    def is_present(self) -> bool:
        """Return whether the file is still there as a whole, without reading it again."""
        return self.path.is_file() and self.path.stat().st_size == self.size


_VALUES = {
    **LINE_COLUMNS,
    **{
        name: f"to_char(e.\"{name}\" AT TIME ZONE 'UTC', '{_EXACT_TEXT}')"
        for name in ("start", "end", "recorded_at")
    },
    "quantity": "e.quantity::text",
    "block": "s.block",
    "pool_id": "e.pool_id",
    "tenant_id": "e.tenant_id",
    "server_owner_id": "e.server_owner_id",
}
_ROWS = """
COPY (SELECT {values} {sealed} AND s.sequence <= %(last)s ORDER BY s.sequence, s.pool_id)
TO STDOUT (FORMAT csv, FORCE_QUOTE *)
""".replace("{values}", ", ".join(f'{_VALUES[name]} AS "{name}"' for name in COLUMNS)).replace(
    "{sealed}", SEALED
)
_ANY = {**after_place(BEGINNING), "pool": None, "tenant": None, "caller": None, "kind": None}


def month_file_write(content: MonthContent, folder: Path) -> MonthFile:
    """Write a month's file, compare it with the database, and give it its final name.

    Raises `Unavailable` if it cannot be written, such as to a full disk, `Conflict` if it differs from
    the database.
    """
    part = folder / f".ledger-{content.month:%Y-%m}.part"
    try:
        return _file_complete(part, content)
    except OSError as error:
        raise Unavailable(
            f"The file of {content.month:%Y-%m} cannot be written to {folder}"
            f" ({error.strerror or error}): nothing was archived.",
            code="ledger.archive_unavailable",
        ) from error
    finally:
        # Whatever failed, an unfinished file takes no room. A complete one has its final name.
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _file_complete(part: Path, content: MonthContent) -> MonthFile:
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        # One state for the rows, their digest and the comparison.
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        without_time_limit()
        cursor.execute("SET LOCAL jit = off")
        with connection.wrap_database_errors:
            lines = _lines_digest(cursor, partition_of(content.month), max(content.all.sequences))
        _part_write(part, cursor, content, lines)
        _part_compare(part, cursor, content, lines)
    digest, size = file_digest(part), part.stat().st_size
    # Named by its content: a repeated command replaces a file by the same, and never another one.
    path = part.with_name(f"ledger-{content.month:%Y-%m}-{digest.hex()[:12]}.parquet")
    part.replace(path)
    handle = os.open(part.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return MonthFile(path, size, digest, lines)


def _part_write(part: Path, cursor: Any, content: MonthContent, lines: bytes) -> None:
    columns = content.all.columns()
    metadata = {
        "format": FORMAT,
        "month": f"{content.month:%Y-%m}",
        "entries": columns["entries"],
        "first_sequence": columns["first_sequence"],
        "last_sequence": columns["last_sequence"],
        "lines_sha256": lines.hex(),
        "blocks": _blocks(cursor, content),
    }
    statement = _ROWS.replace(ENTRIES, partition_of(content.month))
    with (
        connection.wrap_database_errors,
        cursor.copy(statement, {**_ANY, "last": columns["last_sequence"]}) as copy,
    ):
        file_write(part, map(bytes, copy), metadata)


_BLOCKS = """
SELECT pool.slug, b.number, encode(b.digest, 'hex')
FROM unnest(%(pools)s::bigint[], %(sequences)s::bigint[]) AS edge (pool_id, sequence)
JOIN ledger_seal s ON s.pool_id = edge.pool_id AND s.sequence = edge.sequence
JOIN ledger_block b ON b.pool_id = edge.pool_id AND b.number = s.block
JOIN pool ON pool.id = edge.pool_id ORDER BY 1, 2
"""


def _blocks(cursor: Any, content: MonthContent) -> dict[str, list[dict[str, Any]]]:
    """Return the first and the last block of each pool, with their digests."""
    edges = [
        (pool, edge)
        for pool, of in content.pools.items()
        for edge in (min(of.sequences), max(of.sequences))
    ]
    pools, sequences = zip(*edges, strict=True)
    cursor.execute(_BLOCKS, {"pools": list(pools), "sequences": list(sequences)})
    found: dict[str, list[dict[str, Any]]] = {}
    for pool, number, digest in cursor.fetchall():
        found.setdefault(pool, []).append({"number": number, "digest": digest})
    return found


def _part_compare(part: Path, cursor: Any, content: MonthContent, lines: bytes) -> None:
    """Compare a file's lines with the database, and recompute every block that has one of them.

    Raises `Conflict` if they differ.
    """
    name = f"{content.month:%Y-%m}"
    with connection.wrap_database_errors:
        relation = ArchivedEntries(cursor, without=(content.month, next_month(content.month)))
        digest, after, entries = hashlib.sha256(), BEGINNING, 0
        # Group by group, so that a month need not fit into a temporary table.
        for through in group_ends(part):
            entries += relation.fill([part], [Selection(after=after.last_passed, through=through)])
            _digest_add(digest, cursor, relation.table, after, through)
            after = place_after(through)
        # Both sides of the digest omit an entry whose seal or block is damaged: it has to be counted.
        if digest.digest() != lines or entries != content.all.entries:
            raise Conflict(
                f"The file of {name} differs from the database: nothing was archived.",
                code="ledger.archive_differs",
            )
        for pool, of in content.pools.items():
            mine = Selection(pool=pool)
            archived = [archive_path(archive) for archive in archives_of(mine)]
            relation.fill([part, *archived], [mine])
            broken = blocks_broken(
                cursor, relation.name, pool=pool, first=min(of.sequences), last=max(of.sequences)
            )
            if broken is not None:
                raise Conflict(
                    f"The chain of pool {broken[0]} breaks in block {broken[1]}: run manage.py verify.",
                    code="ledger.archive_differs",
                )
        relation.drop()


def _lines_digest(cursor: Any, relation: str, through: int) -> bytes:
    """Return the SHA-256 of the export lines of a relation's entries."""
    digest = hashlib.sha256()
    _digest_add(digest, cursor, relation, BEGINNING, through)
    return digest.digest()


def _digest_add(digest: Any, cursor: Any, relation: str, after: Place, through: int) -> None:
    statement = export_statement(LINE_COLUMNS, "ndjson").replace(ENTRIES, relation)
    with cursor.copy(statement, {**_ANY, **after_place(after), "last": through}) as copy:
        for chunk in copy:
            digest.update(chunk)
