"""Making the changes of workloads that a simulation tried."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from allocator_service.allocation.models import Simulation
from allocator_service.core.errors import Missing
from allocator_service.core.quantities import Resource, vector_from
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.gangs import GANG, Gang, demand_read, gang_check, gang_read
from allocator_service.workloads.models import Workload
from allocator_service.workloads.selectors import workloads_for
from allocator_service.workloads.services import (
    WorkloadDraft,
    WorkloadSettings,
    workload_update,
    workload_withdraw,
    workloads_submit,
)


@transaction.atomic
def simulation_apply(*, simulation: Simulation, tenant: Tenant, now: datetime) -> None:
    """Submit, change and withdraw the workloads of a tenant as its simulation tried it.

    `versions` among the changes are those of the workloads when they were asked about: one that was
    changed since is refused with `Conflict`. Raises as the services of workloads do.
    """
    changes = simulation.changes.get("workloads", {})
    pool, resources = simulation.pool, resources_of(simulation.pool)
    versions: Mapping[str, int] = changes.get("versions", {})

    def present(id_: str) -> Workload:
        found = workloads_for(pool=pool, tenant=tenant).filter(pk=id_).first()
        if found is None:
            raise Missing("There is no such workload.", code="workload.not_found")
        return found

    drafts = [_draft(tenant, each, resources) for each in changes.get("submit", [])]
    if drafts:
        workloads_submit(pool=pool, drafts=drafts, now=now)
    for change in changes.get("change", []):
        workload = present(change["id"])
        workload_update(
            workload=workload,
            settings=_settings(workload, change, resources),
            version=versions.get(change["id"]),
            now=now,
        )
    for id_ in changes.get("withdraw", []):
        workload_withdraw(workload=present(id_), version=versions.get(id_), now=now)


def _draft(
    tenant: Tenant, submitted: Mapping[str, Any], resources: list[Resource]
) -> WorkloadDraft:
    gang = gang_read(submitted, resources)
    return WorkloadDraft(
        tenant=tenant,
        name=submitted["name"],
        demand=demand_read(submitted, gang, resources, ""),
        gang=gang,
        tasks=submitted.get("tasks"),
        priority=submitted.get("priority", 0),
        server_selector=submitted.get("server_selector", {}),
    )


def _settings(
    workload: Workload, change: Mapping[str, Any], resources: list[Resource]
) -> WorkloadSettings:
    gang, demand = None, workload.demand
    if any(key in change for key in GANG):
        stored = Gang.of(workload).settings()
        if "pieces" in change and not change["pieces"]:
            stored |= Gang().settings() | {"at_least": stored["at_least"]}
        gang = gang_read({key: change.get(key, stored[key]) for key in GANG}, resources)
        gang_check(gang, "")
    if change.get("demand") is not None:
        demand = vector_from(change["demand"], resources, pointer="/demand")
    elif gang is not None and gang.pieces:
        demand = gang.demand(resources)
    return WorkloadSettings(
        name=workload.name,
        demand=demand,
        gang=gang,
        tasks=change.get("tasks", workload.tasks),
        priority=change.get("priority", workload.priority),
        server_selector=change.get("server_selector", workload.server_selector),
        state=workload.state,
    )
