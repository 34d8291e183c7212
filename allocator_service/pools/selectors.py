"""Reads of pools, members and servers."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from allocator_service.core.errors import Missing
from allocator_service.core.quantities import Resource
from allocator_service.core.rows import RowReader, only_row, prefetched, selecting
from allocator_service.core.selecting import get_or_missing, missing
from allocator_service.pools.models import (
    Contribution,
    Group,
    GroupTerms,
    MembershipTerms,
    Pool,
    ResourceType,
    Server,
)
from allocator_service.tenants.models import ApiKey, Tenant
from allocator_service.tenants.selectors import KeyReader
from allocator_service.tenants.services import api_key_digest


def group_missing() -> Missing:
    """Return the error for a group that does not exist or that the caller may not see."""
    return missing("group.not_found")


def pools_for(tenant: Tenant | None) -> QuerySet[Pool]:
    """Return the open pools that a caller may see."""
    return (
        Pool.objects.for_tenant(tenant).filter(retired_at=None).prefetch_related("resource_types")
    )


def closed_pools_for(tenant: Tenant | None) -> QuerySet[Pool]:
    """Return the retired pools that a caller may see, whose statements stay readable."""
    return Pool.objects.history_for_tenant(tenant).exclude(retired_at=None)


# Ordered, because an aggregate takes rows in any order; the dots keep 1.12 and 11.2 apart.
_VERSIONS = """
SELECT md5(string_agg(concat_ws('.', id, version, generation), ',' ORDER BY id)) FROM pool
WHERE retired_at IS NULL AND (%(tenant)s::bigint IS NULL OR EXISTS (
    SELECT FROM pool_membership
    WHERE pool_id = pool.id AND tenant_id = %(tenant)s::bigint AND ended_at IS NULL))
"""


def pools_version(tenant: Tenant | None) -> str | None:
    """Return a text that changes whenever an open pool that a caller may see changes."""
    row = only_row(_VERSIONS, {"tenant": None if tenant is None else tenant.pk})
    return None if row is None else row[0]


def pool_get(*, slug: str, tenant: Tenant | None, retired: bool = False) -> Pool:
    """Return the open pool of this slug with its resources, if the caller may see it. Raises `Missing`.

    With `retired`, also return a pool that was closed, or one that the tenant was a member of.
    """
    pools = Pool.objects.history_for_tenant(tenant).prefetch_related("resource_types")
    # One error for a pool that does not exist and one that the caller may not see.
    return get_or_missing(pools if retired else pools_for(tenant), "pool.not_found", slug=slug)


_KEY, _POOL, _SERVER = KeyReader(), RowReader(Pool, "pool"), RowReader(Server, "server")
_OWNER = RowReader(Tenant, "owner")
# Every request below a pool begins with these reads: one statement saves round trips.
_COLUMNS = """{key}, {pool},
    ARRAY(SELECT ARRAY[id::text, name, unit] FROM pool_resource_type
          WHERE pool_id = pool.id ORDER BY position)"""
# Permissions are conditions of the joins: a pool that the key may not see is NULL, as is one that
# does not exist, so that answers do not reveal slugs of others.
_FROM = """
FROM api_key
LEFT JOIN tenant ON tenant.id = api_key.tenant_id
LEFT JOIN pool ON pool.slug = %(slug)s AND (%(retired)s OR pool.retired_at IS NULL)
AND api_key.pool IN ('', pool.slug)
AND (api_key.tenant_id IS NULL OR EXISTS (
        SELECT FROM pool_membership
        WHERE pool_id = pool.id AND tenant_id = api_key.tenant_id
        AND (%(retired)s OR ended_at IS NULL)))
"""
_JOIN_SERVER = """
LEFT JOIN server ON server.id = %(server)s AND server.pool_id = pool.id AND (
    api_key.tenant_id IS NULL OR server.contributed_by_id = api_key.tenant_id)
