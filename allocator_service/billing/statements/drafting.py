"""The lines of a month, computed from entries and prices until they are stored at its closing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max, Min

from allocator_service.billing.models import Closing, LineKind, PlanState, Posting, PricePlan
from allocator_service.billing.months import Month, month_of
from allocator_service.billing.plans.timeline import Timeline, commitments_of, plans_of
from allocator_service.billing.rating.amounts import Use
from allocator_service.billing.rating.differences import causes_of, differences
from allocator_service.billing.rating.late import Late, Pair, late_causes, late_entries
from allocator_service.billing.rating.lines import Rated
from allocator_service.billing.rating.months import concerning, month_rated
from allocator_service.core.money import exactly
from allocator_service.pools.models import Pool


@dataclass(frozen=True)
class Draft:
    """The lines of an open month, as postings that are not stored or were stored before it closes."""

    month: Month
    lines: Sequence[Posting]
    rated: Rated
    uses: Sequence[Use]
    prices: Timeline


def first_month(pool: Pool) -> Month | None:
    """Return the month in which the pool's first published plan begins, or None without one."""
    first = PricePlan.objects.filter(pool=pool, state=PlanState.PUBLISHED).order_by("start").first()
    return None if first is None else month_of(first.start, pool.timezone)


def closings_of(pool: Pool) -> list[Closing]:
    """Return the closed months of a pool, in their order."""
    return list(Closing.objects.filter(pool=pool).defer("document").order_by("month"))


def open_month(pool: Pool) -> Month | None:
    """Return the earliest month that is not closed, to which late entries and credit notes go."""
    return _open_months([pool]).get(pool)


def months_over(*, now: datetime) -> dict[Pool, Month]:
    """Return the open month of each pool in which it is over."""
    months = _open_months(Pool.objects.filter(retired_at=None, moved_at=None))
    return {pool: month for pool, month in months.items() if month.end <= now}


def _open_months(pools: Iterable[Pool]) -> dict[Pool, Month]:
    """Return the first month of each pool that is not closed, from its first published plan on."""
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


@exactly
def month_draft(*, pool: Pool, month: Month, tenant: int | None = None) -> Draft:
    """Return the lines that closing an open month would bill, from all sealed entries.

    To keep entries from being added meanwhile, hold the sealer's lock or read one snapshot. `tenant`
    limits the lines to those that it pays, or that pay it.
    """
    rating = month_rated(pool=pool, month=month, tenant=tenant)
    rated = rating.rated
    closings = closings_of(pool)
    # Only the earliest open month adjusts: in each of several the same entries would be billed again.
    if closings and month_of(closings[-1].start, pool.timezone).next == month:
        rated.lines += _adjustments(pool, month, closings, tenant)
    stored = concerning(stored_lines(pool, month), tenant)
    return Draft(month, [*rated.lines, *stored], rated, rating.uses, rating.prices)


def stored_lines(pool: Pool, month: Month) -> list[Posting]:
    """Return the stored postings of a month, which of an open month are those by operators."""
    found = Posting.objects.filter(pool=pool, month=month.first)
    return list(found.select_related("plan", "commitment").order_by("id"))


def billed_lines(pool: Pool, service_month: Month) -> list[Posting]:
    """Return the lines billed so far for the service of a month, on whichever statement."""
    found = Posting.objects.filter(pool=pool, service_month=service_month.first)
    return list(
        # A credit note follows from no entry, and rating the month again must not take it back.
        found.exclude(kind=LineKind.CREDIT_NOTE).select_related("plan", "pool").order_by("id")
    )


def _adjustments(
    pool: Pool, month: Month, closings: Sequence[Closing], tenant: int | None
) -> list[Posting]:
    """Rate closed months again that late entries concern, and return the lines of the difference."""
    closed = [month_of(closing.start, pool.timezone) for closing in closings]
    committed = commitments_of(pool, closed[0].start, month.start)
    plans = plans_of(pool, closed[0].start, month.start)
    # Under tiers any use of a neighbour may change what it pays for a tenant's servers.
    has_tiers = any(rate.tiers for plan in plans for rate in plan.rates.all())
    entries = late_entries(
        pool=pool,
        after=closings[-1].sequence,
        before=month.start,
        tenant=None if has_tiers else tenant,
        also={each.tenant_id for each in committed},
    )
    causes = late_causes(entries, closed)
    lines = []
    for service_month in closed:
        pairs = causes.get(service_month.first)
        if pairs is not None:
            lines += _adjusted(pool, month, service_month, pairs, tenant)
    return lines


def _adjusted(
    pool: Pool,
    month: Month,
    service_month: Month,
    pairs: Mapping[Pair, Sequence[Late]],
    tenant: int | None,
) -> list[Posting]:
    def of_pairs(lines: Iterable[Posting]) -> list[Posting]:
        return [line for line in lines if (line.tenant_id, line.resource) in pairs]

    # The whole month, not the entries alone: coverage and tiers depend on all entries before them.
    rated = month_rated(pool=pool, month=service_month, tenant=tenant).rated.lines
    billed = concerning(billed_lines(pool, service_month), tenant)
    found = differences(
        rated=of_pairs(rated),
        billed=of_pairs(billed),
        kind=LineKind.ADJUSTMENT,
        month=month,
        causes=lambda line: causes_of(line, pairs[line.tenant_id, line.resource]),
    )
    return [difference.line for difference in found]
