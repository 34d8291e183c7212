"""Simulations of a pool's decision after some changes, which decide nothing and record no event.

A simulation reads the live state, as a run does, and solves it twice: as it is and as it would be.
It writes its own row and nothing else: no run, no decision, no event, no ledger row.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
from django.db import transaction
from django.db.models import Q, QuerySet

from allocator_service.allocation.long_term.metered_uses import amount_stored, amounts_by_owner
from allocator_service.allocation.models import Simulation, SimulationStatus
from allocator_service.allocation.runs.recompute import document_solve
from allocator_service.allocation.runs.snapshots import PoolState, pool_state
from allocator_service.allocation.what_if.changes import WhatIf, with_changes
from allocator_service.allocation.what_if.lost_gangs import lost_gangs, removed_servers
from allocator_service.core.errors import Conflict, DomainError, Unacceptable
from allocator_service.core.jobs import ClaimLost, JobKind, complete_job, hold_job
from allocator_service.core.locks import Lock
from allocator_service.core.quantities import decimal_text
from allocator_service.core.selecting import get_or_missing
from allocator_service.pools.guarantees import refuse_limits_below_guarantees
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from policies import Allocation, summary_document

MAX_PENDING_PER_CALLER = 20
TENANT_PARTS = {"workloads"}
# Numbers of a decision's summary that a simulation compares.
_OUTCOME = ("min_weighted_share", "jain_index", "utilization", "guarantees_unmet")


@transaction.atomic
def simulation_request(
    *, pool: Pool, tenant: Tenant | None, changes: Mapping[str, Any], now: datetime
) -> Simulation:
    """Request a simulation. A tenant may change its own workloads only.

    Raises `Unacceptable` for other changes by a tenant, `Conflict` with 20 of the caller waiting.
    """
    if tenant is not None:
        _refuse_foreign(changes, tenant, pool)
    waiting = Simulation.objects.filter(
        pool=pool, tenant=tenant, status=SimulationStatus.PENDING
    ).count()
    if waiting >= MAX_PENDING_PER_CALLER:
        raise Conflict(
            f"{waiting} of your simulations are waiting: read their results first.",
            code="simulation.too_many",
            retry_after=5,
        )
    return Simulation.objects.create(
        pool=pool, tenant=tenant, changes=dict(changes), created_at=now
    )


def _refuse_foreign(changes: Mapping[str, Any], tenant: Tenant, pool: Pool) -> None:
    for part in changes.keys() - TENANT_PARTS:
        raise Unacceptable(
            "A tenant can only simulate changes to its own workloads.",
            code="simulation.scope",
            pointer=f"/{part}",
        )
    workloads = changes.get("workloads", {})
    for position, submitted in enumerate(workloads.get("submit", [])):
        if submitted["tenant"] != tenant.slug:
            raise Unacceptable(
                # The error for a slug that does not exist, so that it reveals no other member.
                f'The pool has no member "{submitted["tenant"]}".',
                code="tenant.unknown",
                pointer=f"/workloads/submit/{position}/tenant",
            )
    named = {
        f"/workloads/change/{position}/id": change["id"]
        for position, change in enumerate(workloads.get("change", []))
    } | {
        f"/workloads/withdraw/{position}": id_
        for position, id_ in enumerate(workloads.get("withdraw", []))
    }
    own = {
        str(pk)
        for pk in tenant.workloads.filter(pool=pool, pk__in=named.values()).values_list(
            "pk", flat=True
        )
    }
    for pointer, id_ in named.items():
        # The error for an id that does not exist, so that it reveals no workload of others.
        if str(id_) not in own:
            raise Unacceptable(
                "The pool has no active workload of that name.",
                code="workload.unknown",
                pointer=pointer,
            )


def simulations_of(*, pool: Pool, tenant: Tenant | None) -> QuerySet[Simulation]:
    """Return the pool's simulations. A tenant key sees those that it requested."""
    simulations = Simulation.objects.filter(pool=pool).select_related("pool", "tenant")
    return simulations if tenant is None else simulations.filter(tenant=tenant)


def simulation_get(*, simulation_id: UUID, tenant: Tenant | None) -> Simulation:
    """Return the simulation of this id. A tenant key sees those that it requested. Raises `Missing`."""
    simulations = Simulation.objects.select_related("pool", "tenant")
    if tenant is not None:
        simulations = simulations.filter(tenant=tenant, pool__memberships__tenant=tenant)
    return get_or_missing(simulations, "simulation.not_found", pk=simulation_id)


SIMULATION_JOBS = JobKind(Simulation, Lock.SIMULATION, is_open=Q(status=SimulationStatus.PENDING))