LEFT JOIN tenant AS owner ON owner.id = server.contributed_by_id
"""
_OF_KEY = " WHERE api_key.digest = %(digest)s"
_KEY_AND_POOL = selecting(f"SELECT {_COLUMNS} {_FROM} {_OF_KEY}", key=_KEY, pool=_POOL)
_KEY_POOL_AND_SERVER = selecting(
    f"SELECT {_COLUMNS}, {{server}}, {{owner}} {_FROM} {_JOIN_SERVER} {_OF_KEY}",
    key=_KEY,
    pool=_POOL,
    server=_SERVER,
    owner=_OWNER,
)


def key_and_pool(
    *, text: str, slug: str, retired: bool = False
) -> tuple[ApiKey | None, Pool | None]:
    """Return the key and the pool of a request below a pool, in one statement.

    The key has this text and may be revoked or expired. The pool has this slug and its resources, and is
    None unless the key's holder may see it. It must be open unless `retired`.
    """
    row = only_row(
        _KEY_AND_POOL, {"slug": slug, "digest": api_key_digest(text), "retired": retired}
    )
    if row is None:
        return None, None
    return _KEY.read(row), _pool_of(row[_KEY.width :])


def key_pool_and_server(
    *, text: str, slug: str, server_id: UUID | None
) -> tuple[ApiKey | None, Pool | None, Server | None]:
    """Return the key, the pool and the server of a request below a server, in one statement.

    Key and pool are those of `key_and_pool`. The server may be retired, and is None unless the key's
    holder may see it.
    """
    row = only_row(
        _KEY_POOL_AND_SERVER,
        {"slug": slug, "digest": api_key_digest(text), "server": server_id, "retired": False},
    )
    if row is None:
        return None, None, None
    key, pool = _KEY.read(row), _pool_of(row[_KEY.width :])
    # One more column: the array of the pool's resources.
    columns = row[_KEY.width + _POOL.width + 1 :]
    if pool is None or columns[0] is None:
        return key, pool, None
    server = _SERVER.read(columns)
    server.pool = pool
    server.contributed_by = (
        _OWNER.read(columns[_SERVER.width :]) if server.contributed_by_id else None
    )
    return key, pool, server


def _pool_of(columns: Sequence[Any]) -> Pool | None:
    """Return the pool in its columns and those of its resources, if there is one."""
    if columns[0] is None:
        return None
    pool = _POOL.read(columns)
    types = [
        ResourceType(id=int(id_), pool=pool, name=name, unit=unit, position=position)
        for position, (id_, name, unit) in enumerate(columns[_POOL.width])
    ]
    prefetched(pool, "resource_types", types)
    return pool


def resources_of(pool: Pool) -> list[Resource]:
    """Return the pool's resources in the order of its vectors."""
    return [row.as_resource() for row in pool.resource_types.all()]


def members_of(*, pool: Pool, tenant: Tenant | None = None) -> QuerySet[MembershipTerms]:
    """Return the present terms of the pool's members, or of one tenant's membership.

    Present are those without an end, even if a clock was set back.
    """
    terms = MembershipTerms.objects.filter(membership__pool=pool, end=None).select_related(
        "membership__tenant", "group"
    )
    return terms if tenant is None else terms.filter(membership__tenant=tenant)


# UNION, not UNION ALL: rows found before are dropped, so that even a cycle comes to an end.
_PATH = """
WITH RECURSIVE above (id) AS (
    SELECT terms.group_id FROM pool_membership_terms terms
    JOIN pool_membership m ON m.id = terms.membership_id
    WHERE m.pool_id = %s AND m.tenant_id = %s AND terms."end" IS NULL
    UNION
    SELECT terms.parent_id FROM pool_group_terms terms
    JOIN above ON above.id = terms.group_id WHERE terms."end" IS NULL)
SELECT id FROM above WHERE id IS NOT NULL
"""


def groups_above(*, pool: Pool, tenant: Tenant) -> set[int]:
    """Return the keys of the tenant's group in the pool and of every group above it."""
    with connection.cursor() as cursor:
        cursor.execute(_PATH, [pool.pk, tenant.pk])
        return {pk for (pk,) in cursor.fetchall()}


def groups_of(*, pool: Pool, tenant: Tenant | None = None) -> QuerySet[Group]:
    """Return the present groups of the pool that a caller may see.

    A tenant sees those on its own path, every other caller all of them.
    """
    groups = Group.objects.filter(pool=pool, retired_at=None)
    return (
        groups if tenant is None else groups.filter(pk__in=groups_above(pool=pool, tenant=tenant))
    )


def groups_granted(groups: Collection[int]) -> list[Group]:
    """Return the groups of these primary keys that are present, with their pools."""
    found = Group.objects.filter(pk__in=groups, retired_at=None).select_related("pool")
    return list(found.order_by("pool__slug", "slug"))


def group_terms_of(*, pool: Pool, tenant: Tenant | None = None) -> QuerySet[GroupTerms]:
    """Return the present terms of the groups that a caller may see."""
    return GroupTerms.objects.filter(
        group__in=groups_of(pool=pool, tenant=tenant), end=None
    ).select_related("group", "parent")


def group_history(*, pool: Pool, slug: str, tenant: Tenant | None) -> QuerySet[GroupTerms]:
    """Return the terms of all groups that had the slug, oldest first.

    A tenant sees those of the groups on its own path.
    """
    groups = Group.objects.filter(pool=pool, slug=slug)
    if tenant is not None:
        groups = groups.filter(pk__in=groups_above(pool=pool, tenant=tenant))
    terms = GroupTerms.objects.filter(group__in=groups).select_related("group", "parent")
    return terms.order_by("start", "pk")


