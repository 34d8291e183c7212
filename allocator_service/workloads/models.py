"""Workloads, which are tasks that tenants submit with a demand per resource."""

from typing import Self

from django.db import models
from django.db.models import F, Q, Value

from allocator_service.core.constraints import NonNegativeVector, PositiveSomewhere
from allocator_service.core.ids import new_id
from allocator_service.core.labels import LABEL_LENGTH
from allocator_service.pools.models import Pool, limit_field, vector_field
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.gangs import MAX_PIECES

MAX_TASKS = 10**12
MAX_PRIORITY = 10**6


class WorkloadState(models.TextChoices):
    ACTIVE = "active"
    PAUSED = "paused"
    WITHDRAWN = "withdrawn"


class WorkloadQuerySet(models.QuerySet["Workload"]):
    def for_tenant(self, tenant: Tenant | None) -> Self:
        """Return the workloads that a caller may see, which for a tenant are its own."""
        return self if tenant is None else self.filter(tenant=tenant)


class Workload(models.Model):
    """Tasks of one kind. `tasks` is how many can run at once, null for no limit and 0 for none.

    `unsatisfiable` is why no task of it can run at present (servers may come later), else empty.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="workloads")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="workloads")
    name = models.CharField(max_length=253)
    demand = vector_field()
    tasks = models.BigIntegerField(null=True, blank=True)
    priority = models.IntegerField(default=0)
    server_selector = models.JSONField(default=dict, blank=True)
    limit = limit_field()
    # Kinds of pieces of one task; an empty list is one piece of the demand.
    pieces = models.JSONField(default=list, db_default=Value([], models.JSONField()), blank=True)
    per_server = models.PositiveIntegerField(null=True, blank=True)
    together = models.CharField(max_length=LABEL_LENGTH, default="", db_default="", blank=True)
    at_least = models.PositiveIntegerField(default=1, db_default=1)
    # An empty text is the pool's.
    minimum_run = models.CharField(max_length=40, blank=True, default="", db_default="")
    state = models.CharField(
        max_length=9, choices=WorkloadState.choices, default=WorkloadState.ACTIVE
    )
    unsatisfiable = models.CharField(max_length=40, default="", blank=True, editable=False)
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(editable=False)
    withdrawn_at = models.DateTimeField(null=True, editable=False)

    objects = WorkloadQuerySet.as_manager()

    class Meta:
        db_table = "workload"
        ordering = ["id"]
        indexes = [
            # Conditions that a foreign key's check does not meet: see `Server`.
            models.Index(
                fields=["pool", "id"], condition=Q(pool__isnull=False), name="workload_of_pool"
            ),
            models.Index(
                fields=["tenant", "pool", "id"],
                condition=Q(tenant__isnull=False),
                name="workload_of_tenant",
            ),
            # Partial indexes of what few workloads have: every decision and change looks for it.
            models.Index(fields=["pool"], condition=~Q(limit=[]), name="workload_limited"),
            models.Index(
                fields=["pool"],
                condition=~Q(pieces=[]) | Q(at_least__gt=1),
                name="workload_with_gang",
            ),
            models.Index(
                fields=["pool"], condition=~Q(minimum_run=""), name="workload_with_minimum"
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["pool", "tenant", "name"],
                # Withdrawn workloads stay for the history, and must not keep their names.
                condition=~Q(state="withdrawn"),
                name="workload_name_unique",
                violation_error_code="workload.exists",
                violation_error_message="The tenant has a workload of this name in the pool.",
            ),
            models.CheckConstraint(
                # In the database: rows come by COPY, which passes the validation of models by.
                condition=NonNegativeVector(F("demand")),
                name="workload_demand_nonnegative",
                violation_error_code="quantity.negative",
                violation_error_message="A demand is at least 0.",
            ),
            models.CheckConstraint(
                condition=PositiveSomewhere(F("demand")),
                name="workload_demand_positive",
                violation_error_code="demand.zero",
                violation_error_message="A task demands something: at least one resource above 0.",
            ),
            models.CheckConstraint(
                condition=Q(tasks=None) | Q(tasks__gte=0, tasks__lte=MAX_TASKS),
                name="workload_tasks_nonnegative",
                violation_error_code="tasks.range",
                violation_error_message="tasks is null or a whole number from 0 to 10^12.",
            ),
            models.CheckConstraint(
                condition=Q(at_least__gte=1, at_least__lte=MAX_PIECES),
                name="workload_at_least_positive",
                violation_error_code="workload.at_least",
                violation_error_message="at_least is a whole number from 1 to 10,000.",
            ),
            models.CheckConstraint(
                condition=Q(per_server=None) | Q(per_server__gte=1, per_server__lte=MAX_PIECES),
                name="workload_per_server_positive",
                violation_error_code="workload.per_server",
                violation_error_message="per_server is null or a whole number from 1 to 10,000.",
            ),
            models.CheckConstraint(
                condition=Q(state__in=WorkloadState.values), name="workload_state_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name
