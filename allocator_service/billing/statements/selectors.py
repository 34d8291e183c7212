"""Reads of statements, as stored bytes of closed months and computed for open months."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Exists, Func, OuterRef, Q, QuerySet

from allocator_service.billing.models import Closing, Posting, Statement
from allocator_service.billing.months import Month, month_named, month_of, months_between
from allocator_service.billing.plans.timeline import commitments_of
from allocator_service.billing.rating.lines import in_order, minor_digits
from allocator_service.billing.rating.savings import savings
from allocator_service.billing.statements.closing import (
    closing_missing,
    closing_of,
    tenants_of,
)
from allocator_service.billing.statements.clusters import month_clusters
from allocator_service.billing.statements.documents import (
    CLOSED,
    OPEN,
    account_totals,
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
from allocator_service.core.money import exactly
from allocator_service.core.selecting import missing
from allocator_service.ledger.amounts.totals import WIDTHS
from allocator_service.ledger.models import OpenUse, OwnerTotal, Seal, Total
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant

BY_DAYS = 2  # the level of totals whose buckets are four days wide


@dataclass(frozen=True)
class StatementRow:
    """A statement in a list.

    `billed` is None while it is open, because it is computed when it is read.
    """

    month: str
    tenant: str
    state: str
    billed: str | None
    closed_at: datetime | None


def statement_not_found() -> Missing:
    """Return the error for a month or a tenant that has no statement."""
    return missing("statement.not_found")


def month_get(*, pool: Pool, name: str, now: datetime) -> Month:
    """Return the month that is written as 2027-03, if the pool has prices in it and it has begun.

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
    """Return the statements of closed months, then those of the open ones, by month and tenant."""
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
        # Members have a statement in every month, if only an empty one.
        admitted = dict(pool.memberships.values_list("tenant__slug", "admitted_at"))
        for each in months_between(earliest.start, now, pool.timezone):
            if month not in (None, str(each)):
                continue
            slugs = {slug for slug, at in admitted.items() if at < each.end}
            others = _concerned(pool, each).exclude(slug__in=slugs)
            if tenant is not None:
                others = others.filter(pk=tenant.pk)
            # A draft rates the whole month: only if a tenant besides the members may have lines.
            if others.exists():
                of = None if tenant is None else tenant.pk
                lines = month_draft(pool=pool, month=each, tenant=of).lines
                slugs |= set(tenants_of(pool, each, lines).values())
            rows += [
                StatementRow(str(each), slug, OPEN, None, None)
                for slug in sorted(slugs)
                if tenant is None or slug == tenant.slug
            ]
    return [row for row in rows if month in (None, row.month)]


def _concerned(pool: Pool, month: Month) -> QuerySet[Tenant]:
    """Return the tenants that the lines of an open month may concern, members or not."""
    width = WIDTHS[BY_DAYS]
    buckets = [int(instant.timestamp()) // width for instant in (month.start, month.end)]
    of_month = {"pool": pool, "level": BY_DAYS, "bucket__range": buckets}
    stored = Posting.objects.filter(pool=pool, month=month.first)
    opened = OpenUse.objects.filter(pool=pool, start__lt=month.end)
    concerned = (
        Q(pk__in=Total.objects.filter(**of_month).values("tenant"))
        | Q(pk__in=OwnerTotal.objects.filter(**of_month).values("owner"))
        | Q(pk__in=opened.values("tenant"))
        | Q(pk__in=opened.annotate(owner=Func("owners", function="unnest")).values("owner"))
        | Q(pk__in=stored.values("tenant"))
        | Q(pk__in=stored.filter(owner__isnull=False).values("owner"))
        | Q(pk__in=[each.tenant_id for each in commitments_of(pool, month.start, month.end)])
    )
    # Late entries are adjusted for in the month after the last closing, and name former members.
    before = Closing.objects.filter(pool=pool, month=month.previous.first)
    for sequence in before.values_list("sequence", flat=True):
        late = Seal.objects.filter(sequence__gt=sequence, start__lt=month.start)
        concerned |= Q(Exists(late.filter(pool=pool, tenant=OuterRef("pk"))))
    return Tenant.objects.filter(concerned)


def statement_content(*, pool: Pool, month: Month, tenant: Tenant) -> bytes:
    """Return a tenant's statement as its document, stored or computed now. Raises `Missing`."""
    stored = Statement.objects.filter(
        closing__pool=pool, closing__month=month.first, tenant=tenant
    ).first()
    if stored is not None:
        return bytes(stored.document)
    # A closed month has statements of all that it concerns. None is computed afterwards.
    if closing_of(pool, month) is not None:
        raise statement_not_found()
    # Its own lines only: a statement of one tenant must not rate those of all.
    draft = month_draft(pool=pool, month=month, tenant=tenant.pk)
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
    clusters = month_clusters(pool, month, [tenant.pk])
    return canonical(
        statement_document(
            pool=pool,
            month=month,
            tenant=(tenant.pk, tenants[tenant.pk]),
            lines=lines,
            slugs=tenants,
            saved=saved,
            clusters=None if clusters is None else clusters.get(tenant.pk, {}),
            closed_at=None,
            sequence=None,
        )
    )


@dataclass(frozen=True)
class BillSoFar:
    """The amount billed for the current month as of now."""

    month: str
    billed: str


@exactly
def bill_so_far(*, pool: Pool, tenant: Tenant, now: datetime) -> BillSoFar | None:
    """Return the amount billed to a tenant for its current month, None in a pool without prices."""
    month, first = month_of(now, pool.timezone), first_month(pool)
    if first is None or month < first or closing_of(pool, month) is not None:
        return None
    totals, _, _ = account_totals(month_draft(pool=pool, month=month, tenant=tenant.pk).lines)
    billed = totals.get(tenant.pk, Decimal(0))
    return BillSoFar(str(month), money_text(billed, minor_digits(pool)))


def month_content(*, pool: Pool, month: Month, now: datetime) -> bytes:
    """Return a pool's month as its document, with the conditions that its closing lacks."""
    closing = closing_of(pool, month)
    if closing is not None:
        return bytes(closing.document)
    draft = month_draft(pool=pool, month=month)
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
    """Return the closing of a month. Raises `Missing` while it is open."""
    closing = closing_of(pool, month)
    if closing is None:
        raise Missing("The month is not closed yet.", code="statement.not_found")
    return closing
