"""The tie-out of the ledger with statements and with entries that are not or cannot be billed.

The ledger's side is read from the totals that reports are read from, the other sides from postings and
from the entries. That they agree to the last digit is a check of each by the other.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Sum

from allocator_service.billing.models import DIFFERENCES, LineKind, Posting
from allocator_service.billing.months import HOUR_SECONDS, Month, month_of, months_between
from allocator_service.billing.rating.amounts import used_by_now
from allocator_service.billing.rating.lines import REASONS, Unrated, minor_digits
from allocator_service.billing.rating.months import month_rated
from allocator_service.billing.statements.drafting import (
    Draft,
    closings_of,
    month_draft,
    open_month,
)
from allocator_service.core.charts import BarRow, Chart, bar_chart
from allocator_service.core.errors import Unacceptable
from allocator_service.core.money import exactly
from allocator_service.core.quantities import EXACT_DIGITS, Resource
from allocator_service.core.snapshots import one_snapshot
from allocator_service.ledger.archive.reading import ENTRIES, entries_with_archived
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.models import Kind
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.models import Group, Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.tree_history import Place, groups_before, places_before
from allocator_service.tenants.models import Tenant

MAX_MONTHS = 36
ENTRIES_SHOWN = 20
TENANTS_SHOWN = 25
FROM_LEDGER = (LineKind.USAGE, LineKind.COMMITMENT)
DEFINITIONS = {
    "ledger": "Resource × seconds of the month's entries of kind usage, with their corrections.",
    "statements": "What of it is on statements of closed months, of this month or of later ones.",
    "not_yet_billed": "What of it is on the statement of a month that is open.",
    "not_billable": "What of it has no price. "
    + " ".join(f"{reason}: {why}" for reason, why in REASONS.items()),
    "difference": "ledger − statements − not_yet_billed − not_billable: 0.",
    "money": "Charges for what a tenant used, credits for its servers that others used; of statements"
    " closed and open of the months reported, whenever the service was.",
    "alone": "Entries of kind alone are what would have been used, and never billed.",
    "months": "Whole months of the pool's time zone: the period is widened to them.",
}
TREE_OF_MONTH = (
    "A month counts as a whole: a tenant belongs to the group if it did so at the end of the month, or"
    " does now where the month is open. A membership that had ended counts where it was last."
)
_NOTHING = Decimal(0)
_EXACT = Context(prec=EXACT_DIGITS)


@dataclass(frozen=True)
class Tie:
    """Four amounts of one month, tenant and resource that must agree."""

    month: Month
    tenant: str
    resource: Resource
    ledger: Decimal
    statements: Decimal
    not_yet_billed: Decimal
    not_billable: Decimal
    reasons: Sequence[str] = ()
    late: Sequence[UUID] = ()
    unbillable: Sequence[UUID] = ()

    @property
    def hours_not_billable(self) -> Decimal:
        return _EXACT.divide(self.not_billable, HOUR_SECONDS)

    @property
    def reason_text(self) -> str:
        return " ".join(REASONS[reason] for reason in self.reasons)

    @property
    def difference(self) -> Decimal:
        accounted = _EXACT.add(_EXACT.add(self.statements, self.not_yet_billed), self.not_billable)
        return _EXACT.subtract(self.ledger, accounted)


@dataclass(frozen=True)
class Account:
    """The charges and credits of a tenant in the months of the report."""

    tenant: str
    charges: Decimal
    credits: Decimal

    @property
    @exactly
    def billed(self) -> Decimal:
        return self.charges + self.credits


@dataclass(frozen=True)
class BillingReport:
    """Ties by month, tenant and resource, with accounts by tenant.

    In the report of a group, `group` is its sum and `groups` are the groups directly below it. Accounts
    and ties are those of all tenants below it, in the months in which they were.
    """

    pool: Pool
    period: Period
    ties: Sequence[Tie]
    accounts: Sequence[Account]
    group: Account | None = None
    groups: Sequence[Account] = ()

    @property
    def digits(self) -> int:
        return minor_digits(self.pool)

    def under(self, is_shown: Callable[[str], bool]) -> "BillingReport":
        """Return the part of the report that concerns the shown tenants."""
        return replace(
            self,
            ties=[tie for tie in self.ties if is_shown(tie.tenant)],
            accounts=[account for account in self.accounts if is_shown(account.tenant)],
        )


@dataclass
class _Sides:
    """The sums of one key while they are gathered."""

    ledger: Decimal = _NOTHING
    statements: Decimal = _NOTHING
    not_yet_billed: Decimal = _NOTHING
    not_billable: Decimal = _NOTHING
    reasons: set[str] = field(default_factory=set)
    late: list[UUID] = field(default_factory=list)
    times: list[Unrated] = field(default_factory=list)


def billing_report(
    *, pool: Pool, period: Period, now: datetime, tenant: Tenant | None = None
) -> BillingReport:
    """Return the months that a period reaches into. Raises `Unacceptable` for more than 36 of them."""
    months = _months(pool, period)
    # All sides as of one instant: an entry that arrives between two reads would be a difference.
    with one_snapshot():
        ties, accounts = _read(pool, months, now, tenant)
    by_tenant: dict[str, list[Account]] = {}
    for (_, slug), account in accounts.items():
        by_tenant.setdefault(slug, []).append(account)
    return BillingReport(
        pool,
        Period([months[0].start, months[-1].end]),
        ties,
        [_together(slug, each) for slug, each in sorted(by_tenant.items())],
    )


def group_billing(
    *, group: Group, period: Period, now: datetime, within: Group | None = None
) -> BillingReport:
    """Return the billing report of a group.

    A tenant counts in the months at whose end it was below the group. With `within`, only months count
    at whose end the group was within that one. Raises `Unacceptable` for more than 36 months.
    """
    pool = group.pool
    months = _months(pool, period)
    with one_snapshot():
        ties, accounts = _read(pool, months, now, None)
        places = {
            month.first: {
                place.tenant: place
                for place in _places(group, min(month.end, now), within).values()
            }
            for month in months
        }
    by_tenant: dict[str, list[Account]] = {}
    by_group: dict[str, list[Account]] = {}
    for (first, slug), account in accounts.items():
        place = places[first].get(slug)
        if place is not None:
            by_tenant.setdefault(slug, []).append(account)
            if place.child.is_group:
                by_group.setdefault(place.child.slug, []).append(account)
    return BillingReport(
        pool,
        Period([months[0].start, months[-1].end]),
        [tie for tie in ties if tie.tenant in places[tie.month.first]],
        [_together(slug, each) for slug, each in sorted(by_tenant.items())],
        _together(group.slug, [each for rows in by_tenant.values() for each in rows]),
        [_together(slug, each) for slug, each in sorted(by_group.items())],
    )


def _places(group: Group, before: datetime, within: Group | None) -> dict[int, Place]:
    if within is not None and group.pk not in groups_before(group=within, before=before):
        return {}
    return places_before(group=group, before=before)


def _months(pool: Pool, period: Period) -> list[Month]:
    months = months_between(period.start, period.end, pool.timezone)
    if len(months) > MAX_MONTHS:
        raise Unacceptable(
            f"The report would have {len(months)} months; the limit is {MAX_MONTHS}.",
            code="report.too_long",
        )
    return months


@exactly
def _together(name: str, accounts: Sequence[Account]) -> Account:
    return Account(
        name,
        sum((each.charges for each in accounts), _NOTHING),
        sum((each.credits for each in accounts), _NOTHING),
    )


@exactly
def _read(
    pool: Pool, months: Sequence[Month], now: datetime, tenant: Tenant | None
) -> tuple[list[Tie], dict[tuple[date, str], Account]]:
    """Return the ties, and the accounts by the first day of a month and the tenant's slug."""
    # Drafts of one tenant have lines of others, for its servers. Their keys are left out below.
    key = None if tenant is None else tenant.pk
    drafts = _drafts(pool, months, now, key)
    sides = _sides(pool, months, drafts, tenant)
    accounts = _accounts(pool, months, drafts, key)
    keys = {*(who for _, who, _ in sides), *(who for _, who in accounts)}
    slugs = dict(Tenant.objects.filter(pk__in=keys).values_list("pk", "slug"))
    resources = {each.name: each for each in resources_of(pool)}
    ties = [
        Tie(
            month,
            slugs[who],
            resources.get(name, Resource(name)),
            found.ledger,
            found.statements,
            found.not_yet_billed,
            found.not_billable,
            sorted(found.reasons),
            # An entry can be the cause of several lines.
            list(dict.fromkeys(found.late))[:ENTRIES_SHOWN],
            _entries_of(pool, who, name, found.times),
        )
        for (month, who, name), found in sides.items()
        if key in (None, who)
    ]
    ties.sort(key=lambda tie: (str(tie.month), tie.tenant, tie.resource.name))
    return ties, {
        (first, slugs[who]): Account(slugs[who], *both)
        for (first, who), both in accounts.items()
        if key in (None, who)
    }


