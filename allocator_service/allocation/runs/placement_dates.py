"""Tasks that keep their servers because they were placed there less than their minimum ago.

Their dates follow from decisions, one after the other, and are stored as long as a task is younger than
the minimum of its workload, or of its pool.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID

import numpy as np
import orjson

from allocator_service.allocation.models import PlacementDates, Run
from allocator_service.allocation.placements import ServerRange
from allocator_service.allocation.present_servers import PresentServers
from allocator_service.core.display import counted, instant_text
from allocator_service.core.durations import duration_seconds
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import ServerGroup
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.gangs import Gang
from allocator_service.workloads.models import Workload
from policies import (
    UNSERVED,
    Allocation,
    CurrentPlacements,
    DatedPlacements,
    Problem,
    choose,
    date_placements,
)


@dataclass(frozen=True)
class DatedRange:
    """Tasks on servers of one group, by the positions of workload and group."""

    workload: int
    kind: int
    group: int
    offset: int
    servers: int
    tasks: int
    since: float


@dataclass(frozen=True)
class KeptTasks:
    """Tasks of a workload that keep their servers until an instant."""

    workload: Workload
    tasks: int
    until: datetime


def keeps_tasks(document: Mapping[str, Any]) -> bool:
    """Return True if the policy of an evaluation document keeps tasks on their servers."""
    policy = document["policy"]
    return choose(policy["name"], policy["mode"], policy["options"]).keeps_tasks


def dated_ranges(
    run: Run,
    ranges: Sequence[ServerRange],
    groups: Sequence[ServerGroup],
    workload_ids: Sequence[UUID],
    workloads: Sequence[Mapping[str, Any]],
) -> list[DatedRange]:
    """Return the dates of a run's tasks, on the servers that the pool has now.

    `run` is the decision in force, with its `ranges`. Without any stored for it, its tasks have no
    dates. `workloads` are those of the evaluation document. A workload with another demand or other
    pieces has new tasks: the old ones have no dates, or it could seize servers by a larger demand.
    """
    stored = PlacementDates.objects.filter(run=run).first()
    rows = [] if stored is None else stored.rows
    if not rows:
        return []
    positions = {str(id_): position for position, id_ in enumerate(workload_ids)}
    present, found = PresentServers(groups, ranges), []
    shapes: dict[str, str] = {}
    for id_, kind, position, first, last, _, tasks, since, *shape in rows:
        if id_ not in positions:
            continue
        workload = positions[id_]
        if id_ not in shapes:
            shapes[id_] = task_shape(workloads[workload])
        group, offset, here = present.find(ranges[position].traits, first, last)
        # Dates that an older release stored have no shape.
        if here and shape in ([], [shapes[id_]]):
            found.append(DatedRange(workload, kind, group, offset, here, tasks, since))
    return found


def kept_rows(
    dated: Sequence[DatedRange],
    document: Mapping[str, Any],
    minimum: Sequence[int],
    now: datetime,
) -> list[dict[str, Any]]:
    """Return the `kept` part of an evaluation document.

    `minimum` has the seconds of each workload.
    """
    instant, rows = now.timestamp(), []
    for each in dated:
        # The minimum has passed: the task may lose its servers.
        if each.since + minimum[each.workload] <= instant:
            continue
        workload = document["workloads"][each.workload]
        row = {
            "tenant": workload["tenant"],
            "workload": workload["name"],
            "server": document["servers"][each.group]["name"],
            "offset": each.offset,
            "servers": each.servers,
            "tasks": each.tasks,
        }
        rows.append({**row, "kind": each.kind} if each.kind else row)
    return rows


def placement_dates_store(
    *,
    run: Run,
    allocation: Allocation,
    running: CurrentPlacements | None,
    dated: Sequence[DatedRange],
    groups: Sequence[ServerGroup],
    workload_ids: Sequence[UUID],
    workloads: Sequence[Mapping[str, Any]],
    minimum: Sequence[int],
) -> datetime | None:
    """Store the dates of a decision that comes into force, in place of those before it.

    `workloads` are those of the evaluation document.

    Returns the first instant from which a task may lose its server, None without any such task or if
    no workload waits.
    """
    # Only those of the decision in force are read: one row per pool, however many decisions follow.
    PlacementDates.objects.filter(pool=run.pool).delete()
    if not any(minimum) or run.effective_from is None or not allocation.choice.keeps_tasks:
        return None
    now = run.effective_from.timestamp()
    # Older tasks may lose their servers at once, so that their dates are not needed.
    young = [each for each in dated if each.since + minimum[each.workload] > now]
    known = _placements(allocation.problem, young)
    dates = date_placements(allocation, running, known, now)
    rows, ends = list[list[Any]](), list[float]()
    shapes: dict[int, str] = {}
    for kind, row, offset, servers, tasks, since in _columns(dates):
        workload = int(allocation.problem.pieces.workload[kind])
        end = since + minimum[workload]
        if end <= now:
            continue
        ends.append(end)
        if workload not in shapes:
            shapes[workload] = task_shape(workloads[workload])
        for position, first, last in _classes(allocation, row, offset, servers):
            ids = groups[row].ids
            rows.append(
                [str(workload_ids[workload]), int(kind != workload), position, str(ids[first]),
                 str(ids[last]), last - first + 1, int(tasks), since, shapes[workload]]
            )  # fmt: skip
    if not rows:
        return None
    content = zlib.compress(orjson.dumps(rows), 1)
    PlacementDates.objects.create(pool=run.pool, run=run, document=content)
    # A decision at that instant helps only a workload that freed servers could serve.
    waits = any(stop not in {"task_limit", *UNSERVED} for stop in allocation.limited_by)
    return datetime.fromtimestamp(min(ends), UTC) if waits else None


def task_shape(workload: Mapping[str, Any]) -> str:
    """Return a digest of what one task of a workload uses."""
    pieces = workload.get("pieces") or []
    # Tasks of one piece, of which several start at once, have their demand as a piece.
    is_single = sum(each["count"] for each in pieces) <= 1
    used = [workload["demand"], [] if is_single else pieces]
    return blake2b(orjson.dumps(used, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


def _columns(dates: DatedPlacements) -> Iterator[tuple[int, int, int, int, float, float]]:
    placements = dates.placements
    yield from zip(
        placements.workload.tolist(),
        placements.row.tolist(),
        placements.offset.tolist(),
        placements.servers.tolist(),
        placements.tasks.tolist(),
        dates.since.tolist(),
        strict=True,
    )


def _classes(
    allocation: Allocation, row: int, offset: int, servers: int
) -> Iterator[tuple[int, int, int]]:
    """Position, first and last server of each part of a range within one server class."""
    classes = allocation.classes
    assert classes.offset is not None  # noqa: S101 - whole tasks are placed on ranges
    position = int(classes.class_of_row[row])
    stop = offset + servers
    while offset < stop:
        end = int(classes.offset[position] + classes.servers[position])
        if offset < end:
            yield position, offset, min(end, stop) - 1
            offset = min(end, stop)
        position += 1


def _placements(problem: Problem, dated: Sequence[DatedRange]) -> DatedPlacements:
    table = [
        (problem.pieces.kinds(each.workload)[each.kind], each.group, each.offset, each.servers,
         each.tasks)
        for each in dated
        if each.kind < len(problem.pieces.kinds(each.workload))
    ]  # fmt: skip
    since = [each.since for each in dated if each.kind < len(problem.pieces.kinds(each.workload))]
    kind, row, offset, servers, tasks = np.array(table, dtype=np.int64).reshape(-1, 5).T
    return DatedPlacements(
        placements=CurrentPlacements(
            workload=kind, row=row, offset=offset, servers=servers, tasks=tasks.astype(np.float64)
        ),
        since=np.array(since, dtype=np.float64),
    )


def minimum_seconds(pool: Pool, stated: Sequence[str]) -> list[int]:
    """Return the minimum of each workload in seconds, that of the pool for those without one."""
    of_pool = duration_seconds(pool.minimum_run)
    return [duration_seconds(each) if each else of_pool for each in stated]


def tasks_kept(run: Run, *, now: datetime, tenant: Tenant | None = None) -> list[KeptTasks]:
    """Return the tasks of a decision in force that keep their servers, by workload and instant.

    `tenant` is None for those of all tenants.
    """
    stored = PlacementDates.objects.filter(run=run).first()
    rows = [] if stored is None else [row for row in stored.rows if row[1] == 0]
    if not rows:
        return []
    present = Workload.objects.all() if tenant is None else Workload.objects.filter(tenant=tenant)
    workloads = present.in_bulk({UUID(row[0]) for row in rows})
    minimum = dict(
        zip(
            workloads,
            minimum_seconds(run.pool, [each.minimum_run for each in workloads.values()]),
            strict=True,
        )
    )
    found: dict[tuple[UUID, float], int] = {}
    for id_, _, _, _, _, servers, tasks, since, *_ in rows:
        workload = workloads.get(UUID(id_))
        if workload is None:
            continue
        place = workload.pk, since + minimum[workload.pk]
        if place[1] > now.timestamp():
            found[place] = found.get(place, 0) + servers * tasks
    # The pieces of a task may have several dates. It keeps its servers as long as all of them do.
    kept, pieces, whole = list[KeptTasks](), dict[UUID, int](), dict[UUID, int]()
    for (id_, until), number in sorted(found.items(), key=lambda each: -each[0][1]):
        pieces[id_] = pieces.get(id_, 0) + number
        tasks = pieces[id_] // _pieces_of_a_task(workloads[id_]) - whole.get(id_, 0)
        whole[id_] = whole.get(id_, 0) + tasks
        if tasks:
            kept.append(KeptTasks(workloads[id_], tasks, datetime.fromtimestamp(until, UTC)))
    return kept[::-1]


def _pieces_of_a_task(workload: Workload) -> int:
    """Return the number of pieces of the first kind."""
    kinds = Gang.of(workload).pieces
    return kinds[0].count if kinds else 1


def kept_sentences(
    kept: Sequence[KeptTasks], tenant: Tenant, timezone: str, *, waits: bool
) -> list[str]:
    """Return until when tasks of a tenant keep their servers, and those of others if it waits."""
    by_workload: dict[str, list[KeptTasks]] = {}
    for each in kept:
        if each.workload.tenant_id == tenant.pk:
            by_workload.setdefault(each.workload.name, []).append(each)
    found = []
    for name, mine in by_workload.items():
        number = sum(each.tasks for each in mine)
        keeps = "keeps its server" if number == 1 else "keep their servers"
        until = _ends([each.until for each in mine], timezone)
        found.append(f"{counted(number, 'task')} of {name} {keeps} until {until}.")
    others = [each.until for each in kept if each.workload.tenant_id != tenant.pk]
    if waits and others:
        found.append(f"Tasks of others keep their servers until {_ends(others, timezone)}.")
    return found


def _ends(instants: Sequence[datetime], timezone: str) -> str:
    first, last = instant_text(min(instants), timezone), instant_text(max(instants), timezone)
    return first if first == last else f"{first}, the last until {last}"
