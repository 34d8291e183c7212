"""Allocations as objects of the ORM, written one after another, as the peer of plain rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum
from typing import Any

from allocator_service.allocation.models import Allocation, Run
from allocator_service.allocation.selectors import allocations_of
from allocator_service.core.quantities import Resource
from allocator_service.tenants.models import Tenant
from api.pseudonyms import groups_known, pseudonym, reason_known, tenant_name
from policies import choose


class Writer:
    """Documents of allocations of one run for a caller, None for an operator."""

    def __init__(self, run: Run, resources: Sequence[Resource], caller: Tenant | None) -> None:
        self._run, self._caller = run, caller
        self._names = [resource.name for resource in resources]
        self._known = groups_known(pool=run.pool, caller=caller)
        self._whole = choose(**run.policy).whole_tasks
        self._limit = None if run.pool.transparent else caller

    def rows(self) -> list[dict[str, Any]]:
        """Return a document per workload."""
        return [self._allocation(row) for row in self._objects()]

    def sums(self) -> list[dict[str, Any]]:
        """Return a document per tenant."""
        grouped: dict[str, list[Allocation]] = {}
        for row in self._objects():
            grouped.setdefault(row.tenant.slug, []).append(row)
        return [
            {
                "tenant": self._tenant(slug),
                "workloads": len(rows),
                "tasks": self._tasks(fsum(row.tasks for row in rows)),
                "resources": self._quantities(
                    [fsum(column) for column in zip(*(row.resources for row in rows), strict=True)]
                ),
                "dominant_share": rows[0].tenant_share,
                "weighted_share": rows[0].weighted_share,
                "level": rows[0].level,
            }
            for slug, rows in grouped.items()
        ]

    def _objects(self) -> Iterable[Allocation]:
        return allocations_of(run=self._run, tenant=self._limit).order_by("position")

    def _allocation(self, row: Allocation) -> dict[str, Any]:
        own = self._caller is not None and self._caller.pk == row.tenant_id
        workload = {"id": row.workload_id, "name": row.workload.name}
        if self._caller is not None and not own:
            name = pseudonym("workload", str(row.workload_id), pool=self._run.pool)
            workload = {"id": None, "name": name}
        reason = reason_known(row.limited_by, pool=self._run.pool, known=self._known)
        document = {
            "tenant": self._tenant(row.tenant.slug),
            "workload": workload,
            "tasks": self._tasks(row.tasks),
            "resources": self._quantities(row.resources),
            "dominant_resource": row.dominant_resource,
            "dominant_share": row.dominant_share,
            "weighted_share": row.weighted_share,
            "limited_by": row.limited_by if own else reason,
        }
        if row.floor is not None:
            document |= {"floor": self._tasks(row.floor), "floor_met": row.floor_met}
        return document

    def _tasks(self, tasks: float) -> int | float:
        return int(tasks) if self._whole else tasks

    def _quantities(self, vector: Sequence[float]) -> dict[str, float]:
        return dict(zip(self._names, vector, strict=False))

    def _tenant(self, slug: str) -> str:
        return tenant_name(slug, pool=self._run.pool, caller=self._caller)
