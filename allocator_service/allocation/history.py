"""Steps of a tenant's allocation over time, with the changes of the pool before each step."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
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
KINDS = ("workload", "server", "member", "group", "pool", "cluster", "limit")
_AUDITED = KINDS[:6]
BEGAN, ENDED = "begin", "end"


@dataclass(frozen=True, order=True)
class Cause:
    """Kind of a change of the pool before a step.

    `action` and `workload` are set for changes of the tenant's own workloads, and for limits of the
    tenant, its workloads and the groups above it that begin or end by their dates. `more` is the number
    of workloads that the same request submitted in addition to `workload`. `group` is the group of a
    limit.
    """

    kind: str
    action: str = ""
    workload: str = ""
    more: int = 0
    group: str = ""


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


def allocation_history(
    *, pool: Pool, tenant: Tenant, since: datetime, now: datetime
) -> AllocationHistory:
    """Return a tenant's allocation from `since` to `now`.

    It is read from the newest `MOST_DECISIONS` decisions and the newest `MOST_CHANGES` changes.
    """
    decisions, cut = _decisions(pool, tenant, since, now)
    changes = sorted(
        [*_changes(pool, tenant, decisions), *_dates_of_limits(pool, tenant, decisions)],
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
    names = ("id", "effective_from", "effective_until", "started_at")
    # One more than is kept shows whether earlier ones are cut.
    newest = runs.order_by("-effective_from").values_list(*names)[: MOST_DECISIONS + 1]
    found = [row for row in newest if row[2] is None or row[2] > since]
    cut, found = len(found) > MOST_DECISIONS, found[:MOST_DECISIONS][::-1]
    tasks: dict[UUID, dict[str, float]] = defaultdict(dict)
    rows = Allocation.objects.filter(run__in=[row[0] for row in found], tenant=tenant)
    for run, name, count in rows.values_list("run_id", "workload__name", "tasks"):
        # Divisible tasks differ in their last digits from solution to solution, which is no change.
        tasks[run][name] = round(count, _DIGITS)
    return [
        _Decision(max(start, since), min(end or now, now), read_at or start, tasks[run])
        for run, start, end, read_at in found
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
    entries = list(between.only("at", "action", "object_id", "after")[:MOST_CHANGES])
    own = _own_workloads(tenant, pool, entries)
    found = [(entry.at, _cause(entry, own)) for entry in reversed(entries)]
    return [(at, cause) for at, cause in found if cause is not None]


def _own_workloads(tenant: Tenant, pool: Pool, entries: Iterable[AuditEntry]) -> dict[str, str]:
    """Return the names of the tenant's workloads in the entries, by id."""
    named = {_workload_of(entry) for entry in entries if entry.action.startswith("workload.")}
    mine = Workload.objects.filter(tenant=tenant, pool=pool, pk__in=filter(None, named))
    return {str(id_): name for id_, name in mine.values_list("pk", "name")}


def _workload_of(entry: AuditEntry) -> str | None:
    if entry.action == _SUBMITTED:
        return str(entry.after.get("first", {}).get("id", "")) or None
    return entry.object_id


def _cause(entry: AuditEntry, own: Mapping[str, str]) -> Cause | None:
    kind, _, action = entry.action.partition(".")
    name = own.get(_workload_of(entry) or "") if kind == "workload" else None
    if name is not None:
        more = int(entry.after.get("workloads", 1)) - 1 if entry.action == _SUBMITTED else 0
        return Cause(kind, action, name, more)
    return Cause(kind) if kind in _AUDITED else None


def _dates_of_limits(
    pool: Pool, tenant: Tenant, decisions: Sequence[_Decision]
) -> list[tuple[datetime, Cause]]:
    """Return the dates of limits between the decisions, as the tenant may see them."""
    if len(decisions) < 2:
        return []
    first, last = decisions[0].read_at, decisions[-1].read_at
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