def contributors_of(tenant: Tenant) -> list[tuple[int, int, str]]:
    """Return the contributors that ever had servers in a pool of `tenant`, as pool, tenant and slug."""
    contributions = Contribution.objects.filter(
        server__pool__memberships__tenant=tenant, tenant__isnull=False
    )
    return list(contributions.values_list("server__pool", "tenant", "tenant__slug").distinct())


def servers_for(*, pool: Pool, tenant: Tenant | None) -> QuerySet[Server]:
    """Return the pool's servers that a caller may see, including retired ones."""
    return (
        Server.objects.filter(pool=pool).for_tenant(tenant).select_related("contributed_by", "pool")
    )


@dataclass(frozen=True)
class ServerGroup:
    """Identical servers of one contributor, with their `names` and, as text, `ids` by age."""

    capacity: Sequence[Decimal]
    labels: Mapping[str, str]
    contributed_by: str | None
    draining: bool
    names: Sequence[str]
    ids: Sequence[str]

    @property
    def count(self) -> int:
        """The number of servers."""
        return len(self.names)

    @property
    def first(self) -> str:
        """The name of the oldest."""
        return self.names[0]


@dataclass(frozen=True)
class ServerKind:
    """The number of a tenant's identical servers in one state in a pool, with the name of the oldest."""

    capacity: Sequence[Decimal]
    labels: Mapping[str, str]
    state: str
    count: int
    first: str


def server_kinds(*, pool: Pool, tenant: Tenant, limit: int) -> list[ServerKind]:
    """Return the tenant's present servers in the pool, identical ones together, the oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT capacity, labels, state, count(*), (array_agg(name ORDER BY id))[1]
            FROM server WHERE pool_id = %s AND contributed_by_id = %s AND state <> 'retired'
            GROUP BY capacity, labels, state ORDER BY min(id::text) LIMIT %s
            """,
            [pool.pk, tenant.pk, limit],
        )
        return [
            ServerKind(capacity, json.loads(labels), *rest)
            for capacity, labels, *rest in cursor.fetchall()
        ]


# Groups are found by text in byte order: arrays of decimals and `jsonb` take longer to sort. The text of
# equal values is equal, because the decimals have a fixed scale and `jsonb` sorts its keys.
_GROUPS = """
SELECT capacity::numeric[], labels, owner, is_draining,
       array_agg(name ORDER BY id) AS names, array_agg(id::text ORDER BY id) AS ids
FROM (
    SELECT capacity::text COLLATE "C" AS capacity, ({labels})::text COLLATE "C" AS labels,
           tenant.slug COLLATE "C" AS owner, {draining} AS is_draining, server.name, server.id
    FROM server LEFT JOIN tenant ON tenant.id = server.contributed_by_id
    WHERE server.pool_id = %(pool)s AND state <> 'retired'
) AS present
GROUP BY present.capacity, labels, owner, is_draining
ORDER BY (array_agg(id::text ORDER BY id))[1] COLLATE "C"
"""
_PLAIN = _GROUPS.format(labels="labels", draining="state = 'draining'")
_CLUSTER = "COALESCE(NULLIF(labels ->> 'cluster', ''), %(slug)s)"
_AWAY = "ARRAY(SELECT name FROM pool_cluster WHERE pool_id = %(pool)s AND left_at IS NOT NULL)"
_BY_CLUSTER = _GROUPS.format(
    labels=f"labels || jsonb_build_object('cluster', {_CLUSTER})",
    draining=f"(state = 'draining' OR {_CLUSTER} = ANY ({_AWAY}))",
)


def server_groups(pool: Pool) -> list[ServerGroup]:
    """Return the pool's present servers, grouped by contributor and kind, oldest group first.

    Where any server has a cluster, all of them carry the name of theirs, and those of one that left
    drain.
    """
    found = _groups(_PLAIN, pool)
    if not any(group.labels.get("cluster") for group in found):
        return found
    # Few pools have clusters. With their names, servers of several groups can be identical.
    return _groups(_BY_CLUSTER, pool)


def _groups(statement: str, pool: Pool) -> list[ServerGroup]:
    with connection.cursor() as cursor:
        cursor.execute(statement, {"pool": pool.pk, "slug": pool.slug})
        return [
            ServerGroup(capacity, json.loads(labels), *rest)  # raw cursors leave jsonb as text
            for capacity, labels, *rest in cursor.fetchall()
        ]
