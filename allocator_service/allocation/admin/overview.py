"""Tabs of a pool that show its decision in force and the runs before it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
from django.core.paginator import Paginator
from django.db.models import Count, Q

from allocator_service.allocation.admin.group_tree import AskedTree, group_tree
from allocator_service.allocation.admin.past_and_plan import timetable_charts, window_table
from allocator_service.allocation.admin.shares import (
    ORDERS,
    Asked,
    SharePage,
    share_page,
)
from allocator_service.allocation.admin.tabs import NOW, PERIODS, TabRequest, pool_tab
from allocator_service.allocation.models import Run, RunStatus
from allocator_service.allocation.placements import ServerRange
from allocator_service.allocation.policies import policy_title
from allocator_service.allocation.selectors import decision_now, demands_of, failed_since
from allocator_service.allocation.stored_placements import stored_placements
from allocator_service.core.charts import BarRow, Chart, bar_chart, history_chart
from allocator_service.core.display import counted, unit_text
from allocator_service.core.errors import Missing
from allocator_service.core.quantities import Resource
from allocator_service.pools.clusters import CLUSTER_LABEL, cluster_named, clusters_away, servers_in
from allocator_service.pools.models import Pool, ServerState
from allocator_service.pools.selectors import members_of, resources_of
from allocator_service.workloads.models import WorkloadState
from allocator_service.workloads.reason_texts import OPERATOR, away_text, reason_text

CLASSES_SHOWN = 25
RUNS_DRAWN = 300
RUNS_A_PAGE = 25
# A smaller gap than this is rounding.
PROVEN_GAP = 1e-9
_ROUNDING = 1e-9


def run_in_force(asked: TabRequest) -> Run | None:
    """Return the decision in force, None before the first."""
    try:
        return decision_now(pool=asked.pool, now=asked.now)
    except Missing:
        return None


@pool_tab(NOW, "Now", permission="pools.view_pool", place=1)
def now_tab(asked: TabRequest) -> Mapping[str, Any]:
    """Return the decision in force, the obstacles to a newer one, and the resources in use."""
    pool, run = asked.pool, run_in_force(asked)
    return {
        "run": run,
        "policy": None if run is None else policy_title(run.policy["name"]),
        "behind": 0 if run is None else max(pool.generation - (run.generation or 0), 0),
        "failure": failed_since(pool=pool, run=run),
        "unsatisfiable": _unsatisfiable(pool),
        "open_gap": _open_gap(run),
        "capacities": _capacities(pool, run, resources_of(pool)),
        "counts": _counts(pool),
        "away": away_rows(pool),
        "charts": [] if run is None else timetable_charts(run, asked.now),
    }


def _unsatisfiable(pool: Pool) -> list[tuple[str, int]]:
    """Return the number of workloads that cannot run by the text of the reason."""
    away = clusters_away(pool)
    found = (
        pool.workloads.filter(state=WorkloadState.ACTIVE)
        .exclude(unsatisfiable="")
        .values_list("unsatisfiable", f"server_selector__{CLUSTER_LABEL}")
        .annotate(count=Count("pk"))
        .order_by("unsatisfiable", f"server_selector__{CLUSTER_LABEL}")
    )
    counts = Counter[str]()
    for reason, named, count in found:
        gone = away_text(reason, {CLUSTER_LABEL: named}, away)
        counts[gone or reason_text(reason, OPERATOR)] += count
    return list(counts.items())


@dataclass(frozen=True)
class Used:
    """Capacity of a resource for decisions, and the allocated fraction of the decision's."""

    resource: Resource
    capacity: float
    fraction: float | None


def _capacities(pool: Pool, run: Run | None, resources: Sequence[Resource]) -> list[Used]:
    fractions = ((run.summary if run is not None else None) or {}).get("utilization", {})
    amounts = np.zeros(len(resources))
    active = pool.servers.filter(state=ServerState.ACTIVE)
    if away := clusters_away(pool):
        active = active.exclude(pk__in=servers_in(pool, away).values("pk"))
    for capacity, count in active.values_list("capacity").annotate(count=Count("pk")).order_by():
        # Older servers lack the resources that the pool got later.
        amounts[: len(capacity)] += count * np.array(capacity, float)
    return [
        Used(resource, float(amount), fractions.get(resource.name))
        for resource, amount in zip(resources, amounts, strict=True)
    ]


