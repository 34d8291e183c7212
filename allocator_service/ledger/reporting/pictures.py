"""Charts of reports."""

from dataclasses import replace

from allocator_service.core.charts import (
    BarRow,
    Chart,
    Reference,
    StepLine,
    bar_chart,
    column,
    steps_chart,
)
from allocator_service.ledger.reporting.amounts import exact_sum
from allocator_service.ledger.reporting.lending import GroupLendingReport, LendingReport
from allocator_service.ledger.reporting.sharing_degree import SharingDegreeReport, TenantDegree
from allocator_service.ledger.reporting.utilization import UtilizationReport
from allocator_service.pools.models import Metering

TENANTS_SHOWN = 25
LINES_SHOWN = 12
ALONE = Reference(1.0, "black line: 1, as much as alone")


def sharing_degree_chart(report: SharingDegreeReport) -> Chart:
    """Draw a bar per tenant and resource, and over several intervals a line per tenant.

    The lowest tenants come first.
    """
    groups = [replace(each, tenant=f"{each.tenant} (group)") for each in report.groups]
    known = sorted([*groups, *report.tenants], key=_least)
    shown = known[:TENANTS_SHOWN]
    title = f"Sharing degree in {report.pool.slug}: used ÷ what it would have used alone"
    bars = bar_chart(
        title=_counted(title, len(shown), len(known)),
        unit="used ÷ alone",
        series=[resource.name for resource in report.resources],
        rows=[BarRow(each.tenant, each.total.ratios) for each in shown],
        reference=ALONE,
    )
    if len(report.period.intervals) == 1:
        return bars
    lines = steps_chart(
        title=_counted(
            "Least of the resources over time", min(len(known), LINES_SHOWN), len(known)
        ),
        unit="used ÷ alone",
        lines=[
            StepLine(
                each.tenant,
                [
                    (start, end, degree.least)
                    for (start, end), degree in zip(
                        report.period.intervals, each.series, strict=True
                    )
                ],
            )
            for each in known[:LINES_SHOWN]
        ],
        reference=ALONE,
    )
    return column(title, [bars, lines])


def _least(each: TenantDegree) -> float:
    return float("inf") if each.total.least is None else each.total.least


def _counted(title: str, shown: int, tenants: int, which: str = "lowest") -> str:
    return title if shown == tenants else f"{title} (the {shown} {which} of {tenants})"


def utilization_chart(report: UtilizationReport) -> Chart:
    """Draw the utilisation of each resource, and over several intervals a line each."""
    title = f"Utilisation of {report.pool.slug}: used ÷ contributed capacity"
    bars = bar_chart(
        title=title,
        unit="per cent",
        series=["used"],
        rows=[
            BarRow(resource.name, [_per_cent(use.utilization)])
            for resource, use in zip(report.resources, report.totals, strict=True)
        ],
        reference=Reference(100.0, "black line: all of the capacity"),
    )
    if len(report.period.intervals) == 1:
        return bars
    lines = [
        StepLine(
            resource.name,
            [
                (start, end, _per_cent(use.utilization))
                for (start, end), use in zip(report.period.intervals, uses, strict=True)
            ],
        )
        for resource, uses in zip(report.resources, report.uses, strict=True)
    ]
    over_time = steps_chart(title="Utilisation over time", unit="per cent", lines=lines)
    return column(title, [bars, over_time])


def lending_chart(report: LendingReport) -> Chart:
    """Draw per resource and tenant the use of own, other and the pool's servers, and the use lent.

    If decisions do not place tasks, or usage is reported, the owner of the servers is not known.
    """
    title = f"Who ran on whose servers in {report.pool.slug}"
    names = sorted({flow.tenant for flow in report.flows})
    names += sorted({flow.owner for flow in report.flows if flow.owner} - set(names))
    known = report.pool.policy_places and report.pool.metering == Metering.ALLOCATION
    without_owner = "ran on the pool's" if known else "on whose: not known"
    charts = []
    for r, resource in enumerate(report.resources):
        rows = [BarRow(name, _lent_and_borrowed(report, name, r)) for name in names]
        rows.sort(key=lambda row: -max(value or 0.0 for value in row.values))
        shown = rows[:TENANTS_SHOWN]
        charts.append(
            bar_chart(
                title=_counted(f"{resource.name}: {title}", len(shown), len(rows), "largest"),
                unit=f"{resource.unit or 'unit'}-hours",
                series=["ran on its own", "ran on others'", without_owner, "lent to others"],
                rows=shown,
            )
        )
    return column(title, charts)


def group_lending_chart(report: GroupLendingReport) -> Chart:
    """Draw per resource and child the use, and the use lent to and borrowed from outside the group."""
    title = f"What {report.group.slug} in {report.pool.slug} used, lent and borrowed"
    rows = [
        (f"{child.slug} (group)" if child.is_group else child.slug, report.of(child))
        for child in report.children
    ]
    charts = []
    for r, resource in enumerate(report.resources):
        by_use = sorted(rows, key=lambda row: -row[1].used[r])
        shown = by_use[:TENANTS_SHOWN]
        charts.append(
            bar_chart(
                title=_counted(f"{resource.name}: {title}", len(shown), len(rows), "largest"),
                unit=f"{resource.unit or 'unit'}-hours",
                series=["used", "lent to others outside", "borrowed from others outside"],
                rows=[
                    BarRow(
                        name,
                        [
                            float(amounts[r]) / 3600 or None
                            for amounts in (traffic.used, traffic.lent, traffic.borrowed)
                        ],
                    )
                    for name, traffic in shown
                ],
            )
        )
    return column(title, charts)


def _lent_and_borrowed(report: LendingReport, name: str, r: int) -> list[float | None]:
    """Return resource-hours, with None for 0."""
    of_tenant = [flow for flow in report.flows if flow.tenant == name]
    parts = [
        [flow for flow in of_tenant if flow.owner == name],
        [flow for flow in of_tenant if flow.lends],
        [flow for flow in of_tenant if flow.owner is None],
        [flow for flow in report.flows if flow.owner == name and flow.lends],
    ]
    hours = [float(exact_sum(flow.used[r] for flow in flows)) / 3600 for flows in parts]
    return [value or None for value in hours]


def _per_cent(share: float | None) -> float | None:
    return None if share is None else 100 * share
