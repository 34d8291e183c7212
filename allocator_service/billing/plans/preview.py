"""Previews of a draft's charges for the usage of the last month that is over."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from allocator_service.billing.models import PricePlan
from allocator_service.billing.months import Month, month_of
from allocator_service.billing.plans.timeline import Prices, Segment, Timeline, timeline
from allocator_service.billing.rating.months import month_rated
from allocator_service.billing.statements.documents import account_totals
from allocator_service.core.money import exactly
from allocator_service.tenants.models import Tenant


@dataclass(frozen=True)
class Previewed:
    """A tenant's present charges of a month, and those under the plan."""

    tenant: str
    present: Decimal
    drafted: Decimal

    @property
    @exactly
    def difference(self) -> Decimal:
        return self.drafted - self.present


@dataclass(frozen=True)
class PlanPreview:
    """A previewed month with all of its tenants."""

    month: Month
    tenants: list[Previewed]


@exactly
def plan_preview(*, plan: PricePlan, now: datetime) -> PlanPreview:
    """Rate the last whole month's usage by a plan and by the prices that held."""
    month = month_of(now, plan.pool.timezone).previous
    # The draft need not hold in that month: it is rated as if it had.
    whole = Timeline([Segment(month.start, month.end, plan)], {plan.pk: Prices(plan)})
    held = timeline(pool=plan.pool, start=month.start, end=month.end)
    present, drafted = _totals(plan, month, held), _totals(plan, month, whole)
    slugs = dict(Tenant.objects.filter(pk__in={*present, *drafted}).values_list("pk", "slug"))
    return PlanPreview(
        month,
        [
            Previewed(slug, present.get(key, Decimal(0)), drafted.get(key, Decimal(0)))
            for key, slug in sorted(slugs.items(), key=lambda item: item[1])
        ],
    )


def _totals(plan: PricePlan, month: Month, prices: Timeline) -> dict[int, Decimal]:
    """Return the month's totals at these prices, with the commitments in force."""
    rated = month_rated(pool=plan.pool, month=month, prices=prices).rated
    totals, _, _ = account_totals(rated.lines)
    return totals
