"""What an operator looks at first: a pool's decision in force and its recent runs, as pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db.models import Count, F, Sum

from allocator_service.allocation.admin.past_and_plan import (
    WindowTable,
    history_charts,
    timetable_charts,
    window_table,
)
from allocator_service.allocation.models import Allocation, Run, RunStatus, ServerClass
from allocator_service.allocation.selectors import decision_now, failed_since, input_of
from allocator_service.core.charts import BarRow, Chart, bar_chart, history_chart
from allocator_service.core.errors import Gone, Missing
from allocator_service.core.quantities import Resource
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of
from policies import Problem, problem_from_document

TENANTS_SHOWN = 25
RUNS_SHOWN = 100
# A smaller gap than this is rounding.
PROVEN_GAP = 1e-9


@dataclass(frozen=True)
class Overview:
    """A pool at a glance: `charts` are pictures; `failure` is why no newer decision is.

    `open_gap` is the proven gap of a decision whose optimum is not, as text; else empty.
    """

    pool: Pool
    run: Run | None
    failure: Run | None
    unsatisfiable: Sequence[tuple[str, int]]
    charts: Sequence[Chart]
    window: WindowTable | None
    open_gap: str


def pool_overview(pool: Pool, *, now: datetime) -> Overview:
    """Per tenant: contributed, entitled, allocated; per server class: used, free; runs over time."""
    resources = resources_of(pool)
    try:
        run = decision_now(pool=pool, now=now)
    except Missing:
        run = None
    charts: list[Chart] = []
    if run is not None:
        charts += timetable_charts(run, now)
        charts += _tenant_charts(run, resources)
        charts += _server_charts(run, resources)
    charts += history_charts(pool, now)
    charts += _run_charts(pool)
    unsatisfiable = (
        pool.workloads.filter(state="active")
        .exclude(unsatisfiable="")
        .values_list("unsatisfiable")
        .annotate(count=Count("pk"))
        .order_by("unsatisfiable")
    )
    failure = failed_since(pool=pool, run=run)
    window = window_table(pool, resources, now)
    return Overview(pool, run, failure, list(unsatisfiable), charts, window, _open_gap(run))


def _open_gap(run: Run | None) -> str:
    gap = None if run is None or run.summary is None else run.summary.get("gap")
    return f"{100 * gap:.2g} %" if gap is not None and gap > PROVEN_GAP else ""


def _tenant_charts(run: Run, resources: Sequence[Resource]) -> list[Chart]:
    try:
        problem = problem_from_document(input_of(run)).problem
    except Gone:
        return []
    contributed, entitled = _contributed(problem), _entitled(problem)
    allocated = _allocated(run, problem)
    order = np.argsort(-(allocated / np.maximum(problem.totals, 1e-300)).max(axis=1), kind="stable")
    shown = order[:TENANTS_SHOWN]
    which = "per tenant" if len(shown) == len(order) else f"by the {len(shown)} that got most"
    charts = []
    for r, resource in enumerate(resources):
        rows = [
            BarRow(problem.tenants[i], [contributed[i, r], entitled[i, r], allocated[i, r]])
            for i in shown
        ]
        charts.append(
            bar_chart(
                title=f"{resource.name}: contributed, entitled and allocated {which}",
                unit=resource.unit or "units",
                series=["contributed", "entitled", "allocated"],
                rows=rows,
            )
        )
    return charts


def _contributed(problem: Problem) -> np.ndarray:
    amounts = np.zeros((problem.t, problem.m))
    owned = problem.contributed_by >= 0
    capacity = problem.capacity * problem.server_count[:, None]
    np.add.at(amounts, problem.contributed_by[owned], capacity[owned])
    return amounts


def _entitled(problem: Problem) -> np.ndarray:
    """`C[r] · w_i / Σ w`, nothing for tenants that share what is left."""
    weight = np.where(problem.second_stage, 0.0, problem.effective_weight)
    return np.outer(weight / max(weight.sum(), 1e-300), problem.totals)


def _allocated(run: Run, problem: Problem) -> np.ndarray:
    index = {name: i for i, name in enumerate(problem.tenants)}
    amounts = np.zeros((problem.t, problem.m))
    rows = Allocation.objects.filter(run=run).values_list("tenant__slug", "resources")
    for tenant, resources in rows:
        amounts[index[tenant]] += resources
    return amounts


def _server_charts(run: Run, resources: Sequence[Resource]) -> list[Chart]:
    classes = list(ServerClass.objects.filter(run=run).order_by("position")[:TENANTS_SHOWN])
    if not classes:  # the policy sees the pool as one server
        return []
    used = {server_class.pk: np.zeros(len(resources)) for server_class in classes}
    placed = (
        run.placements.filter(server_class__in=classes)
        .values("server_class", demand=F("workload__demand"))
        .annotate(tasks=Sum("tasks"))
    )
    for row in placed:
        demand = np.zeros(len(resources))
        demand[: len(row["demand"])] = [float(amount) for amount in row["demand"]]
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
