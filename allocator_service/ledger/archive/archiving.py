"""Moving months of the ledger from the database to files, and back.

A month's file is written, read again and compared before the month's partition is dropped, in the
transaction that records the file. A process that is killed leaves the month in the database or in a
recorded file, and the next one starts the month again.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.db.utils import OperationalError
from psycopg.errors import LockNotAvailable

from allocator_service.core.errors import Conflict, Missing, Unacceptable, Unavailable
from allocator_service.core.locks import Lock, try_lock_across_transactions
from allocator_service.core.planning import without_time_limit
from allocator_service.ledger.archive.files import archive_path, directory
from allocator_service.ledger.archive.months import (
    MonthContent,
    Obstacle,
    month_content,
    months_present,
    next_month,
    partition_of,
    reason_to_stay,
)
from allocator_service.ledger.archive.reading import rows_load
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.archive.writing import MonthFile, month_file_write
from allocator_service.ledger.models import Archive, ArchivedPool

# PostgreSQL looks for deadlocks after a second. Of two that wait for each other, this one gives up.
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '500ms'"
_ATTEMPTS, _PAUSE_SECONDS = 60, 0.5


@dataclass(frozen=True)
class Outcome:
    """A month that was archived, or the reason why it stays in the database."""

    month: date
    archive: Archive | None
    reason: str = ""


def months_archive(*, before: datetime, now: datetime, obstacle: Obstacle) -> Iterator[Outcome]:
    """Archive each month that ended by an instant, oldest first, and yield what came of it.

    A month stays while an entry of it ends later, waits for its seal or its totals, or while `obstacle`
    names a reason. Raises `Unacceptable` for an instant in the future, `Conflict` while another process
    archives or restores.
    """
    if before > now:
        raise Unacceptable(
            "Months are archived when they are over: name a date that is not in the future.",
            code="ledger.archive_date",
        )
    folder = _folder()
    _refuse_others_than_owner()
    with _alone():
        for month in months_present():
            if next_month(month) <= before:
                content = month_content(month)
                if content.all.entries:
                    yield _month_archive(content, folder, before, now, obstacle)


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of archiving. Raises `Conflict` while another process holds it."""
    with try_lock_across_transactions(Lock.LEDGER_ARCHIVE, "ledger") as held:
        if not held:
            raise Conflict(
                "Another process archives or restores months of the ledger: wait for its end.",
                code="ledger.archive_busy",
            )
        yield


def _folder() -> Path:
    """Return the directory of archives, which must exist and be writable."""
    folder = directory()
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        raise Unavailable(
            f"{folder} is not a directory that this process can write to.",
            code="ledger.archive_unavailable",
        )
    return folder


def _month_archive(
    content: MonthContent, folder: Path, before: datetime, now: datetime, obstacle: Obstacle
) -> Outcome:
    month = content.month
    reason = reason_to_stay(content, before, obstacle)
    if reason:
        return Outcome(month, None, reason)
    written = month_file_write(content, folder)
    archive = _partition_drop(content, written, now=now)
    if archive is None:
        return Outcome(month, None, "entries were added to it meanwhile: repeat the command")
    return Outcome(month, archive)


def _refuse_others_than_owner() -> None:
    """Raise `Conflict` for a role of the database that may not drop a partition."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_user, pg_get_userbyid(relowner), pg_has_role(relowner, 'USAGE')"
            " FROM pg_class WHERE oid = 'ledger_entry'::regclass"
        )
        role, owner, is_owner = cursor.fetchall()[0]
    if not is_owner:
        raise Conflict(
            f'The database\'s role must be the owner of the ledger, "{owner}", and is "{role}": set'
            " MIGRATION_DATABASE_URL.",
            code="ledger.archive_owner",
        )


_HOLDERS = """
SELECT virtualtransaction FROM pg_locks
WHERE relation = 'ledger_entry'::regclass AND granted AND pid <> pg_backend_pid()
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def _holders() -> set[str]:
    """Return the transactions of others that hold a lock of the ledger."""
    with connection.cursor() as cursor:
        cursor.execute(_HOLDERS)
        return {holder for (holder,) in cursor.fetchall()}


