"""Documents of statements, from which every format is made."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import orjson

from allocator_service.billing.models import DIFFERENCES, LineKind, Posting
from allocator_service.billing.months import HOUR_DIGITS, HOUR_SECONDS, Month
from allocator_service.billing.rating.amounts import seconds
from allocator_service.billing.rating.lines import minor_digits
from allocator_service.billing.rating.savings import DEFINITION, Savings
from allocator_service.billing.rating.savings import REASONS as SAVINGS_REASONS
from allocator_service.billing.statements.clusters import ClusterHours
from allocator_service.core.former_keys import first_keys
from allocator_service.core.money import exactly, rounded
from allocator_service.core.quantities import EXACT_DIGITS, decimal_text
from allocator_service.ledger.amounts.clusters import cluster_order
from allocator_service.pools.models import Metering, Pool

OPEN, CLOSED = "open", "closed"
CHARGE, CREDIT = "charge", "credit"
REPORTED = (
    "Reports of usage in this pool do not state whose servers were used. All of it is charged as use of"
    " the pool's servers."
)
LINE_COLUMNS = (
    "number",
    "kind",
    "role",
    "resource",
    "unit",
    "server_owner",
    "user",
    "plan",
    "from",
    "to",
    "service_month",
    "amount",
    "hours",
    "price",
    "charge",
    "fee",
    "billed",
    "effective",
    "entry",
    "adjusts",
    "note",
    "adjusted_kind",
    "commitment",
    "entries",
    "parts",
    "committed_hours",
)


def canonical(document: Mapping[str, Any]) -> bytes:
    """Return the bytes that are stored and served."""
    # In the order in which the document is written: equal documents have equal bytes.
    return orjson.dumps(document)


def document_of(content: bytes) -> dict[str, Any]:
    """Return the document in its stored bytes."""
    document: dict[str, Any] = orjson.loads(content)
    return document


def instant_text(instant: datetime) -> str:
    """Return an instant as RFC 3339 in UTC."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


@exactly
def money_text(amount: Decimal, digits: int) -> str:
    """Return an amount with all digits of its currency."""
    # + 0 turns -0, which a sum of credits can be, into 0.
    return f"{amount.quantize(Decimal(1).scaleb(-digits)) + 0:f}"


@exactly
def statement_document(
    *,
    pool: Pool,
    month: Month,
    tenant: tuple[int, str],
    lines: Sequence[Posting],
    slugs: Mapping[int, str],
    saved: Savings,
    clusters: ClusterHours | None,
    closed_at: datetime | None,
    sequence: int | None,
) -> dict[str, Any]:
    """Return the statement of a tenant for a month.

    `tenant` is its key and slug, and `lines` must be in order. `clusters` are None in a pool without
    clusters, whose statements have no such field.
    """
    key, slug = tenant
    rows, totals = statement_lines(pool, key, lines, slugs)
    return {
        "pool": pool.slug,
        "tenant": slug,
        "month": str(month),
        "state": CLOSED if closed_at else OPEN,
        "currency": pool.currency,
        "timezone": pool.timezone,
        "from": instant_text(month.start),
        "to": instant_text(month.end),
        "closed_at": None if closed_at is None else instant_text(closed_at),
        "sequence": sequence,
        "lines": rows,
        "totals": totals,
        "savings": savings_document(saved, minor_digits(pool)),
        "method": {"policy": pool.policy_name, "mode": pool.policy_mode},
        "notes": [REPORTED] if pool.metering == Metering.REPORTED else [],
        **({} if clusters is None else {"clusters": clusters_document(clusters)}),
    }


def clusters_document(clusters: ClusterHours) -> list[dict[str, Any]]:
    """Return the hours used on each cluster by resource, the unknown cluster last."""
    return [
        {
            "cluster": cluster,
            "hours": {name: hours_text(amount) for name, amount in sorted(amounts.items())},
        }
        for cluster, amounts in sorted(clusters.items(), key=lambda row: cluster_order(row[0]))
    ]