@dataclass(frozen=True)
class AwayRow:
    """A cluster that left, with the number of its servers."""

    cluster: str
    left_at: datetime
    servers: int


def away_rows(pool: Pool) -> list[AwayRow]:
    """Return the clusters whose servers give no capacity because their agents are silent."""
    away = clusters_away(pool)
    if not away:
        return []
    named = servers_in(pool, away).annotate(cluster=cluster_named(pool))
    servers = named.values_list("cluster").annotate(count=Count("pk"))
    return [AwayRow(name, away[name], count) for name, count in servers.order_by("cluster")]


def _counts(pool: Pool) -> Mapping[str, int]:
    """Return how many members, servers and workloads the pool has at present."""
    draining = Count("pk", filter=Q(state=ServerState.DRAINING))
    servers = pool.servers.exclude(state=ServerState.RETIRED)
    return {
        "members": members_of(pool=pool).count(),
        **servers.aggregate(servers=Count("pk"), draining=draining),
        "workloads": pool.workloads.exclude(state=WorkloadState.WITHDRAWN).count(),
    }


def _open_gap(run: Run | None) -> str:
    gap = None if run is None or run.summary is None else run.summary.get("gap")
    return f"{100 * gap:.2g} %" if gap is not None and gap > PROVEN_GAP else ""


@pool_tab("members", "Members and groups", permission="pools.view_pool", place=2)
def members_tab(asked: TabRequest) -> Mapping[str, Any]:
    """Return a page of the tenants with their shares, the groups, and what the window holds."""
    pool, run = asked.pool, run_in_force(asked)
    resources, tenants = resources_of(pool), Asked.of(asked.query)
    shares = None if run is None else share_page(pool, run, resources, tenants)
    return {
        "run": run,
        "resources": resources,
        "shares": shares,
        "orders": ORDERS,
        "tree": None if run is None else group_tree(pool, run, AskedTree.of(asked.query)),
        "window": window_table(pool, resources, asked.now, search=tenants.search),
        "charts": [] if shares is None else _tenant_charts(shares, resources),
    }


def _known(value: float | None) -> list[float]:
    return [] if value is None else [value]


def _tenant_charts(shares: SharePage, resources: Sequence[Resource]) -> list[Chart]:
    which = "per tenant"
    if shares.page.has_other_pages():
        which = f"by tenants {shares.page.start_index()} to {shares.page.end_index()}"
    return [
        bar_chart(
            title=f"{resource.name}: allocated, entitled and contributed {which}",
            unit=unit_text(resource.unit) or "units",
            series=["allocated", "contributed"],
            rows=[
                BarRow(row.slug, [row.allocated[r], row.contributed[r]], _known(row.entitled[r]))
                for row in shares.rows
            ],
            marked="entitled",
        )
        for r, resource in enumerate(resources)
        if shares.rows
    ]


@dataclass(frozen=True)
class ClassRow:
    """A class of identical servers, with capacity and use of one by resource."""

    servers: ServerRange
    amounts: Sequence[tuple[float, float]]

    @property
    def label(self) -> str:
        """Number and first name."""
        return f"{self.servers.count:,} × {self.servers.first}"

    @property
    def in_all(self) -> list[tuple[float, float, float]]:
        """Capacity, use and rest of all servers of the class, by resource."""
        count = self.servers.count
        return [(own * count, used * count, (own - used) * count) for own, used in self.amounts]

    @property
    def parts(self) -> list[list[tuple[str, float]]]:
        """Named amounts by resource, in the order of the pool's resources."""
        names = ("capacity", "used", "free")
        return [list(zip(names, each, strict=True)) for each in self.in_all]


