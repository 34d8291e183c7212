"""Pages of a run's rows. A run never changes once it is published: a cursor names it and counts."""

from rest_framework.response import Response

from allocator_service.allocation.models import Run
from allocator_service.allocation.selectors import allocations_of, demands_of, placements_of
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from api.contract.pagination import page_of_fixed
from api.subtrees import Subtree
from api.v1.runs.serializers import (
    RowWriter,
    allocation_columns,
    placement_columns,
    tenant_allocation_columns,
)
from api.views import ContractView


def allocations_page(view: ContractView, run: Run, subtree: Subtree | None) -> Response:
    """What the workloads got, or with `?by=tenant` the tenants.

    `subtree` is that of a group's key.
    """
    query = view.query
    resources = resources_of(run.pool)
    if subtree is not None:
        writer = RowWriter(run, resources, None)
        rows = allocations_of(run=run, tenant=None).filter(tenant__in=list(subtree.of_run(run)))
    else:
        writer = RowWriter(run, resources, view.tenant)
        rows = allocations_of(run=run, tenant=_limit(run, view.tenant))
    rows = rows.order_by("position")
    if query["by"] == "tenant":
        page = page_of_fixed(
            f"sums:{run.pk}", writer.sums(rows), cursor=query["cursor"], limit=query["limit"]
        )
        return view.listing(page, dict, tenant_allocation_columns(resources))
    page = page_of_fixed(
        f"allocations:{run.pk}", rows, cursor=query["cursor"], limit=query["limit"]
    )
    return view.listing(page, writer.allocation, allocation_columns(resources))


def placements_page(view: ContractView, run: Run) -> Response:
    """Where the tasks run."""
    resources = resources_of(run.pool)
    writer = RowWriter(run, resources, view.tenant)
    rows = placements_of(run=run, tenant=_limit(run, view.tenant)).order_by("position")
    page = page_of_fixed(f"placements:{run.pk}", rows, **view.query)
    demands = demands_of(run)
    return view.listing(
        page,
        lambda row: writer.placement(row, demands[row.workload_id]),
        placement_columns(resources),
    )


def _limit(run: Run, tenant: Tenant | None) -> Tenant | None:
    """The tenant whose rows alone are shown; in a transparent pool none."""
    return None if run.pool.transparent else tenant
