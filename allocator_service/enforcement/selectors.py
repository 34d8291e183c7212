"""Reads around the enforcement of decisions: what was decided, is enforced and is used, per tenant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal, localcontext
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, Subquery

from allocator_service.allocation.decided import EXACT, Vector, decided_by_class
from allocator_service.allocation.models import Run, RunStatus, Schedule
from allocator_service.allocation.selectors import decision_now, slot_in_force
from allocator_service.core.errors import DomainError, Missing
from allocator_service.core.quantities import Resource
from allocator_service.enforcement.models import Agent, Blockage, Report
from allocator_service.enforcement.rendering.limits import TenantLimits
from allocator_service.enforcement.rendering.rounding import NOISE
from allocator_service.enforcement.rendering.targets import TARGETS, limits_for
from allocator_service.enforcement.rendering.units import TargetUnit
from allocator_service.pools.models import Group, Membership, Pool
from allocator_service.pools.recompute import interval_around
from allocator_service.pools.selectors import members_of, resources_of
from allocator_service.tenants.models import Tenant

_HALF = Decimal("0.5")


@dataclass(frozen=True)
class PoolSigns:
    """The last failed run and report of a pool, by which its pages are current or not."""

    failed_run: UUID | None
    reported_at: datetime | None
    has_slots: bool


def pool_signs(*, pool: Pool, run: Run | None) -> PoolSigns:
    """Return the signs of a pool by one statement, and whether a run divides time."""
    failed = Run.objects.filter(pool=OuterRef("pk"), status=RunStatus.FAILED).order_by("-pk")
    heard = Agent.objects.filter(pool=OuterRef("pk")).order_by("-received_at")
    found = Pool.objects.filter(pk=pool.pk).values_list(
        Subquery(failed.values("pk")[:1]),
        Subquery(heard.values("received_at")[:1]),
        Exists(Schedule.objects.filter(run=run)),
    )
    return PoolSigns(*found.get())


def member_slugs(*, pool: Pool) -> list[str]:
    """The present members of a pool, those that are still tenants, by slug."""
    members = members_of(pool=pool).filter(membership__tenant__retired_at=None)
    slugs = members.order_by("membership__tenant__slug").values_list(
        "membership__tenant__slug", flat=True
    )
    return list(slugs)


def departed_slugs(*, pool: Pool) -> list[str]:
    """Return retired tenants and former members that no scheduler has a limit above 0 for.

    They are rendered until agents report that their limit is 0. It would stay otherwise.
    """
    over = Q(tenant__retired_at__isnull=False) | Q(ended_at__isnull=False)
    memberships = Membership.objects.filter(over, pool=pool)
    former = set(memberships.values_list("tenant__slug", flat=True))
    if not former:
        return []
    _, reports = _newest_reports(pool)
    limited = {
        row["tenant"]
        for report in reports.values()
        for row in report["tenants"]
        if any(Decimal(amount) for amount in row["applied"].values())
    }
    return sorted(former - limited)


def former_group_slugs(*, pool: Pool) -> list[str]:
    """Return retired groups whose accounts agents may still have a limit on.

    They are rendered until every agent has reported a decision that was computed after they were
    retired.
    """
    agents = Agent.objects.filter(pool=pool)
    applied = list(agents.values_list("run__created_at", flat=True))
    if not applied:
        return []
    retired = Group.objects.filter(pool=pool, retired_at__isnull=False)
    known = [at for at in applied if at is not None]
    # An agent that has reported no decision may have applied any before it was stopped.
    if len(known) == len(applied):
        retired = retired.filter(retired_at__gte=min(known))
    return sorted(set(retired.values_list("slug", flat=True)))


def next_boundary(*, pool: Pool, run: Run, now: datetime) -> datetime | None:
    """When what the decision gives changes next without any change to the pool.

    The end of the slot in force where time is divided, the end of the decision interval under a
    long-term policy, else None.
    """
    slot = slot_in_force(run=run, at=now)
    if slot is not None:
        return slot.end
    return interval_around(pool, now)[1] if pool.policy_long_term else None


def decision_in_force(*, pool: Pool, now: datetime) -> Run | None:
    """The run whose decision is in force, None before the first."""
    try:
        return decision_now(pool=pool, now=now)
    except Missing:
        return None


@dataclass(frozen=True)
class AgentState:
    """An agent and its newest report; `behind`: by how many generations its decision is older."""

    agent: Agent
    stale: bool
    behind: int | None
    problems: Sequence[str]


@dataclass(frozen=True)
class ServersHeld:
    """Servers that a scheduler holds for jobs which start together, until all of them are free.

    `beside` are the numbers of the jobs that still run there, by tenant.
    """

    jobs: Sequence[str]
    servers: Sequence[str]
    beside: Mapping[str, int]

    @property
    def others(self) -> int:
        """Return the number of all jobs that still run there."""
        return sum(self.beside.values())


@dataclass(frozen=True)
class TenantEnforcement:
    """The three numbers of a tenant, in the pool's units and order; None: nobody reported it.

    `rendered` is what the scheduler is told: `decided` in whole units of the target. `drift` is
    enforced − rendered, 0 where that is less than half a unit of the target: agents convert to the
    pool's units with 12 fractional digits. `over`: it uses more than both. `pending_demand` and
    `pending_reason` are of the first job that waits, by the scheduler; the former is None where time is
    divided, because jobs wait for their slots there. `blocked_since` is None until the state has lasted
    three intervals.
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

    @property
    def blocked(self) -> bool:
        """Whether the first job that waits fits into what was decided, and nothing keeps it but the
        scheduler.
        """
        if not self.pending_tasks or not self.pending_demand or self.used is None:
            return False
        return any(self.pending_demand) and all(
            used + more <= most * (1 + NOISE)
            for used, more, most in zip(self.used, self.pending_demand, self.rendered, strict=True)
        )

    @property
    def over(self) -> bool:
        """Whether more is used than was decided and told."""
        return self.used is not None and any(
            used > max(decided, rendered) * (1 + NOISE)
            for used, decided, rendered in zip(self.used, self.decided, self.rendered, strict=True)
        )

    @property
    def drifts(self) -> bool:
        """Whether the scheduler does not have what was decided, or lets more run."""
        if self.drift is None:
            return any(self.rendered)
        return self.over or any(self.drift)


