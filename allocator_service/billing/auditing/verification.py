"""Verification of closed months.

Statements are recomputed from postings, and postings from entries and prices. Digests in the pool's
chain prove the documents stored at closing. Months closed before the chain held digests are not checked.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.db import connection, transaction

from allocator_service.billing.auditing.digests import (
    DocumentKind,
    audit_digest,
    digest,
    plan_digest,
    plans_behind,
    statement_name,
    statements_of,
)
from allocator_service.billing.models import AuditedEntry, Closing, LineKind, Manifest
from allocator_service.billing.months import month_of
from allocator_service.billing.rating.differences import differences
from allocator_service.billing.rating.lines import in_order
from allocator_service.billing.rating.months import month_rated
from allocator_service.billing.statements.closing import tenants_of
from allocator_service.billing.statements.documents import (
    canonical,
    document_of,
    instant_text,
    month_accounts,
    statement_lines,
)
from allocator_service.billing.statements.drafting import billed_lines, stored_lines
from allocator_service.billing.statements.manifest import manifest_document
from allocator_service.core.display import counted
from allocator_service.core.errors import Unavailable
from allocator_service.core.money import exactly
from allocator_service.core.snapshots import BEGIN_SNAPSHOT
from allocator_service.ledger.audit.verification import LedgerCheck
from allocator_service.ledger.models import PendingDocument, SealedDocument
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of

Digests = dict[tuple[str, str], bytes]
Faults = Callable[[Closing, Digests], Iterator[str]]
# Raised by damaged rows: they fail the check, not the request.
_UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


def statements_verify() -> list[LedgerCheck]:
    """Verify every closed month of every pool, including the entries of its manifest."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        # One snapshot for all reads: a month closed meanwhile would look like a difference.
        cursor.execute(BEGIN_SNAPSHOT)
        cursor.execute("SET LOCAL statement_timeout = 0")
        closings = Closing.objects.select_related("pool").order_by("pool__slug", "month")
        return _all_checks(closings)


def imported_statements_verify(pool: Pool) -> list[LedgerCheck]:
    """Verify every closed month of a pool in the open transaction."""
    return _all_checks(Closing.objects.filter(pool=pool).select_related("pool").order_by("month"))


def _all_checks(closings: Iterable[Closing]) -> list[LedgerCheck]:
    known = [(closing, _digests_of(closing)) for closing in closings]
    return _checks(known, {**_MONTH_CHECKS, "manifest_entries": _wrong_manifest_entries})


def month_verify(closing: Closing) -> list[LedgerCheck]:
    """Verify one closed month, except the entries of its manifest.

    Checking these takes as long as an export.
    """
    return _checks([(closing, _digests_of(closing))], _MONTH_CHECKS)


def _checks(known: list[tuple[Closing, Digests]], faults: dict[str, Faults]) -> list[LedgerCheck]:
    checks = []
    covered = [(closing, digests) for closing, digests in known if _has_digests(closing, digests)]
    without = len(known) - len(covered)
    for name, wrong in faults.items():
        detail = next(
            (
                f"{closing} of pool {closing.pool}: {fault}"
                for closing, digests in covered
                for fault in _faults(wrong, closing, digests)
            ),
            "",
        )
        looked_at = counted(len(covered), "month")
        if without:
            looked_at += f", {without} closed before the chain held digests"
        checks.append(LedgerCheck(name, not detail, detail or looked_at))
    return checks


def _has_digests(closing: Closing, digests: Digests) -> bool:
    """Return whether closing the month recorded digests, even if they have been deleted since."""
    # Deleting a month's digests must not turn its checks off: the rows of other closings still show that
    # digests were recorded at the time.
    covering = AuditedEntry.objects.filter(
        closing__pool=closing.pool, closing__month__lte=closing.month
    )
    return bool(digests) or covering.exists()


def _faults(wrong: Faults, closing: Closing, digests: Digests) -> Iterator[str]:
    """Yield the faults of a check, including stored values that cannot be read."""
    try:
        yield from wrong(closing, digests)
    except Unavailable as error:
        yield error.detail
    except _UNREADABLE as error:
        yield f"what is stored cannot be read ({type(error).__name__})"


def _digests_of(closing: Closing) -> Digests:
    """Return the sealed and pending digests of a closed month."""
    month = str(closing)
    return {
        (row.kind, row.name): bytes(row.sha256)
        # A digest waits for its seal for a moment after the closing.
        for model in (PendingDocument, SealedDocument)
        for row in model.objects.filter(pool=closing.pool, name__startswith=month)
        if row.name.partition("/")[0] == month
    }


def _wrong_statements(closing: Closing, digests: Digests) -> Iterator[str]:
    """Yield faults of the month's document, its statements and their billed amounts."""
    if digests.get((DocumentKind.MONTH, str(closing))) != digest(bytes(closing.document)):
        yield "the month's document does not match its digest in the chain"
    stated = document_of(bytes(closing.document))
    for name, value in _stated_again(closing).items():
        # A document of an earlier release may lack the name.
        if stated.get(name, value) != value:
            yield f"its {name} differs from the month's document"
    missing = {name for kind, name in digests if kind == DocumentKind.STATEMENT}
    for statement in statements_of(closing):
        name = statement_name(statement)
        # What stays is in the chain without a statement: deleting one leaves its digest behind.
        missing.discard(name)
        content = bytes(statement.document)
        if digests.get((DocumentKind.STATEMENT, name)) != digest(content):
            yield f"the statement of {statement.tenant.slug} does not match its digest in the chain"
        elif f"{statement.billed:f}" != _padded(document_of(content)["totals"]["billed"]):
            yield f"the statement of {statement.tenant.slug} does not bill the amount of its document"
    for name in sorted(missing):
        yield f"the statement of {name.partition('/')[2]} is missing"


