"""The use of each tenant under a decision, as its entries state it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import structlog

import policies
from allocator_service.allocation.audit.decisions import stored_decision
from allocator_service.allocation.decided_slots import single_servers
from allocator_service.allocation.models import Allocation, Run
from allocator_service.allocation.selectors import SlotInForce, slot_in_force
from allocator_service.core.errors import Gone
from allocator_service.core.quantities import FRACTIONAL_DIGITS, Resource
from allocator_service.ledger.intake.open_uses import MeteredUse
from allocator_service.ledger.models import Kind
from allocator_service.pools.clusters import CLUSTER_LABEL
from allocator_service.tenants.models import Tenant
from policies import Allocation as Decision
from policies import tasks_alone, unserved_reasons

_QUANTUM = Decimal(1).scaleb(-FRACTIONAL_DIGITS)

Place = tuple[int, int, str | None]
"""A workload, and the owner and the cluster of the servers."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Use:
    """Amounts of one tenant, workload, and owner and cluster of the servers."""

    tenant: int
    workload: Any
    owner: int | None
    cluster: str | None
    amounts: Sequence[float]
    kind: Kind


@dataclass(frozen=True)
class Decided:
    """A decision as it is stored. `decision` is None if it can no longer be read.

    `rows` are the workloads and tenants of its allocations, `keys` those of tenants by slug.
    """

    run: Run
    decision: Decision | None
    rows: Sequence[tuple[Any, int]]
    keys: dict[str, int]


def decided_by(run: Run) -> Decided:
    """Return the decision of a run."""
    try:
        decision = stored_decision(run).allocation
    except Gone:
        log.warning("run_pruned_before_it_was_metered", run=str(run.pk))
        return Decided(run, None, [], {})
    stored = Allocation.objects.filter(run=run).order_by("position")
    rows = list(stored.values_list("workload_id", "tenant_id"))
    return Decided(run, decision, rows, dict(Tenant.objects.values_list("slug", "pk")))


def uses_at(
    *, run: Run, tenants: Collection[int], at: datetime
) -> Mapping[int, Mapping[tuple[int | None, str], Decimal]]:
    """Return by tenant the quantities in use at an instant, by owner of the servers and resource.

    They are those of the entries that metering writes of this instant under the decision. Tenants
    without use are left out.
    """
    decided, slot = decided_by(run), slot_in_force(run=run, at=at)
    found: dict[int, dict[tuple[int | None, str], Decimal]] = {}
    if decided.decision is None:
        return found
    resources = decided.decision.problem.resources
    for use in _shared(decided.decision, decided.rows, decided.keys, slot):
        if use.tenant not in tenants:
            continue
        for resource, amount in zip(resources, use.amounts, strict=True):
            quantity = amount_stored(amount)
            if quantity > 0:
                of_tenant, key = found.setdefault(use.tenant, {}), (use.owner, resource)
                of_tenant[key] = of_tenant.get(key, Decimal(0)) + quantity
    return found


def metered_uses(
    decided: Decided, slot: SlotInForce | None, resources: Sequence[Resource], *, alone_only: bool
) -> Mapping[int, Sequence[MeteredUse]]:
    """Return by tenant what it uses in a slot of a decision, and would use alone, in order of entries.

    With `alone_only`, return only what it would use alone: what it uses is reported.
    """
    found: dict[int, list[MeteredUse]] = {}
    names = [(each.name, each.unit) for each in resources]
    for use in _uses(decided, slot, alone_only=alone_only):
        kind = use.kind.value
        for (name, unit), amount in zip(names, use.amounts, strict=False):
            quantity = amount_stored(amount)
            if quantity > 0:
                row = MeteredUse(use.workload, use.owner, name, unit, kind, quantity, use.cluster)
                found.setdefault(use.tenant, []).append(row)
    return found


def _uses(decided: Decided, slot: SlotInForce | None, *, alone_only: bool) -> Iterator[_Use]:
    if decided.decision is None:
        return
    if not alone_only:
        yield from _shared(decided.decision, decided.rows, decided.keys, slot)
    yield from _alone(decided.decision, decided.keys)


