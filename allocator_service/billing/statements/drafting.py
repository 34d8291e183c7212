"""The lines of a month: computed from entries and prices while it is open, read once it is closed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max, Min

from allocator_service.billing.models import Closing, PlanState, Posting, PricePlan
from allocator_service.billing.months import Month, month_of
from allocator_service.billing.plans.timeline import Timeline, commitments_of, timeline
from allocator_service.billing.rating.amounts import Use, used_between, used_by_now
from allocator_service.billing.rating.late import adjustment_lines, late_entries
from allocator_service.billing.rating.lines import Rated, usage_lines
from allocator_service.billing.rating.monthly import committed, fixed_cost_lines
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of


@dataclass(frozen=True)
class Draft:
    """The lines of an open month, as postings that are not stored or were stored before it closes."""

    month: Month
    lines: Sequence[Posting]
    rated: Rated
    uses: Sequence[Use]
    prices: Timeline
    sequence: int | None


def first_month(pool: Pool) -> Month | None:
    """The month in which the pool's first published plan begins; None without one."""
    first = PricePlan.objects.filter(pool=pool, state=PlanState.PUBLISHED).order_by("start").first()
    return None if first is None else month_of(first.start, pool.timezone)


def closings_of(pool: Pool) -> list[Closing]:
    """The closed months of a pool, in their order."""
    return list(Closing.objects.filter(pool=pool).defer("document").order_by("month"))


def open_month(pool: Pool) -> Month | None:
    """The earliest month that is not closed: the one that late entries and credit notes go to."""
    return _open_months([pool]).get(pool)


def months_over(*, now: datetime) -> dict[Pool, Month]:
    """The open month of each open pool in which it is over."""
    months = _open_months(Pool.objects.filter(retired_at=None))
    return {pool: month for pool, month in months.items() if month.end <= now}


def _open_months(pools: Iterable[Pool]) -> dict[Pool, Month]:
    """After the last closed month, or the one in which the first published plan begins."""
    by_key = {pool.pk: pool for pool in pools}
    closings = Closing.objects.filter(pool__in=by_key).order_by("pool")
    closed = dict(closings.values_list("pool").annotate(Max("start")))
    plans = PricePlan.objects.filter(state=PlanState.PUBLISHED, pool__in=by_key).order_by("pool")
    first = dict(plans.values_list("pool").annotate(Min("start")))
    return {
        pool: month_of(closed[key], pool.timezone).next
        if key in closed
        else month_of(first[key], pool.timezone)
        for key, pool in by_key.items()
        if key in closed or key in first
    }


def units_of(pool: Pool) -> Mapping[str, str]:
    """The units of the pool's resources."""
    return {resource.name: resource.unit for resource in resources_of(pool)}


def month_draft(
    *,
    pool: Pool,
    month: Month,
    now: datetime,
    upto: int | None = None,
    tenant: int | None = None,
) -> Draft:
    """The lines of an open month from the sealed entries.

    `upto` is the last number that there is, where it must not grow: hold the sealer's lock then.
    `tenant` limits them to what it owes and is owed.
    """
    closings = closings_of(pool)
    commitments = [
        each
        for each in commitments_of(pool, month.start, month.end)
        if tenant in (None, each.tenant_id)
    ]
    cuts = [cut for each in commitments for cut in (each.start, each.end)]
    prices = timeline(pool=pool, start=month.start, end=month.end, cuts=cuts)
    uses = list(_uses(pool, prices, upto, tenant))
    units = units_of(pool)
    charged, lines = committed(
        pool=pool,
        month=month,
        prices=prices,
        commitments=commitments,
        uses=uses,
        units=units,
        now=now,
    )
    rated = usage_lines(pool=pool, month=month, prices=prices, uses=charged, units=units)
    rated.lines += lines
    rated.lines += [
        line
        for line in fixed_cost_lines(pool=pool, month=month, prices=prices)
        if tenant in (None, line.tenant_id)
    ]
    if closings and month_of(closings[-1].start, pool.timezone).next == month:
        rated.add(_adjustments(pool, month, closings, units, upto, tenant))
    stored = stored_lines(pool, month)
    return Draft(
        month,
        [
            *rated.lines,
            *(line for line in stored if tenant in (None, line.tenant_id, line.owner_id)),
        ],
        rated,
        uses,
        prices,
        upto,
    )


def _uses(pool: Pool, prices: Timeline, upto: int | None, tenant: int | None) -> Iterable[Use]:
    if prices.exact:
        return used_by_now(pool=pool, edges=prices.edges, tenant=tenant)
    return used_between(
        pool=pool, edges=prices.edges, increments=prices.increments, upto=upto, tenant=tenant
    )


def stored_lines(pool: Pool, month: Month) -> list[Posting]:
    """The postings of a month that are stored: all of a closed one, those by hand of an open one."""
    found = Posting.objects.filter(pool=pool, month=month.first).select_related("plan")
    return list(found.order_by("id"))


def _adjustments(
    pool: Pool,
    month: Month,
    closings: Sequence[Closing],
    units: Mapping[str, str],
    upto: int | None,
    tenant: int | None,
) -> Rated:
    """What was numbered since the last closing, and is of the months closed before."""
    entries = late_entries(
        pool=pool, after=closings[-1].sequence, upto=upto, before=month.start, tenant=tenant
    )
    closed = [month_of(closing.start, pool.timezone) for closing in closings]
    prices = timeline(
        pool=pool,
        start=closed[0].start,
        end=month.start,
        cuts=[each.start for each in closed],
    )
    return adjustment_lines(
        pool=pool, month=month, closed=closed, prices=prices, entries=entries, units=units
    )
