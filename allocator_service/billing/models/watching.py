"""What is watched while a month goes on: budgets, and banks of service units."""

from decimal import Decimal

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from allocator_service.core.ids import new_id
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant

DEFAULT_THRESHOLDS = (50, 80, 100)


def default_thresholds() -> list[int]:
    """Per cent of a budget."""
    return list(DEFAULT_THRESHOLDS)


class Budget(models.Model):
    """What a tenant means to spend in a month: money, or hours of one resource.

    `thresholds` are the per cents of it at each of which one event a month is told.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="budgets")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="budgets")
    resource = models.CharField(
        max_length=63, default="", blank=True, help_text="Hours of it; money where it is empty."
    )
    amount = models.DecimalField(max_digits=36, decimal_places=12)
    thresholds = ArrayField(models.PositiveIntegerField(), default=default_thresholds)
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(editable=False)
    retired_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "billing_budget"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["pool", "tenant", "resource"],
                condition=Q(retired_at=None),
                name="budget_unique",
                violation_error_code="budget.exists",
                violation_error_message="The tenant has a budget of this kind in the pool.",
            ),
            models.CheckConstraint(
                condition=Q(amount__gt=Decimal(0)),
                name="budget_positive",
                violation_error_code="budget.amount",
                violation_error_message="A budget is above 0.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.amount.normalize():f} {self.resource or self.pool.currency} of {self.tenant}"


class BudgetReached(models.Model):
    """A threshold that a tenant's month reached: told once."""

    budget = models.ForeignKey(Budget, models.PROTECT, related_name="reached")
    month = models.DateField()
    threshold = models.PositiveIntegerField()
    spent = models.DecimalField(max_digits=60, decimal_places=18)
    at = models.DateTimeField()

    class Meta:
        db_table = "billing_budget_reached"
        constraints = [
            models.UniqueConstraint(
                fields=["budget", "month", "threshold"], name="budget_reached_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.threshold} % in {self.month:%Y-%m}"


class UnitGrant(models.Model):
    """Service units that a tenant was given in a pool; its bank is their sum less what it used since.

    `exhausted_at` is when the bank was found to be empty, told once until there is a new grant. If that
    made the tenant best-effort, it is from `best_effort_from` on, until the bank is above 0 again.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="unit_grants")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="unit_grants")
    units = models.DecimalField(max_digits=60, decimal_places=18)
    reason = models.TextField(default="")
    granted_at = models.DateTimeField()
    exhausted_at = models.DateTimeField(null=True)
    best_effort_from = models.DateTimeField(null=True, editable=False)
    best_effort_until = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "billing_unit_grant"
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(units__gt=0),
                name="unit_grant_positive",
                violation_error_code="units.amount",
                violation_error_message="A grant is above 0.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.units.normalize():f} units to {self.tenant}"
