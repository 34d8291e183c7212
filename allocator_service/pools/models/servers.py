"""Servers of a pool, and what they contributed over time."""

from decimal import Decimal
from typing import Self

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, RangeOperators
from django.db import models
from django.db.models import F, Q

from allocator_service.core.constraints import NonNegativeVector, TimeRange
from allocator_service.core.ids import new_id
from allocator_service.core.quantities import FRACTIONAL_DIGITS
from allocator_service.pools.models.pool import Pool, vector_field
from allocator_service.tenants.models import Tenant


class ServerState(models.TextChoices):
    ACTIVE = "active"
    DRAINING = "draining"
    RETIRED = "retired"


class ServerQuerySet(models.QuerySet["Server"]):
    def for_tenant(self, tenant: Tenant | None) -> Self:
        """Return the servers that a caller may see.

        The tenant of a key may see those that it contributed, an operator (None) all of them.
        """
        return self if tenant is None else self.filter(contributed_by=tenant)

    def present(self) -> Self:
        return self.exclude(state=ServerState.RETIRED)


class Server(models.Model):
    """A machine in a pool, contributed by a tenant or the pool's own."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="servers")
    name = models.CharField(max_length=253)
    contributed_by = models.ForeignKey(
        Tenant, models.PROTECT, null=True, blank=True, related_name="servers"
    )
    capacity = vector_field()
    labels = models.JSONField(default=dict, blank=True)
    state = models.CharField(
        max_length=8, choices=ServerState.choices, default=ServerState.ACTIVE, editable=False
    )
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(editable=False)
    retired_at = models.DateTimeField(null=True, editable=False)

    objects = ServerQuerySet.as_manager()

    class Meta:
        db_table = "server"
        ordering = ["id"]
        indexes = [
            # Partial, so that a query by pool may use them and the check of a foreign key may not:
            # while the statistics count no rows, that would read any index with an id, as a whole.
            models.Index(
                fields=["pool", "id"], condition=Q(pool__isnull=False), name="server_of_pool"
            ),
            models.Index(
                fields=["contributed_by", "pool", "id"],
                condition=Q(pool__isnull=False),
                name="server_of_contributor",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["pool", "contributed_by", "name"],
                condition=~Q(state="retired"),
                # The pool's own servers have no contributor, and their names must not repeat.
                nulls_distinct=False,
                name="server_name_unique",
                violation_error_code="server.exists",
                violation_error_message="A server of this name and contributor is in the pool.",
            ),
            models.CheckConstraint(
                condition=NonNegativeVector(F("capacity")),
                name="server_capacity_nonnegative",
                violation_error_code="quantity.negative",
                violation_error_message="A capacity is at least 0.",
            ),
            models.CheckConstraint(
                condition=Q(state__in=ServerState.values), name="server_state_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Contribution(models.Model):
    """The contributor of a server over an interval, without an end for the present one.

    `capacity` is that of the server throughout the interval. It is null in older intervals, in which it
    is the server's.
    """

    server = models.ForeignKey(Server, models.PROTECT, related_name="contributions")
    tenant = models.ForeignKey(Tenant, models.PROTECT, null=True, related_name="contributions")
    capacity: "ArrayField[list[Decimal] | None, list[Decimal] | None]" = ArrayField(
        models.DecimalField(max_digits=24, decimal_places=FRACTIONAL_DIGITS), null=True
    )
    start = models.DateTimeField()
    end = models.DateTimeField(null=True)

    class Meta:
        db_table = "server_contribution"
        ordering = ["start"]
        constraints = [
            # A server that two contributions count would give its owner twice the weight.
            models.UniqueConstraint(
                fields=["server"], condition=Q(end=None), name="contribution_one_present"
            ),
            ExclusionConstraint(
                name="contribution_disjoint",
                expressions=[
                    ("server", RangeOperators.EQUAL),
                    (TimeRange("start", "end"), RangeOperators.OVERLAPS),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.server}: {self.start:%Y-%m-%d}"
