"""What a change would do to the tenants of a pool, shown to operators before it is done."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from allocator_service.allocation.runs.snapshots import pool_state
from allocator_service.allocation.what_if.changes import with_changes
from allocator_service.allocation.what_if.evaluations import answer_document
from allocator_service.allocation.what_if.guarantees import unmet_in
from allocator_service.allocation.what_if.lost_gangs import lost_gangs, removed_servers
from allocator_service.core.errors import DomainError
from allocator_service.pools.models import Pool, Server
from allocator_service.pools.selectors import resources_of

TENANTS_SHOWN = 20


@dataclass(frozen=True)
class TenantImpact:
    """A tenant's tasks and weighted share before and after."""

    tenant: str
    tasks_before: float
    tasks_after: float
    share_before: float | None
    share_after: float | None


@dataclass(frozen=True)
class Impact:
    """Effect of a change on the tenants of one pool, or why it could not be computed.

    `tenants` would run fewer tasks, the hardest hit first, and `winners` more; `hit` and `gain` count
    all of them. `moved` are the whole tasks that would go to another server, None where tasks are
    divisible or that is not known. `unmet` has a sentence for each guarantee that is not met after it,
    and `lost` one for each workload whose tasks of several pieces end.
    """

    pool: Pool
    subject: str
    tenants: Sequence[TenantImpact] = ()
    winners: Sequence[TenantImpact] = ()
    hit: int = 0
    gain: int = 0
    moved: int | None = None
    unmet: Sequence[str] = ()
    lost: Sequence[str] = ()
    unknown: str = ""


def servers_impact(servers: Iterable[Server], action: str, *, now: datetime) -> list[Impact]:
    """The impact of `drain` or `retire` on the decision of each pool; nothing is changed."""
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
    """The impact of a simulation's `changes` on the decision of a pool; nothing is changed."""
    try:
        live = pool_state(pool.pk, now=now)
        changed = with_changes(live, changes, resources=resources_of(pool))
        before = _by_tenant(answer_document(live.document))
        answer = answer_document(changed.document)
    except DomainError as error:
        return Impact(pool, subject, unknown=error.detail)
    after = _by_tenant(answer)
    rows = [
        TenantImpact(tenant, *_columns(before[tenant], after.get(tenant, (0.0, None))))
        for tenant in before
    ]
    hit = [row for row in rows if row.tasks_after < row.tasks_before * (1 - 1e-9)]
    hit.sort(key=lambda row: row.tasks_after / row.tasks_before)
    gain = [row for row in rows if row.tasks_after > row.tasks_before * (1 + 1e-9)]
    gain.sort(key=lambda row: row.tasks_before - row.tasks_after)
    return Impact(
        pool,
        subject,
        hit[:TENANTS_SHOWN],
        gain[:TENANTS_SHOWN],
        len(hit),
        len(gain),
        answer["summary"]["moved_tasks"],
        [sentence for _, sentence in unmet_in(answer, resources_of(pool))],
        [f"{each.tenant}: {each.text}" for each in lost_gangs(live, removed_servers(changes))],
    )


def _by_tenant(answer: Mapping[str, Any]) -> dict[str, tuple[float, float | None]]:
    tenants: dict[str, tuple[float, float | None]] = {}
    for row in answer["allocations"]:
        tasks, _ = tenants.get(row["tenant"], (0.0, None))
        tenants[row["tenant"]] = (tasks + row["tasks"], row["weighted_share"])
    return tenants


def _columns(
    before: tuple[float, float | None], after: tuple[float, float | None]
) -> tuple[float, float, float | None, float | None]:
    return before[0], after[0], before[1], after[1]
