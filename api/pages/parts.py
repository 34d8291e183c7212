"""The parts of a pool's page, made of the API's own documents for the tenant's key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from allocator_service.allocation.models import Allocation, Run
from allocator_service.allocation.policies import policy_title
from allocator_service.allocation.reasons import budget_of_reason
from allocator_service.allocation.selectors import (
    SlotInForce,
    allocations_of,
    failed_since,
    slot_in_force,
)
from allocator_service.allocation.words import (
    NOT_DECIDED,
    PAUSED,
    SPENT_HELPS,
    spent_text,
)
from allocator_service.core.errors import Missing
from allocator_service.core.quantities import Resource
from allocator_service.enforcement.entitlements import Entitlements, pool_entitlements
from allocator_service.enforcement.state import TenantUse, tenant_use
from allocator_service.pools.clusters import clusters_away
from allocator_service.pools.models import Metering, Pool
from allocator_service.pools.recompute import interval_around
from allocator_service.pools.selectors import ServerKind, resources_of
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.gangs import Gang, gang_text
from allocator_service.workloads.models import Workload, WorkloadState
from allocator_service.workloads.reason_texts import (
    AWAY_HELPS,
    TENANT,
    Reader,
    away_text,
    reason_text,
    remedy_text,
)
from api.pages.bars import Bar, bar_of
from api.v1.entitlements import entitlements_document
from api.v1.run_inputs import sees_whole
from api.v1.schedules import slot_rows

_DUST = Decimal("1e-6")  # of the largest amount; solvers round below it


@dataclass(frozen=True)
class Decision:
    """The decision in force, and whether it includes every change of the pool.

    `next_at` is when changes that wait are decided, under a policy that decides at fixed instants.
    `failed`: the newest computation failed, so that this decision stays. `provable`: its proof can be
    taken home by the tenant.
    """

    run: Run
    behind: int
    next_at: datetime | None
    failed: bool
    policy: str
    policy_now: str
    provable: bool


@dataclass(frozen=True)
class Part:
    """A resource of the pool and the tenant's part of it, None if it is not known.

    `clusters` has its part in each cluster, none in a pool without clusters.
    """

    resource: Resource
    entitled: Decimal | None
    has: Decimal | None
    used: Decimal | None
    lent: Decimal | None
    borrowed: Decimal | None
    unused: Decimal | None
    clusters: Sequence["ClusterPart"] = ()

    @property
    def bar(self) -> Bar | None:
        """The picture of it."""
        return bar_of(self)


@dataclass(frozen=True)
class ClusterPart:
    """A tenant's part of a resource in a cluster. Its use is None if no agent reported it."""

    cluster: str
    entitled: Decimal
    has: Decimal
    used: Decimal | None


@dataclass(frozen=True)
class Turn:
    """A slot of a decision that divides time, and what of the tenant's runs in it."""

    start: datetime
    end: datetime
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Share:
    """The tenant's part of a pool now.

    `loans` are the lenders and borrowers, by pseudonym.
    """

    parts: Sequence[Part]
    lent_to: Sequence[Mapping[str, Any]]
    borrowed_from: Sequence[Mapping[str, Any]]
    returns: Mapping[str, Any] | None
    turn: Turn | None
    next_turn: Turn | None
    use: TenantUse | None
    metered: bool

    @property
    def loans(self) -> list[tuple[str, Sequence[Mapping[str, Any]]]]:
        """Borrowers of the tenant's part, and lenders to it."""
        return [("You lend to", self.lent_to), ("You borrow from", self.borrowed_from)]


@dataclass(frozen=True)
class WorkloadRow:
    """A workload with its allocation, the reason for no more, and remedies. None if undecided."""

    workload: Workload
    demand: Sequence[tuple[Resource, Decimal]]
    got: Allocation | None
    reason: str
    helps: str
    wants_more: bool

    @property
    def gang(self) -> str:
        """Text about pieces and tasks that start at once, empty for none."""
        return gang_text(Gang.of(self.workload), [resource for resource, _ in self.demand])


def entitlements_in_force(*, pool: Pool, now: datetime) -> Entitlements | None:
    """Return the loans of the pool, None before the first decision."""
    try:
        return pool_entitlements(pool=pool, now=now)
    except Missing:
        return None


def tenant_decision(*, pool: Pool, run: Run, tenant: Tenant, now: datetime) -> Decision:
    """Return the decision in force as a tenant may know it."""
    behind = max(pool.generation - (run.generation or 0), 0)
    return Decision(
        run=run,
        behind=behind,
        next_at=interval_around(pool, now)[1] if behind and pool.policy_long_term else None,
        failed=failed_since(pool=pool, run=run) is not None,
        policy=policy_title(run.policy["name"]),
        policy_now=policy_title(pool.policy_name),
        # A proof has the input with all demands, which is pruned at the end of its retention.
        provable=sees_whole(pool, tenant) and run.pruned_at is None,
    )