def _shared(
    decision: Decision,
    rows: Sequence[tuple[Any, int]],
    keys: dict[str, int],
    slot: SlotInForce | None,
) -> Iterator[_Use]:
    """Yield the use per workload, owner and cluster, that of the slot where time is divided."""
    problem = decision.problem
    if slot is None:
        placed = amounts_by_owner(decision)
    else:
        placed = {}
        clusters = _cluster_of_server(decision)
        position = {
            (problem.tenants[problem.workload_tenant[j]], problem.workload_names[j]): j
            for j in range(problem.n)
        }
        for row in slot.allocations:
            j = position[row["tenant"], row["workload"]]
            for cluster, tasks in _tasks_by_cluster(row, clusters).items():
                placed[j, -1, cluster] = tasks * problem.demand[j]
    # Sorted: the entries of equal decisions have one order, which numbers them.
    for (j, owner, cluster), amounts in sorted(placed.items(), key=_in_order):
        workload, tenant = rows[j]
        yield _Use(
            tenant,
            workload,
            None if owner < 0 else keys[problem.tenants[owner]],
            cluster,
            amounts.tolist(),
            Kind.USAGE,
        )


def _in_order(item: tuple[Place, Any]) -> tuple[int, int, str]:
    """Return the sort key of the amounts of a place."""
    j, owner, cluster = item[0]
    return j, owner, cluster or ""


def _cluster_of_server(decision: Decision) -> dict[str, str]:
    """Return the cluster of each single server by its name, none in a pool without clusters."""
    problem = decision.problem
    return {
        name: labels[CLUSTER_LABEL]
        for row, labels in enumerate(problem.server_labels)
        if CLUSTER_LABEL in labels
        for name in single_servers(problem.server_names[row], int(problem.server_count[row]))
    }


def _tasks_by_cluster(
    row: Mapping[str, Any], clusters: Mapping[str, str]
) -> dict[str | None, float]:
    """Return the tasks of a workload in a slot by the cluster of their servers."""
    if not clusters or "servers" not in row:
        return {None: float(row["tasks"])}
    tasks: dict[str | None, float] = {}
    for item in row["servers"]:
        cluster = clusters.get(item["server"])
        tasks[cluster] = tasks.get(cluster, 0.0) + float(item["tasks"])
    return tasks


def amounts_by_owner(decision: Decision) -> dict[Place, npt.NDArray[np.float64]]:
    """Return the amounts that a decision gives by workload, and owner and cluster of the servers.

    The owner of the pool's own servers is -1. Without placements, all amounts are the pool's, and of no
    cluster. Where time is divided, they are those of a period.
    """
    problem = decision.problem
    if not len(decision.placement_tasks):
        return {
            (j, -1, None): tasks * problem.demand[j]
            for j, tasks in enumerate(decision.tasks.tolist())
            if tasks
        }
    placed: dict[Place, npt.NDArray[np.float64]] = {}
    pieces = problem.pieces
    for piece, owner, cluster, tasks in _pieces_placed(decision):
        key = int(pieces.workload[piece]), owner, cluster
        amounts = tasks * pieces.demand[piece]
        placed[key] = placed[key] + amounts if key in placed else amounts
    return placed


def _pieces_placed(decision: Decision) -> Iterator[tuple[int, int, str | None, float]]:
    """Yield pieces with the owner and the cluster of their servers, and how many there are."""
    if any(CLUSTER_LABEL in labels for labels in decision.problem.server_labels):
        piece, owner, cluster, tasks = policies.tasks_by_owner_and_label(decision, CLUSTER_LABEL)
        yield from zip(piece.tolist(), owner.tolist(), cluster, tasks.tolist(), strict=True)
        return
    piece, owner, tasks = policies.tasks_by_owner(decision)
    for each in zip(piece.tolist(), owner.tolist(), tasks.tolist(), strict=True):
        yield each[0], each[1], None, each[2]


def amount_stored(amount: float) -> Decimal:
    """Return an amount of a decision as entries state it."""
    return Decimal(repr(float(amount))).quantize(_QUANTUM, ROUND_HALF_EVEN)


def _alone(decision: Decision, keys: dict[str, int]) -> Iterator[_Use]:
    """Yield what each tenant would use in its entitled partition, whole tasks where the pool's are."""
    problem = decision.problem
    reasons = (
        unserved_reasons(problem, decision.classes.allowed)
        if decision.history is None
        else policies.reasons_not_to_run(problem, decision.choice)
    )
    runnable = reasons == ""
    tasks = tasks_alone(problem, runnable, whole=decision.mode == "indivisible")
    amounts = np.zeros((problem.t, problem.m))
    np.add.at(amounts, problem.workload_tenant, tasks[:, None] * problem.demand)
    for tenant, row in enumerate(amounts.tolist()):
        if any(row):
            yield _Use(keys[problem.tenants[tenant]], None, None, None, row, Kind.ALONE)
