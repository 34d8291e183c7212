"""Decided, enforced and used amounts of each tenant, by the newest reports of agents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal, localcontext
from typing import Any

from allocator_service.allocation.decided import decided_by_class
from allocator_service.allocation.decided_parts import EXACT, Vector
from allocator_service.allocation.models import Run
from allocator_service.core.errors import DomainError
from allocator_service.core.quantities import Resource
from allocator_service.enforcement.held_servers import JobsEnding, ServersHeld, ending_of, holds_of
from allocator_service.enforcement.models import Agent, Blockage
from allocator_service.enforcement.rendering.limits import TenantLimits
from allocator_service.enforcement.rendering.rounding import NOISE
from allocator_service.enforcement.rendering.targets import TARGETS, limits_for
from allocator_service.enforcement.rendering.units import TargetUnit
from allocator_service.enforcement.selectors import (
    decision_in_force,
    departed_slugs,
    member_slugs,
    newest_reports,
)
from allocator_service.pools.clusters import labelled_clusters
from allocator_service.pools.models import Cluster, Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant

_HALF = Decimal("0.5")


@dataclass(frozen=True)
class AgentState:
    """An agent with its newest report.

    `behind` is the number of generations by which its decision is older.
    """

    agent: Agent
    stale: bool
    behind: int | None
    problems: Sequence[str]


@dataclass(frozen=True)
class TenantEnforcement:
    """The decided, enforced and used amounts of a tenant, in the pool's units and order.

    They are None if no agent reported them. `rendered` is the scheduler's limit: `decided` in whole
    units of the target. `drift` is enforced − rendered, 0 where that is less than half a unit of the
    target, because agents convert to the pool's units with 12 fractional digits. `over` is true if it
    uses more than both. `pending_demand` and `pending_reason` are of the first job that waits, by the
    scheduler. The former is None where time is divided, because jobs wait for their slots there.
    `blocked_since` is None until the state has lasted three intervals. Where agents are of clusters, the
    numbers are sums of those of `clusters`. One that left the capacity `is_away`: its scheduler keeps
    earlier limits, which is no drift. `absent_since` is set if no scheduler knows the tenant any more.
    """

    tenant: str
    decided: Vector
    rendered: Vector
    enforced: Vector | None
    used: Vector | None
    drift: Vector | None
    pending_tasks: int | None
    running_tasks: int | None
    problems: Sequence[str] = ()
    pending_reason: str | None = None
    pending_demand: Vector | None = None
    blocked_since: datetime | None = None
    holds: Sequence["ServersHeld"] = ()
    ending: Sequence[JobsEnding] = ()
    cluster: str = ""
    clusters: Sequence["TenantEnforcement"] = ()
    is_away: bool = False
    absent_since: datetime | None = None

    @property
    def blocked(self) -> bool:
        """True if the first waiting job fits into the decision and only the scheduler keeps it."""
        if self.clusters:
            return any(part.blocked for part in self.clusters)
        if not self.pending_tasks or not self.pending_demand or self.used is None:
            return False
        return any(self.pending_demand) and all(
            # Reports are rounded to 12 digits: without the tolerance a job that just fits would not.
            used + more <= most * (1 + NOISE)
            for used, more, most in zip(self.used, self.pending_demand, self.rendered, strict=True)
        )

    @property
    def over(self) -> bool:
        """True if the tenant uses more than was decided and rendered."""
        if self.clusters:
            return any(part.over for part in self.clusters)
        return self.used is not None and any(
            used > max(decided, rendered) * (1 + NOISE)
            for used, decided, rendered in zip(self.used, self.decided, self.rendered, strict=True)
        )

    @property
    def drifts(self) -> bool:
        """True if the scheduler lacks the decision, or lets more run."""
        if self.clusters:
            return any(part.drifts for part in self.clusters if not part.is_away)
        # Without a report nothing is known to be enforced, which is right only for an amount of 0.
        if self.drift is None:
            return any(self.rendered)
        return self.over or any(self.drift)


@dataclass(frozen=True)
class EnforcementState:
    """A pool's enforcement.

    `run` is None before the first decision. `refused` is the reason why a decision cannot be rendered.
    """

    pool: Pool
    run: Run | None
    resources: Sequence[Resource]
    agents: Sequence[AgentState]
    tenants: Sequence[TenantEnforcement] = field(default_factory=tuple)
    refused: str = ""

    @property
    def stale(self) -> bool:
        """True if any agent is silent."""
        return any(state.stale for state in self.agents)


def enforcement_state(*, pool: Pool, now: datetime) -> EnforcementState:
    """Return decided, enforced and used amounts per tenant, by the agent that reported each last."""
    resources = resources_of(pool)
    run = decision_in_force(pool=pool, now=now)
    agents, reports = newest_reports(pool)
    states = [
        AgentState(
            agent,
            agent.is_stale(now),
            None if run is None else (run.generation or 0) - (agent.generation or 0),
            reports[agent.pk]["problems"],
        )
        for agent in agents
    ]
    if run is None or not agents:
        return EnforcementState(pool, run, resources, states)
    since = _blocked_since(pool)
    left = Cluster.objects.filter(pool=pool, left_at__isnull=False)
    away = set(left.values_list("name", flat=True))
    parts: dict[str, list[TenantEnforcement]] = {}
    refused = []
    with localcontext(EXACT):
        for name, place in _places(pool, agents, reports, now).items():
            try:
                rows = _rows_of(place, run, resources, now)
            except DomainError as error:
                # One cluster that cannot be rendered does not hide the state of the others.
                refused.append(f"{name}: {error.detail}" if name else error.detail)
                continue
            parts[name] = [replace(row, cluster=name, is_away=name in away) for row in rows]
        rows = [replace(row, blocked_since=since.get(row.tenant)) for row in _rows_of_all(parts)]
    return EnforcementState(pool, run, resources, states, rows, refused=" ".join(refused))


@dataclass(frozen=True)
class _Place:
    """A cluster, or all of a pool, with the newest agent and the newest report of each tenant."""

    cluster: str
    agent: Agent
    reported: Mapping[str, tuple[Agent, Mapping[str, Any]]]


def _places(
    pool: Pool, agents: Sequence[Agent], reports: Mapping[int, Mapping[str, Any]], now: datetime
) -> dict[str, _Place]:
    """Return the places of a pool by cluster, given its agents, the newest last.

    An agent of the whole pool is left out once any is of a cluster, and so are silent agents of
    clusters without servers.
    """
    clusters = {agent.cluster for agent in agents}
    # An agent of the whole pool would count the servers of the clusters' agents twice.
    if clusters - {""}:
        heard = {agent.cluster for agent in agents if not agent.is_stale(now)}
        clusters &= {pool.slug, *labelled_clusters(pool), *heard}
        clusters -= {""}
    found = {}
    for cluster in sorted(clusters):
        here = [agent for agent in agents if agent.cluster == cluster]
        reported = {
            row["tenant"]: (agent, row) for agent in here for row in reports[agent.pk]["tenants"]
        }
        found[cluster] = _Place(cluster, here[-1], reported)
    return found


def _rows_of(
    place: _Place, run: Run, resources: Sequence[Resource], now: datetime
) -> list[TenantEnforcement]:
    """Return the rows of a place. Raises `DomainError` if it has no part of its own."""
    label, pool = place.agent.class_label, run.pool
    limits = limits_for(
        TARGETS[place.agent.target],
        decided_by_class(run, label=label, cluster=place.cluster),
        label=label,
        members=member_slugs(pool=pool),
        departed=departed_slugs(pool=pool),
        at=now,
    )
    rows = []
    for tenant in limits.tenants:
        agent, reported = place.reported.get(tenant.slug, (None, None))
        row = _row(tenant, reported, resources, limits.units)
        if agent is not None and reported is not None:
            row = replace(row, ending=ending_of(agent, reported))
        timed = limits.decided.period_seconds > 0
        # Where time is divided a job waits for its tenant's slot, and is not kept by the scheduler.
        rows.append(replace(row, pending_demand=None if timed else row.pending_demand))
    return rows


def _rows_of_all(parts: Mapping[str, Sequence[TenantEnforcement]]) -> list[TenantEnforcement]:
    """Return the sums of the rows of all places by tenant."""
    # An agent of the whole pool has reported the sums itself.
    if "" in parts:
        return list(parts[""])
    by_tenant: dict[str, list[TenantEnforcement]] = {}
    for rows in parts.values():
        for row in rows:
            by_tenant.setdefault(row.tenant, []).append(row)
    return [_sum(rows) for rows in by_tenant.values()]


def _sum(rows: Sequence[TenantEnforcement]) -> TenantEnforcement:
    """Return the sum of a tenant's rows in all clusters."""
    # Reasons cannot be added. That of the first cluster with a waiting job is shown.
    waiting = next((row for row in rows if row.pending_reason), rows[0])
    return TenantEnforcement(
        rows[0].tenant,
        decided=_added([row.decided for row in rows]) or [],
        rendered=_added([row.rendered for row in rows]) or [],
        enforced=_added([row.enforced for row in rows]),
        used=_added([row.used for row in rows]),
        drift=_added([row.drift for row in rows]),
        pending_tasks=_counted([row.pending_tasks for row in rows]),
        running_tasks=_counted([row.running_tasks for row in rows]),
        problems=[problem for row in rows for problem in row.problems],
        pending_reason=waiting.pending_reason,
        pending_demand=waiting.pending_demand,
        holds=[held for row in rows for held in row.holds],
        ending=[each for row in rows for each in row.ending],
        clusters=rows,
        absent_since=_last([row.absent_since for row in rows]),
    )


