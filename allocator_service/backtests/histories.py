"""A pool's own past as a scenario, with its tasks as demand and its servers as they joined and left."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from math import ceil
from typing import Any, Self
from zoneinfo import ZoneInfo

import numpy as np
from django.db import connection, transaction

from allocator_service.backtests.errors import MAX_TASKS, too_large
from allocator_service.core.durations import parse_duration
from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.ledger.amounts.open_uses import OPEN_ENTRIES
from allocator_service.ledger.archive.reading import ENTRIES, entries_with_archived
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.lookups import is_entry
from allocator_service.pools.models import Contribution, MembershipTerms, Pool, WindowKind
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.windows import half_life_of
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.gangs import Gang as StoredGang
from allocator_service.workloads.models import Workload
from policies import Gang
from policies.simulation.traces import Submitted
from policies.simulation.traces.submitted import Submitting

ROWS_AT_ONCE = 10_000
MAX_BOUNDARIES = 10_000
# Amounts are what a number of tasks demands if they are within this part of a task of it.
_OF_A_TASK = 1e-6

# A correction takes the source and event of its original, so that both are one job. The sources of
# metered use name clusters, whose tasks together are how many of a workload ran.
_USED = """
SELECT e.tenant_id, e.workload_id,
       CASE WHEN COALESCE(o.run_id, e.run_id) IS NULL THEN COALESCE(o.source, e.source) ELSE '' END,
       COALESCE(o.event_id, e.event_id),
       e.start, e."end", e.resource, sum(e.quantity)
FROM (SELECT * FROM ledger_entry WHERE pool_id = %(pool)s
      UNION ALL
      {open_entries}) AS e
LEFT JOIN ledger_entry o ON {corrected}
WHERE e.start < %(end)s AND e."end" > %(start)s
  AND COALESCE(o.kind, e.kind) = 'usage'
  AND (%(tenant)s::bigint IS NULL OR e.tenant_id = %(tenant)s)
