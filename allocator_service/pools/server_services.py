"""Writes to servers, from contribution and changes to draining and retirement."""

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Greatest
from psycopg.types.json import Jsonb

from allocator_service.core.audit import Change, audit_record, audit_record_all, stated_fields
from allocator_service.core.copying import copy_rows
from allocator_service.core.errors import Conflict, TooLarge, Unacceptable
from allocator_service.core.ids import new_ids
from allocator_service.core.versions import check_version
from allocator_service.pools.locking import pool_lock, server_lock
from allocator_service.pools.member_services import members_join
from allocator_service.pools.models import Contribution, Pool, Server, ServerState
from allocator_service.pools.names import refuse_taken_names
from allocator_service.pools.recompute import pool_changed
from allocator_service.tenants.models import Tenant

MAX_SERVERS_PER_REQUEST = 100_000
BULK_STATEMENT_TIMEOUT = "60s"
_SETTINGS = ["name", "capacity", "labels"]
_PUT = {ServerState.DRAINING: "server.drain", ServerState.ACTIVE: "server.activate"}
# `bulk_update` takes milliseconds a row. Quantities are texts in the JSON, and stay exact.
_UPDATE = """
UPDATE server SET name = row.name, capacity = row.capacity, labels = row.labels,
                  state = row.state, version = row.version
FROM json_to_recordset(%s) AS row (id uuid, name text, capacity numeric[], labels jsonb, state text,
                                   version int)
WHERE server.id = row.id
"""
_ROWS = "json_to_recordset(%(rows)s) AS row (id uuid, former numeric[], capacity numeric[])"
_END_CONTRIBUTIONS = f"""
UPDATE server_contribution present SET "end" = %(now)s, capacity = row.former FROM {_ROWS}
WHERE present.server_id = row.id AND present."end" IS NULL AND present.start < %(now)s
RETURNING present.server_id
"""  # noqa: S608 - constants of our own
_REPLACE_CONTRIBUTIONS = f"""
UPDATE server_contribution present SET capacity = row.capacity FROM {_ROWS}
WHERE present.server_id = row.id AND present."end" IS NULL
"""  # noqa: S608 - constants of our own


@dataclass(frozen=True)
class ServerDraft:
    """Servers to contribute, `count` identical ones.

    `capacity` is that of each, in the pool's order.
    """

    name: str
    capacity: Sequence[Decimal]
    contributed_by: Tenant | None = None
    labels: dict[str, str] = field(default_factory=dict)
    count: int = 1
    pointer: str = ""

    def names(self) -> list[str]:
        """Return `name`, or `name-0001`, ... for several, numbered in at least four digits."""
        if self.count == 1:
            return [self.name]
        width = max(4, len(str(self.count)))
        return [f"{self.name}-{number:0{width}d}" for number in range(1, self.count + 1)]


@dataclass(frozen=True)
class Created:
    """The result of a bulk write, with ids that ascend in the order of the request."""

    ids: Sequence[UUID]
    generation: int


@transaction.atomic
def servers_contribute(*, pool: Pool, drafts: Sequence[ServerDraft], now: datetime) -> Created:
    """Add servers to a pool, all or none, and admit their contributors.

    Raises `TooLarge` for more than 100,000 servers, `Unacceptable` for a capacity of nothing, and
    `Conflict` for a name that a present server of the same contributor has, with its pointer.
    """
    # Refused before the pool is locked: what never fits must not hold up its other changes.
    total = sum(draft.count for draft in drafts)
    if total > MAX_SERVERS_PER_REQUEST:
        raise TooLarge(
            f"{total} servers in one request; at most {MAX_SERVERS_PER_REQUEST} are taken: split it.",
            code="servers.too_many",
        )
    for draft in drafts:
        if not any(draft.capacity):
            raise Unacceptable(
                "A server must have capacity in at least one resource.",
                code="capacity.zero",
                pointer=f"{draft.pointer}/capacity",
            )
    pool = pool_lock(pool)
    _allow_long_statements()
    named = [(draft, name) for draft in drafts for name in draft.names()]
    _refuse_taken_names(pool, named)
    contributors = {d.contributed_by.pk: d.contributed_by for d in drafts if d.contributed_by}
    # A decision weighs members alone, so that a contributor must be one.
    members_join(pool=pool, tenants=list(contributors.values()), now=now)
    ids = new_ids(total)
    copy_rows(
        Server,
        ["id", "pool_id", "name", "contributed_by_id", "capacity", "labels", "state", "version",
         "created_at"],
        (
            (id_, pool.pk, name, _tenant_pk(draft), list(draft.capacity),
             Jsonb(draft.labels), ServerState.ACTIVE.value, 1, now)
            for id_, (draft, name) in zip(ids, named, strict=True)
        ),
    )  # fmt: skip
    copy_rows(
        Contribution,
        ["server_id", "tenant_id", "capacity", "start"],
        (
            (id_, _tenant_pk(draft), list(draft.capacity), now)
            for id_, (draft, _) in zip(ids, named, strict=True)
        ),
    )
    generation = pool_changed(pool, now=now)
    # One entry for all servers, as for every change in bulk.
    audit_record(
        action="server.contribute",
        instance=pool,
        before=stated_fields(pool),
        now=now,
        pool=pool.slug,
        extra={
            "servers": total,
            "first": {"id": ids[0], "name": named[0][1]},
            "last": {"id": ids[-1], "name": named[-1][1]},
        }
        if ids
        else {"servers": 0},
    )
    return Created(ids, generation)


