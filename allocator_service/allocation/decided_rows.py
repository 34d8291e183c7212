"""Stored rows of a decision, as one reading takes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allocator_service.allocation.decided_gangs import server_names
from allocator_service.allocation.documents import stored_document
from allocator_service.allocation.models import Allocation, Floors, Run, Schedule
from allocator_service.allocation.selectors import input_of
from allocator_service.allocation.stored_placements import stored_placements


@dataclass(frozen=True)
class StoredRows:
    """The stored rows of a decision.

    `document` is its input, whose workloads and classes are referred to by position. `tasks` are per
    workload, with its tenant's weighted share. `classes` count their servers, with the labels that all
    of them carry. `placements` are of a workload and a kind of its pieces on a class, in tasks or pieces
    per server. `plan`, `intervals` and `period_seconds` are those of a schedule. `floors` are the
    answers that prove how guarantees are met, if reserved parts are read. `names` are those of the
    servers of the classes that have pieces of gangs, if these are read.
    """

    document: Mapping[str, Any]
    tasks: Sequence[tuple[float, float | None]]
    classes: Sequence[tuple[int, Mapping[str, str]]]
    placements: Sequence[tuple[int, int, int, float]]
    plan: Mapping[str, Any] | None = None
    intervals: Sequence[Sequence[int]] = ()
    period_seconds: int = 0
    floors: Mapping[str, Any] | None = None
    names: Mapping[int, Sequence[str]] | None = None


def stored_rows(run: Run, *, reserves: bool, gangs: bool) -> StoredRows:
    """Read the rows of a run by a statement for each table."""
    allocations = list(
        Allocation.objects.filter(run=run)
        .order_by("position")
        .values_list("tasks", "weighted_share")
    )
    placed = stored_placements(run)
    schedule = Schedule.objects.filter(run=run).first()
    floors = Floors.objects.filter(run=run).first() if reserves else None
    document = input_of(run)
    return StoredRows(
        document=document,
        tasks=allocations,
        classes=[(each.count, each.traits.labels) for each in placed.ranges],
        placements=list(placed),
        plan=None if schedule is None else schedule.plan,
        intervals=() if schedule is None else schedule.intervals,
        period_seconds=0 if schedule is None else schedule.period_seconds,
        floors=None if floors is None else stored_document(floors.document),
        names=server_names(run.pool, document["workloads"], placed) if gangs else None,
    )