def without_dust(amounts: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Return amounts in which what solvers leave by rounding is 0."""
    least = max(map(abs, amounts.values()), default=Decimal(0)) * _DUST
    return {name: amount if abs(amount) > least else Decimal(0) for name, amount in amounts.items()}


def share_of(*, found: Entitlements, tenant: Tenant, now: datetime) -> Share | None:
    """Return the tenant's part by the decision in force, None for a later member."""
    document = entitlements_document(found, caller=tenant)
    row = next((row for row in document["tenants"] if row["tenant"] == tenant.slug), None)
    own = next((each for each in found.tenants if each.tenant == tenant.slug), None)
    if row is None or own is None:
        return None
    use = tenant_use(pool=found.pool, tenant=tenant, now=now)

    def part(position: int, resource: Resource) -> Part:
        names = ("entitled", "has", "lent", "borrowed", "unused")
        amounts = {name: Decimal(row[name][resource.name]) for name in names}
        # Of one resource at a time: amounts of different units have no common scale.
        amounts = without_dust(amounts)
        used_in = {name: vector[position] for name, vector in use.clusters.items()} if use else {}
        # A cluster that left has no part and may still run tasks.
        of = {each["cluster"]: each for each in row["clusters"]}
        nothing = {"entitled": {resource.name: 0}, "has": {resource.name: 0}}
        clusters = [
            ClusterPart(
                name,
                **{
                    amount: Decimal(of.get(name, nothing)[amount][resource.name])
                    for amount in ("entitled", "has")
                },
                used=used_in.get(name),
            )
            for name in sorted(of.keys() | used_in.keys())
        ]
        used = use.used[position] if use else None
        return Part(resource=resource, used=used, clusters=clusters, **amounts)

    return Share(
        parts=[part(position, each) for position, each in enumerate(found.resources)],
        lent_to=_loans(row["lent_to"], found.resources),
        borrowed_from=_loans(row["borrowed_from"], found.resources),
        returns=row["returns"],
        turn=_turn(slot_in_force(run=found.run, at=now), tenant),
        next_turn=_turn(slot_in_force(run=found.run, at=own.next_slot), tenant)
        if own.next_slot
        else None,
        use=use,
        metered=found.pool.metering == Metering.ALLOCATION,
    )


def _loans(loans: Sequence[Mapping[str, Any]], resources: Sequence[Resource]) -> list[Any]:
    """Return a counterpart and the amounts of its resources that are not 0."""
    return [
        {
            "tenant": loan["tenant"],
            "amounts": [
                (each, amount)
                for each in resources
                if (amount := Decimal(loan["resources"][each.name]))
            ],
        }
        for loan in loans
    ]


def _turn(slot: SlotInForce | None, tenant: Tenant) -> Turn | None:
    if slot is None:
        return None
    return Turn(slot.start, slot.end, slot_rows(slot.allocations, {tenant.slug}))


def workload_rows(
    *,
    pool: Pool,
    tenant: Tenant,
    run: Run | None,
    workloads: Sequence[Workload],
    reader: Reader = TENANT,
) -> list[WorkloadRow]:
    """Return the workloads with their rows of the decision."""
    resources = resources_of(pool)
    got = {}
    if run is not None:
        rows = allocations_of(run=run, tenant=tenant).filter(workload__in=workloads)
        got = {row.workload_id: row for row in rows}
    zone = pool.timezone
    away = clusters_away(pool)
    return [
        _workload_row(each, got.get(each.pk), resources, reader, away, zone)
        if (spent := _spent(each, got.get(each.pk), run, resources, reader)) is None
        else _spent_row(each, got[each.pk], resources, spent_text(spent, zone, reader))
        for each in workloads
    ]


def _spent(
    workload: Workload,
    got: Allocation | None,
    run: Run | None,
    resources: Sequence[Resource],
    reader: Reader,
) -> Mapping[str, Any] | None:
    """Return the exhausted budget that stops a workload, if its node may be named."""
    if run is None or got is None or workload.state == WorkloadState.PAUSED:
        return None
    spent = budget_of_reason(
        got.limited_by,
        tenant=got.tenant.slug,
        demands={each.name for each, amount in _demand(workload, resources)},
        budgets=run.budgets,
    )
    if spent is None or spent["scope"] != "group" or reader.groups is None:
        return spent
    # The budget of a group that the reader does not know would reveal its name and what it spends.
    return spent if spent["node"] in reader.groups else None


def _workload_row(
    workload: Workload,
    got: Allocation | None,
    resources: Sequence[Resource],
    reader: Reader,
    away: Mapping[str, datetime],
    zone: str,
) -> WorkloadRow:
    demand = _demand(workload, resources)
    limited_by = workload.unsatisfiable if got is None else got.limited_by
    if workload.state == WorkloadState.PAUSED:
        return WorkloadRow(workload, demand, None, PAUSED, "", wants_more=False)
    if not limited_by:
        return WorkloadRow(workload, demand, None, NOT_DECIDED, "", wants_more=False)
    wants_more = got is not None and limited_by != "task_limit"
    reason, remedy = reason_text(limited_by, reader), remedy_text(limited_by, reader)
    if gone := away_text(limited_by, workload.server_selector, away, zone):
        reason, remedy = gone, AWAY_HELPS
    return WorkloadRow(workload, demand, got, reason, remedy, wants_more)


def _spent_row(
    workload: Workload, got: Allocation, resources: Sequence[Resource], reason: str
) -> WorkloadRow:
    demand = _demand(workload, resources)
    return WorkloadRow(workload, demand, got, reason, SPENT_HELPS, wants_more=True)


def _demand(
    workload: Workload, resources: Sequence[Resource]
) -> Sequence[tuple[Resource, Decimal]]:
    # A resource that the pool got after the workload has no entry in its demand.
    return [pair for pair in zip(resources, workload.demand, strict=False) if pair[1]]


@dataclass(frozen=True)
class ServersRow:
    """Identical servers of the tenant, with the amounts that each has by resource."""

    kind: ServerKind
    capacities: Sequence[tuple[Resource, Decimal]]


def servers_rows(kinds: Sequence[ServerKind], resources: Sequence[Resource]) -> list[ServersRow]:
    """The tenant's servers as a table has them."""
    return [
        ServersRow(kind, [pair for pair in zip(resources, kind.capacity, strict=False) if pair[1]])
        for kind in kinds
    ]
