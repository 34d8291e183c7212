"""Manifests of closed months, with which auditors read the same entries and repeat the sums."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.db import connection, transaction

from allocator_service.billing.auditing.digests import manifest_digest_record
from allocator_service.billing.models import Closing, Manifest
from allocator_service.billing.statements.documents import canonical
from allocator_service.core.errors import Missing
from allocator_service.core.planning import without_time_limit
from allocator_service.core.quantities import decimal_text
from allocator_service.core.snapshots import LEDGER_LOCK
from allocator_service.ledger.archive.reading import ENTRIES, entries_with_archived
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.exporting import lines_export
from allocator_service.ledger.selectors import BEGINNING, SEALED, after_place
from allocator_service.pools.moving import refuse_moved

# Entries of the month, and late ones of the months before, as they were numbered when it was closed.
OF_CLOSING = """
 AND s.sequence <= %(closed)s AND (
     e.start < %(month_end)s AND e."end" > %(month_start)s
     OR s.sequence > %(closed_before)s AND s.start < %(month_start)s)
"""
DEFINITION = (
    "The pool's entries with a sequence up to `sequence` that lie in [from, to) at least in part, and"
    " those above `previous_sequence` that began before `from`. `sha256` is of their export as NDJSON,"
    " `entries`, in the order of their sequence."
)
_SUMS = """
SELECT tenant.slug, e.resource, e.kind, count(*), sum(e.amount) {sealed}
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""


def entries_of(closing: Closing) -> Mapping[str, Any]:
    """Return the parameters of `OF_CLOSING` for a closed month."""
    previous = (
        Closing.objects.filter(pool=closing.pool, month__lt=closing.month)
        .order_by("-month")
        .values_list("sequence", flat=True)
        .first()
    )
    return {
        "closed": closing.sequence,
        # Of the first closing nothing came late: there was no month before.
        "closed_before": closing.sequence if previous is None else previous,
        "month_start": closing.start,
        "month_end": closing.end,
    }


def archived_of(closing: Closing) -> list[Selection]:
    """Return the selections of archived entries that `OF_CLOSING` includes."""
    bounds = entries_of(closing)
    of_pool = Selection(pool=closing.pool_id, through=closing.sequence)
    return [
        replace(of_pool, begin=bounds["month_start"], end=bounds["month_end"]),
        replace(of_pool, after=bounds["closed_before"], end=bounds["month_start"]),
    ]


def manifest_of(closing: Closing) -> Manifest:
    """Return the manifest of a closed month. Raises `Missing` until it is written, some time later."""
    manifest = Manifest.objects.filter(closing=closing).first()
    if manifest is None:
        raise Missing(
            "The month's manifest is being written: it is there within minutes of its closing.",
            code="manifest.not_found",
        )
    return manifest


def closings_without_manifest() -> list[Closing]:
    """Return the closed months whose manifest is still to be written, oldest first."""
    found = (
        Closing.objects.filter(manifest=None, pool__moved_at=None)
        .defer("document")
        .select_related("pool")
    )
    return list(found.order_by("id"))


@transaction.atomic
def manifest_write(*, closing: Closing) -> Manifest:
    """Read a closed month's entries once, and store how many there are, their sums and their digest.

    Numbered entries never change, so that a manifest does not depend on when it is written.
    """
    refuse_moved(closing.pool_id)
    manifest, is_new = Manifest.objects.get_or_create(
        closing=closing, defaults={"document": lambda: canonical(manifest_document(closing))}
    )
    if is_new:
        manifest_digest_record(manifest)
    return manifest


@transaction.atomic
def manifest_document(closing: Closing) -> dict[str, Any]:
    """Return the manifest that a closed month's entries make."""
    parameters = {
        **after_place(BEGINNING),
        "pool": closing.pool.slug,
        "tenant": None,
        "caller": None,
        "kind": None,
        **entries_of(closing),
    }
    digest = hashlib.sha256()
    archived = archived_of(closing)
    with connection.wrap_database_errors, connection.cursor() as cursor:
        without_time_limit()
        cursor.execute(LEDGER_LOCK)
        # Compiling takes longer than it saves where rows are copied out rather than computed.
        cursor.execute("SET LOCAL jit = off")
        with entries_with_archived(*archived) as relation:
            statement = _SUMS.replace("{sealed}", SEALED + OF_CLOSING)
            cursor.execute(statement.replace(ENTRIES, relation), parameters)
            sums = cursor.fetchall()
        for chunk in lines_export(
            cursor,
            parameters={**parameters, "last": closing.sequence},
            condition=OF_CLOSING,
            archived=archived,
        ):
            # While it is read: a month's export can be larger than the memory.
            digest.update(chunk)
    return {
        "pool": closing.pool.slug,
        "month": str(closing),
        "sequence": closing.sequence,
        "previous_sequence": parameters["closed_before"],
        "from": closing.start,
        "to": closing.end,
        "rows": sum(count for *_, count, _ in sums),
        "sums": [
            {
                "tenant": tenant,
                "resource": resource,
                "kind": kind,
                "rows": count,
                "amount": decimal_text(amount),
            }
            for tenant, resource, kind, count, amount in sums
        ],
        "sha256": digest.hexdigest(),
        "entries": f"/api/v1/pools/{closing.pool.slug}/months/{closing}/entries/?format=ndjson",
        "definition": DEFINITION,
    }
