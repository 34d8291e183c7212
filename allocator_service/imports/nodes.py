"""Importing nodes: each becomes a server, changes the one it is, or leaves it as it is."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db import transaction

from allocator_service.core.errors import FieldError, TooLarge
from allocator_service.imports.importing import (
    NAMES_PER_QUERY,
    Owners,
    Progress,
    Work,
    batches,
    no_progress,
    rows_import,
    rows_of,
    same_vector,
)
from allocator_service.imports.rows import ImportChoice, ImportReport, NodeFile, NodeRow, Outcome
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
    rows = rows_of(file, NodeRow)
    if sum(row.count for row in rows) > MAX_SERVERS:
        raise TooLarge(
            f"The file names more than {MAX_SERVERS} servers: split it.", code="import.too_many"
        )
    work = _Nodes(pool, _present(pool, rows))
    return rows_import(pool=pool, file=file, work=work, choice=choice, now=now, progress=progress)


class _Nodes(Work[NodeRow]):
    """Rows that become servers, or change those they are."""

    row_type = NodeRow

    def __init__(self, pool: Pool, present: Present) -> None:
        self._pool, self._present = pool, present
        self._added: list[tuple[NodeRow, str]] = []
        self._changed: list[tuple[NodeRow, Server]] = []

    def names(self, row: NodeRow) -> list[str]:
        return _names(row)

    def findings(self, row: NodeRow) -> list[FieldError | None]:
        return [_empty(row)]

    def judge(self, row: NodeRow) -> Outcome:
        names = _names(row)
        servers = [self._present.get((row.owner, name)) for name in names]
        changed = [server for server in servers if server is not None and _differs(server, row)]
        added = [name for name, server in zip(names, servers, strict=True) if server is None]
        self._changed.extend((row, server) for server in changed)
        self._added.extend((row, name) for name in added)
        if len(added) == len(names):
            return Outcome.ADDED
        return Outcome.CHANGED if added or changed else Outcome.UNCHANGED

    def pending(self) -> bool:
        return bool(self._added or self._changed)

    def write(self, owners: Owners, now: datetime, progress: Progress) -> None:
        _add(self._pool, self._added, owners, now, progress)
        _change(self._changed, now, progress)


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


def _add(
    pool: Pool,
    rows: Sequence[tuple[NodeRow, str]],
    owners: Owners,
    now: datetime,
    progress: Progress,
) -> None:
    done = 0
    for batch in batches(rows, MAX_SERVERS_PER_REQUEST):
        created = servers_contribute(pool=pool, drafts=list(_drafts(batch, owners)), now=now)
        draining = [
            server_id
            for server_id, (row, _) in zip(created.ids, batch, strict=True)
            if row.draining
        ]
        for server in Server.objects.filter(pk__in=draining).select_related("pool"):
            server_drain(server=server, now=now)
        done += len(batch)
        progress("adding", done, len(rows))


def _drafts(batch: list[tuple[NodeRow, str]], owners: Owners) -> Iterator[ServerDraft]:
    for row, name in batch:
        contributor = owners.tenant(row.owner) if row.owner else None
        yield ServerDraft(name, row.capacity, contributor, row.labels)


def _change(rows: Sequence[tuple[NodeRow, Server]], now: datetime, progress: Progress) -> None:
    for number, (row, server) in enumerate(rows, start=1):
        if _settings_differ(server, row):
            settings = ServerSettings(server.name, row.capacity, row.labels)
            server = server_update(server=server, settings=settings, version=None, now=now)
        if _state_differs(server, row):
            (server_drain if row.draining else server_activate)(server=server, now=now)
        progress("changing", number, len(rows))
