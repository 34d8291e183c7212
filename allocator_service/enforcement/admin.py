"""Enforcement on the pools' pages, and agents with their reports, in the admin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe

from allocator_service.allocation.admin.tabs import TabRequest, pool_tab
from allocator_service.core.admin import ReadOnlyAdmin
from allocator_service.core.board import Cell, Notice, Section, Table, Urgency, board_section
from allocator_service.core.clock import utc_now
from allocator_service.core.display import counted, number_text
from allocator_service.core.quantities import decimal_text
from allocator_service.core.shown_fields import instant
from allocator_service.core.templatetags.shown import age
from allocator_service.core.visible import VisiblePools
from allocator_service.enforcement.clusters import ClusterState, clusters_of
from allocator_service.enforcement.models import Agent, Blockage, Drift, Report
from allocator_service.enforcement.services import agent_retire
from allocator_service.enforcement.state import (
    EnforcementState,
    TenantEnforcement,
    enforcement_state,
)
from allocator_service.pools.models import Pool

TENANTS_SHOWN = 50
AGENTS_SHOWN = 25
NO_DECISION = "no decision yet"
NO_REASON = "the scheduler states no reason"
_SHOWN_DIGITS = Decimal("0.001")


@dataclass(frozen=True)
class Row:
    """A tenant's line with the decided, enforced and used amounts per resource, as texts."""

    tenant: str
    numbers: Sequence[tuple[str, str, str, str]]  # resource, decided, enforced, used
    tasks: str
    wrong: str


@dataclass(frozen=True)
class EnforcementTable:
    """The tenants that drift or are blocked first, then those with the highest use.

    `found` is the number of tenants that match the search. `clusters` have the capacity of each
    cluster's servers, by resource.
    """

    state: EnforcementState
    rows: Sequence[Row]
    tenants: int
    found: int
    drifting: int
    clusters: Sequence[tuple[ClusterState, Sequence[tuple[str, str]]]] = ()


def enforcement_table(pool: Pool, *, search: str = "", now: datetime) -> EnforcementTable:
    """Return the decided, enforced and used amounts of the tenants that match the search."""
    state = enforcement_state(pool=pool, now=now)
    found = [row for row in state.tenants if search.lower() in row.tenant]
    found.sort(
        key=lambda row: (
            not (row.drifts or row.blocked_since),
            -max(row.used or [Decimal(0)]),
            row.tenant,
        )
    )
    return EnforcementTable(
        state,
        [_row(row, state) for row in found[:TENANTS_SHOWN]],
        len(state.tenants),
        len(found),
        sum(row.drifts for row in state.tenants),
        [
            (
                each,
                [(r.name, _shown(a)) for r, a in zip(state.resources, each.capacity, strict=True)],
            )
            for each in clusters_of(pool=pool, now=now)
        ],
    )


def _row(row: TenantEnforcement, state: EnforcementState) -> Row:
    unknown = [None] * len(state.resources)
    numbers = [
        (resource.name, _shown(decided), _shown(enforced), _shown(used))
        for resource, decided, enforced, used in zip(
            state.resources, row.decided, row.enforced or unknown, row.used or unknown, strict=True
        )
    ]
    counts = ((row.running_tasks, "running"), (row.pending_tasks, "pending"))
    tasks = [f"{'unknown' if count is None else f'{count:,}'} {state}" for count, state in counts]
    wrong = list(row.problems)
    # Cluster by cluster: sums would hide that one has too much and another too little.
    for part in row.clusters or [row]:
        sentences = _wrongs(part, state)
        # The name of a cluster may be long, and is stated once.
        wrong += [f"{part.cluster}:"] if part.cluster and sentences else []
        wrong += sentences
    for text, has_ended in (("Notice given", False), ("Ended", True)):
        if found := sum(each.tasks for each in row.ending if each.ended == has_ended):
            wrong.append(f"{text} above the decision: {counted(found, 'task')}.")
    if row.blocked_since:
        wrong.append(f"Its jobs wait although more was decided: {row.pending_reason or NO_REASON}.")
    return Row(row.tenant, numbers, ", ".join(tasks), " ".join(wrong))


def _wrongs(part: TenantEnforcement, state: EnforcementState) -> list[str]:
    """Return the ways in which a scheduler differs from the decision about a tenant."""
    wrong = ["No agent reported it."] if part.enforced is None else []
    wrong += [
        f"{resource.name}: the scheduler has {_shown(abs(amount))}"
        f" {'more' if amount > 0 else 'less'} than was decided."
        for resource, amount in zip(state.resources, part.drift or [], strict=False)
        if amount
    ]
    return [*wrong, "More runs than was decided."] if part.over else wrong


