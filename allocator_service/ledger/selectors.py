"""Reads of the ledger, in its sealed order."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from allocator_service.core.ids import made_at
from allocator_service.core.planning import without_helpers
from allocator_service.core.selecting import get_or_missing
from allocator_service.ledger.models import (
    Block,
    Entry,
    PendingDecision,
    PendingEntry,
    Seal,
    SealedDecision,
    SealedDocument,
)
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant


def instant(column: str) -> str:
    """Return the SQL of an instant in RFC 3339 and UTC, with six digits of a fractional second."""
    whole, parts = (f'YYYY-MM-DD"T"HH24:MI:SS{digits}"Z"' for digits in ("", ".US"))
    return (
        f"CASE WHEN date_trunc('second', {column}) = {column}"
        f" THEN to_char({column}, '{whole}') ELSE to_char({column}, '{parts}') END"
    )


# The columns of an entry. Ids, exact quantities and instants are the texts that pages and exports
# write.
COLUMNS = {
    "sequence": "s.sequence",
    "id": "e.id::text",
    "pool": "pool.slug",
    "tenant": "tenant.slug",
    "server_owner": "owner.slug",
    "workload": "e.workload_id::text",
    "resource": "e.resource",
    "unit": "e.unit",
    "quantity": "trim_scale(e.quantity)::text",
    "start": instant("e.start"),
    "end": instant('e."end"'),
    "amount": "trim_scale(e.amount)::text",
    "kind": "e.kind",
    "corrects": "e.corrects::text",
    "reason": "e.reason",
    "source": "e.source",
    "event_id": "e.event_id",
    "run": "e.run_id::text",
    "recorded_at": instant("e.recorded_at"),
    "digest": "encode(block.digest, 'hex')",
}
# Sealed entries after a number, limited by the caller and filters. The join on `start` is written
# as a range: the planner then estimates one entry per seal.
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

_FEED = "SELECT {columns}, s.pool_id {sealed} ORDER BY s.sequence LIMIT %(limit)s".replace(
    "{columns}", ", ".join(f'{value} AS "{name}"' for name, value in COLUMNS.items())
).replace("{sealed}", SEALED)


def entries_after(
    position: int,
    *,
    caller: Tenant | None,
    limit: int,
    pool: str | None = None,
    tenant: str | None = None,
    kind: str | None = None,
) -> Sequence[dict[str, Any]]:
    """Return the sealed entries after a number in their order, as rows of `COLUMNS`.

    `caller` limits them to the entries of a tenant key's own tenant.
    """
    with without_helpers(), connection.cursor() as cursor:
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


def unsealed_since() -> datetime | None:
    """Return the time at which the oldest unsealed entry was recorded, or None."""
    oldest = PendingEntry.objects.order_by("pk").values_list("pk", flat=True).first()
    return None if oldest is None else made_at(oldest)


def position_of(entry_id: UUID, *, caller: Tenant | None) -> int | None:
    """Return the number of a sealed entry, within those of a tenant if given, or None."""
    seals = Seal.objects.filter(entry_id=entry_id)
    if caller is not None:
        seals = seals.filter(tenant=caller)
    return seals.values_list("sequence", flat=True).first()


def entry_get(*, entry_id: UUID) -> Entry:
    """Return the entry of an id, for callers that may see all entries. Raises `Missing`."""
    return get_or_missing(
        Entry.objects.select_related("pool", "tenant"), "entry.not_found", pk=entry_id
    )


def chained_digests(*, run_id: UUID) -> dict[str, str] | None:
    """Return the digests of a decision's `input` and `answer` in its pool's chain, sealed or waiting."""
    found: PendingDecision | SealedDecision | None = (
        SealedDecision.objects.filter(pk=run_id).first()
        or PendingDecision.objects.filter(pk=run_id).first()
        # It may have been sealed between the two queries.
        or SealedDecision.objects.filter(pk=run_id).first()
    )
    if found is None:
        return None
    return {"input": bytes(found.input).hex(), "answer": bytes(found.answer).hex()}


def decisions_chained_before(*, pool: Pool, instant: datetime | None) -> bool:
    """Return whether the pool's chain has a decision that was in force before an instant."""
    return SealedDecision.objects.filter(pool=pool, effective_from__lt=instant).exists()


def blocks_after(number: int, *, pool: str, limit: int) -> list[dict[str, Any]]:
    """Return the blocks of a pool's chain after a number, with their decisions and documents."""
    of_pool = Block.objects.filter(pool__slug=pool, number__gt=number)
    blocks = list(of_pool.order_by("number")[:limit])
    if not blocks:
        return []
    sealed = SealedDecision.objects.filter(pool=blocks[0].pool_id).order_by("pk")
    decisions: dict[int, list[dict[str, Any]]] = {}
    for row in sealed.filter(block__range=(blocks[0].number, blocks[-1].number)):
        decisions.setdefault(row.block, []).append(
            {
                "run": row.run_id,
                "pool": pool,
                "generation": row.generation,
                "effective_from": row.effective_from,
                "input": bytes(row.input).hex(),
                "answer": bytes(row.answer).hex(),
            }
        )
    digests: dict[int, list[dict[str, Any]]] = {}
    documents = SealedDocument.objects.filter(pool=blocks[0].pool_id).order_by("pk")
    for digest in documents.filter(block__range=(blocks[0].number, blocks[-1].number)):
        digests.setdefault(digest.block, []).append(
            {
                "document": digest.kind,
                "pool": pool,
                "name": digest.name,
                "sha256": bytes(digest.sha256).hex(),
            }
        )
    return [
        {
            "pool": pool,
            "number": block.number,
            "format": block.format,
            "first_sequence": block.first_sequence,
            "last_sequence": block.last_sequence,
            "entries": block.entries,
            "decisions": decisions.get(block.number, []),
            "digests": digests.get(block.number, []),
            "digest": bytes(block.digest).hex(),
            "sealed_at": block.sealed_at,
        }
        for block in blocks
    ]
