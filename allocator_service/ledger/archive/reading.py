"""Entries of the database together with archived ones, for statements of SQL.

A reader names the archived entries that it needs. They are copied from their files to a temporary table,
and the reader's statement runs on a view of both. A transaction that holds the ledger's lock in ACCESS
SHARE mode sees one set of files: archiving and restoring wait for it, as it waits for them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from itertools import count
from pathlib import Path
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from allocator_service.core.errors import Unavailable
from allocator_service.core.snapshots import LEDGER_LOCK, has_nothing_archived
from allocator_service.core.standby import primary
from allocator_service.ledger.archive.files import (
    STORED,
    archive_path,
    file_rows,
    group_ends,
)
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.models import Archive, ArchivedPool

ENTRIES = "ledger_entry"
_numbers = count()
_COLUMNS = ", ".join(f'"{column}"' for column in STORED.values())

_CORRECTED = """
SELECT DISTINCT c.corrects FROM {table} c
WHERE c.corrects IS NOT NULL AND NOT EXISTS (SELECT FROM {table} o WHERE o.id = c.corrects)
"""
_VIEW = """
CREATE TEMPORARY VIEW {name} AS
SELECT * FROM ledger_entry WHERE start < '{start}' OR start >= '{end}' UNION ALL SELECT * FROM {table}
"""


def archives_of(*selections: Selection) -> list[Archive]:
    """Return the archives that may have entries of a selection, oldest month first.

    The caller must hold the ledger's lock.
    """
    return list(_query(*selections))


def archives_read(cursor: Any, *selections: Selection) -> list[Archive]:
    """Return the archives of `archives_of` that the transaction of a cursor sees.

    Django's connection may be that of a standby, which does not have the newest archives yet.
    """
    cursor.execute(*_query(*selections).query.sql_with_params())
    names = [field.attname for field in Archive._meta.concrete_fields]
    return [Archive.from_db(None, names, row) for row in cursor.fetchall()]


def _query(*selections: Selection) -> QuerySet[Archive]:
    condition = selections[0].files()
    for selection in selections[1:]:
        condition |= selection.files()
    pools = ArchivedPool.objects.filter(condition)
    return Archive.objects.filter(pk__in=pools.values("archive")).order_by("month", "pk")


@contextmanager
def entries_with_archived(*selections: Selection) -> Iterator[str]:
    """Yield the name of a relation of all entries in the database and the selected archived ones.

    It has the columns of `ledger_entry`, and is that table if nothing selected is archived. It exists
    within the block, in an open transaction. Raises `Unavailable` if a file is missing or altered.
    """
    if has_nothing_archived():
        yield ENTRIES
        return
    with connection.cursor() as cursor:
        cursor.execute(LEDGER_LOCK)
        archives = archives_of(*selections)
        if not archives:
            yield ENTRIES
            return
        if connection.alias != primary().alias:
            # A standby makes no temporary tables.
            raise Unavailable("The standby does not read archived entries.")
        with connection.wrap_database_errors:
            # All files are checked before the first is read.
            paths = [archive_path(archive) for archive in archives]
            relation = ArchivedEntries(cursor)
            relation.fill(paths, selections)
        yield relation.name
        # After an error the transaction's end drops it.
        relation.drop()


class ArchivedEntries:
    """A temporary view of entries with archived ones, in the transaction of a cursor.

    `without` are the bounds of a month whose entries in the database are left out. `table` has the
    archived ones alone.
    """

    def __init__(self, cursor: Any, without: tuple[date, datetime] | None = None) -> None:
        self._cursor = cursor
        number = next(_numbers)
        # Names that no statement for entries replaces.
        self.name, self.table = f"ledger_with_archived_{number}", f"ledger_archived_{number}"
        cursor.execute(
            f"CREATE TEMPORARY TABLE {self.table} (LIKE ledger_entry) ON COMMIT DROP;"
            f" CREATE INDEX ON {self.table} (id); CREATE INDEX ON {self.table} (pool_id, start)"
        )
        cursor.execute(
            _VIEW.format(
                name=self.name,
                table=self.table,
                start="infinity" if without is None else f"{without[0]:%Y-%m-%d}T00:00:00Z",
                end="-infinity" if without is None else f"{without[1]:%Y-%m-%d}T00:00:00Z",
            )
        )

    def fill(self, paths: Sequence[Path], selections: Sequence[Selection]) -> int:
        """Replace the archived rows by those of the selections, and return the number of these."""
        self._cursor.execute(f"TRUNCATE {self.table}")
        loaded = rows_load(self._cursor, self.table, paths, selections)
        # Readers look up the kind of a corrected entry, which may lie outside of the sequences
        # selected. It has the month of its correction, and so the file.
        self._cursor.execute(_CORRECTED.format(table=self.table))
        corrected = [id_ for (id_,) in self._cursor.fetchall()]
        if corrected:
            rows_load(self._cursor, self.table, paths, [Selection(ids=corrected)])
        # The planner would take a table without statistics for a large one.
        self._cursor.execute(f"ANALYZE {self.table}")
        return loaded

    def drop(self) -> None:
        """Drop the view and its table."""
        self._cursor.execute(f"DROP VIEW {self.name}; DROP TABLE {self.table}")


def load_pool_entries(cursor: Any, pool_id: int) -> Iterator[str]:
    """Load the archived entries of a pool in parts, and yield the name of their table for each part.

    A part has the pool's entries of one group of rows of a file. The cursor's transaction, also one of
    another connection, must hold the ledger's lock.
    """
    # All files are checked before the first is read.
    paths = pool_files(pool_id)
    if not paths:
        # A snapshot in which nothing is archived is read-only, and makes no tables.
        return
    table = f"ledger_archived_{next(_numbers)}"
    cursor.execute(f"CREATE TEMPORARY TABLE {table} (LIKE ledger_entry) ON COMMIT DROP")
    for path in paths:
        after = 0
        for through in group_ends(path):
            part = Selection(pool=pool_id, after=after, through=through)
            if rows_load(cursor, table, [path], [part]):
                yield table
                cursor.execute(f"TRUNCATE {table}")
            after = through
    cursor.execute(f"DROP TABLE {table}")


def pool_files(pool_id: int) -> list[Path]:
    """Return the files with entries of a pool. Raises `Unavailable` if one is missing or altered."""
    return [archive_path(archive) for archive in archives_of(Selection(pool=pool_id))]


def rows_load(
    cursor: Any, table: str, paths: Sequence[Path], selections: Sequence[Selection]
) -> int:
    """Copy selected rows of files to a table with the columns of entries, and return their number."""
    loaded = 0
    for path in paths:
        for rows in file_rows(path, selections):
            # Each batch is a statement of its own, which keeps the time limit of statements.
            with cursor.copy(f"COPY {table} ({_COLUMNS}) FROM STDIN (FORMAT csv)") as copy:
                copy.write(rows)
            loaded += max(cursor.rowcount, 0)
    return loaded
