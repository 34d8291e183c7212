"""Pages of a tenant's pools, with its part and its advantage from sharing."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from allocator_service.allocation.models import Run
from allocator_service.allocation.policies import policy_description, policy_title
from allocator_service.allocation.runs.placement_dates import (
    keeps_tasks,
    kept_sentences,
    tasks_kept,
)
from allocator_service.allocation.selectors import (
    allocated_in_slot,
    allocated_to,
    decisions_in_force,
    runs_with_slots,
)
from allocator_service.allocation.what_if.explanations import exhausted_budgets
from allocator_service.billing.balances import tenant_balances
from allocator_service.billing.rating.projections import CurrentCost, current_costs
from allocator_service.billing.statements.selectors import bill_so_far, statement_rows
from allocator_service.core.clock import utc_now
from allocator_service.core.snapshots import one_snapshot
from allocator_service.pools.budgets import exhausted_sentence
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import (
    closed_pools_for,
    groups_of,
    pools_for,
    resources_of,
    server_kinds,
)
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import WorkloadState
from allocator_service.workloads.selectors import workloads_for
from api.contract.pagination import Page, by_slug
from api.pages.groups import amounts_above, has_amounts, pool_tree, terms_above
from api.pages.history import history_of
from api.pages.live import live_of
from api.pages.parts import (
    entitlements_in_force,
    servers_rows,
    share_of,
    tenant_decision,
    workload_rows,
)
from api.pages.views import PoolPage, TenantPage, see
from api.pages.weeks import week_of
from api.pages.workloads import workloads_page

_POOLS = by_slug("my-pools")
POOLS_SHOWN, CLOSED_SHOWN = 50, 100
WORKLOADS_SHOWN, KINDS_SHOWN, MONTHS_SHOWN = 20, 50, 6
NAMED_IN_ANSWER = 5


class MyPoolsPage(TenantPage):
    """Page `/my/` of the pools of the tenant, and its part of each.

    Visitors of a group go to the page of their group.
    """

    def answer_chosen(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if self.caller.group is not None and request.method in ("GET", "HEAD"):
            return see("my-subtree")
        return super().answer_chosen(request, *args, **kwargs)

    def get(self, request: HttpRequest) -> HttpResponseBase:
        now, cursor = utc_now(), request.GET.get("cursor")
        with one_snapshot():
            listed = _POOLS.page(pools_for(self.tenant), cursor=cursor, limit=POOLS_SHOWN)
            runs = decisions_in_force(pools=listed.rows, now=now)
            got = allocated_to(runs=runs.values(), tenant=self.tenant)
            averaged = runs_with_slots(runs.values())
            got |= {
                # Where time is divided, stored allocations are averages, and the page states what runs.
                run.pk: allocated_in_slot(run=run, tenant=self.tenant, at=now)
                for run in runs.values()
                if run.pk in averaged and run.pk in got
            }
            # One more than is shown states whether there are others.
            closed = list(closed_pools_for(self.tenant)[: CLOSED_SHOWN + 1])
        rows = []
        for pool in listed.rows:
            run = runs.get(pool.pk)
            amounts = got.get(run.pk, []) if run is not None else []
            rows.append(
                {
                    "pool": pool,
                    "policy": policy_title(pool.policy_name),
                    "run": run,
                    "in_slot": run is not None and run.pk in averaged,
                    "has": list(zip(resources_of(pool), amounts, strict=False)),
                    "current": run is not None and (run.generation or 0) >= pool.generation,
                }
            )
        return self.shown(
            "my_pools",
            rows=rows,
            next_cursor=listed.next_cursor,
            closed=closed[:CLOSED_SHOWN],
            more_closed=len(closed) > CLOSED_SHOWN,
        )


class PoolOverviewPage(PoolPage):
    """Page `/my/pools/{pool}/` of the tenant's part, its past, its running work, and the reasons."""

    def get(self, request: HttpRequest, pool: str) -> HttpResponseBase:
        now, tenant = utc_now(), self.tenant
        with one_snapshot():
            of_pool = self.pool
            resources = resources_of(of_pool)
            found = entitlements_in_force(pool=of_pool, now=now)
            run = None if found is None else found.run
            share = None if found is None else share_of(found=found, tenant=tenant, now=now)
            reports_tasks = share and share.use and share.use.running_tasks is not None
            listed = workloads_page(pool=of_pool, tenant=tenant, cursor=None, limit=WORKLOADS_SHOWN)
            workloads = workload_rows(pool=of_pool, tenant=tenant, run=run, workloads=listed.rows)
            # One more than is shown states whether there are others.
            kinds = server_kinds(pool=of_pool, tenant=tenant, limit=KINDS_SHOWN + 1)
            tree = None
            above = terms_above(pool=of_pool, tenant=tenant)
            shows = any(has_amounts(terms, of_pool) for terms in above)
            # Reading a tree reads the stored decision, which a flat pool without amounts need not.
            if found is not None and (found.has_groups or shows):
                tree = pool_tree(pool=of_pool, run=found.run, tenant=tenant)
            kept = _kept(run, tenant, now)
            # The newest first: the page shows a few of them, and the open month has to be among
            # these.
            months = statement_rows(pool=of_pool, now=now, tenant=tenant)[::-1]
            return self.shown(
                "pool",
                pool=of_pool,
                now=now,
                live=live_of(pool=of_pool, run=run, now=now),
                policy=policy_title(of_pool.policy_name),
                policy_description=policy_description(of_pool.policy_name),
                decision=run and tenant_decision(pool=of_pool, run=run, tenant=tenant, now=now),
                share=share,
                amounts=amounts_above(above, pool=of_pool, tree=tree, now=now),
                tree=tree if found is not None and found.has_groups else None,
                history=history_of(pool=of_pool, tenant=tenant, days=1, now=now),
                week=week_of(pool=of_pool, tenant=tenant, share=share, now=now),
                workloads=workloads,
                answer=[row for row in workloads if row.got is not None][:NAMED_IN_ANSWER],
                more_than_named=listed.next_cursor is not None or len(workloads) > NAMED_IN_ANSWER,
                more_workloads=listed.next_cursor is not None,
                servers=servers_rows(kinds[:KINDS_SHOWN], resources),
                more_kinds=len(kinds) > KINDS_SHOWN,
                kept=kept,
                kept_shown=NAMED_IN_ANSWER,
                in_pieces=reports_tasks and _has_pieces(of_pool, tenant, listed),
                exhausted=_exhausted(of_pool, run, tenant),
                balances=tenant_balances(pool=of_pool, tenant=tenant, now=now),
                cost=run and _cost(of_pool, run, tenant, now),
                bill=bill_so_far(pool=of_pool, tenant=tenant, now=now),
                months=months[:MONTHS_SHOWN],
                more_months=len(months) > MONTHS_SHOWN,
            )