GROUP BY 1, 2, 3, 4, 5, 6, 7
HAVING sum(e.quantity) > 0
ORDER BY 5, 1, 2, 3, 4, 6
""".replace("{open_entries}", OPEN_ENTRIES).replace(
    "{corrected}", is_entry("o", "e.corrects", "e.start")
)


@dataclass(frozen=True)
class Servers:
    """Rows of alike servers, with the seconds at which single ones of them join and leave."""

    capacity: list[list[float]] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    labels: list[Mapping[str, str]] = field(default_factory=list)
    contributed_by: list[str | None] = field(default_factory=list)
    changes: list[tuple[float, int, bool]] = field(default_factory=list)


def servers_between(
    *, pool: Pool, tenant: Tenant | None, start: datetime, end: datetime
) -> Servers:
    """Return the contributed servers as they were, or those of one tenant.

    A change of a server's owner or size counts as one server that left and another one that joined.
    """
    rows = Contribution.objects.filter(server__pool=pool, start__lt=end).exclude(end__lte=start)
    if tenant is not None:
        rows = rows.filter(tenant=tenant)
    width = pool.resource_types.count()
    alike: Counter[Any] = Counter()
    single = []
    for contribution in rows.select_related("server", "tenant").order_by("start", "pk"):
        # A contribution without a capacity has that of its server.
        capacity = contribution.capacity or contribution.server.capacity
        kind = (
            tuple(float(amount) for amount in _padded(capacity, width)),
            tuple(sorted(contribution.server.labels.items())),
            contribution.tenant.slug if contribution.tenant else None,
        )
        # Servers that were there throughout share a row: the cost of a simulation grows with the rows.
        if contribution.start <= start and (contribution.end is None or contribution.end >= end):
            alike[kind] += 1
        else:
            single.append((kind, contribution.start, contribution.end))
    found = Servers()
    for (capacity_, labels, owner), count in alike.items():
        _add_row(found, capacity_, labels, owner, count)
    for (capacity_, labels, owner), since, until in single:
        # Changes name single servers, which are numbered through the rows.
        number = sum(found.count)
        _add_row(found, capacity_, labels, owner, 1)
        if since > start:
            found.changes.append(((since - start).total_seconds(), number, True))
        if until is not None and until < end:
            found.changes.append(((until - start).total_seconds(), number, False))
    return found


def _add_row(
    found: Servers,
    capacity: Sequence[float],
    labels: Sequence[tuple[str, str]],
    owner: str | None,
    count: int,
) -> None:
    found.capacity.append(list(capacity))
    found.labels.append(dict(labels))
    found.contributed_by.append(owner)
    found.count.append(count)


def submitted_between(
    *, pool: Pool, tenant: Tenant | None, start: datetime, end: datetime
) -> Submitted:
    """Return the tasks that ran, as if submitted when they began. Second 0 is `start`.

    An event of reported usage is a job of its workload's tasks, or else one task of all that it used.
    Where decisions are metered, tasks are read from how many ran: those that began together are a job,
    and those that began last end first. Tasks are cut at the ends of the period.
    """
    resources = resources_of(pool)
    position = {resource.name: number for number, resource in enumerate(resources)}
    slugs = dict(Tenant.objects.filter(memberships__pool=pool).values_list("pk", "slug"))
    workloads = {
        each.pk: _Kind.of(each, resources)
        for each in Workload.objects.filter(pool=pool).only(
            "demand", "priority", "server_selector", "pieces", "per_server", "together", "at_least"
        )
    }
    found = Submitting([resource.name for resource in resources], MAX_TASKS)
    levels: dict[Any, _Level] = {}
    rows = _used(pool, tenant, start, end)
    for (who, workload, source, event, since, until), group in groupby(rows, lambda row: row[:6]):
        amounts = [0.0] * len(resources)
        for row in group:
            if row[6] in position:
                amounts[position[row[6]]] += float(row[7])
        if not any(amounts):
            continue
        kind = workloads.get(workload)
        span = (
            max((since - start).total_seconds(), 0.0),
            (min(until, end) - start).total_seconds(),
        )
        # Usage can be imported for tenants that were never members.
        name = slugs.get(who) or f"tenant-{who}"
        # Metered use has no events. What ran from interval to interval is a level.
        if event is None and kind is not None:
            level = levels.setdefault((who, workload), _Level(name, kind))
            level.go_on(found, *span, _tasks_at_once(amounts, kind.demand))
            continue
        tasks = None if kind is None else _whole_tasks(amounts, kind.demand)
        found.add(
            name,
            tuple(amounts) if tasks is None or kind is None else tuple(kind.demand),
            span[0],
            span[1] - span[0],
            job=(who, workload, source, event, since, until),
            tasks=tasks or 1,
            priority=kind.priority if kind else 0,
            selector=kind.selector if kind else None,
            # What is not a number of whole tasks has no pieces.
            gang=kind.gang if kind and tasks else None,
        )
    for level in levels.values():
        level.close(found)
    return found.done()


def _used(
    pool: Pool, tenant: Tenant | None, start: datetime, end: datetime
) -> Iterator[tuple[Any, ...]]:
    archived = Selection(pool=pool.pk, begin=start, end=end)
    with (
        transaction.atomic(),
        entries_with_archived(archived) as relation,
        connection.cursor() as cursor,
    ):
        cursor.execute(
            _USED.replace(ENTRIES, relation),
            {
                "pool": pool.pk,
                "start": start,
                "end": end,
                "tenant": None if tenant is None else tenant.pk,
            },
        )
        count = 0
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            count += len(rows)
            # Counted as rows arrive, because a period that is too long would fill the memory first.
            if count > MAX_TASKS * max(pool.resource_types.count(), 1):
                raise too_large(
                    f"The period holds more than {MAX_TASKS} tasks: name a shorter one."
                )
            yield from rows


class _Kind:
    """One task of a workload."""

    def __init__(
        self,
        demand: list[float],
        priority: int,
        selector: Mapping[str, Any],
        gang: Gang | None = None,
    ) -> None:
        self.demand, self.priority, self.gang = demand, priority, gang
        self.selector = {
            label: (values,) if isinstance(values, str) else tuple(values)
            for label, values in selector.items()
        }

    @classmethod
    def of(cls, workload: Workload, resources: Sequence[Resource]) -> Self:
        """Return a task of a workload as it is now."""
        stored, gang = StoredGang.of(workload), None
        if stored.pieces:
            # Of tasks that ran in the past only their pieces are known, not how many had to start.
            gang = Gang(
                np.array([piece.count for piece in stored.pieces], dtype=np.int64),
                np.array(stored.kinds(resources), dtype=np.float64),
                per_server=stored.per_server or 0,
                together=stored.together,
            )
        demand = [float(each) for each in _padded(workload.demand, len(resources))]
        return cls(demand, workload.priority, workload.server_selector, gang)


class _Level:
    """The number of a workload's tasks from interval to interval, divided into tasks."""

    def __init__(self, tenant: str, kind: _Kind) -> None:
        self._tenant, self._kind = tenant, kind
        self._running: list[tuple[float, int]] = []
        self._until = 0.0

    def go_on(self, found: Submitting, since: float, until: float, tasks: int) -> None:
        """Continue with a number of running tasks in the next interval."""
        # A gap in the entries: everything ended before it.
        if since > self._until:
            self._end(found, sum(count for _, count in self._running))
        running = sum(count for _, count in self._running)
        if tasks < running:
            self._end(found, running - tasks)
        elif tasks > running:
            self._running.append((since, tasks - running))
        self._until = until

    def close(self, found: Submitting) -> None:
        self._end(found, sum(count for _, count in self._running))

    def _end(self, found: Submitting, tasks: int) -> None:
        while tasks:
            begun, count = self._running.pop()
            ended = min(tasks, count)
            if ended < count:
                self._running.append((begun, count - ended))
            tasks -= ended
            if self._until > begun:
                found.add(
                    self._tenant,
                    tuple(self._kind.demand),
                    begun,
                    self._until - begun,
                    # Tasks that began and ended together are one job.
                    job=(id(self), begun, self._until),
                    tasks=ended,
                    priority=self._kind.priority,
                    selector=self._kind.selector,
                    gang=self._kind.gang,
                )


