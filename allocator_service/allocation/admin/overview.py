"""What an operator looks at first: a pool's decision in force and its recent runs, as pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db.models import Count, F, Sum

from allocator_service.allocation.admin.group_tree import AskedTree, GroupTree, group_tree
from allocator_service.allocation.admin.past_and_plan import (
    WindowTable,
    history_charts,
    timetable_charts,
    window_table,
)
from allocator_service.allocation.admin.shares import Asked, SharePage, share_page
from allocator_service.allocation.models import Run, RunStatus, ServerClass
from allocator_service.allocation.selectors import decision_now, failed_since
from allocator_service.core.charts import BarRow, Chart, bar_chart, history_chart
from allocator_service.core.errors import Missing
from allocator_service.core.quantities import Resource
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of
from policies import choose

CLASSES_SHOWN = 25
RUNS_SHOWN = 100
# A smaller gap than this is rounding.
PROVEN_GAP = 1e-9


@dataclass(frozen=True)
class Overview:
    """A pool at a glance: `shares` are the tenants asked for, None before the first decision.

    `charts` are pictures, of the tenants those asked for; `failure` is why no newer decision is.

    `open_gap` is the proven gap of a decision whose optimum is not, as text; else empty.
    """

    pool: Pool
    run: Run | None
    failure: Run | None
    resources: Sequence[Resource]
    shares: SharePage | None
    tree: GroupTree | None
    unsatisfiable: Sequence[tuple[str, int]]
    charts: Sequence[Chart]
    window: WindowTable | None
    open_gap: str


def pool_overview(pool: Pool, asked: Asked, asked_tree: AskedTree, *, now: datetime) -> Overview:
    """Per tenant: contributed, entitled, allocated; per server class: used, free; runs over time."""
    resources = resources_of(pool)
    try:
        run = decision_now(pool=pool, now=now)
    except Missing:
        run = None
    shares: SharePage | None = None
    charts: list[Chart] = []
    if run is not None:
        shares = share_page(pool, run, resources, asked)
        charts += timetable_charts(run, now)
        charts += _tenant_charts(shares, resources)
        charts += _server_charts(run, resources)
    shown = [] if shares is None else [row.key for row in shares.rows]
    charts += history_charts(pool, shown, now)
    charts += _run_charts(pool)
    unsatisfiable = (
        pool.workloads.filter(state="active")
        .exclude(unsatisfiable="")
        .values_list("unsatisfiable")
        .annotate(count=Count("pk"))
        .order_by("unsatisfiable")
    )
    failure = failed_since(pool=pool, run=run)
    return Overview(
        pool,
        run,
        failure,
        resources,
        shares,
        None if run is None else group_tree(pool, run, asked_tree),
        list(unsatisfiable),
        charts,
        window_table(pool, resources, now, search=asked.search),
        _open_gap(run),
    )


def _open_gap(run: Run | None) -> str:
    gap = None if run is None or run.summary is None else run.summary.get("gap")
    return f"{100 * gap:.2g} %" if gap is not None and gap > PROVEN_GAP else ""


def _tenant_charts(shares: SharePage, resources: Sequence[Resource]) -> list[Chart]:
    which = "per tenant"
    if shares.page.has_other_pages():
        which = f"by tenants {shares.page.start_index()} to {shares.page.end_index()}"
    return [
        bar_chart(
            title=f"{resource.name}: contributed, entitled and allocated {which}",
            unit=resource.unit or "units",
            series=["contributed", "entitled", "allocated"],
            rows=[
                BarRow(row.slug, [row.contributed[r], row.entitled[r], row.allocated[r]])
                for row in shares.rows
            ],
        )
        for r, resource in enumerate(resources)
        if shares.rows
    ]


def _server_charts(run: Run, resources: Sequence[Resource]) -> list[Chart]:
    classes = list(ServerClass.objects.filter(run=run).order_by("position")[:CLASSES_SHOWN])
    if not classes:  # the policy sees the pool as one server
        return []
    used = {server_class.pk: np.zeros(len(resources)) for server_class in classes}
    placed = (
        run.placements.filter(server_class__in=classes)
        .values("server_class", "kind", demand=F("workload__demand"), pieces=F("workload__pieces"))
        .annotate(tasks=Sum("tasks"))
    )
    places_pieces = choose(**run.policy).places_pieces
    for row in placed:
        demand = np.zeros(len(resources))
        demand[: len(row["demand"])] = [float(amount) for amount in row["demand"]]
        if places_pieces and row["kind"] < len(row["pieces"]):
            piece = row["pieces"][row["kind"]]["demand"]
            demand = np.array([float(piece.get(each.name, 0)) for each in resources])
        used[row["server_class"]] += row["tasks"] * demand
    charts = []
    for r, resource in enumerate(resources):
        rows = []
        for server_class in classes:
            capacity = float(server_class.capacity[r]) if r < len(server_class.capacity) else 0.0
            taken = min(float(used[server_class.pk][r]), capacity)
            rows.append(
                BarRow(
                    f"{server_class.count} × {server_class.first}",
                    [taken * server_class.count, (capacity - taken) * server_class.count],
                )
            )
        charts.append(
            bar_chart(
                title=f"{resource.name}: used and free per class of identical servers",
                unit=resource.unit or "units",
                series=["used", "free"],
                rows=rows,
                stacked=True,
            )
        )
    return charts


def _run_charts(pool: Pool) -> list[Chart]:
    runs = [
        (at, seconds, (summary or {}).get("min_weighted_share"))
        for at, seconds, summary in Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED)
        .order_by("-pk")
        .values_list("finished_at", "solve_seconds", "summary")[:RUNS_SHOWN]
        if at is not None
    ][::-1]
    return [
        history_chart(
            title=f"Seconds in the solver, last {len(runs)} runs",
            unit="s",
            points=[(at, seconds) for at, seconds, _ in runs],
        ),
        history_chart(
            title="Least weighted share of the tenants",
            unit="share",
            points=[(at, share) for at, _, share in runs],
            ink=2,
        ),
    ]
