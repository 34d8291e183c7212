"""A tenant's use in the last seven days in a pool, beside its use alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.utils.safestring import SafeString

from allocator_service.allocation.long_term.metering import LATE, metering_due
from allocator_service.allocation.words import sharing_text
from allocator_service.core.charts import Chart, Reference, StepLine, steps_chart
from allocator_service.core.display import number_text, unit_text
from allocator_service.core.quantities import Resource
from allocator_service.ledger.reporting.periods import Period, report_period
from allocator_service.ledger.reporting.sharing_degree import (
    NO_DEMAND,
    NOTHING_ALONE,
    REASONS,
    TenantDegree,
    sharing_degree_report,
)
from allocator_service.pools.models import Metering, Pool
from allocator_service.tenants.models import Tenant
from api.pages.parts import Share

DAYS = 7
# The page states by itself that nothing was metered.
_OWN_REASONS = {
    **REASONS,
    NO_DEMAND: "",
    NOTHING_ALONE: "You used some, and alone could have used none.",
}


@dataclass(frozen=True)
class Week:
    """The last seven days, with a picture and numbers for each resource and the sharing degree.

    `late_since`: what decisions gave from then on is still to be metered, later than it should be.
    """

    period: Period
    charts: Sequence["ResourceWeek"]
    least: float | None
    sentence: str
    late_since: datetime | None = None


@dataclass(frozen=True)
class Day:
    """Mean use of a resource on a day, and mean use alone, in its unit."""

    start: datetime
    end: datetime
    used: Decimal
    alone: Decimal
    ratio: float | None


@dataclass(frozen=True)
class ResourceWeek:
    """The picture of a resource over the days, with its numbers."""

    resource: Resource
    chart: Chart
    days: Sequence[Day]

    @property
    def svg(self) -> SafeString:
        """The picture. What it shows of names was escaped when it was drawn."""
        return SafeString(self.chart.picture)


def week_of(*, pool: Pool, tenant: Tenant, share: Share | None, now: datetime) -> Week:
    """Today and the six days before it, in the pool's time zone, by the report of the sharing degree."""
    zone = ZoneInfo(pool.timezone)
    first = now.astimezone(zone).date() - timedelta(days=DAYS - 1)
    # Midnight by the pool's clock, so that days are those of its statements.
    start = datetime.combine(first, time(), zone)
    period = report_period(pool=pool, start=start, end=None, step="P1D", now=now)
    report = sharing_degree_report(pool=pool, period=period, tenant=tenant)
    # Of reported usage the service cannot know what is still to come.
    due = metering_due(pool, now=now) if pool.metering == Metering.ALLOCATION else None
    late_since = due.since if due is not None and now - due.since > LATE else None
    degree = next(iter(report.tenants), None)
    if degree is None:
        return Week(period, [], None, "", late_since)
    total = degree.total
    if total.least is None:
        sentence = _OWN_REASONS[str(total.reason)]
    else:
        name = report.resources[total.ratios.index(total.least)].name
        sentence = sharing_text(total.least, name)
    charts = [
        _resource_week(r, resource, degree, period, share, pool.timezone)
        for r, resource in enumerate(report.resources)
        # A picture of zeros would hide those of the resources that the tenant does use.
        if total.used[r] or total.alone[r]
    ]
    return Week(period, charts, total.least, sentence, late_since)


def _resource_week(
    r: int,
    resource: Resource,
    degree: TenantDegree,
    period: Period,
    share: Share | None,
    zone: str,
) -> ResourceWeek:
    days = []
    for (start, end), of_day in zip(period.intervals, degree.series, strict=True):
        seconds = Decimal(str((end - start).total_seconds()))
        days.append(
            Day(start, end, of_day.used[r] / seconds, of_day.alone[r] / seconds, of_day.ratios[r])
        )
    entitled = share.parts[r].entitled if share is not None else None
    unit = unit_text(resource.unit) or "units"
    chart = steps_chart(
        title=f"{resource.name}: used, and what it would have been alone",
        unit=f"{unit}, mean of the day",
        lines=[
            StepLine("used", [(day.start, day.end, float(day.used)) for day in days]),
            StepLine("alone", [(day.start, day.end, float(day.alone)) for day in days]),
        ],
        reference=None
        if entitled is None
        else Reference(
            float(entitled),
            f"entitled now: {number_text(entitled)} {unit}",
            # A large entitlement would flatten the lines to the bottom of the picture.
            is_included=False,
        ),
        zone=zone,
    )
    return ResourceWeek(resource, chart, days)
