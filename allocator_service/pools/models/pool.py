"""Pools, their resources, clusters and jobs."""

from decimal import Decimal
from typing import Any, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from allocator_service.core.jobs import ScheduledJob
from allocator_service.core.quantities import FRACTIONAL_DIGITS, Resource
from allocator_service.tenants.models import SLUG_PATTERN, Tenant, validate_slug

RESOURCE_NAME_PATTERN = r"^[a-z][a-z0-9_.-]{0,62}$"
LARGEST_TIER = 1_000_000
MOVED_TO_LENGTH = 500
TIER_RANGE = f"The tier must be a whole number from -{LARGEST_TIER} to {LARGEST_TIER}."


def vector_field() -> "ArrayField[list[Decimal], list[Decimal]]":
    """Return a field for exact quantities in the order of the pool's resources.

    Omitted quantities at the end are 0.
    """
    # Exact decimals: sums of doubles over a ledger would not add up to its entries.
    return ArrayField(models.DecimalField(max_digits=24, decimal_places=FRACTIONAL_DIGITS))


def limit_field() -> "models.JSONField[list[dict[str, Any]], list[dict[str, Any]]]":
    """Return a field for limits, guarantees or loans of a node, as `pools.limits` writes them."""
    return models.JSONField(default=list, db_default=models.Value([], models.JSONField()))


class OwnServers(models.TextChoices):
    """The setting of nodes to guarantee what workloads get alone on their tenant's own servers."""

    INHERIT = "inherit"
    YES = "yes"
    NO = "no"


def own_servers_field() -> "models.CharField[str, str]":
    """Return the setting of a node, `inherit` for that of the node above."""
    return models.CharField(
        max_length=7,
        choices=OwnServers.choices,
        default=OwnServers.INHERIT,
        db_default=OwnServers.INHERIT,
    )


class Count(models.TextChoices):
    """The allocation that levels count, all of it or the part above guarantees."""

    TOTAL = "total"
    ABOVE = "above"


class WindowKind(models.TextChoices):
    TUMBLING = "tumbling"
    SLIDING = "sliding"
    DECAY = "decay"
    UNBOUNDED = "unbounded"
    NONE = "none"


class WeightsMode(models.TextChoices):
    """The meaning of a member's `weight`, as a factor on its contribution or as the weight itself."""

    CONTRIBUTION = "contribution"
    EXPLICIT = "explicit"


class Metering(models.TextChoices):
    ALLOCATION = "allocation"
    REPORTED = "reported"


class PoolQuerySet(models.QuerySet["Pool"]):
    def for_tenant(self, tenant: Tenant | None) -> Self:
        """Return the pools that a caller may see.

        The tenant of a key may see those that it is a member of, an operator (None) all of them.
        """
        if tenant is None:
            return self
        return self.filter(memberships__tenant=tenant, memberships__ended_at=None)

    def history_for_tenant(self, tenant: Tenant | None) -> Self:
        """Return the visible pools and a tenant's former ones, whose statements stay readable."""
        return self if tenant is None else self.filter(memberships__tenant=tenant)


