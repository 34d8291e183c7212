"""Workloads: what tenants want to run, submitted by themselves or by operators for them."""

from collections.abc import Sequence
from contextlib import nullcontext
from http import HTTPStatus
from typing import ClassVar, cast

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing
from allocator_service.core.quantities import Resource, vector_from
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload, WorkloadState
from allocator_service.workloads.selectors import workloads_for
from allocator_service.workloads.services import (
    WorkloadDraft,
    WorkloadSettings,
    workload_update,
    workload_withdraw,
    workloads_refuse_too_many,
    workloads_submit,
)
from api.auth import (
    EVERY_SCOPE_GROUP_AND_AGENT,
    OPERATOR_AND_TENANT,
    OPERATOR_TENANT_AND_AGENT,
)
from api.contract.bodies import is_csv, rows_named
from api.contract.bulk import Items, created_document, read_items, tenants_named
from api.contract.conditional import entity_tag, expected_version
from api.contract.fields import uuid_or_none
from api.contract.pagination import by_id
from api.openapi.describing import creates, lists, retires, shows, updates
from api.v1.workloads.serializers import (
    WORKLOAD_COLUMNS,
    WorkloadChange,
    WorkloadDocument,
    WorkloadParameters,
    WorkloadRequest,
    workload_columns,
    workload_document,
    workload_fields,
    workload_row,
)
from api.views import PoolView, writes

ORDERING = by_id("workloads")


def visible_workloads(view: PoolView) -> QuerySet[Workload]:
    """Return the workloads that the caller may see, withdrawn ones included.

    A group key sees none of the latter: a tenant may have withdrawn them before it entered the group.
    """
    if view.subtree is None:
        return workloads_for(pool=view.pool, tenant=view.tenant)
    below = workloads_for(pool=view.pool, tenant=None).filter(tenant__in=view.subtree.tenants())
    return below.exclude(state=WorkloadState.WITHDRAWN)