def _shown(amount: Decimal | None) -> str:
    return "not known" if amount is None else decimal_text(amount.quantize(_SHOWN_DIGITS))


@board_section(permission="enforcement.view_agent", place=3)
def schedulers_section(now: datetime, pools: VisiblePools) -> Section:
    """Return the section of silent agents, drifts and blockages."""
    present = Agent.objects.present().filter(pool__retired_at=None).select_related("pool")
    agents = list(pools.of(present, "pool__slug"))
    if not agents:
        return Section()
    reported = Drift.objects.filter(told_at__isnull=False, pool__retired_at=None)
    drifts = dict(
        pools.of(reported, "pool__slug")
        .values_list("pool__slug")
        .annotate(count=Count("pk"))
        .order_by("pool__slug")
    )
    agents.sort(key=lambda agent: (not agent.is_stale(now), agent.pool.slug, agent.name))
    notices = [
        Notice(
            Urgency.ERROR,
            f"{agent.pool}: agent {agent.name} is silent for {age(now - agent.received_at)};"
            " its limits stay as they are.",
            reverse("admin:enforcement_agent_change", args=[agent.pk]),
        )
        for agent in agents
        if agent.is_stale(now)
    ]
    if drifts:
        count = sum(drifts.values())
        tenants, pools_with = counted(count, "tenant"), counted(len(drifts), "pool")
        text = (
            f"{tenants} in {pools_with} {'lacks' if count == 1 else 'lack'} in the scheduler what"
            " was decided."
        )
        url = reverse("admin:enforcement_drift_changelist")
        notices.append(Notice(Urgency.WARNING, text, url))
    notices += _blocked_notices(pools)
    has_clusters = any(agent.cluster for agent in agents)
    rows = [
        _agent_row(agent, drifts.get(agent.pool.slug, 0), now, has_clusters=has_clusters)
        for agent in agents
    ]
    more = None
    if len(rows) > AGENTS_SHOWN:
        url = reverse("admin:enforcement_agent_changelist")
        more = Cell(f"{counted(len(rows) - AGENTS_SHOWN, 'more agent')}: all of them", url)
    return Section(
        notices,
        [Table("Schedulers", _agent_columns(has_clusters=has_clusters), rows[:AGENTS_SHOWN], more)],
    )


def _blocked_notices(pools: VisiblePools) -> list[Notice]:
    """Return one notice a pool, with the scheduler's reason for the tenant that has waited longest."""
    blocked = pools.of(
        Blockage.objects.filter(told_at__isnull=False, pool__retired_at=None), "pool__slug"
    )
    by_pool: dict[str, list[Blockage]] = {}
    for each in blocked.select_related("pool", "tenant").order_by("pool__slug", "since"):
        by_pool.setdefault(each.pool.slug, []).append(each)
    url = reverse("admin:enforcement_blockage_changelist")
    return [
        Notice(
            Urgency.WARNING,
            f"{slug}: jobs of {counted(len(rows), 'tenant')} wait in the scheduler although more was"
            f" decided than they use. {rows[0].tenant.slug}: {rows[0].payload['reason'] or NO_REASON}.",
            url,
        )
        for slug, rows in by_pool.items()
    ]


def _agent_columns(*, has_clusters: bool) -> list[Cell]:
    return [
        Cell("Pool"),
        *([Cell("Cluster")] if has_clusters else []),
        Cell("Agent"),
        Cell("Scheduler"),
        Cell("Generation applied", number=True),
        Cell("Heard of", number=True),
        Cell("Tenants that drift", number=True),
    ]


def _agent_row(agent: Agent, drifts: int, now: datetime, *, has_clusters: bool) -> list[Cell]:
    heard = f"{age(now - agent.received_at)} ago"
    generation = NO_DECISION if agent.generation is None else f"{agent.generation:,}"
    return [
        Cell(agent.pool.slug, reverse("admin:pools_pool_overview", args=[agent.pool_id])),
        *([Cell(agent.cluster or "–")] if has_clusters else []),
        Cell(agent.name),
        Cell(agent.target),
        Cell(generation, number=True),
        Cell(heard, number=True, bad=agent.is_stale(now)),
        Cell(f"{drifts:,}", number=True, bad=drifts > 0),
    ]


@pool_tab("enforcement", "Enforcement", permission="pools.view_pool", place=7)
def enforcement_tab(asked: TabRequest) -> Mapping[str, Any]:
    """Return the decided, enforced and used amounts of the tenants."""
    table = enforcement_table(asked.pool, search=asked.search, now=asked.now)
    return {"enforcement": table, "search": asked.search}