def _tasks_at_once(amounts: Sequence[float], demand: Sequence[float]) -> int:
    """Return the number of tasks that have these amounts, with parts of a task counted as whole."""
    most = max(used / each for used, each in zip(amounts, demand, strict=True) if each > 0)
    return max(ceil(most - _OF_A_TASK), 1)


def _whole_tasks(amounts: Sequence[float], demand: Sequence[float]) -> int | None:
    """Return the number of tasks that demand exactly these amounts, None if there is none."""
    tasks = _tasks_at_once(amounts, demand)
    same = all(
        abs(used - tasks * each) <= _OF_A_TASK * max(each, 1e-9)
        for used, each in zip(amounts, demand, strict=True)
    )
    return tasks if same else None


def members_between(*, pool: Pool, start: datetime, end: datetime) -> dict[str, tuple[float, bool]]:
    """Return the last weight of each member, by slug, and whether it was best-effort."""
    terms = (
        MembershipTerms.objects.filter(membership__pool=pool, start__lt=end)
        .exclude(end__lte=start)
        .order_by("start")
        .values_list("membership__tenant__slug", "weight", "best_effort")
    )
    return {slug: (float(weight), best_effort) for slug, weight, best_effort in terms}


def window_between(pool: Pool, start: datetime, end: datetime) -> dict[str, Any]:
    """Return the pool's window as in a simulation, in seconds from `start`."""
    if pool.window_kind == WindowKind.SLIDING:
        length = parse_duration(pool.window_length).nominal_seconds
        return {"kind": "sliding", "length": float(length)}
    if pool.window_kind == WindowKind.DECAY:
        return {"kind": "decay", "half_life": half_life_of(pool)}
    if pool.window_kind == WindowKind.TUMBLING:
        length_, zone = parse_duration(pool.window_length), ZoneInfo(pool.timezone)
        boundaries: list[float] = []
        _, boundary = length_.around(start, pool.window_anchor, zone)
        while boundary < end:
            boundaries.append((boundary - start).total_seconds())
            if len(boundaries) > MAX_BOUNDARIES:
                raise Unacceptable(
                    f"The pool's window begins anew more than {MAX_BOUNDARIES} times in the period.",
                    code="backtest.window",
                    pointer="/history",
                )
            _, boundary = length_.around(boundary, pool.window_anchor, zone)
        return {"kind": "tumbling", "boundaries": boundaries}
    return {"kind": "unbounded"}


def _padded(vector: Sequence[Decimal], width: int) -> list[Decimal]:
    """Return the vector with zeros for resources that were added to the pool after it was written."""
    return [*vector, *([Decimal(0)] * (width - len(vector)))]
