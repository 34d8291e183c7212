"""Reads of statements: stored bytes of closed months, open months computed when they are read."""

from dataclasses import dataclass
from datetime import datetime

from allocator_service.billing.models import Closing, Statement
from allocator_service.billing.months import Month, month_named, months_between
from allocator_service.billing.rating.lines import in_order, minor_digits
from allocator_service.billing.rating.savings import savings
from allocator_service.billing.statements.closing import (
    closing_missing,
    closing_of,
    tenants_of,
)
from allocator_service.billing.statements.documents import (
    CLOSED,
    OPEN,
    canonical,
    money_text,
    month_document,
    statement_document,
)
from allocator_service.billing.statements.drafting import (
    closings_of,
    first_month,
    month_draft,
    open_month,
)
from allocator_service.core.errors import Missing
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant


@dataclass(frozen=True)
class StatementRow:
    """A statement in a list; `billed` is None while it is open: it is computed when it is read."""

    month: str
    tenant: str
    state: str
    billed: str | None
    closed_at: datetime | None


def statement_not_found() -> Missing:
    """The answer for a month or a tenant that has no statement."""
    return Missing("There is no such statement.", code="statement.not_found")


def month_get(*, pool: Pool, name: str, now: datetime) -> Month:
    """The month that is written as 2027-03, if the pool has prices in it and it has begun.

    Raises `Missing`.
    """
    month = month_named(name, pool.timezone)
    first = first_month(pool)
    if month is None or first is None or month < first or now < month.start:
        raise statement_not_found()
    return month


def statement_rows(
    *, pool: Pool, now: datetime, tenant: Tenant | None = None, month: str | None = None
) -> list[StatementRow]:
    """The statements of closed months, then those of the open ones; by month and tenant."""
    closed = Statement.objects.filter(closing__pool=pool)
    if tenant is not None:
        closed = closed.filter(tenant=tenant)
    names = ("closing__month", "tenant__slug", "billed", "closing__closed_at")
    digits = minor_digits(pool)
    rows = [
        StatementRow(f"{of:%Y-%m}", slug, CLOSED, money_text(billed, digits), closed_at)
        for of, slug, billed, closed_at in closed.order_by(
            "closing__month", "tenant__slug"
        ).values_list(*names)
    ]
    earliest = open_month(pool)
    if earliest is not None and earliest.start <= now:
        members = pool.memberships.order_by("tenant__slug")
        if tenant is not None:
            members = members.filter(tenant=tenant)
        for each in months_between(earliest.start, now, pool.timezone):
            rows += [
                StatementRow(str(each), slug, OPEN, None, None)
                for slug, admitted in members.values_list("tenant__slug", "admitted_at")
                if admitted < each.end
            ]
    return [row for row in rows if month in (None, row.month)]


def statement_content(*, pool: Pool, month: Month, tenant: Tenant, now: datetime) -> bytes:
    """A tenant's statement as its one document: as it was stored, or as it is now. Raises `Missing`."""
    stored = Statement.objects.filter(
        closing__pool=pool, closing__month=month.first, tenant=tenant
    ).first()
    if stored is not None:
        return bytes(stored.document)
    if closing_of(pool, month) is not None:
        raise statement_not_found()
    draft = month_draft(pool=pool, month=month, now=now, tenant=tenant.pk)
    tenants = tenants_of(pool, month, draft.lines)
    if tenant.pk not in tenants:
        raise statement_not_found()
    lines = in_order(draft.lines, tenants, [each.name for each in resources_of(pool)])
    saved = savings(
        tenant=tenant.pk,
        uses=draft.uses,
        prices=draft.prices,
        lines=lines,
        digits=minor_digits(pool),
    )
    return canonical(
        statement_document(
            pool=pool,
            month=month,
            tenant=(tenant.pk, tenants[tenant.pk]),
            lines=lines,
            slugs=tenants,
            saved=saved,
            closed_at=None,
            sequence=None,
        )
    )


def month_content(*, pool: Pool, month: Month, now: datetime) -> bytes:
    """A pool's month as its one document, with what it lacks to be closed."""
    closing = closing_of(pool, month)
    if closing is not None:
        return bytes(closing.document)
    draft = month_draft(pool=pool, month=month, now=now)
    tenants = tenants_of(pool, month, draft.lines)
    closings = closings_of(pool)
    missing = closing_missing(pool=pool, month=month, now=now)
    return canonical(
        month_document(
            pool=pool,
            month=month,
            lines=draft.lines,
            slugs=tenants,
            tenants=list(tenants),
            missing=[{"code": each.code, "detail": each.detail} for each in missing],
            closed_at=None,
            sequence=None,
            previous_sequence=closings[-1].sequence if closings else None,
        )
    )


def closing_get(*, pool: Pool, month: Month) -> Closing:
    """The closing of a month. Raises `Missing` while it is open."""
    closing = closing_of(pool, month)
    if closing is None:
        raise statement_not_found()
    return closing
