"""Usage and the ledger as documents."""

from collections.abc import Mapping
from typing import Any

from allocator_service.core.quantities import decimal_text
from allocator_service.ledger.intake.chain import FORMAT_WITH_DOCUMENTS
from allocator_service.ledger.intake.sealing import SEALED_AT_ONCE
from allocator_service.ledger.models import Entry, Kind
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import contributors_of
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import MAX_TASKS
from api.contract.fields import (
    IdField,
    PoolQuantitiesField,
    PoolQuantityField,
    SchemaField,
    SlugField,
    TimestampField,
)
from api.contract.parameters import DEFAULT_LIMIT, MAX_LIMIT, Parameters
from api.pseudonyms import tenant_name
from api.v1.feeds import FeedParameters
from policies.fields import (
    ChoiceField,
    Document,
    IntegerField,
    ListField,
    PatternField,
    TextField,
)

_DECIMAL = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}
MAX_SEQUENCE = 2**63 - 1
MAX_EVENTS = 10_000
# What only operators and billing see: it counts what others used.
OF_THE_WHOLE = ("sequence", "digest")


class UsageRequest(Document):
    source = TextField(max_length=100)
    id = TextField(max_length=200)
    tenant = SlugField(
        required=False, description="Optional for a tenant's key, which means itself."
    )
    workload = TextField(max_length=253, required=False, description="Its name.")
    tasks = IntegerField(
        minimum=0,
        maximum=MAX_TASKS,
        required=False,
        description="Tasks of the workload; each counts as its demand.",
    )
    resources = PoolQuantitiesField(required=False, description="Instead of tasks.")
    start = TimestampField()
    end = TimestampField()


class UsageParameters(Parameters):
    non_members = ChoiceField(
        choices=["refuse", "accept"],
        default="refuse",
        description="Whether usage of tenants that were never admitted to the pool is taken.",
    )


class RecordedDocument(Document):
    accepted = IntegerField(minimum=0, maximum=MAX_EVENTS)
    duplicates = IntegerField(
        minimum=0, maximum=MAX_EVENTS, description="Already posted, with the same content."
    )


class EntryParameters(FeedParameters):
    pool = SlugField(required=False, description="Entries of the pool with this slug only.")
    tenant = SlugField(required=False, description="Entries of the tenant with this slug only.")
    kind = ChoiceField(
        choices=Kind.values,
        required=False,
        description="Entries of this kind only: `usage` was used, `alone` would have been used without"
        " the pool, a `correction` is the difference to an entry that was wrong.",
    )


class ExportParameters(Parameters):
    """Which entries; all of them that are sealed."""

    after = TextField(
        max_length=500, required=False, description="Begin after this cursor of the feed."
    )
    pool = EntryParameters.fields["pool"]
    tenant = EntryParameters.fields["tenant"]
    kind = EntryParameters.fields["kind"]


class EntryDocument(Document):
    sequence = IntegerField(minimum=1, maximum=MAX_SEQUENCE, required=False)
    id = IdField()
    pool = SlugField()
    tenant = SlugField()
    server_owner = SlugField(
        allow_null=True, description="A tenant sees other tenants under pseudonyms."
    )
    workload = IdField(allow_null=True)
    resource = TextField(max_length=63)
    unit = TextField(max_length=20, blank=True)
    quantity = SchemaField(schema=_DECIMAL)
    start = TimestampField()
    end = TimestampField()
    amount = SchemaField(schema={**_DECIMAL, "description": "quantity × seconds."})
    kind = ChoiceField(choices=Kind.values)
    corrects = IdField(allow_null=True)
    reason = TextField(max_length=2_000, blank=True)
    source = TextField(max_length=200)
    event_id = TextField(max_length=200, allow_null=True)
    run = IdField(allow_null=True)
    recorded_at = TimestampField()
    digest = PatternField(
        pattern="^[0-9a-f]{64}$",
        code="digest.syntax",
        required=False,
        description="Of the block in which the entry was sealed, chained to those before.",
    )


class BlockParameters(Parameters):
    """Of a pool's chain: the number after which it continues."""

    pool = SlugField(description="Slug of the pool whose chain it is, retired or not.")
    after = IntegerField(
        minimum=0,
        maximum=MAX_SEQUENCE,
        default=0,
        description="Number of the last block that was read.",
    )
    limit = IntegerField(
        minimum=1, maximum=MAX_LIMIT, default=DEFAULT_LIMIT, description="Blocks of a page."
    )


