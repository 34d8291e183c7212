"""The impact of a change on the tenants of a pool, shown to operators before it is made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from allocator_service.allocation.runs.snapshots import PoolState, locked_pool_state, pool_state
from allocator_service.allocation.what_if.changes import with_changes
from allocator_service.allocation.what_if.evaluations import answer_document
from allocator_service.allocation.what_if.guarantees import (
    GuaranteeDocuments,
    guarantees_computed,
    guarantees_read,
    unmet_in,
)
from allocator_service.allocation.what_if.lost_gangs import has_gangs, lost_gangs, removed_servers
from allocator_service.core.errors import DomainError
from allocator_service.pools.guarantees import refuse_limits_below_guarantees
from allocator_service.pools.models import Pool, Server
from allocator_service.pools.selectors import resources_of

TENANTS_SHOWN = 20
WORKLOADS_SHOWN = 5
_SAME = 1e-9


@dataclass(frozen=True)
class WorkloadImpact:
    """Tasks of a workload before and after."""

    name: str
    before: float
    after: float

    @property
    def part(self) -> float:
        """Change as a part of the greater number, from -1 to 1."""
        return (self.after - self.before) / max(self.before, self.after)


@dataclass(frozen=True)
class TenantImpact:
    """A tenant's workloads that would run another number of tasks, and its weighted share.

    Tasks of several workloads differ in size, so they are not added up. `more` workloads are not shown.
    """

    tenant: str
    workloads: Sequence[WorkloadImpact]
    share_before: float | None
    share_after: float | None
    more: int = 0


@dataclass(frozen=True)
class Impact:
    """Effect of a change on the tenants of one pool, or why it could not be computed.

    `tenants` would run fewer tasks of a workload, the hardest hit first, and `winners` only more; `hit`
    and `gain` count all of them. `moved` are the whole tasks that would go to another server, None where
    tasks are divisible or that is not known. They are pieces of tasks if `in_pieces`. `unmet` has a
    sentence for each guarantee that is not met after it, `unchecked` states why some were not computed,
    and `lost` has a sentence for each workload whose tasks of several pieces end.
    """

    pool: Pool
    subject: str
    tenants: Sequence[TenantImpact] = ()
    winners: Sequence[TenantImpact] = ()
    hit: int = 0
    gain: int = 0
    moved: int | None = None
    in_pieces: bool = False
    unmet: Sequence[str] = ()
    unchecked: Sequence[str] = ()
    lost: Sequence[str] = ()
    unknown: str = ""


def servers_impact(servers: Iterable[Server], action: str, *, now: datetime) -> list[Impact]:
    """Return the impact of `drain` or `retire` on the decision of each pool, without changing it."""
    by_pool = sorted(servers, key=lambda server: server.pool_id)
    impacts = []
    for pool, members in groupby(by_pool, key=lambda server: server.pool):
        ids = [server.pk for server in members]
        subject = f"{len(ids)} server{'s' if len(ids) > 1 else ''}"
        impacts.append(changes_impact(pool, {"servers": {action: ids}}, subject, now=now))
    return impacts


def changes_impact(
    pool: Pool, changes: Mapping[str, Any], subject: str, *, now: datetime
) -> Impact:
    """Return the impact of a simulation's `changes` on the decision of a pool, without changing it."""
    try:
        live = pool_state(pool.pk, now=now)
        changed = with_changes(live, changes, resources=resources_of(pool))
        refuse_limits_below_guarantees(pool, changed.amounts, now=now)
        lost = [each.text_with_tenant for each in lost_gangs(live, removed_servers(changes))]
        return replace(_impact(pool, subject, live, changed.document), lost=lost)
    except DomainError as error:
        return Impact(pool, subject, unknown=error.detail)


@dataclass(frozen=True)
class ChangedPool:
    """A pool as a transaction that is undone had changed it.

    `guarantees` are the documents for the warnings of the change, None for a change without them.
    """

    document: Mapping[str, Any]
    guarantees: GuaranteeDocuments | None


def changed_pool(
    pool: Pool, *, now: datetime, later: Iterable[datetime] | None = None
) -> ChangedPool:
    """Read the locked pool with the changes that the transaction made.

    `later` are the instants at which the guarantees are checked besides the present, None to check
    none of them.
    """
    read = Pool.objects.get(pk=pool.pk)
    guarantees = None
    if later is not None:
        guarantees = guarantees_read(read, now=now, later=later, is_locked=True)
    return ChangedPool(locked_pool_state(read, now=now).document, guarantees)


def changed_pool_impact(pool: Pool, changed: ChangedPool, subject: str, *, now: datetime) -> Impact:
    """Return the impact of a change that was made and undone, with the warnings of its guarantees."""
    try:
        impact = _impact(pool, subject, pool_state(pool.pk, now=now), changed.document)
    except DomainError as error:
        impact = Impact(pool, subject, unknown=error.detail)
    if changed.guarantees is None:
        return impact
    check = guarantees_computed(changed.guarantees)
    return replace(impact, unmet=[each.text for each in check.unmet], unchecked=check.unknown)


def _impact(pool: Pool, subject: str, live: PoolState, document: Mapping[str, Any]) -> Impact:
    """Compare the decisions of the live pool and of its document after a change."""
    before = answer_document(live.document)
    answer = answer_document(document)
    rows = changed_tenants(before, answer)
    # The first workload of a row is one that loses, if any does.
    hit = [row for row in rows if row.workloads[0].part < 0]
    hit.sort(key=lambda row: row.workloads[0].part)
    gain = [row for row in rows if row.workloads[0].part > 0]
    gain.sort(key=lambda row: -row.workloads[0].part)
    return Impact(
        pool,
        subject,
        [shortened(row) for row in hit[:TENANTS_SHOWN]],
        [shortened(row) for row in gain[:TENANTS_SHOWN]],
        len(hit),
        len(gain),
        answer["summary"]["moved_tasks"],
        has_gangs(live.settings),
        [sentence for _, sentence in unmet_in(answer, resources_of(pool))],
    )


def changed_tenants(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[TenantImpact]:
    """Return the tenants with a workload that would run another number of tasks.

    Workloads that lose come first, those that lose or gain the greatest part before others.
    """
    workloads: dict[str, list[WorkloadImpact]] = {}
    tasks, shares = _tasks_and_shares(before)
    tasks_after, shares_after = _tasks_and_shares(after)
    for (tenant, name), count in tasks.items():
        found = WorkloadImpact(name, count, tasks_after.get((tenant, name), 0.0))
        if abs(found.after - found.before) > _SAME * max(found.before, found.after):
            workloads.setdefault(tenant, []).append(found)
    return [
        TenantImpact(
            tenant,
            sorted(changed, key=lambda each: (each.part > 0, -abs(each.part), each.name)),
            shares[tenant],
            shares_after.get(tenant),
        )
        for tenant, changed in workloads.items()
    ]


def shortened(row: TenantImpact) -> TenantImpact:
    """Return a tenant's impact with its first workloads, and the number of the others."""
    shown = row.workloads[:WORKLOADS_SHOWN]
    return replace(row, workloads=shown, more=len(row.workloads) - len(shown))


def _tasks_and_shares(
    answer: Mapping[str, Any],
) -> tuple[dict[tuple[str, str], float], dict[str, float | None]]:
    tasks: dict[tuple[str, str], float] = {}
    shares: dict[str, float | None] = {}
    for row in answer["allocations"]:
        tasks[row["tenant"], row["workload"]["name"]] = row["tasks"]
        shares[row["tenant"]] = row["weighted_share"]
    return tasks, shares
