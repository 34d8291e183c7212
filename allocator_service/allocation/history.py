"""A tenant's allocation over time, and what was changed in the pool before each step."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from allocator_service.allocation.models import Allocation, Run, RunStatus
from allocator_service.core.models import AuditEntry
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload

MOST_DECISIONS = 2_000
MOST_CHANGES = 5_000
_DIGITS = 9
_SUBMITTED = "workload.submit"
# By the beginning of an action; a tenant reads no names of others.
_KINDS: Mapping[str, str] = {
    "workload.": "another member changed its workloads",
    "server.": "servers changed",
    "member.": "members or their weights changed",
    "group.": "groups changed",
    "pool.": "the pool's settings changed",
}
_OWN: Mapping[str, str] = {
    "workload.submit": "you submitted {}",
    "workload.update": "you changed {}",
    "workload.withdraw": "you withdrew {}",
}


@dataclass(frozen=True)
class Step:
    """An interval in which a tenant's allocation was constant.

    `tasks` are by workload. `causes` are the changes before it, in words.
    """

    start: datetime
    end: datetime
    tasks: Mapping[str, float]
    changed: Mapping[str, tuple[float, float]]
    causes: Sequence[str]


@dataclass(frozen=True)
class AllocationHistory:
    """Steps, oldest first.

    `cut` if earlier ones of the period are left out.
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
    """Return a tenant's allocation from `since` to now, by at most the newest 2,000 decisions."""
    decisions, cut = _decisions(pool, tenant, since, now)
    changes = _changes(pool, tenant, decisions)
    instants = [at for at, _ in changes]
    steps: list[Step] = []
    read_before: datetime | None = None
    for decision in decisions:
        old = steps[-1].tasks if steps else decision.tasks
        changed = _changed(old, decision.tasks)
        if steps and not changed:
            steps[-1] = replace(steps[-1], end=decision.end, tasks=decision.tasks)
        else:
            between = slice(0, 0)
            if read_before is not None:
                edges = (read_before, decision.read_at)
                between = slice(*(bisect_right(instants, edge) for edge in edges))
            causes = sorted({words for _, words in changes[between]})
            steps.append(Step(decision.start, decision.end, decision.tasks, changed, causes))
        read_before = decision.read_at
    return AllocationHistory(steps, cut)


def _decisions(
    pool: Pool, tenant: Tenant, since: datetime, now: datetime
) -> tuple[list[_Decision], bool]:
    """Return the decisions in force within the period, oldest first, and whether some are left out."""
    runs = Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED, effective_from__lte=now)
    names = ("id", "effective_from", "effective_until", "started_at")
    newest = runs.order_by("-effective_from").values_list(*names)[: MOST_DECISIONS + 1]
    found = [row for row in newest if row[2] is None or row[2] > since]
    cut, found = len(found) > MOST_DECISIONS, found[:MOST_DECISIONS][::-1]
    tasks: dict[UUID, dict[str, float]] = defaultdict(dict)
    rows = Allocation.objects.filter(run__in=[row[0] for row in found], tenant=tenant)
    for run, name, count in rows.values_list("run_id", "workload__name", "tasks"):
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
) -> list[tuple[datetime, str]]:
    """Return the changes of the pool between the decisions, oldest first, in words for the tenant."""
    if len(decisions) < 2:
        return []
    between = AuditEntry.objects.filter(
        pool=pool.slug, at__gt=decisions[0].read_at, at__lte=decisions[-1].read_at
    ).order_by("-id")
    entries = list(between.only("at", "action", "object_id", "object_name", "after")[:MOST_CHANGES])
    own = _own_workloads(tenant, pool, entries)
    found = [(entry.at, _words(entry, own)) for entry in entries]
    return [(at, words) for at, words in reversed(found) if words]


def _own_workloads(tenant: Tenant, pool: Pool, entries: Iterable[AuditEntry]) -> dict[str, str]:
    """Return the names of the tenant's workloads that the entries concern, by their ids."""
    named = {_workload_of(entry) for entry in entries if entry.action.startswith("workload.")}
    mine = Workload.objects.filter(tenant=tenant, pool=pool, pk__in=filter(None, named))
    return {str(id_): name for id_, name in mine.values_list("pk", "name")}


def _workload_of(entry: AuditEntry) -> str | None:
    if entry.action == _SUBMITTED:
        return str(entry.after.get("first", {}).get("id", "")) or None
    return entry.object_id


def _words(entry: AuditEntry, own: Mapping[str, str]) -> str:
    name = own.get(_workload_of(entry) or "")
    if name is not None and entry.action in _OWN:
        more = int(entry.after.get("workloads", 1)) - 1 if entry.action == _SUBMITTED else 0
        return _OWN[entry.action].format(f"{name} and {more:,} more" if more else name)
    return next((words for start, words in _KINDS.items() if entry.action.startswith(start)), "")
