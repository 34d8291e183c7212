"""A tenant's workloads, and why one of them did not get more."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from allocator_service.allocation.selectors import runs_with_slots
from allocator_service.allocation.what_if.explanations import Explanation, run_explain
from allocator_service.allocation.words import SPENT_HELPS
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing
from allocator_service.core.snapshots import one_snapshot
from allocator_service.enforcement.selectors import decision_in_force
from allocator_service.pools.clusters import clusters_away
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload, WorkloadState
from allocator_service.workloads.reason_texts import AWAY_HELPS, TENANT, away_text, remedy_text
from allocator_service.workloads.selectors import workloads_for
from api.contract.fields import uuid_or_none
from api.contract.pagination import Page, by_id
from api.pages.parts import tenant_decision, workload_rows
from api.pages.views import PoolPage
from api.v1.evaluations import admitted_evaluation
from api.v1.explanations import explanation_document

_WORKLOADS = by_id("my-workloads")
WORKLOADS_A_PAGE = 100
HELPS_SHOWN = 3


def workloads_page(*, pool: Pool, tenant: Tenant, cursor: str | None, limit: int) -> Page:
    """The tenant's workloads that are not withdrawn, the oldest first."""
    present = workloads_for(pool=pool, tenant=tenant).exclude(state=WorkloadState.WITHDRAWN)
    return _WORKLOADS.page(present, cursor=cursor, limit=limit)


class WorkloadsPage(PoolPage):
    """Page `/my/pools/{pool}/workloads/` of all workloads, a hundred at a time."""

    def get(self, request: HttpRequest, pool: str) -> HttpResponseBase:
        with one_snapshot():
            of_pool = self.pool
            run = decision_in_force(pool=of_pool, now=utc_now())
            listed = workloads_page(
                pool=of_pool,
                tenant=self.tenant,
                cursor=request.GET.get("cursor"),
                limit=WORKLOADS_A_PAGE,
            )
            return self.shown(
                "workloads",
                pool=of_pool,
                workloads=workload_rows(
                    pool=of_pool, tenant=self.tenant, run=run, workloads=listed.rows
                ),
                next_cursor=listed.next_cursor,
                averaged=run is not None and bool(runs_with_slots([run])),
                began=request.GET.get("cursor") is None,
            )


class WhyPage(PoolPage):
    """Page `/my/pools/{pool}/why/` of the decision's explanation, with changes that were tried.

    `?workload=` is the one that something is sought for; without it, something for the first few. It
    computes, within the limits of an evaluation.
    """

    def get(self, request: HttpRequest, pool: str) -> HttpResponseBase:
        now, of_pool = utc_now(), self.pool
        chosen = self._chosen(of_pool)
        run = decision_in_force(pool=of_pool, now=now)
        content: dict[str, Any] = {
            "pool": of_pool,
            "chosen": chosen,
            "resources": resources_of(of_pool),
        }
        if run is None:
            return self.shown("why", **content)
        try:
            with admitted_evaluation(self.caller):
                explanation = run_explain(
                    run=run,
                    tenant=self.tenant,
                    workload=None if chosen is None else chosen.pk,
                    # Each one found costs up to several solutions, and the visitor waits for them.
                    most=HELPS_SHOWN,
                    now=now,
                )
        except Missing:  # it had no workload when the decision was made
            explanation = None
        document = explanation and explanation_document(
            explanation, run, self.tenant, is_tenant=True
        )
        return self.shown(
            "why",
            **content,
            decision=tenant_decision(pool=of_pool, run=run, tenant=self.tenant, now=now),
            explanation=document,
            unhelped=_unhelped(document) if document and chosen is None else [],
            hint=explanation and chosen and _hint(explanation, chosen),
            helps_shown=HELPS_SHOWN,
        )

    def _chosen(self, pool: Pool) -> Workload | None:
        """The workload that is asked about. Raises `Missing` unless it is the tenant's."""
        text = self.request.GET.get("workload")
        if text is None:
            return None
        workload_id = uuid_or_none(text)
        mine = workloads_for(pool=pool, tenant=self.tenant)
        found = mine.filter(pk=workload_id).first() if workload_id is not None else None
        if found is None:
            raise Missing("There is no such workload.", code="workload.not_found")
        return found


def _hint(explanation: Explanation, chosen: Workload) -> str:
    """Return what the list of workloads has for this reason, so that both pages agree."""
    if chosen.name in explanation.spent:
        return SPENT_HELPS
    limited_by = explanation.reasons.get(chosen.name)
    if limited_by is None:
        return ""
    if away_text(limited_by, chosen.server_selector, clusters_away(chosen.pool)):
        return AWAY_HELPS
    return remedy_text(limited_by, TENANT)


def _unhelped(explanation: Mapping[str, Any]) -> list[str]:
    """Return the workloads that lack tasks, and that none of the changes listed helps.

    It is empty if there may be changes that are not listed.
    """
    changes = explanation["counterfactuals"]
    # As many as are sought: the search ended before all workloads were tried.
    if not 0 < len(changes) < HELPS_SHOWN:
        return []
    helped = {each["workload"] for each in changes}
    return [
        each["workload"]
        for each in explanation["workloads"]
        if each["limited_by"] != "task_limit" and each["workload"] not in helped
    ]
