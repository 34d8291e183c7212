"""What draining or retiring servers would do to the tenants of their pools, before it is done."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from allocator_service.allocation.changes import with_changes
from allocator_service.allocation.evaluations import answer_document
from allocator_service.allocation.snapshots import pool_state
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
    """Of one pool: who is hit hardest first, how many are, or why it could not be computed."""

    pool: Pool
    servers: int
    tenants: Sequence[TenantImpact] = ()
    hit: int = 0
    unknown: str = ""


def servers_impact(servers: Iterable[Server], action: str) -> list[Impact]:
    """The impact of `drain` or `retire` on the decision of each pool; nothing is changed."""
    by_pool = sorted(servers, key=lambda server: server.pool_id)
    return [
        _pool_impact(pool, list(members), action)
        for pool, members in groupby(by_pool, key=lambda server: server.pool)
    ]


def _pool_impact(pool: Pool, servers: Sequence[Server], action: str) -> Impact:
    try:
        live = pool_state(pool.pk)
        changes = {"servers": {action: [server.pk for server in servers]}}
        changed = with_changes(live, changes, pool=pool, resources=resources_of(pool))
        before = _by_tenant(answer_document(live.document))
        after = _by_tenant(answer_document(changed.document))
    except DomainError as error:
        return Impact(pool, len(servers), unknown=error.detail)
    rows = [
        TenantImpact(tenant, *_columns(before[tenant], after.get(tenant, (0.0, None))))
        for tenant in before
    ]
    hit = [row for row in rows if row.tasks_after < row.tasks_before * (1 - 1e-9)]
    hit.sort(key=lambda row: row.tasks_after / row.tasks_before)
    return Impact(pool, len(servers), hit[:TENANTS_SHOWN], len(hit))


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
