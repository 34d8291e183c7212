"""A pool's window, sharing degrees and timetable in the admin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Q

from allocator_service.allocation.models import Run, RunStatus
from allocator_service.core.charts import Chart, GanttBar, GanttRow, gantt_chart
from allocator_service.core.duration_fields import seconds_text
from allocator_service.core.quantities import Resource
from allocator_service.ledger.reporting.periods import Period
from allocator_service.ledger.reporting.pictures import sharing_degree_chart
from allocator_service.ledger.reporting.sharing_degree import sharing_degree_history
from allocator_service.ledger.windows import window_state
from allocator_service.pools.models import Pool, WindowKind
from allocator_service.pools.windows import Past
from allocator_service.tenants.models import Tenant

INTERVALS = 28
TENANTS_SHOWN = 25
ROWS_SHOWN = 40


@dataclass(frozen=True)
class Remembered:
    """A tenant's resource hours in the window, by resource, with its sharing degree."""

    tenant: str
    used: Sequence[float]
    alone: Sequence[float]
    sharing_degree: float | None

    @property
    def parts(self) -> list[list[tuple[str, float]]]:
        """Named hours by resource, in the order of the pool's resources."""
        return [
            [("used", used), ("alone", alone)]
            for used, alone in zip(self.used, self.alone, strict=True)
        ]


@dataclass(frozen=True)
class WindowTable:
    """The contents of a pool's window at an instant.

    `rows` are those with the least sharing degrees of `tenants` in all.
    """

    past: Past
    resources: Sequence[Resource]
    rows: Sequence[Remembered]
    tenants: int


def window_table(
    pool: Pool, resources: Sequence[Resource], now: datetime, *, search: str = ""
) -> WindowTable | None:
    """Return the contents of the pool's window now, or None for a pool without one.

    `search` limits the rows to tenants whose slug or name contains it.
    """
    if pool.window_kind == WindowKind.NONE:
        return None
    state = window_state(pool, now)
    keys = {tenant for tenant, _ in [*state.used, *state.alone]}
    tenants = Tenant.objects.filter(pk__in=keys)
    if search:
        tenants = tenants.filter(Q(slug__icontains=search) | Q(name__icontains=search))
    found = [
        (state.sharing_degrees.get(tenant), slug, tenant)
        for tenant, slug in tenants.values_list("pk", "slug")
    ]
    found.sort(key=lambda row: (row[0] is None, row[0] or 0.0, row[1]))

    def hours(amounts: Mapping[tuple[int, str], Decimal], tenant: int) -> list[float]:
        return [float(amounts.get((tenant, each.name), 0)) / 3600 for each in resources]

    rows = [
        Remembered(slug, hours(state.used, tenant), hours(state.alone, tenant), degree)
        for degree, slug, tenant in found[:TENANTS_SHOWN]
    ]
    return WindowTable(state.past, resources, rows, len(found))


def history_charts(
    pool: Pool, tenants: Sequence[int], *, since: datetime, now: datetime
) -> list[Chart]:
    """Return the sharing degrees of tenants since an instant, or since the pool's first decision."""
    first = (
        Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED)
        .order_by("effective_from")
        .values_list("effective_from", flat=True)
        .first()
    )
    if first is None or first >= now or not tenants:
        return []
    start = max(first, since)
    edges = [start + (now - start) * interval / INTERVALS for interval in range(INTERVALS + 1)]
    report = sharing_degree_history(pool=pool, period=Period(edges), among=tenants)
    return [sharing_degree_chart(report)]


def timetable_charts(run: Run, now: datetime) -> list[Chart]:
    """Return a chart of the tasks in the current period of the schedule in force.

    It is empty where time is not divided.
    """
    schedule = getattr(run, "schedule", None)
    if schedule is None or run.effective_from is None:
        return []
    period = timedelta(seconds=schedule.period_seconds)
    begin = run.effective_from + max((now - run.effective_from) // period, 0) * period
    slots = schedule.plan["slots"]
    bars: dict[tuple[str, str], list[tuple[datetime, datetime, float]]] = {}
    for start, end, slot in schedule.intervals:
        for row in slots[slot]["allocations"]:
            bars.setdefault((row["tenant"], row["workload"]), []).append(
                (begin + timedelta(seconds=start), begin + timedelta(seconds=end), row["tasks"])
            )
    shown = sorted(bars)[:ROWS_SHOWN]
    tenants = list(dict.fromkeys(tenant for tenant, _ in shown))
    rows = [
        GanttRow(
            f"{tenant}: {workload}",
            [
                GanttBar(
                    start, end, f"{tasks:g} task{'' if tasks == 1 else 's'}", tenants.index(tenant)
                )
                for start, end, tasks in bars[tenant, workload]
            ],
        )
        for tenant, workload in shown
    ]
    which = "" if len(shown) == len(bars) else f", the first {len(shown)} of {len(bars)} workloads"
    return [
        gantt_chart(
            title=f"Who runs when, in periods of {seconds_text(schedule.period_seconds)}{which}",
            series=tenants,
            rows=rows,
            start=begin,
            end=begin + period,
            now=now,
        )
    ]