def _added(vectors: Sequence[Vector | None]) -> Vector | None:
    """Return the sum of the vectors that are known, None if none is."""
    known = [vector for vector in vectors if vector is not None]
    with localcontext(EXACT):
        return [sum(column, Decimal(0)) for column in zip(*known, strict=True)] if known else None


def _last(instants: Sequence[datetime | None]) -> datetime | None:
    """Return the last of the instants, None if any is None."""
    known = [instant for instant in instants if instant is not None]
    # A tenant that one scheduler still knows is not absent, and the last to lose it sets the date.
    return max(known) if known and len(known) == len(instants) else None


def _counted(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


@dataclass(frozen=True)
class TenantUse:
    """Use of a tenant by the last reports of agents, in the pool's units and order.

    `stale`: an agent has been silent for too long. `silent` has the last report of each cluster whose
    agent is, and "" for that of the whole pool. `blocked_since` is set when its jobs have
    waited for three intervals although more was decided than it uses. `clusters` has what is used in
    each, none where one agent reports of the whole pool.
    """

    used: Vector
    running_tasks: int | None
    pending_tasks: int | None
    received_at: datetime
    stale: bool
    pending_reason: str | None = None
    blocked_since: datetime | None = None
    holds: Sequence[ServersHeld] = ()
    ending: Sequence[JobsEnding] = ()
    silent: Sequence[tuple[str, datetime]] = ()
    clusters: Mapping[str, Vector] = field(default_factory=dict)


def tenant_use(*, pool: Pool, tenant: Tenant, now: datetime) -> TenantUse | None:
    """Return the use of a tenant by the agents that reported it last, None if none did."""
    resources = resources_of(pool)
    found = {
        cluster: place.reported[tenant.slug]
        for cluster, place in _places(pool, *newest_reports(pool), now).items()
        if tenant.slug in place.reported
    }
    if not found:
        return None
    rows = list(found.values())
    used = {cluster: _vector(row["used"], resources) for cluster, (_, row) in found.items()}
    waiting = next((row for _, row in rows if row.get("pending_reason")), rows[0][1])
    return TenantUse(
        _added(list(used.values())) or [],
        _counted([row["running_tasks"] for _, row in rows]),
        _counted([row["pending_tasks"] for _, row in rows]),
        # A sum is only as recent as its oldest part.
        min(agent.received_at for agent, _ in rows),
        any(agent.is_stale(now) for agent, _ in rows),
        waiting.get("pending_reason"),
        blocked_since=_blocked_since(pool).get(tenant.slug),
        holds=[held for _, row in rows for held in holds_of(row)],
        ending=[each for agent, row in rows for each in ending_of(agent, row)],
        silent=[(agent.cluster, agent.received_at) for agent, _ in rows if agent.is_stale(now)],
        clusters={cluster: vector for cluster, vector in used.items() if cluster},
    )


def _blocked_since(pool: Pool) -> dict[str, datetime]:
    """Return since when tenants are blocked, for those whose event is recorded."""
    reported = Blockage.objects.filter(pool=pool, told_at__isnull=False)
    return dict(reported.values_list("tenant__slug", "since"))


def _row(
    tenant: TenantLimits,
    reported: Mapping[str, Any] | None,
    resources: Sequence[Resource],
    units: Sequence[TargetUnit],
) -> TenantEnforcement:
    rendered = [amount - less for amount, less in zip(tenant.decided, tenant.lost, strict=True)]
    if reported is None:
        nothing = (None, None, None, None, None)
        return TenantEnforcement(tenant.slug, tenant.decided, rendered, *nothing)
    enforced = _vector(reported["applied"], resources)
    drift = [
        # Less than half a unit comes from converting a whole limit to the pool's units.
        has - due if abs(has - due) * unit.per >= _HALF else Decimal(0)
        for has, due, unit in zip(enforced, rendered, units, strict=True)
    ]
    return TenantEnforcement(
        tenant.slug,
        tenant.decided,
        rendered,
        enforced,
        _vector(reported["used"], resources),
        drift,
        reported["pending_tasks"],
        reported["running_tasks"],
        reported["problems"],
        reported.get("pending_reason"),
        # Reports stored before the field existed lack it.
        _vector(demand, resources) if (demand := reported.get("pending_demand")) else None,
        holds=holds_of(reported),
        absent_since=_absent_since(reported),
    )


def absent_tenants(*, pool: Pool, now: datetime) -> dict[str, tuple[datetime, set[str]]]:
    """Return since when tenants are absent, and the agents that report them, by slug.

    A tenant that any agent reports as present, or that a silent one reports, is left out.
    """
    agents, reports = newest_reports(pool)
    found: dict[str, list[tuple[datetime | None, str]]] = {}
    for agent in agents:
        for row in reports[agent.pk]["tenants"]:
            since = None if agent.is_stale(now) else _absent_since(row)
            found.setdefault(row["tenant"], []).append((since, agent.name))
    return {
        slug: (since, {name for _, name in rows})
        for slug, rows in found.items()
        if (since := _last([each for each, _ in rows])) is not None
    }


def _absent_since(reported: Mapping[str, Any]) -> datetime | None:
    """Return since when a tenant is absent. Reports stored before the field existed lack it."""
    since = reported.get("absent_since")
    return None if since is None else datetime.fromisoformat(since)


def _vector(quantities: Mapping[str, str], resources: Sequence[Resource]) -> Vector:
    return [Decimal(quantities.get(each.name, "0")) for each in resources]
