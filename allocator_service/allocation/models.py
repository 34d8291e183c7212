"""Runs with their immutable snapshots, allocations, placements and certificates."""

import zlib
from typing import Any, Self

import orjson
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, RangeOperators
from django.db import models
from django.db.models import Q

from allocator_service.allocation.documents import stored_document
from allocator_service.core.constraints import TimeRange
from allocator_service.core.ids import new_id
from allocator_service.core.jobs import Job
from allocator_service.pools.models import Pool, Server, vector_field
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload


class Snapshot(models.Model):
    """The input of a run, in the shape of an evaluation.

    Identical inputs are stored once. `document` is zlib-compressed JSON, `workload_ids` are the
    workloads in its order. Pruned after its retention: `document` becomes null and the digest stays.
    """

    digest = models.CharField(max_length=64, primary_key=True)
    document = models.BinaryField(null=True)
    workload_ids = ArrayField(models.UUIDField())
    created_at = models.DateTimeField()

    class Meta:
        db_table = "run_snapshot"

    def __str__(self) -> str:
        return self.digest[:12]


class ServerClass(models.Model):
    """A range of servers, as the release before stores it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey("Run", models.PROTECT, related_name="server_classes")
    position = models.PositiveIntegerField()
    count = models.PositiveIntegerField()
    capacity = vector_field()
    labels = models.JSONField()
    first = models.CharField(max_length=253)
    last = models.CharField(max_length=253)
    first_server = models.ForeignKey(
        Server, models.PROTECT, null=True, db_index=False, related_name="+"
    )
    last_server = models.ForeignKey(
        Server, models.PROTECT, null=True, db_index=False, related_name="+"
    )
    owner = models.ForeignKey(Tenant, models.PROTECT, null=True, related_name="+")
    shared = models.BooleanField()

    class Meta:
        db_table = "run_server_class"
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["run", "position"], name="server_class_position_unique")
        ]

    def __str__(self) -> str:
        if self.count == 1:
            return str(self.first)
        return f"{self.first} to {self.last} ({self.count:,})"


class RunStatus(models.TextChoices):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunQuerySet(models.QuerySet["Run"]):
    def for_tenant(self, tenant: Tenant | None) -> Self:
        """Return the runs that a caller may see.

        A tenant may see those of the pools it is a member of, an operator (None) all of them.
        """
        return self if tenant is None else self.filter(pool__memberships__tenant=tenant)

    def in_force_at(self, at: object) -> Self:
        """Return the decision in force at an instant, for every pool that had one."""
        return self.filter(status=RunStatus.SUCCEEDED, effective_from__lte=at).filter(
            Q(effective_until=None) | Q(effective_until__gt=at)
        )


class Run(models.Model):
    """One computation of a pool's allocation from one snapshot.

    A succeeded run is in force over `[effective_from, effective_until)`. `token` is that of the
    claim which computes it: a worker that lost its claim cannot publish (docs/adr/0003). `budgets`
    are those that were exhausted in its input, as `pools.budgets` writes them.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="runs")
    status = models.CharField(max_length=9, choices=RunStatus.choices, default=RunStatus.PENDING)
    reason = models.CharField(max_length=500, blank=True)
    policy = models.JSONField(default=dict)
    generation = models.PositiveBigIntegerField(null=True)
    snapshot = models.ForeignKey(Snapshot, models.PROTECT, null=True, related_name="runs")
    attempts = models.PositiveSmallIntegerField(default=0)
    token = models.UUIDField(null=True, editable=False)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    effective_from = models.DateTimeField(null=True)
    effective_until = models.DateTimeField(null=True)
    solve_seconds = models.FloatField(null=True)
    error = models.JSONField(null=True)
    summary = models.JSONField(null=True)
    budgets = models.JSONField(
        default=list, db_default=models.Value([], models.JSONField()), editable=False
    )
    pruned_at = models.DateTimeField(null=True)
    request_id = models.TextField(blank=True, default="")

    objects = RunQuerySet.as_manager()

    class Meta:
        db_table = "run"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["pool", "-id"], name="run_by_pool"),
            models.Index(fields=["pool", "-effective_from"], name="run_by_effect"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["pool"], condition=Q(status="pending"), name="run_one_pending_per_pool"
            ),
            models.UniqueConstraint(
                fields=["pool"], condition=Q(status="running"), name="run_one_running_per_pool"
            ),
            models.UniqueConstraint(
                fields=["pool"],
                condition=Q(status="succeeded", effective_until=None),
                name="run_one_in_force_per_pool",
            ),
            models.CheckConstraint(
                condition=~Q(status="succeeded")
                | Q(effective_from__isnull=False, generation__isnull=False, snapshot__isnull=False),
                name="run_succeeded_is_complete",
            ),
            models.CheckConstraint(
                condition=~Q(status="failed") | Q(error__isnull=False), name="run_failed_says_why"
            ),
            ExclusionConstraint(
                name="run_decisions_disjoint",
                condition=Q(status="succeeded"),
                expressions=[
                    ("pool", RangeOperators.EQUAL),
                    (TimeRange("effective_from", "effective_until"), RangeOperators.OVERLAPS),
                ],
            ),
        ]

    def __str__(self) -> str:
        if self.generation is None:
            return f"{self.pool}, {self.get_status_display().lower()}"
        text = f"{self.pool}, generation {self.generation:,}"
        if self.status == RunStatus.SUCCEEDED:
            return text
        return f"{text}, {self.get_status_display().lower()}"


