"""Workloads, which tenants submit for themselves and operators for any tenant."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, cast
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.durations import MOST_RECLAIM_DAYS, duration_seconds
from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import vector_from
from allocator_service.pools.clusters import clusters_away, clusters_selected
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.gangs import GANG, Gang, demand_read, gang_read
from allocator_service.workloads.models import MAX_PRIORITY, MAX_TASKS, Workload, WorkloadState
from allocator_service.workloads.reason_texts import OPERATOR, away_text, reason_text
from allocator_service.workloads.selectors import workloads_for
from allocator_service.workloads.services import (
    WorkloadDraft,
    WorkloadSettings,
    workload_update,
    workload_withdraw,
    workloads_refuse_too_many,
    workloads_submit,
)
from api.auth import EVERY_SCOPE_GROUP_AND_AGENT, OPERATOR_AND_TENANT, OPERATOR_TENANT_AND_AGENT
from api.contract import documents
from api.contract.bulk import Items, tenants_named
from api.contract.operations import creates, lists, retires, shows, updates
from api.contract.pagination import Page, by_id
from api.contract.parameters import PageParameters
from api.resources import PoolResource
from api.v1.gangs import at_least_field, per_server_field, pieces_field, together_field
from api.v1.limits import amounts_field, limits_read
from api.versions import conditional, of_pool
from api.views import writes
from policies import UNSERVED

TASKS: Mapping[str, Any] = {"minimum": 0, "maximum": MAX_TASKS, "allow_null": True}
PRIORITY: Mapping[str, Any] = {"minimum": -MAX_PRIORITY, "maximum": MAX_PRIORITY}


class ConditionDocument(documents.Document):
    type = documents.ChoiceField(choices=["unsatisfiable"])
    reason = documents.ChoiceField(choices=UNSERVED)
    detail = documents.TextField(max_length=500, description="Sentence of the reason for people.")


class ConditionsField(documents.ListField):
    """The conditions of a workload, of which the reason why it cannot run is stored."""

    def write(self, value: Any, context: Any) -> list[dict[str, Any]]:
        if not value:
            return []
        detail = reason_text(value, OPERATOR)  # it does not depend on the reader
        return [{"type": "unsatisfiable", "reason": value, "detail": detail}]


class MinimumRunField(documents.DurationField):
    """A duration of which an empty text is stored for none."""

    def write(self, value: Any, context: Any) -> Any:
        return super().write(value, context) if value else None


class WorkloadDocument(documents.Document):
    id = documents.IdField()
    pool = documents.pool_field()
    tenant = documents.SlugField(
        source="tenant.slug",
        writable={
            "required": False,
            "description": "Optional for a tenant's key, which means itself.",
        },
    )
    name = documents.TextField(max_length=253, writable=True)
    demand = documents.VectorField(
        writable={
            "required": False,
            "description": "Of one task. Leave it out where pieces are given; then it is their sum.",
        }
    )
    pieces = pieces_field()
    per_server = per_server_field()
    together = together_field()
    at_least = at_least_field()
    tasks = documents.IntegerField(
        **TASKS,
        writable={
            "required": False,
            "description": "How many can run at once; null is no limit.",
        },
    )
    priority = documents.IntegerField(**PRIORITY, writable={"default": 0})
    server_selector = documents.SelectorField(writable={"default": dict})
    minimum_run = MinimumRunField(
        most_days=MOST_RECLAIM_DAYS,
        allow_null=True,
        writable={
            "default": None,
            "description": "For how long a placed task keeps its server, and a job runs before an agent"
            " takes back what it holds; null is that of the pool.",
        },
    )
    limit = amounts_field()
    state = documents.ChoiceField(choices=WorkloadState.values, writable=True)
    conditions = ConditionsField(
        ConditionDocument, source="unsatisfiable", min_items=0, max_items=1
    )
    version = documents.VersionField()
    created_at = documents.TimestampField()
    withdrawn_at = documents.TimestampField(allow_null=True)


WorkloadRequest = WorkloadDocument.writable(
    "WorkloadRequest",
    only=(
        "tenant",
        "name",
        "demand",
        "pieces",
        "per_server",
        "together",
        "at_least",
        "tasks",
        "priority",
        "server_selector",
        "minimum_run",
        "limit",
    ),
)
WorkloadChange = WorkloadDocument.writable("WorkloadChange")


class WorkloadParameters(PageParameters):
    state = documents.ChoiceField(
        choices=WorkloadState.values,
        required=False,
        description="All but withdrawn ones by default.",
    )
    name = documents.TextField(
        max_length=253, required=False, description="Only workloads of exactly this name."
    )
    tenant = documents.SlugField(
        required=False, description="Only workloads of the tenant of this slug."
    )


class WorkloadResource(PoolResource):
    document = WorkloadDocument
    change = WorkloadChange
    fixed = ("tenant",)
    not_found = "workload.not_found"
    ordering = by_id("workloads")
    by_rows = True
    makes_generation = True

    def queryset(self) -> QuerySet[Workload]:
        if self.subtree is None:
            return workloads_for(pool=self.pool, tenant=self.tenant)
        below = workloads_for(pool=self.pool, tenant=None).filter(tenant__in=self.subtree.tenants())
        # A tenant may have withdrawn a workload before it entered the group.
        return below.exclude(state=WorkloadState.WITHDRAWN)

    def write(self, found: Workload) -> dict[str, Any]:
        return self._explained(super().write(found))

    def answer_page(self, page: Page) -> Response:
        """Answer a page of workloads."""
        write = self.document.row_writer(self)
        return self.listing(page, lambda row: self._explained(write(row)), self.csv_columns())

    def _explained(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the document of a workload, whose conditions name its cluster if that is away."""
        for condition in document["conditions"]:
            selector, zone = document["server_selector"], self.pool.timezone
            gone = away_text(condition["reason"], selector, self._away, zone)
            condition["detail"] = gone or condition["detail"]
        return document

    @cached_property
    def _away(self) -> Mapping[str, datetime]:
        return clusters_away(self.pool)

    def update(self, found: Workload, fields: Mapping[str, Any], version: int) -> Workload:
        demand = vector_from(fields["demand"], self.resources, pointer="/demand")
        gang = gang_read(fields, self.resources)
        # The patch changed the pieces alone: the demand in the merged body is that of the old ones.
        if gang.pieces and gang != Gang.of(found) and demand == list(found.demand):
            demand = gang.demand(self.resources)
        others = {name: value for name, value in fields.items() if name not in (*GANG, "tenant")}
        limit = limits_read(fields["limit"], self.resources, pointer="/limit")
        minimum = fields["minimum_run"] or ""
        # Only a change: a minimum that an operator set must survive the tenant's other patches.
        if minimum != found.minimum_run:
            self._refuse_long_minimum(minimum, "")
        settings = WorkloadSettings(
            **{**others, "demand": demand, "limit": limit, "gang": gang, "minimum_run": minimum}
        )
        return workload_update(workload=found, settings=settings, version=version, now=utc_now())

    def _refuse_long_minimum(self, minimum_run: str, pointer: str) -> None:
        """Raise `Unacceptable` if a tenant would keep servers for longer than the pool's minimum."""
        of_pool = self.pool.minimum_run
        # A tenant could otherwise keep servers from all others for as long as it likes.
        if self.tenant is None or duration_seconds(minimum_run) <= duration_seconds(of_pool):
            return
        raise Unacceptable(
            f"The minimum of the pool is {of_pool or 'none'}. Only an operator may set a longer one.",
            code="workload.minimum_run",
            pointer=f"{pointer}/minimum_run",
        )

    def retire(self, found: Workload, version: int) -> None:
        workload_withdraw(workload=found, version=version, now=utc_now())