def _drafts(pool: Pool, months: Sequence[Month], now: datetime, tenant: int | None) -> list[Draft]:
    """Return drafts of the report's open months and of the one to which late entries go."""
    earliest = open_month(pool)
    if earliest is None:
        return []
    required = {str(each): each for each in months if not each < earliest and each.start <= now}
    # Late entries of closed months are billed in the earliest open one, even outside the report.
    required[str(earliest)] = earliest
    return [month_draft(pool=pool, month=month, tenant=tenant) for month in required.values()]


def _sides(
    pool: Pool, months: Sequence[Month], drafts: Sequence[Draft], tenant: Tenant | None
) -> dict[tuple[Month, int, str], _Sides]:
    by_first = {month.first: month for month in months}
    sides: dict[tuple[Month, int, str], _Sides] = {}

    def of(first: Any, who: int, resource: str) -> _Sides | None:
        month = by_first.get(first)
        return None if month is None else sides.setdefault((month, who, resource), _Sides())

    edges = [months[0].start, *(month.end for month in months)]
    limit = None if tenant is None else tenant.pk
    for use in used_by_now(pool=pool, edges=edges, tenant=limit):
        side = of(months[use.segment].first, use.tenant, use.resource)
        # Use alone is in the totals as well, and is never billed.
        if side is not None and use.kind == Kind.USAGE:
            side.ledger = _EXACT.add(side.ledger, use.amount)
    for first, who, resource, amount in _closed_amounts(pool, months, tenant):
        side = of(first, who, resource)
        if side is not None:
            side.statements = _EXACT.add(side.statements, amount)
    for draft in drafts:
        for line in draft.lines:
            if line.rated_kind in FROM_LEDGER and line.resource:
                side = of(line.service_month, line.tenant_id, line.resource)
                if side is not None:
                    side.not_yet_billed = _EXACT.add(side.not_yet_billed, line.amount)
                    side.late += line.entries or ()
    for unrated in _unrated(pool, months, tenant):
        side = of(unrated.service_month.first, unrated.tenant, unrated.resource)
        if side is not None:
            side.not_billable = _EXACT.add(side.not_billable, unrated.amount)
            side.reasons.add(unrated.reason)
            side.times.append(unrated)
    return sides