class Allocation(models.Model):
    """The tasks of one workload in a run. Computed values are doubles, exactly as the solver gave them.

    `resources` is in the pool's order, in its units. `weighted_share` and `level` are the tenant's.
    `floor` are the tasks that are guaranteed and `floor_met` the part of them that runs, null without.
    """

    # Rows are read by run, for which two other indexes serve. Runs, tenants and workloads are never
    # deleted, and a constraint would read and lock three rows for each allocation of each decision.
    run = models.ForeignKey(
        Run, models.PROTECT, related_name="allocations", db_index=False, db_constraint=False
    )
    position = models.PositiveIntegerField()
    tenant = models.ForeignKey(
        Tenant, models.PROTECT, related_name="allocations", db_index=False, db_constraint=False
    )
    workload = models.ForeignKey(
        Workload, models.PROTECT, related_name="allocations", db_index=False, db_constraint=False
    )
    tasks = models.FloatField()
    resources = ArrayField(models.FloatField())
    dominant_resource = models.CharField(max_length=63)
    dominant_share = models.FloatField()
    tenant_share = models.FloatField()
    weighted_share = models.FloatField(null=True)
    level = models.FloatField(null=True)
    limited_by = models.CharField(max_length=80)
    floor = models.FloatField(null=True)
    floor_met = models.FloatField(null=True)

    class Meta:
        db_table = "run_allocation"
        ordering = ["run", "position"]
        indexes = [models.Index(fields=["run", "tenant", "position"], name="allocation_by_tenant")]
        constraints = [
            models.UniqueConstraint(fields=["run", "position"], name="allocation_position_unique"),
            models.CheckConstraint(
                condition=Q(tasks__gte=0, tasks__lt=float("inf")),
                name="allocation_tasks_nonnegative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.workload}: {self.tasks:g}"


class Placement(models.Model):
    """Tasks of a workload on every server of a class, as the release before stores them."""

    run = models.ForeignKey(Run, models.PROTECT, related_name="placements")
    position = models.PositiveIntegerField()
    workload = models.ForeignKey(Workload, models.PROTECT, related_name="placements")
    server_class = models.ForeignKey(ServerClass, models.PROTECT, related_name="placements")
    kind = models.PositiveSmallIntegerField(default=0, db_default=0)
    tasks = models.FloatField()

    class Meta:
        db_table = "run_placement"
        ordering = ["run", "position"]
        constraints = [
            models.UniqueConstraint(fields=["run", "position"], name="placement_position_unique"),
            models.CheckConstraint(
                condition=Q(tasks__gt=0, tasks__lt=float("inf")), name="placement_tasks_positive"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tasks:g} on {self.server_class}"


class PlacementDocument(models.Model):
    """The placements of a run, as `allocation.stored_placements` writes them."""

    run = models.OneToOneField(Run, models.PROTECT, primary_key=True, related_name="placed")
    document = models.BinaryField()

    class Meta:
        db_table = "run_placement_document"

    def __str__(self) -> str:
        return f"placements of {self.run_id}"


class PlacementDates(models.Model):
    """The instants since which tasks of the decision in force have kept their servers, as far as needed.

    `document` is zlib-compressed JSON, a list of ranges of servers with tasks younger than their
    minimum: id of the workload, kind of pieces, position of the server class, ids of the range's first
    and last server, number of servers, tasks on each, the instant in seconds since 1970, and a digest
    of what one task uses. Tasks without a date are older.
    """

    pool = models.OneToOneField(
        Pool, models.PROTECT, primary_key=True, related_name="placement_dates"
    )
    run = models.OneToOneField(Run, models.PROTECT, related_name="placement_dates")
    document = models.BinaryField()

    class Meta:
        db_table = "pool_placement_dates"

    def __str__(self) -> str:
        return f"placement dates of {self.run_id}"

    @property
    def rows(self) -> list[list[Any]]:
        """The ranges of the document."""
        rows: list[list[Any]] = orjson.loads(zlib.decompress(self.document))
        return rows


class Certificate(models.Model):
    """The prices of each round, which prove that a decision is optimal, as zlib-compressed JSON."""

    run = models.OneToOneField(Run, models.PROTECT, primary_key=True, related_name="certificate")
    document = models.BinaryField()

    class Meta:
        db_table = "run_certificate"

    def __str__(self) -> str:
        return f"certificate of {self.run_id}"


class Floors(models.Model):
    """Answers that prove how far guarantees are met, as zlib-compressed JSON."""

    run = models.OneToOneField(Run, models.PROTECT, primary_key=True, related_name="floors")
    document = models.BinaryField()

    class Meta:
        db_table = "run_floors"

    def __str__(self) -> str:
        return f"floors of {self.run_id}"


class Schedule(models.Model):
    """The parts of a period in which whole tasks run, under a decision that divides time.

    `document` is zlib-compressed JSON in the shape of an evaluation's schedule. `intervals` are
    `[start, end, slot]` in whole seconds of the period, which repeats from `Run.effective_from` on.
    `owed` holds the tenants' deficits by slug, as in the run's input. `made_up` is the part that the
    period repays, null where that is assumed to be all. `servers` holds the name and the owner of each
    server on which tasks are packed, by its name in `document`: the input numbers identical servers.
    """

    run = models.OneToOneField(Run, models.PROTECT, primary_key=True, related_name="schedule")
    document = models.BinaryField()
    period_seconds = models.PositiveIntegerField()
    intervals = models.JSONField()
    gap_on_the_clock = models.FloatField(null=True)
    owed = models.JSONField(default=dict, db_default={})
    made_up = models.JSONField(null=True)
    servers = models.JSONField(default=dict, db_default={})

    class Meta:
        db_table = "run_schedule"

    def __str__(self) -> str:
        return f"schedule of {self.run_id}"

    @property
    def plan(self) -> dict[str, Any]:
        """The schedule in the shape of an evaluation's."""
        return stored_document(self.document)


class Step(models.Model):
    """The state that a decision of a long-term policy leaves to the next one.

    `waiting` is for how many seconds each of `tenant_ids` has received nothing at the step's end.
    `history` is zlib-compressed JSON of what the policy remembered after the step. The run's input has
    what it remembered before the step. That was read from the ledger's entries within `[since, begin)`
    (`since` null is ever since, `half_life` in seconds), of those numbered up to `sealed_through` and
    those in `unsealed`, which had no number yet. All five are null in steps that did not store them.
    Uses that were open are known until `metered_until`, null in steps from before uses were open.
    """

    run = models.OneToOneField(Run, models.PROTECT, primary_key=True, related_name="step")
    tenant_ids = ArrayField(models.BigIntegerField())
    waiting = ArrayField(models.FloatField())
    history = models.BinaryField()
    begin = models.DateTimeField(null=True)
    since = models.DateTimeField(null=True)
    half_life = models.FloatField(null=True)
    sealed_through = models.BigIntegerField(null=True)
    unsealed = ArrayField(models.UUIDField(), null=True)
    metered_until = models.DateTimeField(null=True)

    class Meta:
        db_table = "run_step"

    def __str__(self) -> str:
        return f"step of {self.run_id}"


class SimulationStatus(models.TextChoices):
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Simulation(Job):
    """A pool's decision as it would be after some changes, computed by a worker, deciding nothing.

    `tenant` is that of the tenant key which asked; it
    limits what the simulation may change and what of its result is shown.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="simulations")
    tenant = models.ForeignKey(Tenant, models.PROTECT, null=True, related_name="simulations")
    changes = models.JSONField()
    status = models.CharField(
        max_length=9, choices=SimulationStatus.choices, default=SimulationStatus.PENDING
    )
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    generation = models.PositiveBigIntegerField(null=True)
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)

    class Meta:
        db_table = "simulation"
        ordering = ["-id"]
        indexes = [
            models.Index(
                fields=["published_at"], condition=Q(status="pending"), name="simulation_due"
            ),
            models.Index(fields=["pool", "-id"], name="simulation_by_pool"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status="pending")
                | Q(status="succeeded", result__isnull=False)
                | Q(status="failed", error__isnull=False),
                name="simulation_finished_has_outcome",
            )
        ]

    def __str__(self) -> str:
        return f"{self.pool} {self.status} {self.id}"


class Heartbeat(models.Model):
    """The instant at which a background process was last seen at work, with one row for each process."""

    process = models.CharField(max_length=20, primary_key=True)
    seen_at = models.DateTimeField()

    class Meta:
        db_table = "process_heartbeat"

    def __str__(self) -> str:
        return f"{self.process} {self.seen_at:%H:%M:%S}"
