"""Importing nodes: each becomes a server, changes the one it is, or leaves it as it is."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from allocator_service.core.errors import FieldError, TooLarge
from allocator_service.imports.importing import (
    NAMES_PER_QUERY,
    Claims,
    Owners,
    Progress,
    batches,
    may_write,
    no_progress,
    refused,
    same_vector,
    skipped,
)
from allocator_service.imports.rows import (
    ImportChoice,
    ImportReport,
    NodeFile,
    NodeRow,
    Outcome,
    RefusedRow,
    RowReport,
    SkippedRow,
)
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Pool, Server, ServerState
from allocator_service.pools.server_services import (
    MAX_SERVERS_PER_REQUEST,
    ServerDraft,
    ServerSettings,
    server_activate,
    server_drain,
    server_update,
    servers_contribute,
)

MAX_SERVERS = 1_000_000
Present = dict[tuple[str | None, str], Server]


@dataclass
class _Work:
    """What the accepted rows ask for."""

    added: list[tuple[NodeRow, str]] = field(default_factory=list)
    changed: list[tuple[NodeRow, Server]] = field(default_factory=list)


@transaction.atomic
def nodes_import(
    *,
    pool: Pool,
    file: NodeFile,
    choice: ImportChoice,
    now: datetime,
    progress: Progress = no_progress,
) -> ImportReport:
    """Make the pool's servers as a file tells them; those it does not name stay as they are.

    A row is the server of the same contributor and name. Nothing is written in a dry run, or when
    a row is refused, unless the choice is to skip those. Raises `TooLarge` for more than a million
    servers.
    """
    if not choice.dry_run:
        pool = pool_lock(pool)
    rows = [row for row in file.rows if isinstance(row, NodeRow)]
    if sum(row.count for row in rows) > MAX_SERVERS:
        raise TooLarge(
            f"The file names more than {MAX_SERVERS} servers: split it.", code="import.too_many"
        )
    owners = Owners((row.owner for row in rows), choice)
    present = _present(pool, rows)
    claims, work = Claims(), _Work()
    reports = []
    for number, row in enumerate(file.rows):
        progress("checking", number, len(file.rows))
        reports.append(_judged(row, owners, claims, present, work))
    writes = may_write(choice, reports) and bool(work.added or work.changed)
    if writes:
        owners.register(now)
        _add(pool, work, owners, now, progress)
        _change(work, now, progress)
        pool.refresh_from_db(fields=["generation"])
    return ImportReport(reports, file.ignored, owners.registered, pool.generation, writes)


def _names(row: NodeRow) -> list[str]:
    return ServerDraft(row.name, row.capacity, count=row.count).names()


def _present(pool: Pool, rows: list[NodeRow]) -> Present:
    """The servers in the pool that have a name of the file."""
    names = (name for row in rows for name in _names(row))
    return {
        (server.contributed_by.slug if server.contributed_by else None, server.name): server
        for batch in batches(names, NAMES_PER_QUERY)
        for server in Server.objects.filter(pool=pool, name__in=batch)
        .present()
        .select_related("contributed_by", "pool")
    }


def _judged(
    row: NodeRow | RefusedRow | SkippedRow,
    owners: Owners,
    claims: Claims,
    present: Present,
    work: _Work,
) -> RowReport:
    if isinstance(row, RefusedRow):
        return refused(row)
    if isinstance(row, SkippedRow):
        return skipped(row)
    names = _names(row)
    errors = [
        error
        for error in (
            _empty(row),
            owners.refusal(row.owner),
            claims.refusal(row.owner, names, row.place),
        )
        if error
    ]
    if errors:
        return RowReport(row.place, row.name, row.owner, Outcome.REFUSED, errors=errors)
    servers = [present.get((row.owner, name)) for name in names]
    changed = [server for server in servers if server is not None and _differs(server, row)]
    added = [name for name, server in zip(names, servers, strict=True) if server is None]
    work.changed.extend((row, server) for server in changed)
    work.added.extend((row, name) for name in added)
    outcome = (
        Outcome.ADDED
        if len(added) == len(names)
        else Outcome.CHANGED
        if added or changed
        else Outcome.UNCHANGED
    )
    return RowReport(row.place, row.name, row.owner, outcome)


def _empty(row: NodeRow) -> FieldError | None:
    if any(row.capacity):
        return None
    detail = "A server has some capacity: at least one resource that the pool counts above 0."
    return FieldError("/capacity", "capacity.zero", detail)


def _differs(server: Server, row: NodeRow) -> bool:
    return _settings_differ(server, row) or _state_differs(server, row)


def _settings_differ(server: Server, row: NodeRow) -> bool:
    return not same_vector(server.capacity, row.capacity) or server.labels != row.labels


def _state_differs(server: Server, row: NodeRow) -> bool:
    draining = server.state == ServerState.DRAINING
    return row.draining is not None and draining != row.draining


def _add(pool: Pool, work: _Work, owners: Owners, now: datetime, progress: Progress) -> None:
    done = 0
    for batch in batches(work.added, MAX_SERVERS_PER_REQUEST):
        created = servers_contribute(pool=pool, drafts=list(_drafts(batch, owners)), now=now)
        draining = [
            server_id
            for server_id, (row, _) in zip(created.ids, batch, strict=True)
            if row.draining
        ]
        for server in Server.objects.filter(pk__in=draining).select_related("pool"):
            server_drain(server=server, now=now)
        done += len(batch)
        progress("adding", done, len(work.added))


def _drafts(batch: list[tuple[NodeRow, str]], owners: Owners) -> Iterator[ServerDraft]:
    for row, name in batch:
        contributor = owners.tenant(row.owner) if row.owner else None
        yield ServerDraft(name, row.capacity, contributor, row.labels)


def _change(work: _Work, now: datetime, progress: Progress) -> None:
    for number, (row, server) in enumerate(work.changed, start=1):
        if _settings_differ(server, row):
            settings = ServerSettings(server.name, row.capacity, row.labels)
            server = server_update(server=server, settings=settings, version=None, now=now)
        if _state_differs(server, row):
            (server_drain if row.draining else server_activate)(server=server, now=now)
        progress("changing", number, len(work.changed))