def _closed_amounts(
    pool: Pool, months: Sequence[Month], tenant: Tenant | None
) -> Iterable[tuple[Any, int, str, Decimal]]:
    # Postings of months that are not closed are repeated by their drafts, and would count twice.
    closed = [closing.month for closing in closings_of(pool)]
    found = Posting.objects.filter(
        pool=pool,
        month__in=closed,
        service_month__in=[month.first for month in months],
        kind__in=[*FROM_LEDGER, *DIFFERENCES],
        # A difference of another kind, such as a fixed cost, has no entries in the ledger.
        adjusted_kind__in=["", *FROM_LEDGER],
    )
    if tenant is not None:
        found = found.filter(tenant=tenant)
    names = ("service_month", "tenant", "resource")
    rows: Any = found.order_by().values_list(*names).annotate(amount=Sum("amount"))
    return list(rows)


def _unrated(pool: Pool, months: Sequence[Month], tenant: Tenant | None) -> Iterable[Unrated]:
    """Yield the sealed use of every month that has no price."""
    limit = None if tenant is None else tenant.pk
    for month in months:
        yield from month_rated(pool=pool, month=month, tenant=limit).rated.unrated


def _accounts(
    pool: Pool, months: Sequence[Month], drafts: Sequence[Draft], tenant: int | None
) -> dict[tuple[date, int], tuple[Decimal, Decimal]]:
    """Return charges and credits by month and tenant, of stored statements and of open ones."""
    firsts = {month.first for month in months}
    closed = {closing.month for closing in closings_of(pool)} & firsts
    sums: dict[tuple[date, int], list[Decimal]] = {}

    def add(month: date, who: int | None, side: int, amount: Decimal) -> None:
        if who is not None and tenant in (None, who):
            sums.setdefault((month, who), [_NOTHING, _NOTHING])[side] += amount

    stored = Posting.objects.filter(pool=pool, month__in=closed).order_by()
    # A line charges its tenant and credits the owner of the servers.
    for side, who, leg in ((0, "tenant", "tenant_amount"), (1, "owner", "owner_amount")):
        for month, key, amount in stored.values_list("month", who).annotate(amount=Sum(leg)):
            add(month, key, side, amount)
    for draft in drafts:
        if draft.month.first in firsts:
            for line in draft.lines:
                add(draft.month.first, line.tenant_id, 0, line.tenant_amount)
                add(draft.month.first, line.owner_id, 1, line.owner_amount)
    return {key: (charges, credited) for key, (charges, credited) in sums.items()}


_UNBILLABLE = """
SELECT id FROM ledger_entry
WHERE pool_id = %s AND tenant_id = %s AND resource = %s AND kind <> 'alone'
  AND start < %s AND "end" > %s ORDER BY start, id LIMIT %s
"""


def _entries_of(pool: Pool, tenant: int, resource: str, times: Sequence[Unrated]) -> list[UUID]:
    """Return some of the entries that have no price."""
    if not times:
        return []
    begin, end = min(each.start for each in times), max(each.end for each in times)
    archived = Selection(pool=pool.pk, begin=begin, end=end)
    with (
        transaction.atomic(),
        entries_with_archived(archived) as relation,
        connection.cursor() as cursor,
    ):
        cursor.execute(
            _UNBILLABLE.replace(ENTRIES, relation),
            [pool.pk, tenant, resource, end, begin, ENTRIES_SHOWN],
        )
        return [id_ for (id_,) in cursor.fetchall()]


def billing_chart(report: BillingReport) -> Chart:
    """Return a chart of the charges and credits of each tenant, the largest first."""
    known = sorted(report.accounts, key=lambda account: -account.charges)
    months = f"{month_of(report.period.start, report.pool.timezone)}"
    return bar_chart(
        title=f"Charges and credits in {report.pool.slug} since {months}",
        unit=report.pool.currency,
        series=["charges", "credits"],
        rows=[
            BarRow(
                each.tenant,
                [float(max(each.charges, _NOTHING)), float(max(-each.credits, _NOTHING))],
            )
            for each in known[:TENANTS_SHOWN]
        ],
    )
