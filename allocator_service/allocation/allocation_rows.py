"""Allocations of a run as plain rows, which PostgreSQL writes as one JSON text a page."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson
from django.db import connection

from allocator_service.allocation.models import Run

# Numbers are in the shortest form that reads back equal. Those without a fraction read as integers.
_ROWS = """
SELECT json_agg(json_build_array(
    tenant.id, tenant.slug, workload.id, workload.name, part.tasks, part.resources,
    part.dominant_resource, part.dominant_share, part.tenant_share, part.weighted_share, part.level,
    part.limited_by, part.floor, part.floor_met) ORDER BY part.position)::text
FROM (SELECT * FROM run_allocation WHERE run_id = %(run)s {of_tenants}
      ORDER BY position OFFSET %(offset)s LIMIT %(limit)s) AS part
JOIN tenant ON tenant.id = part.tenant_id
JOIN workload ON workload.id = part.workload_id
"""
_OF_ALL = _ROWS.format(of_tenants="")
_OF_TENANTS = _ROWS.format(of_tenants="AND tenant_id = ANY(%(tenants)s)")


class AllocationRow(NamedTuple):
    """An allocation with the names of its tenant and workload."""

    tenant_id: int
    tenant: str
    workload_id: str
    workload: str
    tasks: float
    resources: list[float]
    dominant_resource: str
    dominant_share: float
    tenant_share: float
    weighted_share: float | None
    level: float | None
    limited_by: str
    floor: float | None
    floor_met: float | None


class AllocationRows:
    """Allocations of a run, one per workload, in the order of its input.

    `tenants` are the primary keys of those to whom they are limited, None for all. A slice reads its
    rows only.
    """

    def __init__(self, run: Run, tenants: Sequence[int] | None = None) -> None:
        self._run, self._tenants = run, tenants

    def __iter__(self) -> Iterator[AllocationRow]:
        return iter(self._read(0, None))

    def __getitem__(self, part: slice) -> list[AllocationRow]:
        return self._read(part.start, part.stop - part.start)

    def _read(self, offset: int, limit: int | None) -> list[AllocationRow]:
        parameters: dict[str, Any] = {"run": self._run.pk, "offset": offset, "limit": limit}
        with connection.cursor() as cursor:
            if self._tenants is None:
                cursor.execute(_OF_ALL, parameters)
            else:
                cursor.execute(_OF_TENANTS, {**parameters, "tenants": list(self._tenants)})
            (text,) = cursor.fetchall()[0]
        return [] if text is None else [_row(each) for each in orjson.loads(text)]


def _row(values: list[Any]) -> AllocationRow:
    """Return the row of an array, with floats in the place of integers."""
    (
        tenant_id, tenant, workload_id, workload, tasks, resources, dominant, dominant_share,
        tenant_share, weighted_share, level, limited_by, floor, floor_met,
    ) = values  # fmt: skip
    return AllocationRow(
        tenant_id,
        tenant,
        workload_id,
        workload,
        float(tasks),
        list(map(float, resources)),
        dominant,
        float(dominant_share),
        float(tenant_share),
        None if weighted_share is None else float(weighted_share),
        None if level is None else float(level),
        limited_by,
        None if floor is None else float(floor),
        None if floor_met is None else float(floor_met),
    )
