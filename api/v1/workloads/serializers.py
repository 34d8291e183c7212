"""Workloads as documents."""

from collections.abc import Mapping, Sequence
from typing import Any

from allocator_service.core.quantities import Resource, vector_to_document
from allocator_service.pools.models import Pool
from allocator_service.workloads.models import MAX_PRIORITY, MAX_TASKS, Workload, WorkloadState
from api.contract.fields import (
    IdField,
    PoolQuantitiesField,
    SelectorField,
    SlugField,
    TimestampField,
    VersionField,
)
from api.contract.parameters import PageParameters
from api.v1.servers.serializers import expanded
from policies import UNSERVED
from policies.fields import ChoiceField, Document, IntegerField, ListField, TextField

TASKS: Mapping[str, Any] = {"minimum": 0, "maximum": MAX_TASKS, "allow_null": True}
PRIORITY: Mapping[str, Any] = {"minimum": -MAX_PRIORITY, "maximum": MAX_PRIORITY}


class WorkloadRequest(Document):
    tenant = SlugField(
        required=False, description="Optional for a tenant's key, which means itself."
    )
    name = TextField(max_length=253)
    demand = PoolQuantitiesField()
    tasks = IntegerField(
        **TASKS, required=False, description="How many can run at once; null is no limit."
    )
    priority = IntegerField(**PRIORITY, default=0)
    server_selector = SelectorField(default=dict)


class WorkloadChange(WorkloadRequest):
    state = ChoiceField(choices=WorkloadState.values)


class ConditionDocument(Document):
    type = ChoiceField(choices=["unsatisfiable"])
    reason = ChoiceField(choices=UNSERVED)


class WorkloadDocument(Document):
    id = IdField()
    pool = SlugField()
    tenant = SlugField()
    name = TextField(max_length=253)
    demand = PoolQuantitiesField()
    tasks = IntegerField(**TASKS)
    priority = IntegerField(**PRIORITY)
    server_selector = SelectorField()
    state = ChoiceField(choices=WorkloadState.values)
    conditions = ListField(ConditionDocument, min_items=0, max_items=1)
    version = VersionField()
    created_at = TimestampField()
    withdrawn_at = TimestampField(allow_null=True)


class WorkloadParameters(PageParameters):
    state = ChoiceField(
        choices=WorkloadState.values,
        required=False,
        description="All but withdrawn ones by default.",
    )
    name = TextField(
        max_length=253, required=False, description="Only workloads of exactly this name."
    )
    tenant = SlugField(required=False, description="Only workloads of the tenant of this slug.")


# What a list reads: rows, not objects, at a third of the time.
WORKLOAD_COLUMNS = (
    "id", "tenant__slug", "name", "demand", "tasks", "priority", "server_selector", "state",
    "unsatisfiable", "version", "created_at", "withdrawn_at",
)  # fmt: skip


def workload_document(
    workload: Workload, pool: Pool, resources: Sequence[Resource]
) -> dict[str, Any]:
    return workload_row(workload, workload.tenant.slug, pool, resources)


def workload_row(
    workload: Any, tenant: str, pool: Pool, resources: Sequence[Resource]
) -> dict[str, Any]:
    """The document of a workload, or of a row that a list has read."""
    reason = workload.unsatisfiable
    return {
        "id": workload.id,
        "pool": pool.slug,
        "tenant": tenant,
        "name": workload.name,
        "demand": vector_to_document(workload.demand, resources),
        "tasks": workload.tasks,
        "priority": workload.priority,
        "server_selector": workload.server_selector,
        "state": workload.state,
        "conditions": [{"type": "unsatisfiable", "reason": reason}] if reason else [],
        "version": workload.version,
        "created_at": workload.created_at,
        "withdrawn_at": workload.withdrawn_at,
    }


def workload_fields(workload: Workload, resources: Sequence[Resource]) -> dict[str, Any]:
    """What a merge-patch changes, quantities exact."""
    return {
        "tenant": workload.tenant.slug,
        "name": workload.name,
        "demand": {
            resource.name: quantity
            for resource, quantity in zip(resources, workload.demand, strict=False)
        },
        "tasks": workload.tasks,
        "priority": workload.priority,
        "server_selector": workload.server_selector,
        "state": workload.state,
    }


def workload_columns(resources: Sequence[Resource]) -> list[str]:
    """The columns of a CSV of workloads."""
    return expanded(WorkloadDocument, "demand", resources)