def _stated_again(closing: Closing) -> dict[str, Any]:
    """Return the values of a month's document that columns repeat.

    Reading and rating use the columns.
    """
    return {
        "month": str(closing),
        "from": instant_text(closing.start),
        "to": instant_text(closing.end),
        "closed_at": instant_text(closing.closed_at),
        "sequence": closing.sequence,
        "currency": closing.pool.currency,
        "timezone": closing.pool.timezone,
    }


def _padded(amount: str) -> str:
    """Return an amount with the four decimals of the column."""
    whole, _, rest = amount.partition(".")
    return f"{whole}.{rest:0<4}"


@exactly
def _lines_as_posted(closing: Closing) -> list[str]:
    pool, month = closing.pool, month_of(closing.start, closing.pool.timezone)
    stored = stored_lines(pool, month)
    slugs = tenants_of(pool, month, stored)
    lines = in_order(stored, slugs, [each.name for each in resources_of(pool)])
    keys = {slug: key for key, slug in slugs.items()}
    found = []
    for statement in statements_of(closing):
        document, slug = document_of(bytes(statement.document)), statement.tenant.slug
        rows, totals = statement_lines(pool, keys.get(slug, statement.tenant_id), lines, slugs)
        if totals != document["totals"] or not _same(document["lines"], rows):
            found.append(f"the statement of {slug} differs from its postings")
    tenants = [statement.tenant_id for statement in statements_of(closing)]
    if any(line.currency != pool.currency for line in stored):
        found.append(f"some of its postings are not in {pool.currency}")
    accounts, _ = month_accounts(pool, lines, slugs, tenants)
    if accounts != document_of(bytes(closing.document))["accounts"]:
        found.append("its accounts differ from its postings")
    return found


def _same(stored: list[dict[str, Any]], made: list[dict[str, Any]]) -> bool:
    """Return whether lines agree in every stored field.

    Later releases may add fields.
    """
    return len(stored) == len(made) and all(
        all(line.get(name) == value for name, value in was.items())
        for was, line in zip(stored, made, strict=True)
    )


def _wrong_lines(closing: Closing, _: Digests) -> Iterator[str]:
    yield from _lines_as_posted(closing)


def _wrong_postings(closing: Closing, _: Digests) -> Iterator[str]:
    """Yield differences between the lines billed for a month and its entries as of the last closing."""
    pool, month = closing.pool, month_of(closing.start, closing.pool.timezone)
    # Later entries are not billed yet: the open month has their adjustments.
    last = Closing.objects.filter(pool=pool).latest("month")
    found = differences(
        rated=month_rated(pool=pool, month=month, through=last.sequence).rated.lines,
        billed=billed_lines(pool, month),
        kind=LineKind.ADJUSTMENT,
        month=month,
    )
    for each in found:
        line = each.line
        yield (
            f"postings of {line.adjusted_kind} of {line.resource or line.note} to {line.tenant.slug}"
            f" lack {line.tenant_amount:f} {line.currency} of what its entries and prices come to"
        )


def _wrong_plans(closing: Closing, digests: Digests) -> Iterator[str]:
    """Yield the price plans that do not match their digests."""
    plans = {f"{closing}/{plan.number}": plan for plan in plans_behind(closing)}
    for (kind, name), sha256 in digests.items():
        if kind == DocumentKind.PRICE_PLAN:
            plan = plans.get(name)
            # Its end may have been set since, when the next plan was published.
            made = plan is not None and sha256 in (
                plan_digest(plan, closing=closing),
                plan_digest(plan, closing=closing, open_end=True),
            )
            if not made:
                yield f"price plan {name.partition('/')[2]} does not match its digest in the chain"


def _wrong_audit(closing: Closing, digests: Digests) -> Iterator[str]:
    if digests.get((DocumentKind.AUDIT, str(closing))) != audit_digest(closing):
        yield "the audit records covered by its closing do not match their digest in the chain"


def _wrong_manifest(closing: Closing, digests: Digests) -> Iterator[str]:
    manifest = Manifest.objects.filter(closing=closing).first()
    sealed = digests.get((DocumentKind.MANIFEST, str(closing)))
    made = None if manifest is None else digest(bytes(manifest.document))
    if made != sealed:
        yield "its manifest does not match its digest in the chain"


def _wrong_manifest_entries(closing: Closing, _: Digests) -> Iterator[str]:
    manifest = Manifest.objects.filter(closing=closing).first()
    if manifest is not None:
        stored = bytes(manifest.document)
        if canonical(manifest_document(closing)) != stored:
            yield "its manifest differs from its entries"


_MONTH_CHECKS: dict[str, Faults] = {
    "statements": _wrong_statements,
    "statement_lines": _wrong_lines,
    "postings": _wrong_postings,
    "price_plans": _wrong_plans,
    "audit": _wrong_audit,
    "manifests": _wrong_manifest,
}
