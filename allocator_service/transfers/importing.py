"""The import of a pool from an archive, in one transaction.

Rows of the archive are read into temporary tables, checked there, and then inserted with the keys of
this installation. Nothing else of it changes. A refused archive leaves nothing behind but empty
partitions of the ledger, which every month gets sooner or later.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from typing import IO, Any
from uuid import UUID

from django.db import DatabaseError, IntegrityError, connection, transaction
from django.utils.dateparse import parse_date, parse_datetime
from psycopg import Error as PostgresError

from allocator_service.billing.auditing.verification import imported_statements_verify
from allocator_service.core.audit import audit_record
from allocator_service.core.copying import MANY_ROWS, plans_renew
from allocator_service.core.display import instant_text
from allocator_service.core.errors import Conflict, Unacceptable
from allocator_service.core.jobs import wake_relay
from allocator_service.core.locks import Lock, lock_in_transaction, try_lock_in_transaction
from allocator_service.core.planning import without_time_limit
from allocator_service.core.snapshots import LEDGER_LOCK
from allocator_service.ledger.audit.verification import imported_ledger_verify
from allocator_service.ledger.intake.entries import partitions_make
from allocator_service.ledger.models import LedgerImport
from allocator_service.pools.models import Pool
from allocator_service.pools.recompute import DECISION_JOBS
from allocator_service.transfers.archive import ArchiveReader
from allocator_service.transfers.content import PoolContent, content_of, migrations_applied
from allocator_service.transfers.incoming import (
    advance_commitment_keys,
    check_rows,
    choose_keys,
    insert_rows,
    load_rows,
    replace_owners,
)
from allocator_service.transfers.matching import MatchedTenants, tenants_match

EARLIEST = date(2000, 1, 1)
_NUMBERED = "SELECT COALESCE(max(sequence), 0) FROM ledger_seal WHERE pool_id <> %s"


@dataclass(frozen=True)
class Header:
    """The header of an archive.

    `months` are those in which entries of the pool begin.
    """

    archive: UUID
    closed_at: datetime
    months: list[date]
    content: PoolContent


@dataclass(frozen=True)
class Imported:
    """An imported pool, with its tenants and the SHA-256 of the archive."""

    archive: UUID
    sha256: str
    content: PoolContent
    tenants: MatchedTenants

    @property
    def lines(self) -> list[str]:
        names = {"registered": self.tenants.registered, "present": self.tenants.present}
        return [
            *self.content.lines,
            f"archive  {self.archive}",
            f"sha256   {self.sha256}",
            *(f"tenants  {what}: {', '.join(slugs)}" for what, slugs in names.items() if slugs),
        ]


def pool_import(
    *, slug: str, file: IO[bytes], sha256: str | None, same: Collection[str], now: datetime
) -> Imported:
    """Import the pool `slug` from an archive, whole or not at all.

    `sha256` is that of the file as the export stated it, None if the operator compared it. `same` are
    slugs of tenants that are the same here and in the archive. Raises `Unacceptable` for a file that was
    cut or altered or has another form, and `Conflict` if the pool or an object of it is here already.
    """
    reader = ArchiveReader(file)
    header = _header(reader, slug, now)
    _refuse_present(slug)
    with transaction.atomic():
        # Before the rows and by itself: others that write into these months would wait for the import.
        partitions_make(header.months)
    with _refusing(), transaction.atomic():
        without_time_limit()
        # Not waited for: the other import ends with the pool here, or with an error of its own.
        if not try_lock_in_transaction(Lock.POOL_MOVE, f"import:{slug}"):
            raise Conflict(f"The pool {slug} is being imported already.", code="pool.importing")
        _refuse_present(slug)
        with connection.cursor() as cursor:
            # From here on no month is archived, which would drop its partition.
            cursor.execute(LEDGER_LOCK)
        # A no-op, except for months that were archived since the first transaction.
        partitions_make(header.months)
        load_rows(reader)
        digest = reader.finish()
        if sha256 is not None and digest != sha256.lower():
            raise Unacceptable(
                f"The file has the SHA-256 {digest}, and {sha256} was expected.",
                code="archive.sha256",
            )
        check_rows(slug=slug)
        tenants = tenants_match(same=same)
        content = _insert(header, slug, now)
        pool = Pool.objects.get(slug=slug)
        audit_record(
            action="pool.import",
            instance=pool,
            now=now,
            pool=slug,
            extra={"archive": str(header.archive), "registered": tenants.registered},
        )
        wake_relay(DECISION_JOBS.queue)
    return Imported(header.archive, digest, content, tenants)


def _insert(header: Header, slug: str, now: datetime) -> PoolContent:
    parameters = {"slug": slug, "now": now, "closed_at": header.closed_at}
    choose_keys()
    replace_owners()
    insert_rows(parameters=parameters, sealed_events=False)
    pool = Pool.objects.get(slug=slug)
    plans_renew(MANY_ROWS)
    with connection.cursor() as cursor:
        # Now, since at the commit the sealers would wait for the checks of foreign keys.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    content = _verify(pool, header)
    advance_commitment_keys()
    lock_in_transaction(Lock.EVENT_SEAL, "events")
    # What is numbered between here and the commit would have to be counted below.
    lock_in_transaction(Lock.LEDGER_SEAL, "ledger")
    insert_rows(parameters=parameters, sealed_events=True)
    with connection.cursor() as cursor:
        cursor.execute(_NUMBERED, [pool.pk])
        numbered = cursor.fetchall()[0][0]
    LedgerImport.objects.create(
        pool=pool,
        archive=header.archive,
        imported_at=now,
        entries=content.entries,
        through=content.sequence,
        numbered=numbered,
    )
    return content


def _verify(pool: Pool, header: Header) -> PoolContent:
    """Check what was inserted as `manage.py verify` does, and against the header."""
    checks = [*imported_ledger_verify(pool), *imported_statements_verify(pool)]
    failed = [f"{check.name}: {check.detail}" for check in checks if not check.holds]
    if failed:
        raise Unacceptable(
            f"The pool does not agree with its own ledger. {'; '.join(failed)}",
            code="archive.altered",
        )

    def read(statement: str) -> tuple[Any, ...] | None:
        with connection.cursor() as cursor:
            cursor.execute(statement, {"pool": pool.pk})
            row: tuple[Any, ...] | None = cursor.fetchone()
            return row

    content = content_of(pool.slug, read)
    if content != header.content:
        raise Unacceptable(
            "The archive has other rows than its header states: it was altered.",
            code="archive.altered",
        )
    return content


def _refuse_present(slug: str) -> None:
    pool = Pool.objects.filter(slug=slug).first()
    if pool is None:
        return
    since = LedgerImport.objects.filter(pool=pool).values_list("imported_at", flat=True).first()
    what = "was imported" if since else "is here"
    when = f" on {instant_text(since)}" if since else " already, maybe retired or moved away"
    raise Conflict(f"A pool {slug} {what}{when}. Nothing was changed.", code="pool.exists")


def _header(reader: ArchiveReader, slug: str, now: datetime) -> Header:
    document = reader.header
    try:
        content = PoolContent(**{name: document[name] for name in PoolContent.__dataclass_fields__})
        closed_at = parse_datetime(document["closed_at"])
        months = [parse_date(each) for each in document["months"]]
        header = Header(
            UUID(document["archive"]), closed_at or now, [each for each in months if each], content
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Unacceptable(
            f"The header of the archive cannot be read ({error!r}).", code="archive.altered"
        ) from error
    if closed_at is None or closed_at.tzinfo is None or len(header.months) != len(months):
        raise Unacceptable("The header of the archive has wrong dates.", code="archive.altered")
    if content.pool != slug:
        raise Unacceptable(
            f"The archive is of the pool {content.pool}, not of {slug}.", code="archive.pool"
        )
    if document.get("migrations") != migrations_applied():
        raise Unacceptable(
            f"The archive was written by release {document.get('release')} with other tables than"
            " this one has. Bring both installations to the same release.",
            code="archive.release",
        )
    if closed_at > now:
        raise Unacceptable(
            f"The pool was closed at {instant_text(closed_at, precision='second')}, which is later than"
            f" this host's clock, {instant_text(now, precision='second')}. Synchronise the clocks.",
            code="archive.clock",
        )
    # Each makes a partition, also if the archive is refused later.
    if any(not EARLIEST <= each <= now.date() for each in header.months):
        raise Unacceptable(
            f"The header of the archive names months before {EARLIEST} or in the future.",
            code="archive.altered",
        )
    return header


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn what the database refuses of an archive into errors."""
    try:
        yield
    except IntegrityError as error:
        raise Conflict(
            f"The archive conflicts with what is here ({_reason(error)}). Nothing was changed.",
            code="archive.conflict",
        ) from error
    except DatabaseError as error:
        # Class 22 are values that no column can hold, and COPY's errors of form.
        cause = error.__cause__
        if not isinstance(cause, PostgresError) or not (cause.sqlstate or "").startswith("22"):
            raise
        raise Unacceptable(
            f"The archive has rows that cannot be read ({_reason(error)}): it was altered.",
            code="archive.altered",
        ) from error


def _reason(error: DatabaseError) -> str:
    return str(error).partition("\n")[0][:200]