def _allow_long_statements() -> None:
    with connection.cursor() as cursor:
        # 100,000 rows outlast the limit of other requests, which the connection serves later: LOCAL.
        cursor.execute(f"SET LOCAL statement_timeout = '{BULK_STATEMENT_TIMEOUT}'")


def _tenant_pk(draft: ServerDraft) -> int | None:
    return draft.contributed_by.pk if draft.contributed_by else None


def _refuse_taken_names(pool: Pool, named: Sequence[tuple[ServerDraft, str]]) -> None:
    owners = {_tenant_pk(draft) for draft, _ in named}
    of_the_pool = Q(contributed_by=None) if None in owners else Q()
    present = Server.objects.filter(
        Q(contributed_by__in=owners - {None}) | of_the_pool,
        pool=pool,
        name__in=[n for _, n in named],
    ).present()
    refuse_taken_names(
        ((draft.pointer, (_tenant_pk(draft), name)) for draft, name in named),
        taken=set(present.values_list("contributed_by_id", "name")),
        code="server.exists",
        owner="contributor",
    )


@dataclass(frozen=True)
class ServerSettings:
    """The editable fields of a server."""

    name: str
    capacity: Sequence[Decimal]
    labels: dict[str, str]


@dataclass(frozen=True)
class ServerChange:
    """New settings or another state of a server, each None to stay as it is."""

    server: Server
    settings: ServerSettings | None = None
    state: ServerState | None = None


@transaction.atomic
def server_update(
    *, server: Server, settings: ServerSettings, version: int | None, now: datetime
) -> Server:
    """Change a present server that is still at `version`."""
    server = _locked(server)
    check_version(server.version, version)
    before = stated_fields(server)
    former = _set(server, settings)
    if former is not None:
        _change_contributions([(server, former)], now)
    return _saved("server.update", server, before, _SETTINGS, now)


@transaction.atomic
def servers_update(*, pool: Pool, changes: Sequence[ServerChange], now: datetime) -> None:
    """Change many servers of a pool, all or none, as one change of the pool."""
    pool = pool_lock(pool)
    _allow_long_statements()
    present = {
        server.pk: server
        for server in Server.objects.select_for_update(of=("self",), no_key=True)
        .filter(pool=pool, pk__in=[change.server.pk for change in changes])
        .select_related("contributed_by")
        .order_by("pk")
    }
    made: dict[str, list[Change]] = {}
    capacities: dict[UUID, list[Decimal]] = {}
    for change in changes:
        server = present[change.server.pk]
        server.pool = pool
        if change.settings is not None:
            before = stated_fields(server)
            former = _set(server, change.settings)
            if former is not None:
                capacities.setdefault(server.pk, former)
            server.version += 1
            # A copy, because the state may change as well, which is another entry.
            made.setdefault("server.update", []).append(Change(copy(server), before, {}))
        if change.state is not None and change.state != server.state:
            _refuse_retired(server)
            before = stated_fields(server)
            server.state = change.state
            server.version += 1
            made.setdefault(_PUT[change.state], []).append(Change(server, before, {}))
    rows = [
        {
            "id": each.pk,
            "name": each.name,
            "capacity": each.capacity,
            "labels": each.labels,
            "state": each.state,
            "version": each.version,
        }
        for each in present.values()
    ]
    with connection.cursor() as cursor:
        cursor.execute(_UPDATE, [json.dumps(rows, cls=DjangoJSONEncoder)])
    _change_contributions([(present[pk], former) for pk, former in capacities.items()], now)
    for action, changed in made.items():
        audit_record_all(action=action, changes=changed, now=now, pool=pool.slug)
    if made:
        pool_changed(pool, now=now)