class WorkloadsView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_GROUP_AND_AGENT, "POST": OPERATOR_AND_TENANT}
    parameters = WorkloadParameters
    large = True

    @lists(WorkloadDocument, "List the workloads of a pool; a tenant sees its own")
    def get(self, request: Request, pool: str) -> Response:
        """List the workloads of a pool, oldest first, without the withdrawn ones unless
        `state=withdrawn` asks for them.

        A tenant key sees its own, a group key those of the members below its group, without
        withdrawn ones; operator and billing keys see those of all tenants. A workload that cannot
        run at present has the condition `unsatisfiable` with its reason.
        """
        workloads = visible_workloads(self).select_related(None)
        if self.query["state"] is None:
            workloads = workloads.exclude(state=WorkloadState.WITHDRAWN)
        page = ORDERING.page(
            workloads.filter(**self.filters(tenant="tenant__slug")).values_list(
                *WORKLOAD_COLUMNS, named=True
            ),
            cursor=self.query["cursor"],
            limit=self.query["limit"],
        )
        resources = resources_of(self.pool)
        return self.listing(
            page,
            lambda row: workload_row(row, row.tenant__slug, self.pool, resources),
            workload_columns(resources),
        )

    @creates(WorkloadRequest, WorkloadDocument, "Submit workloads", pool=True, bulk=True)
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Submit one workload, or many at once as a JSON array or as CSV.

        A bulk request is all-or-nothing and names the failing item. A tenant key submits for its
        own tenant; an operator names the `tenant`, which this admits to the pool. `demand` is that
        of one task, `tasks` how many can run at once. A demand that no server can serve now is
        accepted as `unsatisfiable`. The service refuses a name that the tenant already uses in the
        pool (409 `workload.exists`), a demand of nothing (422 `demand.zero`), a selector under a
        policy that sees the pool as one server (422 `policy.no_placement`) and more than 10,000
        workloads (413 `workloads.too_many`).
        """
        resources = resources_of(self.pool)
        with rows_named() if is_csv(request) else nullcontext():
            items = read_items(
                WorkloadRequest,
                self.sent(),
                cells=is_csv(request),
                refuse_too_many=workloads_refuse_too_many,
            )
            submitted = workloads_submit(
                pool=self.pool, drafts=self._drafts(items, resources), now=utc_now()
            )
        headers = {"Pool-Generation": str(submitted.generation)}
        if not items.alone:
            return Response(created_document(submitted.ids), HTTPStatus.CREATED, headers=headers)
        workload = workloads_for(pool=self.pool, tenant=None).get(pk=submitted.ids[0])
        headers |= {
            "Location": f"{request.path}{workload.pk}/",
            "ETag": entity_tag(workload.version),
        }
        document = workload_document(workload, self.pool, resources)
        return Response(document, HTTPStatus.CREATED, headers=headers)

    def _drafts(self, items: Items, resources: Sequence[Resource]) -> list[WorkloadDraft]:
        tenants = tenants_named(items, "tenant", caller=self.tenant, required=True)
        return [
            WorkloadDraft(
                tenant=cast("Tenant", tenant),
                name=fields["name"],
                demand=vector_from(
                    fields["demand"], resources, pointer=f"{items.pointer(index)}/demand"
                ),
                tasks=fields["tasks"],
                priority=fields["priority"],
                server_selector=fields["server_selector"],
                pointer=items.pointer(index),
            )
            for index, (fields, tenant) in enumerate(zip(items.fields, tenants, strict=True))
        ]


class WorkloadView(PoolView):
    scopes: ClassVar = {
        "GET": EVERY_SCOPE_GROUP_AND_AGENT,
        "PATCH": OPERATOR_AND_TENANT,
        "DELETE": OPERATOR_TENANT_AND_AGENT,
    }

    @shows(WorkloadDocument, "Show a workload")
    def get(self, request: Request, pool: str, workload: str) -> Response:
        """Show one workload, even after it was withdrawn.

        A tenant key sees its own workloads, a group key those of the members below its group, without
        withdrawn ones; any other id answers 404 `workload.not_found`.
        """
        return self._shown(self._workload(workload), generation=False)

    @updates(WorkloadChange, WorkloadDocument, "Change a workload", pool=True)
    @writes
    def patch(self, request: Request, pool: str, workload: str) -> Response:
        """Change a workload by JSON merge patch: demand, `tasks`, priority, selector, name or `state`.

        For operators and the tenant itself, with `If-Match`. The change counts from the next
        decision on. `state` `paused` keeps the workload out of decisions until it is `active`
        again; `withdrawn` is final, and a withdrawn workload cannot change (409
        `workload.withdrawn`). `tenant` cannot change (422 `field.immutable`).
        """
        present = self._workload(workload)
        version = expected_version(request, actual=present.version)
        resources = resources_of(self.pool)
        current = workload_fields(present, resources)
        fields = self.patched(WorkloadChange, current, fixed=["tenant"])
        changed = workload_update(
            workload=present,
            settings=WorkloadSettings(
                name=fields["name"],
                demand=vector_from(fields["demand"], resources, pointer="/demand"),
                tasks=fields["tasks"],
                priority=fields["priority"],
                server_selector=fields["server_selector"],
                state=fields["state"],
            ),
            version=version,
            now=utc_now(),
        )
        return self._shown(changed, generation=True)

    @retires("Withdraw a workload", pool=True)
    @writes
    def delete(self, request: Request, pool: str, workload: str) -> Response:
        """Withdraw a workload for good.

        For operators and the tenant itself, with `If-Match`. The next decision leaves it out. Its
        history stays, and `GET` still shows it as `withdrawn`. Withdrawing a withdrawn workload
        changes nothing.
        """
        present = self._workload(workload)
        version = expected_version(request, actual=present.version)
        withdrawn = workload_withdraw(workload=present, version=version, now=utc_now())
        return Response(
            status=HTTPStatus.NO_CONTENT,
            headers={"Pool-Generation": str(withdrawn.pool.generation)},
        )

    def _workload(self, text: str) -> Workload:
        workload_id = uuid_or_none(text)
        workloads = visible_workloads(self)
        workload = workloads.filter(pk=workload_id).first() if workload_id else None
        if workload is None:
            raise Missing("There is no such workload.", code="workload.not_found")
        return workload

    def _shown(self, workload: Workload, *, generation: bool) -> Response:
        headers = {"ETag": entity_tag(workload.version)}
        if generation:
            headers["Pool-Generation"] = str(workload.pool.generation)
        document = workload_document(workload, self.pool, resources_of(self.pool))
        return Response(document, headers=headers)
