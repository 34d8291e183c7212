"""Balances of budgets in their present periods.

Use is read from the sums of the ledger, sealed entries and their corrections alone, so that it equals
the reports to the last digit. All budgets of a pool are read by one or two statements, and the work
grows neither with the ledger nor with the length of the periods.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from zoneinfo import ZoneInfo

from django.db.models import QuerySet

from allocator_service.billing.models import Budget
from allocator_service.billing.months import HOUR_SECONDS, Month, month_of
from allocator_service.billing.rating.lines import minor_digits
from allocator_service.billing.statements.documents import account_totals, money_text
from allocator_service.billing.statements.drafting import first_month, month_draft
from allocator_service.core.durations import parse_duration
from allocator_service.core.money import exactly
from allocator_service.core.quantities import decimal_text
from allocator_service.ledger.amounts.clusters import cluster_order, used_by_cluster
from allocator_service.ledger.amounts.rate_changes import amounts_between
from allocator_service.ledger.models import Kind
from allocator_service.pools.clusters import has_had_clusters
from allocator_service.pools.models import Pool
from allocator_service.pools.tree_history import Times, members_over
from allocator_service.tenants.models import Tenant

# A Monday and the first of a year: weeks begin on Mondays, months, quarters and years by the calendar.
_FIRST_DAY = (2001, 1, 1)
# The present rate is the average of a day, because work has rhythms of days.
RATE_OVER = timedelta(days=1)
_HOUR_DIGITS = 2
_QUANTUM = Decimal(1).scaleb(-12)
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class Span:
    """The interval `[start, end)`."""

    start: datetime
    end: datetime


@dataclass(frozen=True)
class Balance:
    """A budget in its present period.

    Amounts are in the pool's currency, or in resource-seconds, which are exact where hours may not be.

    Attributes:
        available: the amount of a period and what was carried over.
        carried: carried over from the period before.
        left: what remains. Below 0 if more was spent.
        exhausted_on: the instant at which the present rate exhausts the budget, None if the budget is
        exhausted, lasts until the period ends, or is of money.
    """

    budget: Budget
    period: Span
    available: Decimal
    carried: Decimal
    spent: Decimal
    left: Decimal
    exhausted_on: datetime | None = None

    @property
    def is_exhausted(self) -> bool:
        return self.left <= 0

    @property
    def unit(self) -> str:
        """Unit of the texts."""
        return "hours" if self.budget.resource else str(self.budget.pool.currency)

    @exactly
    def written(self, value: Decimal) -> Decimal:
        """Return a value in hours or money, rounded half-even to 12 digits."""
        if self.budget.resource:
            return hours_written(value)
        return value.quantize(_QUANTUM, ROUND_HALF_EVEN)

    def text(self, value: Decimal) -> str:
        """Return a value for people, rounded to the currency's minor unit or hundredths of an hour.

        It has at least the digits of the budget's amount, which is therefore never rounded.
        """
        digits = _HOUR_DIGITS if self.budget.resource else minor_digits(self.budget.pool)
        digits = max(digits, len(decimal_text(self.budget.amount).partition(".")[2]))
        return money_text(self.written(value), digits)

    @property
    def left_text(self) -> str:
        return self.text(self.left)

    @property
    def available_text(self) -> str:
        return self.text(self.available)

    @property
    def carried_text(self) -> str:
        return self.text(self.carried)

    @property
    def spent_text(self) -> str:
        return self.text(self.spent)


@exactly
def hours_written(value: Decimal) -> Decimal:
    """Return resource-seconds in hours, rounded half-even to 12 digits."""
    return (value / HOUR_SECONDS).quantize(_QUANTUM, ROUND_HALF_EVEN)


def budgets_for(pool: Pool, tenant: Tenant | None) -> QuerySet[Budget]:
    """Return the budgets of the pool that a caller may see, which for a tenant are its own."""
    budgets = Budget.objects.filter(pool=pool, retired_at=None)
    budgets = budgets.select_related("tenant", "group", "pool")
    return budgets if tenant is None else budgets.filter(tenant=tenant)


def period_of(budget: Budget, at: datetime) -> Span | None:
    """Return the period of a budget around an instant, None before the first and after the last."""
    begins, ends = budget.starts_at, budget.ends_at
    if (begins is not None and at < begins) or (ends is not None and at >= ends):
        return None
    if not budget.per:
        return None if begins is None or ends is None else Span(begins, ends)
    zone = ZoneInfo(budget.pool.timezone)
    anchor = begins or datetime(*_FIRST_DAY, tzinfo=zone).astimezone(UTC)
    start, end = parse_duration(budget.per).around(at, anchor, zone)
    return Span(start, end if ends is None else min(end, ends))


def _period_before(budget: Budget, period: Span) -> Span | None:
    """Return the period whose unused part is carried over, None if the budget did not exist then."""
    if not budget.carry or budget.created_at >= period.start:
        return None
    # The instant before belongs to the period before, whatever its length by the calendar.
    return period_of(budget, period.start - _TICK)


@exactly
def balances(
    *, pool: Pool, budgets: Sequence[Budget], now: datetime, rates: bool = False
) -> list[Balance]:
    """Return the balances of budgets of a pool that have a present period, in their order.

    With `rates`, the use of the last day determines `exhausted_on`.
    """
    present = [
        (budget, period) for budget in budgets if (period := period_of(budget, now)) is not None
    ]
    money = _money(pool, month_of(now, pool.timezone), [each for each, _ in present])
    # The spans of a budget: its period, the one before, and the last day.
    spans: list[tuple[Budget, Span]] = []
    for budget, period in present:
        if budget.resource:
            # Its use is read again: it may have been corrected since.
            before = _period_before(budget, period)
            day = Span(now - RATE_OVER, now) if rates else None
            spans += [(budget, span) for span in (period, before, day) if span is not None]
    used = dict(zip(((each.pk, span) for each, span in spans), _used(pool, spans), strict=True))
    found = []
    for budget, period in present:
        if not budget.resource:
            spent = money.get(budget.tenant_id, Decimal(0))
            left = budget.amount - spent
            found.append(Balance(budget, period, budget.amount, Decimal(0), spent, left))
            continue
        amount, spent = budget.amount * HOUR_SECONDS, used[budget.pk, period]
        carried = Decimal(0)
        before = _period_before(budget, period)
        if before is not None:
            # Only the amount of one period: what it had carried over itself does not accumulate.
            unused = max(amount - used[budget.pk, before], Decimal(0))
            carried = min(budget.carry * amount, unused)
        left = amount + carried - spent
        last_day = used[budget.pk, Span(now - RATE_OVER, now)] if rates else Decimal(0)
        found.append(
            Balance(
                budget,
                period,
                amount + carried,
                carried,
                spent,
                left,
                _exhausted_on(left, last_day, now, period),
            )
        )
    return found


def _exhausted_on(left: Decimal, last_day: Decimal, now: datetime, period: Span) -> datetime | None:
    if left <= 0 or last_day <= 0:
        return None
    seconds = left / last_day * int(RATE_OVER.total_seconds())
    # It lasts until the period ends, with which the budget begins anew.
    if seconds >= Decimal((period.end - now).total_seconds()):
        return None
    return now + timedelta(seconds=float(seconds))


def tenant_balances(*, pool: Pool, tenant: Tenant, now: datetime) -> list[Balance]:
    """Return the balances of a tenant's own budgets in a pool."""
    return balances(pool=pool, budgets=list(budgets_for(pool, tenant)), now=now, rates=True)


