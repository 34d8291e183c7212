"""Documents of entries of the ledger, as much of them as a caller may see."""

from collections.abc import Mapping
from typing import Any

from allocator_service.ledger.models import Entry, Kind
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import contributors_of
from allocator_service.tenants.models import Tenant
from api.contract import documents
from api.pseudonyms import tenant_name
from api.v1.feeds import FeedParameters

MAX_SEQUENCE = 2**63 - 1

# What only operators and billing see: it counts what others used.
OF_THE_WHOLE = ("sequence", "digest")


class EntryParameters(FeedParameters):
    pool = documents.SlugField(
        required=False, description="Entries of the pool with this slug only."
    )
    tenant = documents.SlugField(
        required=False, description="Entries of the tenant with this slug only."
    )
    kind = documents.ChoiceField(
        choices=Kind.values,
        required=False,
        description="Entries of this kind only: `usage` was used, `alone` would have been used without"
        " the pool, a `correction` is the difference to an entry that was wrong.",
    )


def _unsealed(entry: Entry, context: Any) -> None:
    """Return null, since only rows of the feed have a place in the sealed order and a digest."""


class EntryDocument(documents.Document):
    sequence = documents.IntegerField(
        minimum=1, maximum=MAX_SEQUENCE, required=False, source=_unsealed
    )
    id = documents.IdField()
    pool = documents.SlugField(source="pool.slug")
    tenant = documents.SlugField(source="tenant.slug")
    server_owner = documents.SlugField(
        source="server_owner.slug",
        allow_null=True,
        description="A tenant sees other tenants under pseudonyms.",
    )
    workload = documents.IdField(source="workload_id", allow_null=True)
    resource = documents.TextField(max_length=63)
    unit = documents.TextField(max_length=20, blank=True)
    quantity = documents.DecimalField()
    start = documents.TimestampField()
    end = documents.TimestampField()
    amount = documents.DecimalField(description="quantity × seconds.")
    kind = documents.ChoiceField(choices=Kind.values)
    corrects = documents.IdField(allow_null=True)
    reason = documents.TextField(max_length=2_000, blank=True)
    source = documents.TextField(max_length=200)
    event_id = documents.TextField(max_length=200, allow_null=True)
    run = documents.IdField(source="run_id", allow_null=True)
    recorded_at = documents.TimestampField()
    digest = documents.PatternField(
        pattern="^[0-9a-f]{64}$",
        code="digest.syntax",
        required=False,
        source=_unsealed,
        description="Of the block in which the entry was sealed, chained to those before.",
    )


def unsealed_document(entry: Entry) -> dict[str, Any]:
    """Return the document of an entry that has no place in the sealed order yet."""
    document = EntryDocument.write(entry)
    return {name: value for name, value in document.items() if name not in OF_THE_WHOLE}


def entry_document(row: Mapping[str, Any], *, caller: Tenant | None) -> dict[str, Any]:
    """Return a row of the feed, as much of it as the caller may see."""
    document = dict(row)
    pool = document.pop("pool_id")
    if caller is None:
        return document
    if row["server_owner"] is not None:
        # A pseudonym depends on the pool's key alone, so that no row has to read its pool.
        document["server_owner"] = tenant_name(
            row["server_owner"], pool=Pool(pk=pool), caller=caller
        )
    return {name: value for name, value in document.items() if name not in OF_THE_WHOLE}


def entry_columns(*, caller: Tenant | None) -> list[str]:
    """Return the columns of the feed that the caller sees, in their order."""
    hidden = () if caller is None else OF_THE_WHOLE
    return [name for name in EntryDocument.fields if name not in hidden]


def owner_names(caller: Tenant | None) -> dict[tuple[int, int], str]:
    """Return the names by which a tenant knows contributors of servers, by pool and tenant."""
    if caller is None:
        return {}
    return {
        (pool_id, key): tenant_name(slug, pool=Pool(pk=pool_id), caller=caller)
        for pool_id, key, slug in contributors_of(caller)
    }
