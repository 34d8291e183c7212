"""Placements as the release before stores them, a row for each range and each placement.

The next release drops the tables, and this module with them.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from allocator_service.allocation.models import Allocation, Placement, Run, ServerClass
from allocator_service.allocation.placements import DecidedPlacements, ServerRange, Traits
from allocator_service.core.copying import copy_rows
from allocator_service.core.ids import new_ids


def placement_rows_store(run: Run, placements: DecidedPlacements) -> None:
    """Store the placements of a run so that processes of the release before read them."""
    ids = new_ids(len(placements.ranges))
    workload_ids = [] if run.snapshot is None else run.snapshot.workload_ids

    def ranges() -> Iterator[Sequence[Any]]:
        for position, (id_, each) in enumerate(zip(ids, placements.ranges, strict=True)):
            traits = each.traits
            yield (
                id_, run.pk, position, each.count, traits.capacity, Jsonb(traits.labels), each.first,
                each.last, each.first_server, each.last_server, traits.owner, traits.shared,
            )  # fmt: skip

    copy_rows(
        ServerClass,
        ["id", "run_id", "position", "count", "capacity", "labels", "first", "last",
         "first_server_id", "last_server_id", "owner_id", "shared"],
        ranges(),
    )  # fmt: skip
    copy_rows(
        Placement,
        ["run_id", "position", "workload_id", "server_class_id", "kind", "tasks"],
        (
            (run.pk, position, workload_ids[workload], ids[number], kind, tasks)
            for position, (workload, kind, number, tasks) in enumerate(placements)
        ),
    )


def placement_rows_read(run: Run) -> DecidedPlacements:
    """Return the placements of a run that are stored as rows."""
    classes = list(ServerClass.objects.filter(run=run).order_by("position"))
    if not classes:
        return DecidedPlacements([], [], [], [], [])
    traits: dict[Any, Traits] = {}
    ranges = []
    for each in classes:
        key = (*each.capacity,), (*each.labels.items(),), each.owner_id, each.shared
        if key not in traits:
            traits[key] = Traits(each.capacity, each.labels, each.owner_id, each.shared)
        ids = (_id(each.first_server_id), _id(each.last_server_id))
        ranges.append(ServerRange(each.count, traits[key], each.first, each.last, *ids))
    allocated = Allocation.objects.filter(run=run)
    position_of = dict(allocated.values_list("workload_id", "position"))
    rows = list(
        Placement.objects.filter(run=run)
        .order_by("position")
        .values_list("workload_id", "kind", "server_class__position", "tasks")
    )
    return DecidedPlacements(
        ranges,
        [position_of[row[0]] for row in rows],
        [row[1] for row in rows],
        [row[2] for row in rows],
        [row[3] for row in rows],
    )


def _id(server: UUID | None) -> str | None:
    return None if server is None else str(server)
