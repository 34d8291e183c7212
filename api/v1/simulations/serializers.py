"""Simulations as documents."""

from typing import Any

from allocator_service.allocation.models import Simulation, SimulationStatus
from allocator_service.tenants.models import Tenant
from api.documents import DocumentField, ListField, StrictSerializer
from api.fields import (
    BooleanField,
    ChoiceField,
    IdField,
    IntegerField,
    NumberField,
    SlugField,
    TextField,
    TimestampField,
)
from api.structures import IdsField, LabelsField, ObjectField, QuantitiesField, SelectorField
from api.v1.pools.serializers import MAX_GENERATION, PolicyFields
from api.v1.runs.serializers import MAX_ROWS
from api.v1.workloads.serializers import PRIORITY, TASKS

MAX_CHANGES = 1_000


class AddedServer(StrictSerializer):
    name = TextField(max_length=253)
    contributed_by = SlugField(required=False, allow_null=True)
    capacity = QuantitiesField()
    labels = LabelsField(default=dict)
    count = IntegerField(minimum=1, maximum=100_000, default=1)


class ServerChanges(StrictSerializer):
    add = ListField(AddedServer, min_items=0, max_items=MAX_CHANGES, required=False)
    drain = IdsField(max_items=MAX_CHANGES, required=False, help_text="Servers.")
    retire = IdsField(max_items=MAX_CHANGES, required=False, help_text="Servers.")


class SubmittedWorkload(StrictSerializer):
    tenant = SlugField(required=False, help_text="May be left out by a tenant's key: itself.")
    name = TextField(max_length=253)
    demand = QuantitiesField()
    tasks = IntegerField(**TASKS, required=False)
    priority = IntegerField(**PRIORITY, default=0)
    server_selector = SelectorField(default=dict)


class ChangedWorkload(StrictSerializer):
    id = IdField()
    demand = QuantitiesField(required=False)
    tasks = IntegerField(**TASKS, required=False)
    priority = IntegerField(**PRIORITY, required=False)
    server_selector = SelectorField(required=False)


class WorkloadChanges(StrictSerializer):
    submit = ListField(SubmittedWorkload, min_items=0, max_items=MAX_CHANGES, required=False)
    change = ListField(ChangedWorkload, min_items=0, max_items=MAX_CHANGES, required=False)
    withdraw = IdsField(max_items=MAX_CHANGES, required=False, help_text="Workloads.")


class ChangedMember(StrictSerializer):
    tenant = SlugField()
    weight = NumberField(required=False)
    best_effort = BooleanField(required=False)


class SimulationRequest(StrictSerializer):
    policy = DocumentField(PolicyFields, required=False)
    weights = ChoiceField(choices=["explicit", "contribution"], required=False)
    members = ListField(ChangedMember, min_items=0, max_items=MAX_CHANGES, required=False)
    servers = DocumentField(ServerChanges, required=False)
    workloads = DocumentField(WorkloadChanges, required=False)


class ShareDocument(StrictSerializer):
    share = NumberField()
    weighted_share = NumberField(allow_null=True)


class TenantComparison(StrictSerializer):
    tenant = TextField(max_length=253)
    before = DocumentField(ShareDocument, allow_null=True)
    after = DocumentField(ShareDocument, allow_null=True)


class TasksDocument(StrictSerializer):
    id = IdField(allow_null=True)
    tasks = NumberField()
    limited_by = TextField(max_length=80)


class WorkloadComparison(StrictSerializer):
    tenant = TextField(max_length=253)
    workload = TextField(max_length=253)
    before = DocumentField(TasksDocument, allow_null=True)
    after = DocumentField(TasksDocument, allow_null=True)


class ResultDocument(StrictSerializer):
    tenants = ListField(TenantComparison, min_items=0, max_items=MAX_ROWS)
    workloads = ListField(WorkloadComparison, min_items=0, max_items=MAX_ROWS)
    summary = ObjectField(allow_null=True, help_text="Of the pool, before and after.")


class SimulationDocument(StrictSerializer):
    id = IdField()
    pool = SlugField()
    status = ChoiceField(choices=SimulationStatus.values)
    generation = IntegerField(
        minimum=0, maximum=MAX_GENERATION, allow_null=True, help_text="Of the pool it started from."
    )
    changes = ObjectField()
    created_at = TimestampField()
    finished_at = TimestampField(allow_null=True)
    result = DocumentField(ResultDocument, allow_null=True)
    error = ObjectField(allow_null=True, help_text="`code`, `detail` and `errors` as of a problem.")


def simulation_document(simulation: Simulation, caller: Tenant | None) -> dict[str, Any]:
    """The simulation; a tenant sees its own rows of the result and nothing of the whole pool."""
    result = simulation.result
    if result is not None and caller is not None:
        result = {
            "tenants": [row for row in result["tenants"] if row["tenant"] == caller.slug],
            "workloads": [row for row in result["workloads"] if row["tenant"] == caller.slug],
            "summary": None,
        }
    return {
        "id": simulation.pk,
        "pool": simulation.pool.slug,
        "status": simulation.status,
        "generation": simulation.generation,
        "changes": simulation.changes,
        "created_at": simulation.created_at,
        "finished_at": simulation.finished_at,
        "result": result,
        "error": simulation.error,
    }
