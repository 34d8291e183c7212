"""Reads of the ledger, in its sealed order."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection

from allocator_service.core.errors import Missing
from allocator_service.ledger.models import Entry, Seal
from allocator_service.tenants.models import Tenant

# Sealed entries after a number, as a caller and filters limit them. An entry's `start` is that of its
# seal; said as a range, the planner knows that every seal has one entry.
SEALED = """
FROM ledger_seal s
JOIN ledger_entry e ON e.id = s.entry_id AND e.start >= s.start AND e.start <= s.start
JOIN ledger_block block ON block.pool_id = s.pool_id AND block.number = s.block
JOIN pool ON pool.id = s.pool_id
JOIN tenant ON tenant.id = s.tenant_id
LEFT JOIN tenant owner ON owner.id = e.server_owner_id
WHERE s.sequence > %(after)s
  AND (%(pool)s::text IS NULL OR s.pool_id = (SELECT id FROM pool WHERE slug = %(pool)s))
  AND (%(tenant)s::text IS NULL OR s.tenant_id = (SELECT id FROM tenant WHERE slug = %(tenant)s))
  AND (%(caller)s::bigint IS NULL OR s.tenant_id = %(caller)s)
  AND (%(kind)s::text IS NULL OR e.kind = %(kind)s)
"""

_FEED = """
SELECT s.sequence, e.id, pool.slug AS pool, tenant.slug AS tenant, owner.slug AS server_owner,
       e.workload_id AS workload, e.resource, e.unit, e.quantity, e.start, e."end", e.amount, e.kind,
       e.corrects, e.reason, e.source, e.event_id, e.run_id AS run, e.recorded_at,
       encode(block.digest, 'hex') AS digest, s.pool_id
{sealed} ORDER BY s.sequence LIMIT %(limit)s
""".replace("{sealed}", SEALED)


def entries_after(
    position: int,
    *,
    caller: Tenant | None,
    limit: int,
    pool: str | None = None,
    tenant: str | None = None,
    kind: str | None = None,
) -> Sequence[dict[str, Any]]:
    """The sealed entries that follow a number in their order, as rows with the names of columns.

    `caller` limits them to the entries of a tenant key's own tenant.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _FEED,
            {
                "after": position,
                "pool": pool,
                "tenant": tenant,
                "caller": None if caller is None else caller.pk,
                "kind": kind,
                "limit": limit,
            },
        )
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def position_of(entry_id: UUID) -> int | None:
    """The number of a sealed entry."""
    return Seal.objects.filter(entry_id=entry_id).values_list("sequence", flat=True).first()


def entry_get(*, entry_id: UUID, tenant: Tenant | None) -> Entry:
    """The entry of this id, if the caller may see it. Raises `Missing`."""
    entries = Entry.objects.for_tenant(tenant).select_related("pool", "tenant")
    entry = entries.filter(pk=entry_id).first()
    if entry is None:
        raise Missing("There is no such entry.", code="entry.not_found")
    return entry
