"""Digests of a closed month's documents in the chain of its pool."""

import hashlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any

import orjson
from django.db import connection

from allocator_service.billing.models import Closing, Manifest, PricePlan, Statement
from allocator_service.billing.plans.timeline import commitments_of, plans_of
from allocator_service.core.former_keys import first_keys, keys_at
from allocator_service.core.quantities import decimal_text
from allocator_service.ledger.models import PendingDocument

PLAN_PARTS = {
    "rates": ("resource", "owner_id", "own", "shared", "pooled", "outside", "tiers"),
    "spot_prices": ("resource", "kind", "start", "end", "price"),
    "commitments": (
        "id", "tenant_id", "resource", "quantity", "price", "upfront", "start", "end",
    ),
    "fixed_costs": ("position", "name", "amount", "tenants"),
    "unit_weights": ("resource", "weight"),
}  # fmt: skip


class DocumentKind(StrEnum):
    """Kinds of documents whose digests the chain holds.

    A document's name begins with its month.
    """

    STATEMENT = "statement"
    MONTH = "month"
    PRICE_PLAN = "price_plan"
    AUDIT = "audit"
    MANIFEST = "manifest"


# All audit rows of the pool that no closing covers yet, including rows committed after earlier closings.
_AUDITED = """
INSERT INTO billing_audited_entry (entry_id, closing_id)
SELECT a.id, %(closing)s FROM core_audit_entry a
WHERE a.pool = %(pool)s AND NOT EXISTS (SELECT FROM billing_audited_entry b WHERE b.entry_id = a.id)
"""
_AUDIT_DIGEST = """
SELECT sha256(convert_to(
    COALESCE(string_agg(row_to_json(a)::text, E'\\n' ORDER BY b.entry_id), ''), 'UTF8'))
FROM billing_audited_entry b LEFT JOIN core_audit_entry a ON a.id = b.entry_id
WHERE b.closing_id = %(closing)s
"""


def closing_digests_record(closing: Closing) -> None:
    """Record the digests of a month's documents, except its manifest, for the pool's chain.

    Must be called after all other rows of the closing are stored.
    """
    with connection.cursor() as cursor:
        cursor.execute(_AUDITED, {"closing": closing.pk, "pool": closing.pool.slug})
    found = [
        (DocumentKind.MONTH, str(closing), digest(bytes(closing.document))),
        (DocumentKind.AUDIT, str(closing), audit_digest(closing)),
        *(
            (DocumentKind.STATEMENT, statement_name(statement), digest(bytes(statement.document)))
            for statement in statements_of(closing)
        ),
        *(
            (
                DocumentKind.PRICE_PLAN,
                f"{closing}/{plan.number}",
                plan_digest(plan, closing=closing),
            )
            for plan in plans_behind(closing)
        ),
    ]
    PendingDocument.objects.bulk_create(
        PendingDocument(pool=closing.pool, kind=kind, name=name, sha256=sha256)
        for kind, name, sha256 in found
    )


def manifest_digest_record(manifest: Manifest) -> None:
    """Record the digest of a closed month's manifest for the pool's chain."""
    closing = manifest.closing
    PendingDocument.objects.create(
        pool=closing.pool,
        kind=DocumentKind.MANIFEST,
        name=str(closing),
        sha256=digest(bytes(manifest.document)),
    )


def digest(content: bytes) -> bytes:
    """Return the SHA-256 of a document's bytes."""
    return hashlib.sha256(content).digest()


def statements_of(closing: Closing) -> Iterator[Statement]:
    """Yield a closed month's statements with their documents, in batches."""
    found = Statement.objects.filter(closing=closing).select_related("tenant", "closing")
    # Documents can be megabytes each.
    return found.order_by("tenant__slug").iterator(chunk_size=20)


def statement_name(statement: Statement) -> str:
    """Return the name of a statement's digest in the chain."""
    return f"{statement.closing}/{statement.tenant.slug}"


def plans_behind(closing: Closing) -> list[PricePlan]:
    """Return the plans that are in force, or have commitments, in a month."""
    plans = {plan.pk: plan for plan in plans_of(closing.pool, closing.start, closing.end)}
    for commitment in commitments_of(closing.pool, closing.start, closing.end):
        plans.setdefault(commitment.plan_id, commitment.plan)
    return sorted(plans.values(), key=lambda plan: plan.number or 0)


def plan_digest(plan: PricePlan, *, closing: Closing, open_end: bool = False) -> bytes:
    """Return the SHA-256 of a plan with all its parts, as of a closing.

    Tenants' keys are those of the installation in which the month was closed, and commitments' their
    first ones. `open_end` ignores the plan's end, as before the next plan was published.
    """
    slug, at = closing.pool.slug, closing.closed_at
    tenants = keys_at(pool=slug, object_type="tenant", at=at)
    keys = {"tenant_id": tenants, "owner_id": tenants}
    keys["id"] = first_keys(pool=slug, object_type="commitment")
    document = {
        "number": plan.number,
        "name": plan.name,
        "start": plan.start,
        # Publishing the next plan sets the end of this one, which a digest from before does not have.
        "end": None if open_end else plan.end,
        "fee": plan.fee,
        "increment": plan.increment,
        "exhausted": plan.exhausted,
        **{
            part: [
                {name: _stated(name, getattr(row, name), keys) for name in names}
                for row in getattr(plan, part).order_by("pk")
            ]
            for part, names in PLAN_PARTS.items()
        },
    }
    # Sorted: the digest must not depend on the order in which code names the fields.
    return digest(orjson.dumps(document, default=_text, option=orjson.OPT_SORT_KEYS))


def _stated(name: str, value: Any, keys: Mapping[str, Mapping[int, int]]) -> Any:
    """Return a value of a part with the primary keys that `keys` has by the name of the column."""
    if name == "tenants":
        return [[keys["tenant_id"].get(tenant, tenant), share] for tenant, share in value]
    return keys[name].get(value, value) if name in keys else value


def _text(value: object) -> str:
    return decimal_text(value) if isinstance(value, Decimal) else str(value)


def audit_digest(closing: Closing) -> bytes:
    """Return the SHA-256 of the audit rows that a closing covers, as currently stored."""
    with connection.cursor() as cursor:
        cursor.execute(_AUDIT_DIGEST, {"closing": closing.pk})
        return bytes(cursor.fetchall()[0][0])
