"""What a run computes from: one consistent reading of a pool, kept for ever to be replayed."""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
from django.db import connection, transaction

from allocator_service.allocation.models import Snapshot
from allocator_service.core.errors import Gone
from allocator_service.core.quantities import Resource, decimal_text, json_number
from allocator_service.pools.models import MembershipTerms, Pool
from allocator_service.pools.selectors import ServerGroup, resources_of, server_groups
from allocator_service.workloads.models import Workload, WorkloadState


@dataclass(frozen=True)
class PoolState:
    """A pool at one generation: its evaluation document, and what the document leaves out."""

    generation: int
    document: dict[str, Any]
    groups: Sequence[ServerGroup]
    workload_ids: Sequence[UUID]
    workload_tenant_pks: Sequence[int]
    tenant_pks: dict[str, int]

    @property
    def digest(self) -> str:
        """SHA-256 of the document and of which workloads it speaks of."""
        content = orjson.dumps([self.document, self.workload_ids], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(content).hexdigest()


def pool_state(pool_id: int) -> PoolState:
    """Read a pool as it was at one instant: every query sees the same committed state."""
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        pool = Pool.objects.prefetch_related("resource_types").get(pk=pool_id)
        return _read(pool)


def _read(pool: Pool) -> PoolState:
    resources = resources_of(pool)
    groups = server_groups(pool)
    members = list(
        MembershipTerms.objects.filter(membership__pool=pool, end=None)
        .order_by("membership_id")
        .values_list("membership__tenant_id", "membership__tenant__slug", "weight", "best_effort")
    )
    workloads = list(
        Workload.objects.filter(pool=pool, state=WorkloadState.ACTIVE)
        .order_by("id")
        .values_list(
            "id", "tenant_id", "tenant__slug", "name", "demand", "tasks", "priority",
            "server_selector",
        )
    )  # fmt: skip
    document = {
        "resources": [{"name": resource.name, "unit": resource.unit} for resource in resources],
        "servers": _servers(groups, resources),
        "tenants": [
            {"name": slug, "weight": _number(weight), "best_effort": best_effort}
            for _, slug, weight, best_effort in members
        ],
        "workloads": [
            {
                "tenant": slug,
                "name": name,
                "demand": document_quantities(demand, resources),
                "tasks": tasks,
                "priority": priority,
                "server_selector": selector,
            }
            for _, _, slug, name, demand, tasks, priority, selector in workloads
        ],
        "policy": {
            "name": pool.policy_name,
            "mode": pool.policy_mode,
            "options": pool.policy_options,
        },
        "weights": pool.weights,
    }
    return PoolState(
        generation=pool.generation,
        document=document,
        groups=groups,
        workload_ids=[row[0] for row in workloads],
        workload_tenant_pks=[row[1] for row in workloads],
        tenant_pks={slug: pk for pk, slug, _, _ in members},
    )


def _servers(groups: Sequence[ServerGroup], resources: Sequence[Resource]) -> list[dict[str, Any]]:
    servers, names = [], set[str]()
    for position, group in enumerate(groups):
        name = group.first
        if name in names:  # names are unique per contributor, in a document among all servers
            name = f"{group.first}/{position}"
        names.add(name)
        server: dict[str, Any] = {
            "name": name,
            "capacity": document_quantities(group.capacity, resources),
            "count": group.count,
            "labels": group.labels,
            "contributed_by": group.contributed_by,
        }
        if group.draining:
            server["draining"] = True
        servers.append(server)
    return servers


def document_quantities(vector: Sequence[Decimal], resources: Sequence[Resource]) -> dict[str, Any]:
    """A vector as an evaluation document writes it: by resource name, zeros left out."""
    return {
        resource.name: _number(quantity)
        for resource, quantity in zip(resources, vector, strict=False)
        if quantity
    }


def _number(quantity: Decimal) -> int | float | str:
    """A JSON number, or the decimal as text where a double would change it."""
    number = json_number(quantity)
    return number if Decimal(repr(number)) == quantity else decimal_text(quantity)


def snapshot_store(state: PoolState, *, now: datetime) -> str:
    """Keep the state, once per digest; returns the digest."""
    digest = state.digest
    content = zlib.compress(orjson.dumps(state.document), 1)
    Snapshot.objects.bulk_create(
        [
            Snapshot(
                digest=digest,
                document=content,
                workload_ids=list(state.workload_ids),
                created_at=now,
            )
        ],
        ignore_conflicts=True,
    )
    Snapshot.objects.filter(pk=digest, document=None).update(document=content)
    return digest


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """The stored evaluation document. Raises `Gone` once its retention has passed."""
    if snapshot.document is None:
        raise Gone("The input of this run is no longer kept.", code="run.pruned")
    document: dict[str, Any] = orjson.loads(zlib.decompress(snapshot.document))
    return document
