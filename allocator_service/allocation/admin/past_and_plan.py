"""A pool's window, sharing degrees and timetable in the admin."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Q

from allocator_service.allocation.models import Run, RunStatus
from allocator_service.core.charts import Chart, GanttBar, GanttRow, gantt_chart
from allocator_service.core.duration_fields import seconds_text
from allocator_service.core.quantities import Resource
from allocator_service.core.snapshots import one_snapshot
from allocator_service.ledger.amounts.clusters import cluster_order, used_in_window
from allocator_service.ledger.reporting.periods import Period
from allocator_service.ledger.reporting.pictures import sharing_degree_chart
from allocator_service.ledger.reporting.sharing_degree import sharing_degree_history
from allocator_service.ledger.windows import window_state
from allocator_service.pools.clusters import has_had_clusters
from allocator_service.pools.models import Pool, WindowKind
from allocator_service.pools.windows import Past
from allocator_service.tenants.models import Tenant

INTERVALS = 28
TENANTS_SHOWN = 25
ROWS_SHOWN = 40
_HOUR_SECONDS = 3600


@dataclass(frozen=True)
class Remembered:
    """A tenant's resource hours in the window, by resource, with its sharing degree.

    `clusters` divide what it used by resource, and are empty in a pool without clusters.
    """

    tenant: str
    used: Sequence[float]
    alone: Sequence[float]
    sharing_degree: float | None
    clusters: Sequence[Mapping[str | None, float]]

    @property
    def parts(self) -> list[list[tuple[str, float]]]:
        """Named hours by resource, in the order of the pool's resources."""
        return [
            [
                ("used", used),
                *((f"in {'an unknown cluster' if c is None else c}", h) for c, h in of.items()),
                ("alone", alone),
            ]
            for used, alone, of in zip(self.used, self.alone, self.clusters, strict=True)
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
    has_clusters = has_had_clusters(pool)
    # One snapshot, so that clusters add up to what was used.
    with one_snapshot() if has_clusters else nullcontext():
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
        shown = found[:TENANTS_SHOWN]
        clusters: dict[tuple[int, str], dict[str | None, float]] = {}
        if has_clusters and shown:
            among = [tenant for _, _, tenant in shown]
            uses = used_in_window(pool=pool, past=state.past, among=among)
            for use in sorted(uses, key=lambda use: cluster_order(use.cluster)):
                of = clusters.setdefault((use.tenant, use.resource), {})
                of[use.cluster] = float(use.amount) / _HOUR_SECONDS

    def hours(amounts: Mapping[tuple[int, str], Decimal], tenant: int) -> list[float]:
        return [float(amounts.get((tenant, each.name), 0)) / _HOUR_SECONDS for each in resources]

    rows = [
        Remembered(
            slug,
            hours(state.used, tenant),
            hours(state.alone, tenant),
            degree,
            [clusters.get((tenant, each.name), {}) for each in resources],
        )
        for degree, slug, tenant in shown
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