@admin.register(Agent)
class AgentAdmin(ReadOnlyAdmin):
    appears = "An agent appears with its first report."
    list_display = [
        "name", "pool", "cluster", "target", "applied", "interval_seconds", "received_at",
        "retired_at",
    ]  # fmt: skip
    actions = ["retire"]
    list_filter = ["pool", "target"]
    filter_titles: ClassVar = {"target": "Scheduler"}
    list_select_related = ["pool"]
    in_seconds = ("interval_seconds",)

    def get_list_display(self, request: HttpRequest) -> Any:
        """Return the columns, without the one for clusters if no agent of the list has one."""
        has_clusters = self.get_queryset(request).exclude(cluster="").exists()
        return [each for each in self.list_display if has_clusters or each != "cluster"]

    @admin.display(description="generation applied", ordering="generation")
    def applied(self, agent: Agent) -> str:
        return NO_DECISION if agent.generation is None else f"{agent.generation:,}"

    def has_retire_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("enforcement.change_agent")

    @admin.action(
        description="Retire (silent ones, whose scheduler is gone)", permissions=["retire"]
    )
    def retire(self, request: HttpRequest, queryset: QuerySet[Agent]) -> None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset,
            lambda agent: agent_retire(agent=agent, now=now),
            "retired",
            already=~Q(pk__in=Agent.objects.present()),
        )


@admin.register(Report)
class ReportAdmin(ReadOnlyAdmin):
    appears = "A report appears when an agent reports something new."
    pool_path = "agent__pool__slug"
    list_display = ["agent", "run", "reported_at", "repeated_at"]
    list_select_related = ["agent__pool", "run__pool"]
    exclude = ["content"]
    readonly_fields: ClassVar = ["reported"]

    @admin.display(description="tenants and problems")
    def reported(self, report: Report) -> SafeString:
        """Return a line for each tenant, and the agent's problems."""
        document = report.document
        lines = [f"{row['tenant']}: {_reported_text(row)}." for row in document["tenants"]]
        lines += [*document["problems"]] or ["No problems of the agent."]
        return format_html_join(mark_safe("<br>"), "{}", ((line,) for line in lines))


def _reported_text(row: Mapping[str, Any]) -> str:
    """Return an agent's report on a tenant as text."""
    parts = []
    for name, text in (("applied", "has"), ("used", "uses")):
        if row.get(name) is not None:
            amounts = ", ".join(f"{each} {amount}" for each, amount in row[name].items())
            parts.append(f"{text} {amounts or 'nothing'}")
    for name, text in (("running_tasks", "running"), ("pending_tasks", "pending")):
        if row.get(name) is not None:
            parts.append(f"{counted(row[name], 'task')} {text}")
    if row.get("pending_reason"):
        parts[-1] += f" ({row['pending_reason']})"
    return "; ".join([*parts, *row.get("problems", ())])


def _payload_lines(payload: Mapping[str, Any]) -> SafeString:
    """Return the members of an event's payload, one on a line."""
    lines = (
        (name.replace("_", " "), _payload_text(value))
        for name, value in payload.items()
        if name not in ("tenant", "since")
    )
    return format_html_join(mark_safe("<br>"), "{}: {}", lines)


def _payload_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_payload_text(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_payload_text, value)) or "none"
    if value is None:
        return "not known"
    # Payloads have amounts as decimal texts, beside ids and dates, which are texts too.
    try:
        return number_text(Decimal(value)) if isinstance(value, str) else str(value)
    except InvalidOperation:
        return str(value)


class _StateAdmin(ReadOnlyAdmin):
    """A state of a tenant that is wrong, with the event that reported it."""

    list_display = ["tenant", "pool", "since", "reported_at"]
    list_select_related = ["tenant", "pool"]
    fields = ("pool", "tenant", "since", "reported_at", "numbers")
    readonly_fields = ("reported_at", "numbers")
    list_filter = ["pool"]

    @admin.display(description="event at", ordering="told_at", empty_value="-")
    def reported_at(self, row: Drift | Blockage) -> SafeString | None:
        return instant(row.told_at)

    @admin.display(description="numbers")
    def numbers(self, row: Drift | Blockage) -> SafeString:
        return _payload_lines(row.payload)


@admin.register(Drift)
class DriftAdmin(_StateAdmin):
    appears = "A drift appears when a scheduler does not have what was decided for a tenant."


@admin.register(Blockage)
class BlockageAdmin(_StateAdmin):
    appears = "A blockage appears when jobs wait although more was decided than the tenant uses."
