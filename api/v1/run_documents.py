"""Documents of runs and of the rows that they decided."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import fsum
from typing import Any, NamedTuple

from allocator_service.allocation.allocation_rows import AllocationRow
from allocator_service.allocation.models import Run, RunStatus
from allocator_service.allocation.placement_list import PlacementRow
from allocator_service.allocation.placements import ServerRange
from allocator_service.allocation.policies import whole_numbers_of
from allocator_service.allocation.selectors import PlacedDemand
from allocator_service.core.quantities import Resource, vector_to_document
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import MAX_TASKS
from api.contract import documents
from api.contract.parameters import PageParameters
from api.pseudonyms import pseudonym, reason_known, server_name, tenant_name
from api.v1.limits import UnmetGuarantee
from api.v1.pools import PolicyDocument

MAX_ROWS = 10**9


class RunRequest(documents.Document):
    reason = documents.TextField(max_length=500, blank=True, default="")


class ErrorDocument(documents.Document):
    code = documents.TextField(max_length=100)
    detail = documents.TextField(max_length=10_000)


class SummaryDocument(documents.Document):
    tenants = documents.IntegerField(minimum=0, maximum=MAX_ROWS)
    workloads = documents.IntegerField(minimum=0, maximum=MAX_ROWS)
    servers = documents.IntegerField(minimum=0, maximum=MAX_ROWS)
    server_classes = documents.IntegerField(minimum=0, maximum=MAX_ROWS)
    min_weighted_share = documents.NumberField(allow_null=True)
    mean_weighted_share = documents.NumberField(allow_null=True)
    jain_index = documents.NumberField(allow_null=True)
    utilization = documents.PoolQuantitiesField()
    objective = documents.NumberField(allow_null=True)
    bound = documents.NumberField(allow_null=True)
    gap = documents.NumberField(allow_null=True)
    moved_tasks = documents.IntegerField(
        minimum=0,
        maximum=MAX_ROWS,
        required=False,
        allow_null=True,
        description="Whole tasks that run on another server than in the decision before; null where"
        " that is not known.",
    )
    stopped = documents.ChoiceField(
        choices=["work", "time"],
        required=False,
        description="Limit at which the search for a better schedule ended; absent if it ended by"
        " itself. An answer that the time limit ended depends on the machine's load.",
    )
    guarantees_unmet = documents.ListField(
        UnmetGuarantee,
        min_items=0,
        required=False,
        description="Guarantees that this decision does not meet in full. Causes are missing servers,"
        " other guarantees or kept tasks. Absent if all are met.",
    )


def _of_whole(name: str) -> Callable[[Run, Any], Any]:
    """Return the source of what concerns the whole pool, null for a reader of less."""
    # Null, not absent: clients read one form of a run, whatever their key.
    return lambda run, reader: getattr(run, name) if reader.whole else None


class RunReader(NamedTuple):
    """A reader's rights to the parts of a run that concern the whole pool, and to names in them."""

    whole: bool
    names: bool


def _visible_summary(run: Run, reader: RunReader) -> Any:
    if not reader.whole or run.summary is None or reader.names:
        return run.summary if reader.whole else None
    # It names the nodes whose guarantees are unmet, which this reader may not know.
    return {name: part for name, part in run.summary.items() if name != "guarantees_unmet"}


def _visible_error(run: Run, reader: RunReader) -> Any:
    if run.error is None or reader.names:
        return run.error
    # The detail may name what others brought.
    return {"code": run.error["code"], "detail": "The previous decision stays in force."}


class RunDocument(documents.Document):
    """A run, written for its reader."""

    id = documents.IdField()
    pool = documents.SlugField(source="pool.slug")
    status = documents.ChoiceField(choices=RunStatus.values)
    reason = documents.TextField(
        max_length=500, source=_of_whole("reason"), blank=True, allow_null=True
    )
    policy = documents.DocumentField(
        PolicyDocument, source=lambda run, _: run.policy or None, allow_null=True
    )
    generation = documents.GenerationField(allow_null=True)
    input_digest = documents.PatternField(
        pattern="^[0-9a-f]{64}$",
        code="digest.syntax",
        source=_of_whole("snapshot_id"),
        allow_null=True,
    )
    created_at = documents.TimestampField()
    started_at = documents.TimestampField(allow_null=True)
    finished_at = documents.TimestampField(allow_null=True)
    effective_from = documents.TimestampField(allow_null=True)
    effective_until = documents.TimestampField(allow_null=True)
    solve_seconds = documents.NumberField(source=_of_whole("solve_seconds"), allow_null=True)
    error = documents.DocumentField(ErrorDocument, source=_visible_error, allow_null=True)
    summary = documents.DocumentField(SummaryDocument, source=_visible_summary, allow_null=True)