@pool_tab("servers", "Servers", permission="pools.view_pool", place=3)
def servers_tab(asked: TabRequest) -> Mapping[str, Any]:
    """Return used and free resources on each class of identical servers, and the servers by state."""
    pool, run = asked.pool, run_in_force(asked)
    resources = resources_of(pool)
    rows, classes = ([], 0) if run is None else _class_rows(run, resources)
    states = pool.servers.values_list("state").annotate(count=Count("pk")).order_by("state")
    return {
        "run": run,
        "resources": resources,
        "rows": rows,
        "classes": classes,
        "away": away_rows(pool),
        "states": [(state, ServerState(state).label, count) for state, count in states],
        "charts": _server_charts(rows, resources),
    }


def _class_rows(run: Run, resources: Sequence[Resource]) -> tuple[list[ClassRow], int]:
    """Return the first classes with their use, and how many the decision has.

    There are none under a policy that sees the pool as one server.
    """
    placed = stored_placements(run)
    shown = placed.ranges[:CLASSES_SHOWN]
    used = np.zeros((len(shown), len(resources)))
    demands = list(demands_of(run).values()) if len(placed.tasks) else []
    for workload, kind, number, tasks in placed:
        if number < len(shown):
            demand = demands[workload].kinds[kind]
            # A resource that the pool got later is in no demand of the decision.
            used[number, : len(demand)] += tasks * np.array(demand)
    rows = []
    for each, taken in zip(shown, used, strict=True):
        capacity = np.zeros(len(resources))
        capacity[: len(each.traits.capacity)] = list(map(float, each.traits.capacity))
        most = use_of(taken, capacity)
        rows.append(ClassRow(each, list(zip(capacity.tolist(), most.tolist(), strict=True))))
    return rows, len(placed.ranges)


def use_of(
    taken: npt.NDArray[np.float64], capacity: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return what tasks take of a server. Sums of parts of tasks miss a whole capacity by rounding."""
    return np.where(taken < capacity * (1 - _ROUNDING), taken, capacity)


def _server_charts(rows: Sequence[ClassRow], resources: Sequence[Resource]) -> list[Chart]:
    return [
        bar_chart(
            title=f"{resource.name}: used and free per class of identical servers",
            unit=unit_text(resource.unit) or "units",
            series=["used", "free"],
            rows=[BarRow(row.label, row.in_all[r][1:]) for row in rows],
            stacked=True,
        )
        for r, resource in enumerate(resources)
        if rows
    ]


@pool_tab("decisions", "Decisions", permission="allocation.view_run", place=5)
def decisions_tab(asked: TabRequest) -> Mapping[str, Any]:
    """Return the runs of a period, as pictures and a page at a time."""
    runs = Run.objects.filter(pool=asked.pool, created_at__gte=asked.since).order_by("-pk")
    page = Paginator(runs, RUNS_A_PAGE).get_page(asked.query.get("page", "1"))
    return {
        "days": asked.days,
        "periods": PERIODS.items(),
        "query": f"days={asked.days}&",
        "page": page,
        "pages": list(page.paginator.get_elided_page_range(page.number)),
        "charts": _run_charts(asked),
    }


def _run_charts(asked: TabRequest) -> list[Chart]:
    succeeded = Run.objects.filter(
        pool=asked.pool, status=RunStatus.SUCCEEDED, created_at__gte=asked.since
    )
    fields = ("finished_at", "solve_seconds", "summary")
    # Bounded, since a pool can decide every minute and each point is in the page.
    newest = succeeded.order_by("-pk").values_list(*fields)[:RUNS_DRAWN]
    runs = [
        (at, seconds, (summary or {}).get("min_weighted_share"))
        for at, seconds, summary in newest
        if at is not None
    ][::-1]
    which = f"{'the newest ' if len(runs) == RUNS_DRAWN else ''}{counted(len(runs), 'run')}"
    return [
        history_chart(
            title=f"Seconds in the solver, {which}",
            unit="s",
            points=[(at, seconds) for at, seconds, _ in runs],
        ),
        history_chart(
            title=f"Least weighted share of the tenants, {which}",
            unit="share",
            points=[(at, share) for at, _, share in runs],
            ink=2,
        ),
    ]