def _money(pool: Pool, month: Month, budgets: Sequence[Budget]) -> dict[int | None, Decimal]:
    """Return what the tenants of money budgets have spent in a month, by their keys."""
    tenants = {each.tenant_id for each in budgets if not each.resource}
    if not tenants or first_month(pool) is None:
        return {}
    # A draft of one tenant's lines reads its entries alone. Of several, one draft serves all.
    of_one = next(iter(tenants)) if len(tenants) == 1 else None
    spent, _, _ = account_totals(month_draft(pool=pool, month=month, tenant=of_one).lines)
    return dict(spent.items())


@exactly
def spent_by_cluster(*, budget: Budget, period: Span) -> list[tuple[str | None, Decimal]]:
    """Return the resource-seconds of a budget's period by cluster, None for an unknown one.

    None are of a budget of money, whose prices are not those of a cluster, and in a pool without
    clusters.
    """
    pool = budget.pool
    if not budget.resource or not has_had_clusters(pool):
        return []
    groups = set() if budget.group is None else {budget.group}
    below = (
        members_over(pool=pool, groups=groups, start=period.start, end=period.end) if groups else {}
    )
    parts = _parts(budget, period, below)
    spans: dict[int, list[Span]] = {}
    for tenant, span in (*parts.whole, *parts.cut):
        spans.setdefault(tenant, []).append(span)
    edges = sorted(
        {period.start, period.end}.union(*({span.start, span.end} for _, span in parts.cut))
    )
    spent: dict[str | None, Decimal] = {}
    for use in used_by_cluster(pool=pool, edges=edges, among=spans):
        if use.resource == budget.resource and any(
            # Spans begin and end at edges, so that an interval is inside as a whole.
            span.start <= edges[use.interval] < span.end
            for span in spans[use.tenant]
        ):
            spent[use.cluster] = spent.get(use.cluster, Decimal(0)) + use.amount
    return sorted(spent.items(), key=lambda row: cluster_order(row[0]))


