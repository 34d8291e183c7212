"""Import of nodes as servers."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from allocator_service.core.errors import FieldError, TooLarge
from allocator_service.imports.clusters import node_elsewhere, nodes_in_cluster
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
from allocator_service.pools.clusters import labelled_clusters
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Pool, Server, ServerState
from allocator_service.pools.server_services import (
    MAX_SERVERS_PER_REQUEST,
    ServerChange,
    ServerDraft,
    ServerSettings,
    servers_contribute,
    servers_update,
)

MAX_SERVERS = 1_000_000
_CHANGED_AT_ONCE = 10_000
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
    """Add the servers of a file to a pool and change those that differ.

    A row and a server match by contributor and name. Servers that the file does not name stay.
    Nothing is written in a dry run, or if a row is refused and refused rows are not skipped. Raises
    `TooLarge` for more than a million servers.
    """
    # Locked before the rows are compared, so that the comparison holds when they are written.
    if not choice.dry_run:
        pool = pool_lock(pool)
    file = nodes_in_cluster(file, choice.cluster)
    rows = rows_of(file, NodeRow)
    if sum(row.count for row in rows) > MAX_SERVERS:
        raise TooLarge(
            f"The file names more than {MAX_SERVERS} servers: split it.", code="import.too_many"
        )
    work = _Nodes(pool, _present(pool, rows), choice.cluster)
    return rows_import(pool=pool, file=file, work=work, choice=choice, now=now, progress=progress)


class _Nodes(Work[NodeRow]):
    """Nodes, matched with the servers of the pool."""

    row_type = NodeRow

    def __init__(self, pool: Pool, present: Present, cluster: str) -> None:
        self._pool, self._present, self._cluster = pool, present, cluster
        self._has_clusters = bool(cluster and labelled_clusters(pool))
        self._added: list[tuple[NodeRow, str]] = []
        self._changed: list[tuple[NodeRow, Server]] = []

    def names(self, row: NodeRow) -> list[str]:
        return _names(row)

    def errors(self, row: NodeRow) -> list[FieldError | None]:
        return [_empty(row), self._elsewhere(row)]

    def _elsewhere(self, row: NodeRow) -> FieldError | None:
        servers = [self._present.get((row.owner, name)) for name in _names(row)]
        return node_elsewhere(
            row,
            [server for server in servers if server is not None],
            self._cluster,
            self._pool,
            has_clusters=self._has_clusters,
        )

    def classify(self, row: NodeRow) -> Outcome:
        names = _names(row)
        servers = [self._present.get((row.owner, name)) for name in names]
        changed = [server for server in servers if server is not None and _differs(server, row)]
        added = [name for name, server in zip(names, servers, strict=True) if server is None]
        self._changed.extend((row, server) for server in changed)
        self._added.extend((row, name) for name in added)
        # A row with a count stands for several servers, some of which may exist.
        if len(added) == len(names):
            return Outcome.ADDED
        return Outcome.CHANGED if added or changed else Outcome.UNCHANGED

    def has_changes(self) -> bool:
        return bool(self._added or self._changed)

    def write(self, owners: Owners, now: datetime, progress: Progress) -> None:
        _add(self._pool, self._added, owners, now, progress)
        _change(self._pool, self._changed, now, progress)


def _names(row: NodeRow) -> list[str]:
    return ServerDraft(row.name, row.capacity, count=row.count).names()


def _present(pool: Pool, rows: list[NodeRow]) -> Present:
    """Return the pool's servers that the file names."""
    names = (name for row in rows for name in _names(row))
    owners = {row.owner for row in rows}
    of_the_pool = Q(contributed_by=None) if None in owners else Q()
    of_owners = Q(contributed_by__slug__in=owners - {None}) | of_the_pool
    return {
        (server.contributed_by.slug if server.contributed_by else None, server.name): server
        for batch in batches(names, NAMES_PER_QUERY)
        for server in Server.objects.filter(of_owners, pool=pool, name__in=batch)
        .present()
        .select_related("contributed_by", "pool")
    }


def _empty(row: NodeRow) -> FieldError | None:
    if any(row.capacity):
        return None
    detail = "A server must have capacity in at least one resource of the pool."
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
    # As many as the service takes at once, all in one transaction.
    for batch in batches(rows, MAX_SERVERS_PER_REQUEST):
        created = servers_contribute(pool=pool, drafts=list(_drafts(batch, owners)), now=now)
        # Servers are contributed as active, so that those of draining nodes change state after it.
        draining = [
            server_id
            for server_id, (row, _) in zip(created.ids, batch, strict=True)
            if row.draining
        ]
        drained = [
            ServerChange(server, state=ServerState.DRAINING)
            for server in Server.objects.filter(pk__in=draining)
        ]
        servers_update(pool=pool, changes=drained, now=now)
        done += len(batch)
        progress("adding", done, len(rows))


def _drafts(batch: list[tuple[NodeRow, str]], owners: Owners) -> Iterator[ServerDraft]:
    for row, name in batch:
        contributor = owners.tenant(row.owner) if row.owner else None
        yield ServerDraft(name, row.capacity, contributor, row.labels)


def _change(
    pool: Pool, rows: Sequence[tuple[NodeRow, Server]], now: datetime, progress: Progress
) -> None:
    done = 0
    for batch in batches(rows, _CHANGED_AT_ONCE):
        changes = [
            ServerChange(
                server,
                ServerSettings(server.name, row.capacity, row.labels)
                if _settings_differ(server, row)
                else None,
                _state(row) if _state_differs(server, row) else None,
            )
            for row, server in batch
        ]
        servers_update(pool=pool, changes=changes, now=now)
        done += len(batch)
        progress("changing", done, len(rows))


def _state(row: NodeRow) -> ServerState:
    return ServerState.DRAINING if row.draining else ServerState.ACTIVE