def simulation_run(*, simulation_id: UUID, clock: Callable[[], datetime]) -> None:
    """Compute a pending simulation, unless another worker does."""
    with hold_job(SIMULATION_JOBS, simulation_id) as held:
        claim = held.claim(clock(), lambda simulation: simulation)
        if claim.work is None:
            return
        outcome: dict[str, Any]
        try:
            claim.refuse_exhausted("simulation")
            generation, result = _simulate(claim.work, clock())
            outcome = {
                "status": SimulationStatus.SUCCEEDED,
                "generation": generation,
                "result": result,
            }
        except DomainError as error:
            reason = {
                "code": error.code,
                "detail": error.detail,
                "errors": [asdict(item) for item in error.errors],
            }
            outcome = {"status": SimulationStatus.FAILED, "error": reason}
        with suppress(ClaimLost), claim.fence() as simulation:
            complete_job(simulation, finished_at=clock(), **outcome)


def _simulate(simulation: Simulation, now: datetime) -> tuple[int, dict[str, Any]]:
    """Return the generation that the simulation starts from, and its result."""
    live = pool_state(simulation.pool_id, now=now)
    changed = with_changes(live, simulation.changes, resources=resources_of(simulation.pool))
    refuse_limits_below_guarantees(simulation.pool, changed.amounts, now=now)
    # Both from one snapshot, to differ by the changes alone. The decision in force may be older.
    before, after = document_solve(live.document), document_solve(changed.document)
    result = _comparison(live, before, changed, after)
    result["lost"] = [
        {
            "tenant": each.tenant,
            "workload": each.workload,
            "least_tasks": each.least,
            "tasks": each.tasks,
            "pieces": each.pieces,
            "pieces_on_servers": each.pieces_here,
            "detail": each.text,
        }
        for each in lost_gangs(live, removed_servers(simulation.changes))
    ]
    if simulation.tenant is not None:
        slug = simulation.tenant.slug
        # Prices are not known here: billing is a layer above.
        result["uses"] = {"before": _uses(before, slug), "after": _uses(after, slug)}
    return live.generation, result


def _comparison(
    live: PoolState, before: Allocation, changed: WhatIf, after: Allocation
) -> dict[str, Any]:
    """Compare before and after, per tenant, per workload and for the pool as a whole."""
    shares = {"before": _tenant_shares(before), "after": _tenant_shares(after)}
    rows = {
        "before": _workload_rows(live.workload_ids, live.document, before),
        "after": _workload_rows(changed.workload_ids, changed.document, after),
    }
    tenants = list(dict.fromkeys([*before.problem.tenants, *after.problem.tenants]))
    # In the order of the pool, and new ones last.
    workloads = list(dict.fromkeys([*rows["before"], *rows["after"]]))
    return {
        "tenants": [
            {"tenant": name, **{side: shares[side].get(name) for side in ("before", "after")}}
            for name in tenants
        ],
        "workloads": [
            {
                "tenant": tenant,
                "workload": name,
                **{side: rows[side].get((tenant, name)) for side in ("before", "after")},
            }
            for tenant, name in workloads
        ],
        "summary": {"before": _summary(before), "after": _summary(after)},
    }


def _uses(allocation: Allocation, tenant: str) -> list[dict[str, Any]]:
    """Return what a tenant would use by owner of the servers and resource, as entries state it."""
    problem = allocation.problem
    sums: dict[tuple[str | None, str], Decimal] = {}
    for (j, owner, _), amounts in amounts_by_owner(allocation).items():
        if problem.tenants[problem.workload_tenant[j]] != tenant:
            continue
        name = None if owner < 0 else problem.tenants[owner]
        for resource, amount in zip(problem.resources, amounts.tolist(), strict=True):
            quantity = amount_stored(amount)
            if quantity > 0:
                sums[name, resource] = sums.get((name, resource), Decimal(0)) + quantity
    return [
        {"owner": name, "resource": resource, "quantity": decimal_text(quantity)}
        for (name, resource), quantity in sums.items()
    ]


def _tenant_shares(allocation: Allocation) -> dict[str, dict[str, float | None]]:
    weighted = allocation.weighted_share
    return {
        name: {
            "share": float(allocation.tenant_share[i]),
            "weighted_share": None if np.isnan(weighted[i]) else float(weighted[i]),
        }
        for i, name in enumerate(allocation.problem.tenants)
    }


def _workload_rows(
    ids: Sequence[UUID | None], document: Mapping[str, Any], allocation: Allocation
) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (workload["tenant"], workload["name"]): {
            "id": None if id_ is None else str(id_),
            "tasks": float(allocation.tasks[position]),
            "limited_by": allocation.limited_by[position],
        }
        for position, (id_, workload) in enumerate(zip(ids, document["workloads"], strict=True))
    }


def _summary(allocation: Allocation) -> dict[str, Any]:
    summary = summary_document(allocation)
    # `guarantees_unmet` is absent if all are met, as in the summary of a decision.
    return {key: summary[key] for key in _OUTCOME if key in summary}
