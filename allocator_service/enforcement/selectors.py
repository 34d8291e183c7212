"""Reads of agents, and of the members and the decision that they render."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, Subquery

from allocator_service.allocation.models import Run, RunStatus, Schedule
from allocator_service.allocation.selectors import decision_now, slot_in_force
from allocator_service.core.errors import Missing
from allocator_service.enforcement.models import Agent, Report
from allocator_service.pools.models import Group, Membership, Pool
from allocator_service.pools.recompute import interval_around
from allocator_service.pools.selectors import members_of


@dataclass(frozen=True)
class PoolSigns:
    """The last failed run and report of a pool, which show whether its pages are current."""

    failed_run: UUID | None
    reported_at: datetime | None
    has_slots: bool


def pool_signs(*, pool: Pool, run: Run | None) -> PoolSigns:
    """Return the signs of a pool by one statement, and whether a run divides time."""
    failed = Run.objects.filter(pool=OuterRef("pk"), status=RunStatus.FAILED).order_by("-pk")
    heard = Agent.objects.present().filter(pool=OuterRef("pk")).order_by("-received_at")
    found = Pool.objects.filter(pk=pool.pk).values_list(
        Subquery(failed.values("pk")[:1]),
        Subquery(heard.values("received_at")[:1]),
        Exists(Schedule.objects.filter(run=run)),
    )
    return PoolSigns(*found.get())


def member_slugs(*, pool: Pool) -> list[str]:
    """Return the slugs of a pool's present members that are not retired."""
    members = members_of(pool=pool).filter(membership__tenant__retired_at=None)
    slugs = members.order_by("membership__tenant__slug").values_list(
        "membership__tenant__slug", flat=True
    )
    return list(slugs)


def departed_slugs(*, pool: Pool) -> list[str]:
    """Return retired tenants and former members on whom no scheduler has a limit above 0 any more.

    The others are rendered until agents report a limit of 0. It would stay otherwise.
    """
    over = Q(tenant__retired_at__isnull=False) | Q(ended_at__isnull=False)
    memberships = Membership.objects.filter(over, pool=pool)
    former = set(memberships.values_list("tenant__slug", flat=True))
    # Most pools have no former members, and reports are large.
    if not former:
        return []
    _, reports = newest_reports(pool)
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
    agents = Agent.objects.present().filter(pool=pool)
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
    """Return the next instant at which the decision's amounts change without any change to the pool.

    It is the end of the slot in force where time is divided, the end of the decision interval under a
    long-term policy, and None otherwise.
    """
    slot = slot_in_force(run=run, at=now)
    if slot is not None:
        return slot.end
    return interval_around(pool, now)[1] if pool.policy_long_term else None


def decision_in_force(*, pool: Pool, now: datetime) -> Run | None:
    """Return the run whose decision is in force, None before the first."""
    try:
        return decision_now(pool=pool, now=now)
    except Missing:
        return None


def agent_named(*, pool: Pool, name: str) -> Agent | None:
    return Agent.objects.filter(pool=pool, name=name).first()


def agents_of_open_pools() -> list[Agent]:
    """Return the agents of all pools that are neither retired nor closed for a move."""
    return list(Agent.objects.present().filter(pool__retired_at=None, pool__moved_at=None))


def newest_reports(pool: Pool) -> tuple[list[Agent], Mapping[int, Mapping[str, Any]]]:
    """Return the pool's agents in the order of their last reports, and each agent's newest report."""
    agents = list(Agent.objects.present().filter(pool=pool).order_by("received_at"))
    newest = (
        Report.objects.filter(agent__in=agents).order_by("agent_id", "-id").distinct("agent_id")
    )
    return agents, {report.agent_id: report.document for report in newest}
