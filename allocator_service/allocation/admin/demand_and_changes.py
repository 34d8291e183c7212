"""The tabs of a pool for its demand and its changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.db.models import Q

from allocator_service.allocation.admin.overview import run_in_force
from allocator_service.allocation.admin.past_and_plan import history_charts
from allocator_service.allocation.admin.tabs import PERIODS, TabRequest, pool_tab
from allocator_service.allocation.models import Allocation
from allocator_service.core.history import entries_done
from allocator_service.core.models import AuditEntry
from allocator_service.core.quantities import Resource
from allocator_service.pools.clusters import clusters_away
from allocator_service.pools.selectors import members_of, resources_of
from allocator_service.workloads.models import Workload, WorkloadState
from allocator_service.workloads.reason_texts import OPERATOR, away_text, reason_text

WORKLOADS_A_PAGE = 25
CHANGES_A_PAGE = 25
TENANTS_DRAWN = 6


@dataclass(frozen=True)
class DemandRow:
    """A workload with what the decision in force gives it, None if it is not in the decision."""

    workload: Workload
    demand: Sequence[tuple[Resource, Decimal]]
    got: Allocation | None
    away: Mapping[str, datetime]

    @property
    def reason(self) -> str:
        """The reason it runs no more tasks."""
        if self.workload.state == WorkloadState.PAUSED:
            return "It is paused."
        unsatisfiable = self.workload.unsatisfiable
        if unsatisfiable:
            return f"It cannot run: {self._text(unsatisfiable)}"
        if self.got is None:
            return "It is not in the decision in force."
        return self._text(self.got.limited_by) if self.got.limited_by else ""

    def _text(self, reason: str) -> str:
        gone = away_text(reason, self.workload.server_selector, self.away)
        return gone or reason_text(reason, OPERATOR)


@pool_tab("demand", "Demand", permission="workloads.view_workload", place=4)
def demand_tab(asked: TabRequest) -> Mapping[str, Any]:
    """Return a page of the workloads, those that cannot run first."""
    pool, run = asked.pool, run_in_force(asked)
    resources = resources_of(pool)
    workloads = pool.workloads.exclude(state=WorkloadState.WITHDRAWN).select_related("tenant")
    members = workloads.count()
    if asked.search:
        of_tenant = Q(tenant__slug__icontains=asked.search)
        workloads = workloads.filter(Q(name__icontains=asked.search) | of_tenant)
    # "-unsatisfiable" puts the empty text last.
    ordered = workloads.order_by("-unsatisfiable", "tenant__slug", "name", "pk")
    page = Paginator(ordered, WORKLOADS_A_PAGE).get_page(asked.query.get("page", "1"))
    found = list(page.object_list)
    got: dict[Any, Allocation] = {}
    if run is not None:
        rows = Allocation.objects.filter(run=run, workload__in=found)
        got = {row.workload_id: row for row in rows}
    away = clusters_away(pool)
    return {
        "run": run,
        "search": asked.search,
        "query": urlencode({"q": asked.search}) + "&" if asked.search else "",
        "workloads": members,
        "page": page,
        "pages": list(page.paginator.get_elided_page_range(page.number)),
        "rows": [
            DemandRow(
                each,
                [pair for pair in zip(resources, each.demand, strict=False) if pair[1]],
                got.get(each.pk),
                away,
            )
            for each in found
        ],
    }


@pool_tab("history", "History", permission="core.view_auditentry", place=8)
def history_tab(asked: TabRequest) -> Mapping[str, Any]:
    """Return sharing degrees over a period, and the changes of the pool."""
    pool = asked.pool
    entries = AuditEntry.objects.filter(pool=pool.slug, at__gte=asked.since).order_by("-id")
    page = Paginator(entries, CHANGES_A_PAGE).get_page(asked.query.get("page", "1"))
    return {
        "days": asked.days,
        "periods": PERIODS.items(),
        "page": page,
        "pages": list(page.paginator.get_elided_page_range(page.number)),
        "changes": entries_done(page.object_list),
        "charts": history_charts(pool, _tenants_drawn(asked), since=asked.since, now=asked.now),
        "search": asked.search,
        "query": urlencode({"days": asked.days, "q": asked.search}) + "&",
        "drawn": TENANTS_DRAWN,
    }


def _tenants_drawn(asked: TabRequest) -> Sequence[int]:
    """Return the first members by name, of those that are searched for."""
    members = members_of(pool=asked.pool)
    if asked.search:
        of_slug = Q(membership__tenant__slug__icontains=asked.search)
        members = members.filter(of_slug | Q(membership__tenant__name__icontains=asked.search))
    slugs = members.order_by("membership__tenant__slug")
    return list(slugs.values_list("membership__tenant", flat=True)[:TENANTS_DRAWN])
