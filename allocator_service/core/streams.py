"""Streams of long reads.

Each has a connection outside the pool, one snapshot and no statement time-out. At most four run at once,
over all processes: each holds an advisory lock of its session, which PostgreSQL releases when the
connection ends, however it does.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import psycopg
from django.db import connection

from allocator_service.core.errors import Unavailable
from allocator_service.core.locks import Lock, lock_key
from allocator_service.core.own_connections import own_connection
from allocator_service.core.snapshots import BEGIN_SNAPSHOT

MAX_STREAMS = 4
RETRY_SECONDS = 10
ROWS_AT_ONCE = 500


class SnapshotConnection:
    """A connection that reads one REPEATABLE READ snapshot and must be closed.

    Raises `Unavailable` with `export.busy` while the maximum number is open.
    """

    def __init__(self) -> None:
        self._connection = own_connection()
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        self._connection.autocommit = True
        if not any(self._locked(slot) for slot in range(MAX_STREAMS)):
            raise Unavailable(
                f"{MAX_STREAMS} exports are being read: try again when one has ended.",
                code="export.busy",
                retry_after=RETRY_SECONDS,
            )
        for setting in ("statement_timeout = 0", "TimeZone = 'UTC'", "DateStyle = 'ISO'"):
            self._connection.execute(f"SET {setting}")
        self._connection.autocommit = False
        self._connection.execute(BEGIN_SNAPSHOT)

    def _locked(self, slot: int) -> bool:
        key = lock_key(Lock.LEDGER_EXPORT, str(slot))
        row = self._connection.execute("SELECT pg_try_advisory_lock(%s)", [key]).fetchone()
        return bool(row and row[0])

    def row(self, statement: str, parameters: dict[str, Any]) -> tuple[Any, ...] | None:
        """Return the first row of a statement, or None."""
        return self._connection.execute(statement, parameters).fetchone()

    def rows(self, statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""
        return self._connection.execute(statement, parameters).fetchall()

    def cursor(self) -> psycopg.Cursor[Any]:
        """Return a cursor of the snapshot's transaction."""
        return self._connection.cursor()

    def run(self, statement: str) -> None:
        """Run a statement within the snapshot's transaction."""
        self._connection.execute(statement)

    def copied(self, statement: str, parameters: dict[str, Any]) -> Iterator[bytes]:
        """Yield the bytes that a COPY TO STDOUT sends, in chunks of some hundred rows."""
        with (
            self._connection.cursor() as cursor,
            cursor.copy(statement, parameters) as copy,
        ):
            rows = iter(copy)
            while chunk := b"".join(islice(rows, ROWS_AT_ONCE)):
                yield chunk

    def close(self) -> None:
        """End the snapshot and let the next one in."""
        self._connection.close()


class Stream:
    """Bytes that are read from a snapshot while they are sent.

    The server of the response must close it.
    """

    def __init__(
        self, snapshot: SnapshotConnection, read: Callable[[SnapshotConnection], Iterator[bytes]]
    ) -> None:
        self._snapshot = snapshot
        self._chunks = read(snapshot)
        if not connection.in_atomic_block:
            connection.close()  # the pool's connection is for others while the stream is read

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._chunks
        finally:
            self.close()

    def close(self) -> None:
        """Release the snapshot, read to its end or not."""
        self._snapshot.close()