class ChainedDecisionDocument(Document):
    """A decision's line in its block: the digests are those of `GET /runs/{run}/proof/`."""

    run = IdField()
    pool = SlugField()
    generation = IntegerField(minimum=0, maximum=MAX_SEQUENCE)
    effective_from = TimestampField()
    input = PatternField(pattern="^[0-9a-f]{64}$", code="digest.syntax")
    answer = PatternField(pattern="^[0-9a-f]{64}$", code="digest.syntax")


class ChainedDigestDocument(Document):
    """A document's line in its block: what it is, and the digest of its stored bytes."""

    document = TextField(max_length=20)
    pool = SlugField()
    name = TextField(max_length=200)
    sha256 = PatternField(pattern="^[0-9a-f]{64}$", code="digest.syntax")


class BlockDocument(Document):
    pool = SlugField()
    number = IntegerField(minimum=1, maximum=MAX_SEQUENCE)
    format = IntegerField(
        minimum=1,
        maximum=FORMAT_WITH_DOCUMENTS,
        description="1: sealed before digests were of exported lines; 3: holds digests of documents.",
    )
    first_sequence = IntegerField(minimum=1, maximum=MAX_SEQUENCE, allow_null=True)
    last_sequence = IntegerField(minimum=1, maximum=MAX_SEQUENCE, allow_null=True)
    entries = IntegerField(minimum=0, maximum=MAX_SEQUENCE)
    decisions = ListField(ChainedDecisionDocument, min_items=0, max_items=SEALED_AT_ONCE)
    digests = ListField(
        ChainedDigestDocument,
        min_items=0,
        max_items=SEALED_AT_ONCE,
        description="Digests of statements, months, manifests, price plans and audit records.",
    )
    digest = PatternField(pattern="^[0-9a-f]{64}$", code="digest.syntax")
    sealed_at = TimestampField()


class CorrectionRequest(Document):
    quantity = PoolQuantityField(description="The correct quantity of the entry.")
    resource = TextField(
        max_length=63,
        required=False,
        description="Another resource of the same reported event, also one that it left out.",
    )
    reason = TextField(max_length=2_000)


def entry_document(row: Mapping[str, Any], *, caller: Tenant | None) -> dict[str, Any]:
    """A row of the feed, as much of it as the caller may see."""
    document = dict(row)
    pool = document.pop("pool_id")
    if caller is None:
        return document
    if row["server_owner"] is not None:
        document["server_owner"] = tenant_name(
            row["server_owner"], pool=Pool(pk=pool), caller=caller
        )
    return {name: value for name, value in document.items() if name not in OF_THE_WHOLE}


def entry_columns(*, caller: Tenant | None) -> list[str]:
    """The columns of the feed that the caller sees, in their order."""
    hidden = () if caller is None else OF_THE_WHOLE
    return [name for name in EntryDocument.fields if name not in hidden]


def owner_names(caller: Tenant | None) -> dict[tuple[int, int], str]:
    """By which name a tenant knows who contributed servers to its pools, by pool and tenant."""
    if caller is None:
        return {}
    return {
        (pool_id, key): tenant_name(slug, pool=Pool(pk=pool_id), caller=caller)
        for pool_id, key, slug in contributors_of(caller)
    }


def correction_document(entry: Entry) -> dict[str, Any]:
    """A correction that has not been sealed yet: it has no place in the order."""
    return {
        "id": entry.pk,
        "pool": entry.pool.slug,
        "tenant": entry.tenant.slug,
        "server_owner": entry.server_owner.slug if entry.server_owner else None,
        "workload": entry.workload_id,
        "resource": entry.resource,
        "unit": entry.unit,
        "quantity": decimal_text(entry.quantity),
        "start": entry.start,
        "end": entry.end,
        "amount": decimal_text(entry.amount),
        "kind": entry.kind,
        "corrects": entry.corrects,
        "reason": entry.reason,
        "source": entry.source,
        "event_id": entry.event_id,
        "run": entry.run_id,
        "recorded_at": entry.recorded_at,
    }
