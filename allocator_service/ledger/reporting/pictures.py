"""Reports as pictures."""

from allocator_service.core.charts import (
    BarRow,
    Chart,
    Reference,
    StepLine,
    bar_chart,
    column,
    steps_chart,
)
from allocator_service.ledger.reporting.sharing_degree import SharingDegreeReport, TenantDegree

TENANTS_SHOWN = 25
LINES_SHOWN = 12
ALONE = Reference(1.0, "black line: 1, as much as alone")


def sharing_degree_chart(report: SharingDegreeReport) -> Chart:
    """A bar per tenant and resource, and over several pieces a line per tenant; the least first."""
    known = sorted(report.tenants, key=_least)
    shown = known[:TENANTS_SHOWN]
    title = f"Sharing degree in {report.pool.slug}: used ÷ what it would have used alone"
    bars = bar_chart(
        title=_counted(title, len(shown), len(known)),
        unit="used ÷ alone",
        series=[resource.name for resource in report.resources],
        rows=[BarRow(each.tenant, each.total.ratios) for each in shown],
        reference=ALONE,
    )
    if len(report.period.pieces) == 1:
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
                    for (start, end), degree in zip(report.period.pieces, each.series, strict=True)
                ],
            )
            for each in known[:LINES_SHOWN]
        ],
        reference=ALONE,
    )
    return column(title, [bars, lines])


def _least(each: TenantDegree) -> float:
    return float("inf") if each.total.least is None else each.total.least


def _counted(title: str, shown: int, tenants: int) -> str:
    return title if shown == tenants else f"{title} (the {shown} lowest of {tenants})"
