"""Reads of the ledger, in its sealed order."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Min, QuerySet

from allocator_service.core.errors import Conflict
from allocator_service.core.ids import made_at
from allocator_service.core.planning import without_helpers
from allocator_service.core.selecting import get_or_missing
from allocator_service.core.snapshots import LEDGER_LOCK
from allocator_service.ledger.archive.reading import ENTRIES, archives_of, entries_with_archived
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.lookups import entry_lookup, is_entry, is_entry_of
from allocator_service.ledger.models import (
    ArchivedPool,
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

_IS_ARCHIVED = """
SELECT s.start FROM ledger_seal s
WHERE s.entry_id = %s
  AND NOT EXISTS (SELECT FROM ledger_entry e WHERE {of_seal})
""".replace("{of_seal}", is_entry("e", "s.entry_id", "s.start"))


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
# Seals after a place, limited by the caller and filters. The condition on the number alone is for
# indexes that begin with the pool or the tenant.
OF_SEALS = """
s.sequence >= %(after)s AND (s.sequence, s.pool_id) > (%(after)s, %(after_pool)s)
  AND (%(pool)s::text IS NULL OR s.pool_id = (SELECT id FROM pool WHERE slug = %(pool)s))
  AND (%(tenant)s::text IS NULL OR s.tenant_id = (SELECT id FROM tenant WHERE slug = %(tenant)s))
  AND (%(caller)s::bigint IS NULL OR s.tenant_id = %(caller)s)
"""
_SEALED = """
FROM ledger_seal s
JOIN {entry}
JOIN ledger_block block ON block.pool_id = s.pool_id AND block.number = s.block
JOIN pool ON pool.id = s.pool_id
JOIN tenant ON tenant.id = s.tenant_id
LEFT JOIN tenant owner ON owner.id = e.server_owner_id
WHERE {condition}
  AND (%(kind)s::text IS NULL OR e.kind = %(kind)s)
""".replace("{condition}", OF_SEALS)
# A month or all of the ledger may be hashed, whereas a page looks up its entries alone.
SEALED = _SEALED.replace("{entry}", f"ledger_entry e ON {is_entry_of('e', 's')}")
_PAGE = _SEALED.replace("{entry}", f"{entry_lookup('s.entry_id', 's.start')} AS e ON true")

_FEED = """
SELECT {columns}, s.pool_id {sealed} AND (%(through)s::bigint IS NULL OR s.sequence <= %(through)s)
ORDER BY s.sequence, s.pool_id LIMIT %(limit)s
""".replace(
    "{columns}", ", ".join(f'{value} AS "{name}"' for name, value in COLUMNS.items())
).replace("{sealed}", _PAGE)
# The number through which a page of seals goes, or NULL after the last of them.
_SEALS = """
SELECT max(sequence) FROM (
    SELECT sequence FROM ledger_seal s WHERE {condition}
    ORDER BY sequence, pool_id LIMIT %(limit)s) AS page
