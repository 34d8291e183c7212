"""Simulations as documents."""

from typing import Any

from allocator_service.allocation.models import Simulation, SimulationStatus
from allocator_service.tenants.models import Tenant
from api.contract.fields import (
    GenerationField,
    IdField,
    LabelsField,
    LimitedByField,
    PoolQuantitiesField,
    SelectorField,
    SlugField,
    TimestampField,
    ids_field,
)
from api.v1.members import tier_field
from api.v1.pools import PolicyFields
from api.v1.runs.serializers import MAX_ROWS
from api.v1.workloads import PRIORITY, TASKS
from policies.fields import (
    BooleanField,
    ChoiceField,
    Document,
    DocumentField,
    IntegerField,
    ListField,
    NumberField,
    ObjectField,
    TextField,
)

MAX_CHANGES = 1_000
# The value of a field that was left out, where null means something else.
OMITTED = object()


class AddedServer(Document):
    name = TextField(max_length=253)
    contributed_by = SlugField(required=False, allow_null=True)
    capacity = PoolQuantitiesField()
    labels = LabelsField(default=dict)
    count = IntegerField(minimum=1, maximum=100_000, default=1)


class ServerChanges(Document):
    add = ListField(AddedServer, min_items=0, max_items=MAX_CHANGES, required=False)
    drain = ids_field(max_items=MAX_CHANGES, required=False, description="Servers.")
    retire = ids_field(max_items=MAX_CHANGES, required=False, description="Servers.")


class SubmittedWorkload(Document):
    tenant = SlugField(
        required=False, description="Optional for a tenant's key, which means itself."
    )
    name = TextField(max_length=253)
    demand = PoolQuantitiesField()
    tasks = IntegerField(**TASKS, required=False)
    priority = IntegerField(**PRIORITY, default=0)
    server_selector = SelectorField(default=dict)


class ChangedWorkload(Document):
    id = IdField()
    demand = PoolQuantitiesField(required=False)
    tasks = IntegerField(**TASKS, default=lambda: OMITTED)
    priority = IntegerField(**PRIORITY, required=False)
    server_selector = SelectorField(required=False)


class WorkloadChanges(Document):
    submit = ListField(SubmittedWorkload, min_items=0, max_items=MAX_CHANGES, required=False)
    change = ListField(ChangedWorkload, min_items=0, max_items=MAX_CHANGES, required=False)
    withdraw = ids_field(max_items=MAX_CHANGES, required=False, description="Workloads.")


class ChangedMember(Document):
    tenant = SlugField()
    weight = NumberField(required=False)
    best_effort = BooleanField(required=False)
    group = SlugField(
        default=lambda: OMITTED, allow_null=True, description="null: the pool itself."
    )
    tier = tier_field(required=False)


class ChangedGroup(Document):
    group = SlugField()
    parent = SlugField(
        default=lambda: OMITTED, allow_null=True, description="null: the pool itself."
    )
    weight = NumberField(required=False)
    tier = tier_field(required=False)


class SimulationRequest(Document):
    policy = DocumentField(PolicyFields, required=False)
    weights = ChoiceField(choices=["explicit", "contribution"], required=False)
    groups = ListField(ChangedGroup, min_items=0, max_items=MAX_CHANGES, required=False)
    members = ListField(ChangedMember, min_items=0, max_items=MAX_CHANGES, required=False)
    servers = DocumentField(ServerChanges, required=False)
    workloads = DocumentField(WorkloadChanges, required=False)


class ShareDocument(Document):
    share = NumberField()
    weighted_share = NumberField(allow_null=True)


class TenantComparison(Document):
    tenant = TextField(max_length=253)
    before = DocumentField(ShareDocument, allow_null=True)
    after = DocumentField(ShareDocument, allow_null=True)


class TasksDocument(Document):
    id = IdField(allow_null=True)
    tasks = NumberField()
    limited_by = LimitedByField()


class WorkloadComparison(Document):
    tenant = TextField(max_length=253)
    workload = TextField(max_length=253)
    before = DocumentField(TasksDocument, allow_null=True)
    after = DocumentField(TasksDocument, allow_null=True)


class ResultDocument(Document):
    tenants = ListField(TenantComparison, min_items=0, max_items=MAX_ROWS)
    workloads = ListField(WorkloadComparison, min_items=0, max_items=MAX_ROWS)
    summary = ObjectField(allow_null=True, description="Of the pool, before and after.")


class SimulationDocument(Document):
    id = IdField()
    pool = SlugField()
    status = ChoiceField(choices=SimulationStatus.values)
    generation = GenerationField(
        allow_null=True,
        description="Of the pool it started from.",
    )
    changes = ObjectField()
    created_at = TimestampField()
    finished_at = TimestampField(allow_null=True)
    result = DocumentField(ResultDocument, allow_null=True)
    error = ObjectField(
        allow_null=True, description="`code`, `detail` and `errors` as of a problem."
    )


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
