"""Budgets of nodes, and banks of service units."""

from decimal import Decimal

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from allocator_service.core.ids import new_id
from allocator_service.pools.budgets import Then
from allocator_service.pools.models import Group, Pool
from allocator_service.tenants.models import Tenant

DEFAULT_THRESHOLDS = (50, 80, 100)
CALENDAR_MONTH = "P1M"


def default_thresholds() -> list[int]:
    """Return the percentages at which a budget is reported by default."""
    return list(DEFAULT_THRESHOLDS)


class Budget(models.Model):
    """Amount of money, or of hours of a resource, that a node of a pool may use in each period.

    The node is a tenant or a group. `thresholds` are the percentages of the amount at each of which
    one event is recorded per period. `then` is the effect of an exhausted budget.

    Attributes:
        per: duration of a period, empty for the one period from `starts_at` to `ends_at`.
        carry: fraction of the amount that is carried over, if unused, into the next period.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="budgets")
    tenant = models.ForeignKey(
        Tenant, models.PROTECT, null=True, blank=True, related_name="budgets"
    )
    group = models.ForeignKey(
        # A pool has few budgets, which are read by the pool.
        Group,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="budgets",
        db_index=False,
    )
    resource = models.CharField(
        max_length=63,
        default="",
        blank=True,
        help_text="Resource whose hours are limited. Empty for a budget of money.",
    )
    amount = models.DecimalField(max_digits=36, decimal_places=12)
    per = models.CharField(
        max_length=40,
        default=CALENDAR_MONTH,
        db_default=CALENDAR_MONTH,
        blank=True,
        help_text="Duration of a period. Empty for one period from start to end.",
    )
    starts_at = models.DateTimeField(null=True, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)
    carry = models.DecimalField(
        max_digits=13, decimal_places=12, default=Decimal(0), db_default=Decimal(0)
    )
    then = models.CharField(
        max_length=4,
        default="",
        db_default="",
        blank=True,
        choices=[(each.value, each.value or "notify only") for each in Then],
    )
    thresholds = ArrayField(models.PositiveIntegerField(), default=default_thresholds)
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(editable=False)
    retired_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "billing_budget"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["pool", "tenant", "group", "resource", "per", "starts_at", "ends_at"],
                condition=Q(retired_at=None),
                nulls_distinct=False,
                name="budget_unique",
                violation_error_code="budget.exists",
                violation_error_message="The node has a budget of this kind and period in the pool.",
            ),
            models.CheckConstraint(
                condition=Q(amount__gt=Decimal(0)),
                name="budget_positive",
                violation_error_code="budget.amount",
                violation_error_message="The amount must be greater than 0.",
            ),
            models.CheckConstraint(
                condition=Q(tenant=None, group__isnull=False) | Q(tenant__isnull=False, group=None),
                name="budget_of_one_node",
                violation_error_code="budget.node",
                violation_error_message="A budget must name either a tenant or a group.",
            ),
            models.CheckConstraint(
                condition=Q(carry__gte=Decimal(0), carry__lte=Decimal(1)),
                name="budget_carry_is_a_fraction",
                violation_error_code="budget.carry",
                violation_error_message="`carry` must be a number from 0 to 1.",
            ),
        ]

    def __str__(self) -> str:
        amount = f"{self.amount.normalize():,f}"
        if self.resource:
            return f"{amount} hours of {self.resource} for {self.node}"
        return f"{amount} {self.pool.currency} for {self.node}"

    @property
    def node(self) -> Tenant | Group:
        """The tenant or group whose use counts."""
        node = self.tenant or self.group
        assert node is not None  # noqa: S101 # held by a constraint
        return node

    @property
    def scope(self) -> str:
        """The kind of the node."""
        return "tenant" if self.group_id is None else "group"


class BudgetReached(models.Model):
    """A threshold that the use of a period reached.

    `month` is the local date on which the period starts.
    """

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
        return f"{self.threshold} % in the period from {self.month:%Y-%m-%d}"


class UnitGrant(models.Model):
    """A grant of service units to a tenant in a pool.

    The tenant's bank is the sum of its grants less its use since the first. `exhausted_at` is when the
    bank was found to be empty, which is reported once until there is a new grant. If that made the
    tenant best-effort, it is from `best_effort_from` on, until the bank is above 0 again.
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
        return f"{self.units.normalize():,f} units to {self.tenant}"