""".replace("{condition}", OF_SEALS)
_MOST_SEALS = 50_000
_LARGEST_KEY = 2**63 - 1


class Place(NamedTuple):
    """A place in the sealed order of all pools.

    Numbers are unique in a pool. Pools that were imported may share some (`ledger.models.Seal`).
    """

    sequence: int
    pool_id: int

    @property
    def last_passed(self) -> int:
        """The last number of which no pool has an entry after the place."""
        return self.sequence if self.pool_id == _LARGEST_KEY else self.sequence - 1


BEGINNING = Place(0, 0)


def place_after(sequence: int) -> Place:
    """Return the place after the entries of all pools with a number."""
    return Place(sequence, _LARGEST_KEY)


def entries_after(
    place: Place,
    *,
    caller: Tenant | None,
    limit: int,
    pool: str | None = None,
    tenant: str | None = None,
    kind: str | None = None,
) -> Sequence[dict[str, Any]]:
    """Return the sealed entries after a place in their order, as rows of `COLUMNS`.

    `caller` limits them to the entries of a tenant key's own tenant.
    """
    parameters = {
        "pool": pool,
        "tenant": tenant,
        "caller": None if caller is None else caller.pk,
        "kind": kind,
    }
    found: list[dict[str, Any]] = []
    filters = Selection()
    with without_helpers(), connection.cursor() as cursor:
        cursor.execute(LEDGER_LOCK)
        archived = archives_of(Selection(after=place.last_passed))
        if archived:
            filters = archived_filters(pool=pool, tenant=tenant, caller=caller)
        seals = limit
        while len(found) < limit:
            # Of archived entries, only those of the next seals are read.
            following = replace(filters, after=place.last_passed)
            through = None
            if archived and archives_of(following):
                cursor.execute(_SEALS, {**parameters, **after_place(place), "limit": seals})
                (through,) = cursor.fetchall()[0]
            page = replace(following, through=through)
            with entries_with_archived(page) if through else nullcontext(ENTRIES) as relation:
                cursor.execute(
                    _FEED.replace(ENTRIES, relation),
                    {
                        **parameters,
                        **after_place(place),
                        "through": through,
                        "limit": limit - len(found),
                    },
                )
                names = [column.name for column in cursor.description]
                found += [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            if through is None:
                break
            # A kind may be rare: the next seals are more.
            place, seals = place_after(through), min(2 * seals, _MOST_SEALS)
    return found


def archived_filters(*, pool: str | None, tenant: str | None, caller: Tenant | None) -> Selection:
    """Return the filters of the feed as a selection of archived entries."""
    pools = Pool.objects.filter(slug=pool).values_list("pk", flat=True)
    tenants = Tenant.objects.filter(slug=tenant).values_list("pk", flat=True)
    return Selection(
        pool=None if pool is None else pools.first(),
        tenant=caller.pk if caller is not None else None if tenant is None else tenants.first(),
    )


def after_place(place: Place) -> dict[str, int]:
    """Return the parameters of `SEALED` for the entries after a place."""
    return {"after": place.sequence, "after_pool": place.pool_id}


def unsealed_since() -> datetime | None:
    """Return the time at which the oldest unsealed entry was recorded, or None."""
    oldest = PendingEntry.objects.order_by("pk").values_list("pk", flat=True).first()
    return None if oldest is None else made_at(oldest)


def place_of(entry_id: UUID, *, caller: Tenant | None) -> Place | None:
    """Return the place of a sealed entry, within those of a tenant if given, or None."""
    seals = Seal.objects.filter(entry_id=entry_id)
    if caller is not None:
        seals = seals.filter(tenant=caller)
    found = seals.values_list("sequence", "pool_id").first()
    return None if found is None else Place(*found)


def entry_get(*, entry_id: UUID) -> Entry:
    """Return the entry of an id, for callers that may see all entries.

    Raises `Missing`, or `Conflict` for an archived entry.
    """
    with transaction.atomic():
        entry_present(entry_id=entry_id)
        return get_or_missing(
            Entry.objects.select_related("pool", "tenant"), "entry.not_found", pk=entry_id
        )


def entry_present(*, entry_id: UUID) -> None:
    """Raise `Conflict` for an archived entry. Others stay in the database until the transaction ends.

    A correction has the month of its entry, and must not be parted from it.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LEDGER_LOCK)
        cursor.execute(_IS_ARCHIVED, [entry_id])
        archived = cursor.fetchone()
    if archived is not None:
        raise Conflict(
            f"The entry is archived with {archived[0]:%Y-%m} and cannot be corrected: the operator must"
            " restore the month first.",
            code="entry.archived",
        )


def archived_pools() -> QuerySet[ArchivedPool]:
    """Return what each archive has of each pool."""
    return ArchivedPool.objects.all()


def first_start(*, pool: Pool) -> datetime | None:
    """Return the start of a pool's earliest entry, archived or not."""
    with transaction.atomic(), connection.cursor() as cursor:
        # A month that is restored between the two statements would be in neither.
        cursor.execute(LEDGER_LOCK)
        starts = [
            rows.filter(pool=pool).aggregate(at=Min(column))["at"]
            for rows, column in ((Entry.objects, "start"), (ArchivedPool.objects, "first_start"))
        ]
    return min((at for at in starts if at is not None), default=None)


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