def _attempts() -> Iterator[None]:
    """Yield when to try for the ledger's exclusive lock. Raises `Conflict` after too many attempts.

    Readers and writers queue behind an attempt. While a transaction goes on for which the last attempt
    waited, another one would fail, too, and is omitted.
    """
    waited_for: set[str] = set()
    for _ in range(_ATTEMPTS):
        if not waited_for & _holders():
            yield
            waited_for = _holders()
        time.sleep(_PAUSE_SECONDS)
    raise Conflict(
        "The ledger was read all the time, such as by a long export: repeat the command later.",
        code="ledger.archive_busy",
    )


def _partition_drop(content: MonthContent, written: MonthFile, *, now: datetime) -> Archive | None:
    """Drop a month's partition and record its file, or return None if entries were added to it."""
    for _ in _attempts():
        try:
            with transaction.atomic(durable=True), connection.cursor() as cursor:
                return _partition_exchange(cursor, content, written, now)
        except OperationalError as error:
            if not isinstance(error.__cause__, LockNotAvailable):
                raise
    raise AssertionError("the attempts end with an error")


def _partition_exchange(
    cursor: Any, content: MonthContent, written: MonthFile, now: datetime
) -> Archive | None:
    partition = partition_of(content.month)
    # Readers may have been waited for since it was written. Looked for before any lock, because a
    # directory of the network may not answer.
    if not written.is_present():
        raise Unavailable(
            f"{written.path} is gone: {content.month:%Y-%m} stays in the database.",
            code="ledger.archive_unavailable",
        )
    cursor.execute(_LOCK_TIMEOUT)
    # Writers of the month wait while it is counted, and readers do not.
    cursor.execute(f"LOCK TABLE {partition} IN SHARE MODE; SET LOCAL statement_timeout = 0")
    cursor.execute(f"SELECT count(*) FROM {partition}")  # noqa: S608 - a name of our own
    # The ledger is only added to: as many entries are the same ones.
    if cursor.fetchone() != (content.all.entries,):
        return None
    cursor.execute("LOCK TABLE ONLY ledger_entry IN ACCESS EXCLUSIVE MODE")
    # Dropped at once: detaching it first would lock pools, tenants and workloads for new triggers.
    cursor.execute(f"DROP TABLE {partition}")
    archive = Archive.objects.create(
        name=written.path.name,
        month=content.month,
        size=written.size,
        sha256=written.sha256,
        lines_sha256=written.lines_sha256,
        archived_at=now,
        **content.all.columns(),
    )
    ArchivedPool.objects.bulk_create(
        ArchivedPool(archive=archive, pool_id=pool, amounts=content.amounts[pool], **of.columns())
        for pool, of in content.pools.items()
    )
    return archive


def archive_restore(*, name: str) -> Archive:
    """Load the entries of a file back into the database, which then no longer needs the file.

    Raises `Missing` for a file that is not recorded, `Unavailable` for one that is missing or altered.
    """
    _refuse_others_than_owner()
    with _alone():
        archive = Archive.objects.filter(name=name).first()
        if archive is None:
            raise Missing(f'No archive of the ledger is named "{name}".', code="not_found")
        path = archive_path(archive, again=True)
        with transaction.atomic(durable=True), connection.cursor() as cursor:
            # In a transaction of its own: its foreign keys lock pools and tenants until it ends.
            cursor.execute("SELECT ledger_partition(%s)", [archive.month])
        _archive_load(archive, path)
    return archive


def _archive_load(archive: Archive, path: Path) -> None:
    """Copy a file to its month's partition and forget the archive, in one transaction."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        without_time_limit()
        # Into the partition: the table of all months stays open for others until the end.
        with connection.wrap_database_errors:
            loaded = rows_load(cursor, partition_of(archive.month), [path], [Selection()])
        if loaded != archive.entries:
            raise Conflict(
                f"{archive.name} has {loaded:,} entries instead of {archive.entries:,}: nothing was"
                " restored.",
                code="ledger.archive_differs",
            )
        _readers_lock_out(cursor)
        archive.delete()


def _readers_lock_out(cursor: Any) -> None:
    """Lock the ledger until the open transaction ends, which nothing else may read meanwhile."""
    for _ in _attempts():
        try:
            # A savepoint keeps what the transaction has loaded.
            with transaction.atomic():
                cursor.execute(_LOCK_TIMEOUT)
                cursor.execute("LOCK TABLE ONLY ledger_entry IN ACCESS EXCLUSIVE MODE")
        except OperationalError as error:
            if not isinstance(error.__cause__, LockNotAvailable):
                raise
        else:
            return
