"""Steps of a tenant's allocation over time, with the changes of the pool before each step."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

from django.db.models import Q

from allocator_service.allocation.models import Allocation, Run, RunStatus
from allocator_service.core.models import AuditEntry
from allocator_service.pools.limits import HAS_LIMIT, limits_from
from allocator_service.pools.models import GroupTerms, MembershipTerms, Pool
from allocator_service.pools.selectors import groups_of
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload

MOST_DECISIONS = 2_000
MOST_CHANGES = 5_000
_DIGITS = 9
_SUBMITTED = "workload.submit"
KINDS = ("workload", "server", "member", "group", "pool", "cluster", "limit", "budget")
_AUDITED = KINDS[:6]
BEGAN, ENDED = "begin", "end"
EXHAUSTED, OPENED = "exhaust", "open"


# Scope, slug of the node, resource and effect of a budget.
_BudgetKey = tuple[str, str, str, str]


@dataclass(frozen=True, order=True)
class Cause:
    """Kind of a change of the pool before a step.

    `action` and `workload` are set for changes of the tenant's own workloads, and for limits of the
    tenant, its workloads and the groups above it that begin or end by their dates. A `cluster` has the
    `action` leave or return. `more` is the number of the tenant's workloads that the same request
    submitted in addition to `workload`. A budget of the tenant, or of a group above it, has the
    `action` exhaust or open, and its `resource`. `group` is the group of a limit or a budget.
    """

    kind: str
    action: str = ""
    workload: str = ""
    more: int = 0
    group: str = ""
    cluster: str = ""
    resource: str = ""


@dataclass(frozen=True)
class Step:
    """Interval in which a tenant's allocation was constant.

    `tasks` has the tasks by workload. `changed` has the tasks before and after, of workloads that
    differ from the last step. `causes` are the changes of the pool since the last step's decision.
    """

    start: datetime
    end: datetime
    tasks: Mapping[str, float]
    changed: Mapping[str, tuple[float, float]]
    causes: Sequence[Cause]


@dataclass(frozen=True)
class AllocationHistory:
    """Steps of a period, oldest first.

    `cut`: earlier steps of the period are left out.
    """

    steps: Sequence[Step]
    cut: bool


@dataclass(frozen=True)
class _Decision:
    start: datetime
    end: datetime
    read_at: datetime
    tasks: Mapping[str, float]
    budgets: Collection[Mapping[str, Any]]


def allocation_history(
    *, pool: Pool, tenant: Tenant, since: datetime, now: datetime
) -> AllocationHistory:
    """Return a tenant's allocation from `since` to `now`.

    It is read from the newest `MOST_DECISIONS` decisions and the newest `MOST_CHANGES` changes.
    """
    decisions, cut = _decisions(pool, tenant, since, now)
    changes = sorted(
        [
            *_changes(pool, tenant, decisions),
            *_dates_of_limits(pool, tenant, decisions),
            *_changes_of_budgets(pool, tenant, decisions),
        ],
        key=lambda change: change[0],
    )
    instants = [at for at, _ in changes]
    steps: list[Step] = []
    read_before: datetime | None = None
    for decision in decisions:
        old = steps[-1].tasks if steps else decision.tasks
        changed = _changed(old, decision.tasks)
        if steps and not changed:
            # Most decisions change nothing for one tenant: a step lasts until its own tasks change.
            steps[-1] = replace(steps[-1], end=decision.end, tasks=decision.tasks)
        else:
            between = slice(0, 0)
            if read_before is not None:
                edges = (read_before, decision.read_at)
                between = slice(*(bisect_right(instants, edge) for edge in edges))
            causes = sorted({cause for _, cause in changes[between]})
            steps.append(Step(decision.start, decision.end, decision.tasks, changed, causes))
        read_before = decision.read_at
    return AllocationHistory(steps, cut)


def _decisions(
    pool: Pool, tenant: Tenant, since: datetime, now: datetime
) -> tuple[list[_Decision], bool]:
    """Return the decisions in force in the period, oldest first, and whether earlier ones are cut."""
    runs = Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED, effective_from__lte=now)
    names = ("id", "effective_from", "effective_until", "started_at", "budgets")
    # One more than is kept shows whether earlier ones are cut.
    newest = runs.order_by("-effective_from").values_list(*names)[: MOST_DECISIONS + 1]
    found = [row for row in newest if row[2] is None or row[2] > since]
    cut, found = len(found) > MOST_DECISIONS, found[:MOST_DECISIONS][::-1]
    tasks: dict[UUID, dict[str, float]] = defaultdict(dict)
    rows = Allocation.objects.filter(run__in=[row[0] for row in found], tenant=tenant)
    for run, name, count in rows.values_list("run_id", "workload__name", "tasks"):
        # Divisible tasks differ in their last digits between solutions.
        tasks[run][name] = round(count, _DIGITS)
    return [
        _Decision(max(start, since), min(end or now, now), read_at or start, tasks[run], budgets)
        for run, start, end, read_at, budgets in found
        if start is not None
    ], cut


def _changed(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    names = [*new, *(name for name in old if name not in new)]
    pairs = {name: (old.get(name, 0.0), new.get(name, 0.0)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _changes(
    pool: Pool, tenant: Tenant, decisions: Sequence[_Decision]
) -> list[tuple[datetime, Cause]]:
    """Return the changes of the pool between the decisions, oldest first, as the tenant may see them."""
    if len(decisions) < 2:
        return []
    # A decision includes the changes until its input was read, not until it came into force.
    between = AuditEntry.objects.filter(
        pool=pool.slug, at__gt=decisions[0].read_at, at__lte=decisions[-1].read_at
    ).order_by("-id")
    fields = ("at", "action", "object_id", "object_name", "after")
    entries = list(between.only(*fields)[:MOST_CHANGES])
    own = _OwnWorkloads(tenant, pool, entries)
    return [(entry.at, cause) for entry in reversed(entries) for cause in _causes(entry, own)]


class _OwnWorkloads:
    """The tenant's workloads in the entries."""

    def __init__(self, tenant: Tenant, pool: Pool, entries: Iterable[AuditEntry]) -> None:
        submitted = {entry.at for entry in entries if entry.action == _SUBMITTED}
        named = {
            entry.object_id
            for entry in entries
            if entry.action.startswith("workload.") and entry.action != _SUBMITTED
        }
        mine = Workload.objects.filter(tenant=tenant, pool=pool).filter(
            Q(pk__in=named) | Q(created_at__in=submitted)
        )
        rows = mine.order_by("pk").values_list("pk", "name", "created_at")
        self._rows = [(str(id_), name, at) for id_, name, at in rows]
        self._ids = [id_ for id_, *_ in self._rows]

    def names(self, entry: AuditEntry) -> list[str]:
        """Return the names of those that an entry is about, in the order of its request."""
        if entry.action != _SUBMITTED:
            first = last = entry.object_id
        elif "first" in entry.after:
            first, last = entry.after["first"]["id"], entry.after["last"]["id"]
        else:
            return []
        between = self._rows[bisect_left(self._ids, first) : bisect_right(self._ids, last)]
        # Ids of another request can lie between if the clocks of two hosts differ.
        return [name for _, name, at in between if entry.action != _SUBMITTED or at == entry.at]