def _has_pieces(pool: Pool, tenant: Tenant, listed: Page) -> bool:
    """Return True if a workload of a tenant has tasks of several pieces."""
    # The page has all of them already, which saves a statement.
    if listed.next_cursor is None:
        return any(each.pieces for each in listed.rows)
    present = workloads_for(pool=pool, tenant=tenant).exclude(state=WorkloadState.WITHDRAWN)
    return present.exclude(pieces=[]).exists()


def _cost(pool: Pool, run: Run, tenant: Tenant, now: datetime) -> CurrentCost | None:
    """Return the cost of a tenant's allocation, None without prices or use."""
    return current_costs(pool=pool, tenants=[tenant], run=run, now=now).get(tenant.slug)


def _kept(run: Run | None, tenant: Tenant, now: datetime) -> list[str]:
    """Return until when tasks of a tenant keep their servers, a sentence for each workload."""
    if run is None or not keeps_tasks({"policy": run.policy}):
        return []
    kept = tasks_kept(run, now=now, tenant=tenant)
    return kept_sentences(kept, tenant, run.pool.timezone, waits=False)


def _exhausted(pool: Pool, run: Run | None, tenant: Tenant) -> list[str]:
    """Return sentences about exhausted budgets of the groups above a tenant.

    Balances are those of the tenant's own budgets.
    """
    if run is None or not run.budgets:
        return []
    groups = list(groups_of(pool=pool, tenant=tenant).values_list("slug", flat=True))
    # No tenant has the empty slug, so that only budgets of the groups are found.
    return [exhausted_sentence(each, pool.timezone) for each in exhausted_budgets(run, "", groups)]