class Pool(models.Model):
    """Servers that are shared under one policy. `generation` is the number of its last change.

    `money_fixed_at` is the instant since which prices are published, so that currency and time zone stay
    as they are. `moved_at` is the instant since which the pool is closed for its move to another
    installation, and `moved_to` where that is, empty if no operator stated it.
    """

    slug = models.CharField(max_length=63, validators=[validate_slug])
    name = models.CharField(max_length=200)
    policy_name = models.CharField(max_length=63)
    policy_mode = models.CharField(max_length=63)
    policy_options = models.JSONField(default=dict, blank=True)
    policy_places = models.BooleanField(default=True, editable=False)
    policy_long_term = models.BooleanField(default=False, editable=False)
    window_kind = models.CharField(max_length=10, choices=WindowKind.choices, default="tumbling")
    window_length = models.CharField(max_length=40, default="P7D", blank=True)
    window_anchor = models.DateTimeField()
    window_half_life = models.CharField(max_length=40, default="", blank=True)
    weights = models.CharField(max_length=12, choices=WeightsMode.choices, default="contribution")
    own_servers = models.BooleanField(default=False, db_default=False)
    count = models.CharField(
        max_length=5, choices=Count.choices, default=Count.TOTAL, db_default=Count.TOTAL
    )
    decision_interval = models.CharField(max_length=40, default="PT1M")
    cluster_grace = models.CharField(max_length=40, default="PT15M", db_default="PT15M")
    minimum_run = models.CharField(max_length=40, blank=True, default="", db_default="")
    notice = models.CharField(max_length=40, blank=True, default="", db_default="")
    churn = models.PositiveIntegerField(null=True, blank=True)
    metering = models.CharField(max_length=10, choices=Metering.choices, default="allocation")
    metering_changed_at = models.DateTimeField(null=True, editable=False)
    currency = models.CharField(max_length=3, default="EUR")
    timezone = models.CharField(max_length=63, default="UTC")
    money_fixed_at = models.DateTimeField(null=True, editable=False)
    transparent = models.BooleanField(default=False)
    generation = models.PositiveBigIntegerField(default=0, editable=False)
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(editable=False)
    retired_at = models.DateTimeField(null=True, editable=False)
    moved_at = models.DateTimeField(null=True, editable=False)
    moved_to = models.CharField(
        max_length=MOVED_TO_LENGTH, blank=True, default="", db_default="", editable=False
    )

    objects = PoolQuerySet.as_manager()

    class Meta:
        db_table = "pool"
        ordering = ["slug"]
        constraints = [
            models.UniqueConstraint(
                fields=["slug"],
                name="pool_slug_unique",
                violation_error_code="pool.exists",
                violation_error_message="A pool with this slug exists (retired ones keep their slug).",
            ),
            models.CheckConstraint(
                condition=Q(slug__regex=SLUG_PATTERN),
                name="pool_slug_wellformed",
                violation_error_code="slug.syntax",
                violation_error_message="A slug is 1 to 63 lower-case letters, digits and hyphens.",
            ),
            models.CheckConstraint(
                condition=Q(currency__regex="^[A-Z]{3}$"),
                name="pool_currency_wellformed",
                violation_error_code="currency.syntax",
                violation_error_message="A currency is three capital letters (ISO 4217), as EUR.",
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class ResourceType(models.Model):
    """A resource that the pool counts. `position` is its permanent place in every vector."""

    pool = models.ForeignKey(Pool, models.PROTECT, related_name="resource_types")
    name = models.CharField(max_length=63)
    unit = models.CharField(max_length=20, blank=True)
    # Stored vectors have no names: a position that changed would turn old CPUs into memory.
    position = models.PositiveSmallIntegerField()

    class Meta:
        db_table = "pool_resource_type"
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(
                fields=["pool", "name"],
                name="resource_type_name_unique",
                violation_error_code="resource.duplicate",
                violation_error_message="The pool has a resource of this name.",
            ),
            models.UniqueConstraint(
                fields=["pool", "position"], name="resource_type_position_unique"
            ),
            models.CheckConstraint(
                condition=Q(name__regex=RESOURCE_NAME_PATTERN),
                name="resource_type_name_wellformed",
                violation_error_code="resource.syntax",
                violation_error_message=f"A resource name matches {RESOURCE_NAME_PATTERN}.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def as_resource(self) -> Resource:
        return Resource(self.name, self.unit)


class Cluster(models.Model):
    """A cluster whose agents were silent for too long, now or earlier.

    `left_at` is the instant since which its servers give no capacity, None after its return.
    `generation` is that of the pool's change by which it left or returned.
    """

    pool = models.ForeignKey(Pool, models.PROTECT, related_name="clusters")
    name = models.CharField(max_length=253)
    left_at = models.DateTimeField(null=True)
    returned_at = models.DateTimeField(null=True)
    generation = models.PositiveBigIntegerField()

    class Meta:
        db_table = "pool_cluster"
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["pool", "name"], name="cluster_name_unique")]

    def __str__(self) -> str:
        return self.name


class RecomputeJob(ScheduledJob):
    """The next decision of a pool, as a job (docs/adr/0003).

    `wanted` (requested) grows with every change and request. `claimed` is its value that the last claim
    read, and `settled` (completed) that of the last finished run.
    """

    pool = models.OneToOneField(Pool, models.PROTECT, primary_key=True, related_name="job")
    wanted = models.PositiveBigIntegerField(default=0)
    settled = models.PositiveBigIntegerField(default=0)
    claimed = models.PositiveBigIntegerField(default=0)
    first_change_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "pool_recompute_job"
        indexes = [
            models.Index(
                # The relay looks many times a second: completed jobs are not in the index at all.
                fields=["run_after"],
                condition=Q(wanted__gt=F("settled")),
                name="recompute_job_due",
            )
        ]

    def __str__(self) -> str:
        return f"{self.pool_id}: {self.settled}/{self.wanted}"