_Key = tuple[int, str]


def _used(pool: Pool, spans: Sequence[tuple[Budget, Span]]) -> list[Decimal]:
    """Return the resource-seconds that the node of each budget used within a span."""
    if not spans:
        return []
    groups = {each.group for each, _ in spans if each.group is not None}
    start = min(span.start for _, span in spans)
    end = max(span.end for _, span in spans)
    below = members_over(pool=pool, groups=groups, start=start, end=end) if groups else {}
    parts = [_parts(budget, span, below) for budget, span in spans]
    whole = {tenant for each in parts for tenant, _ in each.whole}
    moved = {tenant for each in parts for tenant, _ in each.cut}
    edges = {edge for _, span in spans for edge in (span.start, span.end)}
    # Tenants that moved are read with the instants of their moves, all others without.
    sums = _Sums(pool, edges, whole)
    moves = {edge for each in parts for _, part in each.cut for edge in (part.start, part.end)}
    sums_of_moved = _Sums(pool, edges | moves, moved)
    return [
        sum(
            (
                of.between((tenant, budget.resource), part)
                for of, rows in ((sums, each.whole), (sums_of_moved, each.cut))
                for tenant, part in rows
            ),
            Decimal(0),
        )
        for (budget, _), each in zip(spans, parts, strict=True)
    ]


@dataclass(frozen=True)
class _Parts:
    """The tenants below a node within a span.

    `whole` were there all the time, `cut` for a part of it.
    """

    whole: Sequence[tuple[int, Span]]
    cut: Sequence[tuple[int, Span]]


def _parts(budget: Budget, span: Span, below: Mapping[int, Mapping[int, Times]]) -> _Parts:
    if budget.tenant_id is not None:
        return _Parts([(budget.tenant_id, span)], [])
    whole, cut = [], []
    for tenant, times in below[budget.group_id or 0].items():
        for since, until in times:
            part = Span(max(since, span.start), min(until, span.end))
            # Most tenants never move, and are read without further edges.
            if part == span:
                whole.append((tenant, span))
            elif part.start < part.end:
                cut.append((tenant, part))
    return _Parts(whole, cut)


class _Sums:
    """Sealed use of some tenants between edges."""

    def __init__(self, pool: Pool, edges: Collection[datetime], tenants: Collection[int]) -> None:
        self._edges = sorted(edges)
        self._amounts: dict[_Key, list[tuple[datetime, Decimal]]] = {}
        if not tenants:
            return
        amounts = amounts_between(pool=pool, edges=self._edges, among=tenants, kinds=[Kind.USAGE])
        for use, interval, amount in amounts.all_intervals():
            row = (self._edges[interval], amount)
            self._amounts.setdefault((use.tenant, use.resource), []).append(row)

    def between(self, key: _Key, span: Span) -> Decimal:
        """Return the use of a resource by a tenant within a span between two of the edges."""
        rows = self._amounts.get(key, ())
        return sum((each for at, each in rows if span.start <= at < span.end), Decimal(0))
