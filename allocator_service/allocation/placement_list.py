"""Placements of a run with the names of their workloads, for lists."""

from collections.abc import Sequence
from typing import NamedTuple, overload
from uuid import UUID

from allocator_service.allocation.models import Allocation, Run
from allocator_service.allocation.placements import ServerRange
from allocator_service.allocation.selectors import refuse_pruned
from allocator_service.allocation.stored_placements import stored_placements
from allocator_service.tenants.models import Tenant


class PlacementRow(NamedTuple):
    """Tasks of a workload, or pieces of one kind, on every server of a range."""

    tenant_id: int
    tenant: str
    workload_id: UUID
    workload: str
    kind: int
    tasks: float
    servers: ServerRange


class PlacementList(Sequence[PlacementRow]):
    """Placements of a run in their order, limited to those of a tenant unless it is None.

    A slice reads the names of its workloads only. Raises `Gone` once the run is pruned.
    """

    def __init__(self, run: Run, tenant: Tenant | None) -> None:
        refuse_pruned(run)
        placed = stored_placements(run)
        self._run, self._ranges, self._rows = run, placed.ranges, list(placed)
        if tenant is not None:
            own = Allocation.objects.filter(run=run, tenant=tenant)
            positions = set(own.values_list("position", flat=True))
            self._rows = [row for row in self._rows if row[0] in positions]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, part: int) -> PlacementRow: ...

    @overload
    def __getitem__(self, part: slice) -> list[PlacementRow]: ...

    def __getitem__(self, part: int | slice) -> PlacementRow | list[PlacementRow]:
        if isinstance(part, int):
            return self._named([self._rows[part]])[0]
        return self._named(self._rows[part])

    def _named(self, rows: Sequence[tuple[int, int, int, float]]) -> list[PlacementRow]:
        named = Allocation.objects.filter(
            run=self._run, position__in={workload for workload, *_ in rows}
        ).values_list("position", "tenant_id", "tenant__slug", "workload_id", "workload__name")
        names = {each[0]: each[1:] for each in named}
        return [
            PlacementRow(*names[workload], kind, tasks, self._ranges[number])
            for workload, kind, number, tasks in rows
        ]