class WorkloadsView(WorkloadResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE_GROUP_AND_AGENT, "POST": OPERATOR_AND_TENANT}
    parameters = WorkloadParameters
    large = True

    @conditional(of_pool)
    @lists(WorkloadDocument, "List the workloads of a pool; a tenant sees its own")
    def get(self, request: Request, pool: str) -> Response:
        """List the workloads of a pool, oldest first, without the withdrawn ones unless
        `state=withdrawn` asks for them.

        A tenant key sees its own, a group key those of the members below its group, without
        withdrawn ones; operator and billing keys see those of all tenants. A workload that cannot
        run at present has the condition `unsatisfiable` with its reason.
        """
        if self.query["state"] is not None:
            return self.answer_list()
        # They add up over the years, and what asks for the list seldom means them.
        return self.answer_list(self.queryset().exclude(state=WorkloadState.WITHDRAWN))

    @creates(WorkloadRequest, WorkloadDocument, "Submit workloads", pool=True, bulk=True)
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Submit one workload, or many at once as a JSON array or as CSV.

        A bulk request is all-or-nothing and names the failing item. A tenant key submits for its
        own tenant; an operator names the `tenant`, which this admits to the pool. `demand` is that
        of one task, `tasks` how many can run at once. A task of several `pieces` runs all of them at
        once or none (422 `workload.pieces` where the pool's policy cannot). A demand that no server
        can serve now is accepted as `unsatisfiable`. The service refuses a name that the tenant
        already uses in the pool (409 `workload.exists`), a demand of nothing (422 `demand.zero`), a
        selector under a policy that sees the pool as one server (422 `policy.no_placement`) and
        more than 10,000 workloads (413 `workloads.too_many`).
        """
        return self.answer_many_created(
            WorkloadRequest, self._create, refuse_too_many=workloads_refuse_too_many
        )

    def _create(self, items: Items) -> Sequence[UUID]:
        tenants = tenants_named(items, "tenant", caller=self.tenant, required=True)
        drafts = []
        for index, (fields, tenant) in enumerate(zip(items.fields, tenants, strict=True)):
            pointer = items.pointer(index)
            minimum = fields["minimum_run"] or ""
            self._refuse_long_minimum(minimum, pointer)
            gang = gang_read(fields, self.resources, pointer)
            demand = demand_read(fields, gang, self.resources, pointer)
            limit = limits_read(fields["limit"], self.resources, pointer=f"{pointer}/limit")
            named = {
                **{name: value for name, value in fields.items() if name not in GANG},
                "gang": gang,
                "tenant": cast("Tenant", tenant),
                "demand": demand,
                "limit": limit or (),
                "minimum_run": minimum,
            }
            drafts.append(WorkloadDraft(**named, pointer=pointer))
        return workloads_submit(pool=self.pool, drafts=drafts, now=utc_now()).ids


class WorkloadView(WorkloadResource):
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
        return self.answer_one(self.find(workload))

    @updates(WorkloadChange, WorkloadDocument, "Change a workload", pool=True)
    @writes
    def patch(self, request: Request, pool: str, workload: str) -> Response:
        """Change demand, `tasks`, priority, selector, name or `state` of a workload by merge patch.

        For operators and the tenant itself, with `If-Match`. The change counts from the next
        decision on. `state` `paused` keeps the workload out of decisions until it is `active`
        again; `withdrawn` is final, and a withdrawn workload cannot change (409
        `workload.withdrawn`). `tenant` cannot change (422 `field.immutable`).
        """
        return self.answer_update(workload)

    @retires("Withdraw a workload", pool=True)
    @writes
    def delete(self, request: Request, pool: str, workload: str) -> Response:
        """Withdraw a workload for good.

        For operators and the tenant itself, with `If-Match`. The next decision leaves it out. Its
        history stays, and `GET` still shows it as `withdrawn`. Withdrawing a withdrawn workload
        changes nothing.
        """
        # No selector of clusters means a workload of all of them, which any agent may have
        # admitted.
        named = clusters_selected(self.find(workload).server_selector)
        # An agent withdraws what it admitted, and nothing of a scheduler beside it.
        if named is not None and self.cluster(None) not in ("", *named):
            self.cluster(named[0])
        return self.answer_retire(workload)