def _causes(entry: AuditEntry, own: _OwnWorkloads) -> list[Cause]:
    kind, _, action = entry.action.partition(".")
    if kind not in _AUDITED:
        return []
    if kind == "cluster":
        return [Cause(kind, action, cluster=entry.object_name)]
    names = own.names(entry) if kind == "workload" else []
    if not names:
        return [Cause(kind)]
    mine = Cause(kind, action, names[0], len(names) - 1)
    # One request can submit workloads of several members.
    return [mine] if len(names) == entry.after.get("workloads", 1) else [mine, Cause(kind)]


def _dates_of_limits(
    pool: Pool, tenant: Tenant, decisions: Sequence[_Decision]
) -> list[tuple[datetime, Cause]]:
    """Return the dates of limits between the decisions, as the tenant may see them."""
    if len(decisions) < 2:
        return []
    first, last = decisions[0].read_at, decisions[-1].read_at
    # Limits of other groups are causes as well, without a name.
    own_groups = set(groups_of(pool=pool, tenant=tenant).values_list("pk", flat=True))
    found: list[tuple[datetime, Cause]] = []

    def add(cause: Cause | None, stored: Any, start: Any, end: Any) -> None:
        for limit in limits_from(stored):
            for at, action in ((limit.start, BEGAN), (limit.end, ENDED)):
                if at is None or not first < at <= last:
                    continue
                # Terms that ended before a date took the limit along.
                if at >= start and (end is None or at < end):
                    shown = Cause("limit") if cause is None else replace(cause, action=action)
                    found.append((at, shown))

    between = Q(start__lt=last) & (Q(end=None) | Q(end__gt=first))
    groups = GroupTerms.objects.filter(between, HAS_LIMIT, group__pool=pool)
    for group, slug, *terms in groups.values_list("group", "group__slug", "limit", "start", "end"):
        add(Cause("limit", group=slug) if group in own_groups else None, *terms)
    members = MembershipTerms.objects.filter(between, HAS_LIMIT, membership__pool=pool)
    for member, *terms in members.values_list("membership__tenant", "limit", "start", "end"):
        add(Cause("limit") if member == tenant.pk else None, *terms)
    workloads = Workload.objects.filter(HAS_LIMIT, pool=pool, created_at__lt=last)
    for owner, name, *terms in workloads.values_list(
        "tenant", "name", "limit", "created_at", "withdrawn_at"
    ):
        add(Cause("limit", workload=name) if owner == tenant.pk else None, *terms)
    return found


def _changes_of_budgets(
    pool: Pool, tenant: Tenant, decisions: Sequence[_Decision]
) -> list[tuple[datetime, Cause]]:
    """Return the budgets that were exhausted or opened, each at the first decision with its effect.

    Decisions store the exhausted budgets of their input. A budget that is exhausted in two periods in
    succession has not opened.
    """
    if not any(decision.budgets for decision in decisions):
        return []
    own_groups = set(groups_of(pool=pool, tenant=tenant).values_list("slug", flat=True))

    def shown(key: _BudgetKey, action: str) -> Cause:
        scope, node, resource, _ = key
        if scope == "group" and node in own_groups:
            return Cause("budget", action, group=node, resource=resource)
        if scope == "tenant" and node == tenant.slug:
            return Cause("budget", action, resource=resource)
        return Cause("budget")

    found = []
    for before, after in pairwise(decisions):
        old, new = ({_budget_key(each) for each in side.budgets} for side in (before, after))
        found += [(after.read_at, shown(key, EXHAUSTED)) for key in new - old]
        found += [(after.read_at, shown(key, OPENED)) for key in old - new]
    return found


def _budget_key(stored: Mapping[str, Any]) -> _BudgetKey:
    return stored["scope"], stored["node"], stored["resource"], stored["then"]