class WorkloadReference(documents.Document):
    id = documents.IdField(allow_null=True)
    name = documents.TextField(max_length=253)


class AllocationDocument(documents.Document):
    tenant = documents.TextField(max_length=253)
    workload = documents.DocumentField(WorkloadReference)
    tasks = documents.NumberField()
    resources = documents.PoolQuantitiesField()
    dominant_resource = documents.TextField(max_length=63, blank=True)
    dominant_share = documents.NumberField(description="The workload's.")
    weighted_share = documents.NumberField(allow_null=True, description="The tenant's.")
    limited_by = documents.LimitedByField()
    floor = documents.NumberField(
        required=False, description="Guaranteed tasks; absent without a guarantee."
    )
    floor_met = documents.NumberField(
        required=False, description="Fraction of the guaranteed tasks that runs, from 0 to 1."
    )


class TenantAllocationDocument(documents.Document):
    tenant = documents.TextField(max_length=253)
    workloads = documents.IntegerField(minimum=1, maximum=MAX_ROWS)
    tasks = documents.NumberField()
    resources = documents.PoolQuantitiesField()
    dominant_share = documents.NumberField(description="The tenant's.")
    weighted_share = documents.NumberField(allow_null=True)
    level = documents.NumberField(
        allow_null=True, description="At which the tenant's share was frozen."
    )


class ServersDocument(documents.Document):
    count = documents.IntegerField(minimum=2, maximum=MAX_ROWS)
    capacity = documents.PoolQuantitiesField()
    labels = documents.LabelsField()
    first = documents.TextField(max_length=263)
    last = documents.TextField(max_length=263)


class PlacementDocument(documents.Document):
    tenant = documents.TextField(max_length=253)
    workload = documents.DocumentField(WorkloadReference)
    tasks = documents.NumberField(
        required=False, description="On each of the servers, of a workload without pieces."
    )
    pieces = documents.IntegerField(
        minimum=1,
        maximum=MAX_TASKS,
        required=False,
        description="On each of the servers, of a workload with pieces in a decision with whole tasks.",
    )
    kind = documents.IntegerField(
        minimum=0, maximum=1, required=False, description="Kind of these pieces, 0 for the first."
    )
    resources = documents.PoolQuantitiesField(description="On each of the servers.")
    server = documents.TextField(max_length=263, required=False)
    servers = documents.DocumentField(
        ServersDocument,
        required=False,
        description="Servers of the same capacity and labels: `count`, in the order of the input.",
    )


class CheckDocument(documents.Document):
    name = documents.TextField(max_length=100)
    holds = documents.BooleanField()
    detail = documents.TextField(max_length=10_000, blank=True)


class VerificationDocument(documents.Document):
    valid = documents.BooleanField()
    checks = documents.ListField(CheckDocument, min_items=0, max_items=1000)


class DigestsDocument(documents.Document):
    """SHA-256 of each part as JSON with sorted keys, no spaces and UTF-8."""

    input = documents.PatternField(pattern="^[0-9a-f]{64}$", code="digest.syntax")
    answer = documents.PatternField(pattern="^[0-9a-f]{64}$", code="digest.syntax")


class ProofDocument(documents.Document):
    """The file of `python -m policies verify FILE`."""

    run = documents.IdField()
    pool = documents.SlugField()
    input = documents.ObjectField(description="As `GET /runs/{run}/input/`.")
    answer = documents.ObjectField(
        description="As an evaluation's answer, with the policy; `certificate.servers` names the"
        " servers of each row of prices."
    )
    digests = documents.DocumentField(DigestsDocument)


class AllocationParameters(PageParameters):
    by = documents.ChoiceField(
        choices=["workload", "tenant"], default="workload", description="tenant: sums per tenant."
    )


