"""Usage that is measured outside the service and reported to it."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import MAX_ERRORS, FieldError, Unacceptable
from allocator_service.core.quantities import Resource, vector_from
from allocator_service.ledger.intake.usage import UsageEvent, events_refuse_too_many, usage_record
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenants_with_retired
from allocator_service.workloads.models import MAX_TASKS, Workload, WorkloadState
from allocator_service.workloads.selectors import workloads_named
from api.auth import OPERATOR_AND_TENANT
from api.contract import documents
from api.contract.bulk import Items, read_items, tenants_named
from api.contract.operations import records
from api.contract.parameters import Parameters
from api.views import PoolView, writes

MAX_EVENTS = 10_000


class UsageRequest(documents.Document):
    source = documents.TextField(max_length=100)
    id = documents.TextField(max_length=200)
    tenant = documents.SlugField(
        required=False, description="Optional for a tenant's key, which means itself."
    )
    workload = documents.TextField(max_length=253, required=False, description="Its name.")
    tasks = documents.IntegerField(
        minimum=0,
        maximum=MAX_TASKS,
        required=False,
        description="Tasks of the workload; each counts as its demand.",
    )
    resources = documents.PoolQuantitiesField(required=False, description="Instead of tasks.")
    start = documents.TimestampField()
    end = documents.TimestampField()


class UsageParameters(Parameters):
    non_members = documents.ChoiceField(
        choices=["refuse", "accept"],
        default="refuse",
        description="Whether usage of tenants that were never admitted to the pool is taken.",
    )


class RecordedDocument(documents.Document):
    accepted = documents.IntegerField(minimum=0, maximum=MAX_EVENTS)
    duplicates = documents.IntegerField(
        minimum=0, maximum=MAX_EVENTS, description="Already posted, with the same content."
    )


class UsageView(PoolView):
    scopes: ClassVar = {"POST": OPERATOR_AND_TENANT}
    write_parameters = UsageParameters
    large = True

    @records(UsageRequest, RecordedDocument, "Report usage")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Record usage that was measured outside the service, in a pool whose `metering` is `reported`.

        Send one event or an array of up to 10,000, late and in any order: all of them are recorded or
        none. `source` and `id` identify an event in its pool permanently. Repeat a request whose answer
        was lost: events that were recorded before count as `duplicates`, but the same identity with
        different content is refused with 409 `usage.conflict`. A pool that meters itself answers 409
        `usage.metering`. A tenant key reports for its own tenant only, and its `source` is stored as
        `tenant:<slug>/<source>`.
        """
        # Before the body is read: a pool that the caller may not see is 404 even if the body is
        # wrong.
        pool_of_route = self.pool
        items = read_items(
            UsageRequest, self.body_value(), cells=False, refuse_too_many=events_refuse_too_many
        )
        recorded = usage_record(
            pool=pool_of_route,
            events=self._events(items),
            now=utc_now(),
            members_only=self.query["non_members"] == "refuse",
        )
        return Response({"accepted": recorded.accepted, "duplicates": recorded.duplicates})

    def _events(self, items: Items) -> list[UsageEvent]:
        tenants = tenants_named(
            items, "tenant", caller=self.tenant, required=True, among=tenants_with_retired()
        )
        workloads = self._workloads(items, {tenant.pk for tenant in tenants if tenant})
        resources = resources_of(self.pool)
        events: list[UsageEvent] = []
        errors: list[FieldError] = []
        for index, (fields, tenant) in enumerate(zip(items.fields, tenants, strict=True)):
            pointer = items.pointer(index)
            try:
                events.append(self._event(fields, tenant, workloads, resources, pointer))
            except Unacceptable as error:
                errors.extend(error.errors)
                # Enough to correct a systematic mistake, without reading the rest of 10,000 events.
                if len(errors) >= MAX_ERRORS:
                    break
        if errors:
            raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors[:MAX_ERRORS])
        return events

    def _workloads(self, items: Items, tenants: set[int]) -> dict[tuple[int, str], Workload]:
        """The workloads that are named, withdrawn ones too where no present one has the name."""
        names = {fields["workload"] for fields in items.fields} - {None}
        found = workloads_named(pool=self.pool, tenants=tenants, names=names)
        by_name: dict[tuple[int, str], Workload] = {}
        for workload in found:
            key = (workload.tenant_id, workload.name)
            present = by_name.get(key)
            # Usage comes late: its workload may be withdrawn by then, and another one may have its name.
            if present is None or workload.state != WorkloadState.WITHDRAWN:
                by_name[key] = workload
        return by_name

    def _event(
        self,
        fields: dict[str, Any],
        tenant: Tenant | None,
        workloads: dict[tuple[int, str], Workload],
        resources: Sequence[Resource],
        pointer: str,
    ) -> UsageEvent:
        if tenant is None:
            raise Unacceptable(
                '"tenant" is required.', code="field.required", pointer=f"{pointer}/tenant"
            )
        workload = None
        if fields["workload"] is not None:
            workload = workloads.get((tenant.pk, fields["workload"]))
            if workload is None:
                raise Unacceptable(
                    f'The tenant has no workload "{fields["workload"]}" in this pool.',
                    code="workload.unknown",
                    pointer=f"{pointer}/workload",
                )
        source = fields["source"]
        return UsageEvent(
            # In a space of its own: a tenant must not take the identities of the operator's meters.
            source=source if self.tenant is None else f"tenant:{self.tenant.slug}/{source}",
            event_id=fields["id"],
            tenant=tenant,
            workload=workload,
            vector=_vector(fields, workload, resources, pointer),
            start=fields["start"],
            end=fields["end"],
            pointer=pointer,
        )


def _vector(
    fields: dict[str, Any],
    workload: Workload | None,
    resources: Sequence[Resource],
    pointer: str,
) -> list[Decimal]:
    # Both would be two amounts of one event, of which the ledger could keep one.
    if (fields["tasks"] is None) == (fields["resources"] is None):
        raise Unacceptable(
            "Send either tasks (of a workload) or resources.", code="usage.amount", pointer=pointer
        )
    if fields["resources"] is not None:
        return vector_from(fields["resources"], resources, pointer=f"{pointer}/resources")
    if workload is None:
        raise Unacceptable(
            "Tasks need a workload: name it.",
            code="field.required",
            pointer=f"{pointer}/workload",
        )
    # Demand and number of tasks fit together in it: the default of 28 digits would round.
    with localcontext(prec=60):
        return [demand * fields["tasks"] for demand in workload.demand]