@dataclass(frozen=True)
class EnforcementState:
    """A pool's enforcement; `run` is None before the first decision, `refused` says why none is told."""

    pool: Pool
    run: Run | None
    resources: Sequence[Resource]
    agents: Sequence[AgentState]
    tenants: Sequence[TenantEnforcement] = field(default_factory=tuple)
    refused: str = ""

    @property
    def stale(self) -> bool:
        """Whether any agent is silent."""
        return any(state.stale for state in self.agents)


def agents_of_open_pools() -> list[Agent]:
    """The agents of all pools that are not retired."""
    return list(Agent.objects.filter(pool__retired_at=None))


def enforcement_state(*, pool: Pool, now: datetime) -> EnforcementState:
    """Decided, enforced and used per tenant, by the agent that reported each last."""
    resources = resources_of(pool)
    run = decision_in_force(pool=pool, now=now)
    agents, reports = _newest_reports(pool)
    states = [
        AgentState(
            agent,
            agent.is_stale(now),
            None if run is None else (run.generation or 0) - (agent.generation or 0),
            reports[agent.pk]["problems"],
        )
        for agent in agents
    ]
    reported = {row["tenant"]: row for agent in agents for row in reports[agent.pk]["tenants"]}
    if run is None or not agents:
        return EnforcementState(pool, run, resources, states)
    target = agents[-1]
    try:
        limits = limits_for(
            TARGETS[target.target],
            decided_by_class(run, label=target.class_label),
            label=target.class_label,
            members=member_slugs(pool=pool),
            departed=departed_slugs(pool=pool),
            at=now,
        )
    except DomainError as error:
        return EnforcementState(pool, run, resources, states, refused=error.detail)
    with localcontext(EXACT):
        since = _blocked_since(pool)
        timed = limits.decided.period_seconds > 0
        rows = [
            replace(
                row,
                pending_demand=None if timed else row.pending_demand,
                blocked_since=since.get(row.tenant),
            )
            for row in (
                _row(tenant, reported.get(tenant.slug), resources, limits.units)
                for tenant in limits.tenants
            )
        ]
    return EnforcementState(pool, run, resources, states, rows)


@dataclass(frozen=True)
class TenantUse:
    """What an agent last said that a tenant runs, in the pool's units and order.

    `stale`: the agent has been silent for too long since. `blocked_since` is set when its jobs have
    waited for three intervals although more was decided than it uses.
    """

    used: Vector
    running_tasks: int | None
    pending_tasks: int | None
    received_at: datetime
    stale: bool
    pending_reason: str | None = None
    blocked_since: datetime | None = None
    holds: Sequence[ServersHeld] = ()


def tenant_use(*, pool: Pool, tenant: Tenant, now: datetime) -> TenantUse | None:
    """What the tenant runs, by the agent that reported it last; None where no agent did."""
    agents, reports = _newest_reports(pool)
    found = None
    for agent in agents:
        for row in reports[agent.pk]["tenants"]:
            if row["tenant"] == tenant.slug:
                found = TenantUse(
                    _vector(row["used"], resources_of(pool)),
                    row["running_tasks"],
                    row["pending_tasks"],
                    agent.received_at,
                    agent.is_stale(now),
                    row.get("pending_reason"),
                    holds=_holds(row),
                )
    if found is None:
        return None
    return replace(found, blocked_since=_blocked_since(pool).get(tenant.slug))


def _blocked_since(pool: Pool) -> dict[str, datetime]:
    """Return since when tenants are blocked, for those whose event is recorded."""
    told = Blockage.objects.filter(pool=pool, told_at__isnull=False)
    return dict(told.values_list("tenant__slug", "since"))


def _newest_reports(pool: Pool) -> tuple[list[Agent], Mapping[int, Mapping[str, Any]]]:
    """The pool's agents, who reported last at the end, and by agent what the newest report says."""
    agents = list(Agent.objects.filter(pool=pool).order_by("received_at"))
    newest = (
        Report.objects.filter(agent__in=agents).order_by("agent_id", "-id").distinct("agent_id")
    )
    return agents, {report.agent_id: report.document for report in newest}


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
        has - told if abs(has - told) * unit.per >= _HALF else Decimal(0)
        for has, told, unit in zip(enforced, rendered, units, strict=True)
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
        holds=_holds(reported),
    )


def _holds(reported: Mapping[str, Any]) -> list[ServersHeld]:
    return [
        ServersHeld(
            each["jobs"],
            each["servers"],
            {row["tenant"]: row["jobs"] for row in each["beside"]},
        )
        for each in reported.get("holds", ())
    ]


def _vector(quantities: Mapping[str, str], resources: Sequence[Resource]) -> Vector:
    return [Decimal(quantities.get(each.name, "0")) for each in resources]