class RowWriter:
    """Writes the rows of one run for one caller.

    `known` are the groups that the caller knows, None for all.
    """

    def __init__(
        self,
        run: Run,
        resources: Sequence[Resource],
        caller: Tenant | None,
        known: Collection[str] | None,
    ) -> None:
        self._run, self._resources, self._caller = run, resources, caller
        self._names = [resource.name for resource in resources]
        self._known = known
        self._whole = whole_numbers_of(run.policy)

    def allocation(self, row: AllocationRow) -> dict[str, Any]:
        return {
            "tenant": self._tenant(row.tenant),
            "workload": self._workload(row.tenant_id, row.workload_id, row.workload),
            "tasks": self._tasks(row.tasks),
            "resources": self._quantities(row.resources),
            "dominant_resource": row.dominant_resource,
            "dominant_share": row.dominant_share,
            "weighted_share": row.weighted_share,
            "limited_by": self._reason(row),
            **({} if row.floor is None else self._floor(row)),
        }

    def _floor(self, row: AllocationRow) -> dict[str, Any]:
        return {"floor": self._tasks(row.floor or 0.0), "floor_met": row.floor_met}

    def sums(self, rows: Iterable[AllocationRow]) -> list[dict[str, Any]]:
        """Return a row per tenant, in the order of the input of the run."""
        grouped: dict[str, list[AllocationRow]] = {}
        for row in rows:
            grouped.setdefault(row.tenant, []).append(row)
        return [
            {
                "tenant": self._tenant(slug),
                "workloads": len(group),
                # `fsum` is exact before it rounds: the sum does not depend on the order of the rows.
                "tasks": self._tasks(fsum(row.tasks for row in group)),
                "resources": self._quantities(
                    [fsum(column) for column in zip(*(row.resources for row in group), strict=True)]
                ),
                "dominant_share": group[0].tenant_share,
                "weighted_share": group[0].weighted_share,
                "level": group[0].level,
            }
            for slug, group in grouped.items()
        ]

    def placement(self, row: PlacementRow, demand: PlacedDemand) -> dict[str, Any]:
        tasks = int(row.tasks) if self._whole.in_placements else row.tasks
        document = {
            "tenant": self._tenant(row.tenant),
            "workload": self._workload(row.tenant_id, row.workload_id, row.workload),
            **({"pieces": tasks, "kind": row.kind} if demand.has_pieces else {"tasks": tasks}),
            "resources": self._quantities([row.tasks * each for each in demand.kinds[row.kind]]),
        }
        servers = row.servers
        if servers.count == 1:
            return {**document, "server": self._server(servers, servers.first)}
        return {
            **document,
            "servers": {
                "count": servers.count,
                "capacity": vector_to_document(servers.traits.capacity, self._resources),
                "labels": servers.traits.labels if self._knows(servers) else {},
                "first": self._server(servers, servers.first),
                "last": self._server(servers, servers.last),
            },
        }

    def _reason(self, row: AllocationRow) -> str:
        """Return the reason. The groups that stop a tenant itself are its own."""
        if self._known is None or (self._caller is not None and self._caller.pk == row.tenant_id):
            return row.limited_by
        return reason_known(row.limited_by, pool=self._run.pool, known=self._known)

    def _tasks(self, tasks: float) -> int | float:
        return int(tasks) if self._whole.in_allocations else tasks

    def _quantities(self, vector: Sequence[float]) -> dict[str, float]:
        return dict(zip(self._names, vector, strict=False))

    def _tenant(self, slug: str) -> str:
        return tenant_name(slug, pool=self._run.pool, caller=self._caller)

    def _workload(self, tenant_id: int, workload_id: Any, name: str) -> Mapping[str, Any]:
        if self._caller is None or self._caller.pk == tenant_id:
            return {"id": workload_id, "name": name}
        # By the id, because names such as "training" repeat and could be guessed from their pseudonyms.
        return {"id": None, "name": pseudonym("workload", str(workload_id), pool=self._run.pool)}

    def _knows(self, servers: ServerRange) -> bool:
        """Return whether the caller may read the names of servers, which are its own or the pool's."""
        if self._caller is None:
            return True
        traits = servers.traits
        # A range that several owners share may name a server of another.
        return not traits.shared and traits.owner in (None, self._caller.pk)

    def _server(self, servers: ServerRange, name: str) -> str:
        if self._knows(servers):
            return name
        return server_name(name, owner=servers.traits.owner, pool=self._run.pool)


def allocation_columns(resources: Sequence[Resource]) -> list[str]:
    names = [resource.name for resource in resources]
    return [
        "tenant", "workload.id", "workload.name", "tasks", *(f"resources.{r}" for r in names),
        "dominant_resource", "dominant_share", "weighted_share", "limited_by",
    ]  # fmt: skip


def tenant_allocation_columns(resources: Sequence[Resource]) -> list[str]:
    names = [resource.name for resource in resources]
    return [
        "tenant", "workloads", "tasks", *(f"resources.{r}" for r in names),
        "dominant_share", "weighted_share", "level",
    ]  # fmt: skip


def placement_columns(resources: Sequence[Resource]) -> list[str]:
    names = [resource.name for resource in resources]
    return [
        "tenant", "workload.id", "workload.name", "tasks", *(f"resources.{r}" for r in names),
        "server", "servers.count", "servers.labels", "servers.first", "servers.last", "pieces", "kind",
    ]  # fmt: skip