@exactly
def statement_lines(
    pool: Pool, tenant: int, lines: Sequence[Posting], slugs: Mapping[int, str]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return a tenant's lines of a month as its statement has them, and their totals."""
    digits = minor_digits(pool)
    shown = [line for line in lines if tenant in (line.tenant_id, line.owner_id)]
    commitments: Mapping[int, int] = {}
    if any(line.commitment_id for line in shown):
        commitments = first_keys(pool=pool.slug, object_type="commitment")
    rows = [
        _line_document(number, line, tenant, slugs, digits, commitments)
        for number, line in enumerate(shown, start=1)
    ]
    return rows, _totals(shown, tenant, digits)


def _line_document(
    number: int,
    line: Posting,
    tenant: int,
    slugs: Mapping[int, str],
    digits: int,
    commitments: Mapping[int, int],
) -> dict[str, Any]:
    commitment = line.commitment_id
    charged = line.tenant_id == tenant
    billed = line.tenant_amount if charged else line.owner_amount
    committed = _committed_hours(line)
    # Upfront prices and fixed costs are not for hours used.
    by_usage = bool(line.resource) and line.rated_kind != LineKind.UPFRONT
    return {
        "number": number,
        "kind": line.kind,
        "role": CHARGE if charged else CREDIT,
        "resource": line.resource or None,
        "unit": line.unit or None,
        "server_owner": None if line.owner_id is None else slugs[line.owner_id],
        "user": slugs[line.tenant_id],
        "plan": None if line.plan is None else f"{line.plan.number}: {line.plan.name}",
        "from": instant_text(line.start),
        "to": instant_text(line.end),
        "service_month": f"{line.service_month:%Y-%m}",
        "amount": decimal_text(line.amount) if by_usage else None,
        "hours": hours_text(line.amount) if by_usage else None,
        "price": None if line.price is None else decimal_text(line.price),
        "charge": money_text(line.tenant_amount, digits),
        "fee": money_text(-line.fee_amount, digits),
        "billed": money_text(billed, digits),
        "effective": money_text(line.effective if charged else billed, digits),
        "entry": None if line.entry is None else str(line.entry),
        "adjusts": f"{line.service_month:%Y-%m}" if line.service_month != line.month else None,
        "note": line.note or None,
        "adjusted_kind": line.rated_kind if line.kind in DIFFERENCES else None,
        "commitment": None if commitment is None else str(commitments.get(commitment, commitment)),
        "entries": [str(entry) for entry in line.entries or ()],
        # Left out where there is nothing to state, so that the release before verifies the line.
        **({"parts": _parts(line.parts)} if line.parts else {}),
        **({} if committed is None else {"committed_hours": committed}),
    }


def _parts(parts: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    return [{"price": price, "hours": hours} for price, hours in parts]


def _committed_hours(line: Posting) -> str | None:
    """Return the hours of an upfront price, which are its commitment's units × the hours of its term."""
    if line.kind != LineKind.UPFRONT or line.commitment is None:
        return None
    lasts = seconds(line.commitment.end - line.commitment.start)
    return hours_text(line.commitment.quantity * lasts)


def hours_text(amount: Decimal) -> str:
    """Return unit × seconds in hours, to the nearest of twelve digits."""
    with localcontext(prec=EXACT_DIGITS):
        return decimal_text(rounded(Fraction(amount) / HOUR_SECONDS, HOUR_DIGITS))


def _totals(lines: Sequence[Posting], tenant: int, digits: int) -> dict[str, str]:
    # A line on the tenant's own servers is a charge, and no credit besides.
    own = [line for line in lines if line.tenant_id == tenant]
    charges = sum((line.tenant_amount for line in own), Decimal(0))
    credits_ = sum((line.owner_amount for line in lines if line.tenant_id != tenant), Decimal(0))
    effective = sum((line.effective for line in own), Decimal(0)) + credits_
    return {
        "charges": money_text(charges, digits),
        "credits": money_text(credits_, digits),
        "billed": money_text(charges + credits_, digits),
        "effective": money_text(effective, digits),
    }


@exactly
def savings_document(saved: Savings, digits: int) -> dict[str, Any]:
    """Return the savings by sharing, with their definition."""

    def text(amount: Decimal | None) -> str | None:
        return None if amount is None else money_text(amount, digits)

    return {
        "alone_cost": text(saved.alone_cost),
        "outside_cost": text(saved.outside_cost),
        "paid": text(saved.paid),
        "saved": text(saved.saved),
        "reason": saved.reason,
        "why": None if saved.reason is None else SAVINGS_REASONS[saved.reason],
        "lost_hours": {name: hours_text(amount) for name, amount in sorted(saved.lost.items())},
        "definition": DEFINITION,
    }


@exactly
def account_totals(lines: Iterable[Posting]) -> tuple[dict[int, Decimal], Decimal, Decimal]:
    """Return the sums of the lines for each tenant's account, for the pool's fee, and for the pool."""
    tenants: dict[int, Decimal] = {}
    fee = pool = Decimal(0)
    for line in lines:
        tenants[line.tenant_id] = tenants.get(line.tenant_id, Decimal(0)) + line.tenant_amount
        if line.owner_id is not None:
            tenants[line.owner_id] = tenants.get(line.owner_id, Decimal(0)) + line.owner_amount
        fee += line.fee_amount
        pool += line.pool_amount
    return tenants, fee, pool


@exactly
def month_document(
    *,
    pool: Pool,
    month: Month,
    lines: Sequence[Posting],
    slugs: Mapping[int, str],
    tenants: Sequence[int],
    missing: Sequence[Mapping[str, str]],
    closed_at: datetime | None,
    sequence: int | None,
    previous_sequence: int | None,
) -> dict[str, Any]:
    """Return a pool's month with its sums for every account, which add up to 0."""
    accounts, sum_ = month_accounts(pool, lines, slugs, tenants)
    return {
        "pool": pool.slug,
        "month": str(month),
        "state": CLOSED if closed_at else OPEN,
        "currency": pool.currency,
        "timezone": pool.timezone,
        "from": instant_text(month.start),
        "to": instant_text(month.end),
        "closed_at": None if closed_at is None else instant_text(closed_at),
        "sequence": sequence,
        "previous_sequence": previous_sequence,
        "missing": list(missing),
        "lines": len(lines),
        "accounts": accounts,
        "sum": sum_,
    }


@exactly
def month_accounts(
    pool: Pool, lines: Sequence[Posting], slugs: Mapping[int, str], tenants: Sequence[int]
) -> tuple[list[dict[str, str | None]], str]:
    """Return the sums of a month's lines for every account, and the sum of these."""
    digits = minor_digits(pool)
    by_tenant, fee, own = account_totals(lines)
    accounts: list[dict[str, str | None]] = [
        {
            "account": "tenant",
            "tenant": slugs[key],
            "billed": money_text(by_tenant.get(key, Decimal(0)), digits),
        }
        # By slug, so that the stored bytes do not depend on the keys of this database.
        for key in sorted(tenants, key=lambda key: slugs[key])
    ]
    accounts += [
        {"account": "fee", "tenant": None, "billed": money_text(fee, digits)},
        {"account": "pool", "tenant": None, "billed": money_text(own, digits)},
    ]
    return accounts, money_text(sum(by_tenant.values(), Decimal(0)) + fee + own, digits)