def _set(server: Server, settings: ServerSettings) -> list[Decimal] | None:
    """Change the settings of a locked server. Return its former capacity, None if that stays."""
    _refuse_retired(server)
    if not any(settings.capacity):
        raise Unacceptable(
            "A server must have capacity in at least one resource.",
            code="capacity.zero",
            pointer="/capacity",
        )
    former = server.capacity
    server.name = settings.name
    server.capacity = list(settings.capacity)
    server.labels = settings.labels
    return None if server.capacity == former else former


def _change_contributions(changed: Sequence[tuple[Server, list[Decimal]]], now: datetime) -> None:
    """Change what servers contribute from now on. Past intervals keep their capacity.

    `changed` has servers with their new capacity, and the former one of each.
    """
    if not changed:
        return
    rows = [
        {"id": server.pk, "former": former, "capacity": server.capacity}
        for server, former in changed
    ]
    values: dict[str, Any] = {"rows": json.dumps(rows, cls=DjangoJSONEncoder), "now": now}
    with connection.cursor() as cursor:
        cursor.execute(_END_CONTRIBUTIONS, values)
        ended = {id_ for (id_,) in cursor.fetchall()}
        if len(ended) < len(changed):
            # Others started at this instant, so that their former capacity was never in force.
            cursor.execute(_REPLACE_CONTRIBUTIONS, values)
    copy_rows(
        Contribution,
        ["server_id", "tenant_id", "capacity", "start"],
        (
            (server.pk, server.contributed_by_id, server.capacity, now)
            for server, _ in changed
            if server.pk in ended
        ),
    )


def server_drain(*, server: Server, version: int | None = None, now: datetime) -> Server:
    """Remove a server from the capacity at the next decision. It still counts as contributed."""
    return _put(ServerState.DRAINING, server, version, now)


def server_activate(*, server: Server, version: int | None = None, now: datetime) -> Server:
    """Return a draining server to the capacity."""
    return _put(ServerState.ACTIVE, server, version, now)


@transaction.atomic
def _put(state: ServerState, server: Server, version: int | None, now: datetime) -> Server:
    """Put a present server into a state. Idempotent."""
    server = _locked(server)
    check_version(server.version, version)
    _refuse_retired(server)
    if server.state == state:
        return server
    before = stated_fields(server)
    server.state = state
    return _saved(_PUT[state], server, before, ["state"], now)


@transaction.atomic
def server_retire(*, server: Server, version: int | None = None, now: datetime) -> Server:
    """End a server's contribution now. Its past intervals stay. Idempotent.

    A contribution never ends before it began, even if a clock was set back.
    """
    server = _locked(server)
    check_version(server.version, version)
    before = stated_fields(server)
    if server.state == ServerState.RETIRED:
        return server
    server.state = ServerState.RETIRED
    server.retired_at = now
    server.contributions.filter(end=None).update(end=Greatest("start", now))
    return _saved("server.retire", server, before, ["state", "retired_at"], now)


def _locked(server: Server) -> Server:
    pool = pool_lock(server.pool)
    locked = server_lock(server.pk)
    locked.pool = pool
    return locked


def _refuse_retired(server: Server) -> None:
    if server.state == ServerState.RETIRED:
        raise Conflict(f"The server {server.name} is retired.", code="server.retired")


def _saved(
    action: str, server: Server, before: dict[str, Any], fields: list[str], now: datetime
) -> Server:
    server.version += 1
    server.save(update_fields=[*fields, "version"])
    pool_changed(server.pool, now=now)
    audit_record(action=action, instance=server, before=before, now=now, pool=server.pool.slug)
    return server
