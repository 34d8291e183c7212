"""Price plans, the prices of a unit of a resource per hour over time.

The migration adds constraints that Django cannot express: composite foreign keys, so that no price names
another pool's resource or a plan of another pool, and triggers that leave published plans as they are.
"""

from decimal import Decimal
from typing import Any

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeOperators
from django.db import models
from django.db.models import F, Q

from allocator_service.core.constraints import TimeRange
from allocator_service.core.ids import new_id
from allocator_service.core.quantities import FRACTIONAL_DIGITS
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant

NEGATIVE = "A price is at least 0."


def price_field(**options: Any) -> "models.DecimalField[Decimal, Decimal]":
    """Return a field for money, or for money per unit and hour, exact and in the pool's currency."""
    return models.DecimalField(max_digits=24, decimal_places=FRACTIONAL_DIGITS, **options)


def at_least_0(name: str, *fields: str) -> models.CheckConstraint:
    """Return a constraint that no field is negative. A field may be null, which is no price."""
    condition = Q()
    for field in fields:
        condition &= Q(**{f"{field}__gte": 0}) | Q(**{field: None})
    return models.CheckConstraint(
        condition=condition,
        name=name,
        violation_error_code="price.negative",
        violation_error_message=NEGATIVE,
    )


def lasts(name: str) -> models.CheckConstraint:
    """Return a constraint that the end is open, or after the start."""
    return models.CheckConstraint(
        condition=Q(end=None) | Q(end__gt=F("start")),
        name=name,
        violation_error_code="plan.interval",
        violation_error_message="`to` is after `from`.",
    )


class PlanState(models.TextChoices):
    """The state of a plan.

    A draft is edited, a published plan is on the timeline, and a rerated one replaces past prices.
    """

    DRAFT = "draft"
    PUBLISHED = "published"
    RERATED = "rerated"


class Increment(models.TextChoices):
    """The steps in which the time of a usage event counts."""

    EXACT = "exact"
    SECOND = "second-min-60"
    HOUR = "hour-up"


class Exhausted(models.TextChoices):
    """The consequence for a tenant whose service units are used up."""

    EVENT = "event"
    BEST_EFFORT = "best_effort"


class PricePlan(models.Model):
    """Prices of one pool over `[start, end)`.

    `number` counts the pool's plans in the order in which they came into force. `fee` is the part of
    shared prices that the pool keeps.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="price_plans")
    name = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=PlanState.choices, default=PlanState.DRAFT)
    number = models.PositiveIntegerField(null=True)
    start = models.DateTimeField()
    end = models.DateTimeField(null=True, blank=True)
    fee = price_field(default=Decimal(0))
    increment = models.CharField(max_length=13, choices=Increment.choices, default=Increment.EXACT)
    exhausted = models.CharField(max_length=11, choices=Exhausted.choices, default=Exhausted.EVENT)
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(editable=False)
    published_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "billing_plan"
        ordering = ["id"]
        constraints = [
            lasts("plan_lasts"),
            models.CheckConstraint(
                condition=Q(fee__gte=0, fee__lte=1),
                name="plan_fee_is_part",
                violation_error_code="plan.fee",
                violation_error_message="A fee is a part of the price, from 0 to 1.",
            ),
            models.CheckConstraint(
                condition=Q(state=PlanState.DRAFT, number=None, published_at=None)
                | Q(
                    state__in=[PlanState.PUBLISHED, PlanState.RERATED],
                    number__isnull=False,
                    published_at__isnull=False,
                ),
                name="plan_published_is_numbered",
            ),
            models.UniqueConstraint(fields=["pool", "number"], name="plan_number_unique"),
            ExclusionConstraint(
                name="plan_timeline_disjoint",
                expressions=[
                    ("pool", RangeOperators.EQUAL),
                    (TimeRange("start", "end"), RangeOperators.OVERLAPS),
                ],
                # Drafts may overlap, and reratings replace what was published for the same time.
                condition=Q(state=PlanState.PUBLISHED),
                violation_error_code="plan.overlap",
                violation_error_message="Another published plan of the pool holds at that time.",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Rate(models.Model):
    """Prices of one resource per unit and hour, null where it is not charged.

    `own` on servers that the tenant contributed, `shared` on other tenants', `pooled` on the pool's.
    `outside` is its price elsewhere. With an `owner` they hold on its servers only. `tiers` are the
    price of kinds of servers that have none: pairs of hours in the month and a price.
    """

    plan = models.ForeignKey(PricePlan, models.CASCADE, related_name="rates")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    resource = models.CharField(max_length=63)
    owner = models.ForeignKey(Tenant, models.PROTECT, null=True, related_name="+")
    own = price_field(null=True)
    shared = price_field(null=True)
    pooled = price_field(null=True)
    outside = price_field(null=True)
    tiers = models.JSONField(null=True)

    class Meta:
        db_table = "billing_rate"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["plan", "resource", "owner"],
                # The rate of all owners has none: nulls that differ would let it be there twice.
                name="rate_unique",
                nulls_distinct=False,
                violation_error_code="rate.duplicate",
                violation_error_message="A plan prices each resource once, and once per owner.",
            ),
            at_least_0("rate_not_negative", "own", "shared", "pooled", "outside"),
        ]

    def __str__(self) -> str:
        return self.resource


class PriceKind(models.TextChoices):
    """The owner of the servers in use, which is the tenant itself, another tenant or the pool."""

    OWN = "own"
    SHARED = "shared"
    POOL = "pool"


class SpotPrice(models.Model):
    """A price that holds for a time in place of the rate of its kind without an owner."""

    plan = models.ForeignKey(PricePlan, models.CASCADE, related_name="spot_prices")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    resource = models.CharField(max_length=63)
    kind = models.CharField(max_length=6, choices=PriceKind.choices)
    start = models.DateTimeField()
    end = models.DateTimeField()
    price = price_field()

    class Meta:
        db_table = "billing_spot_price"
        ordering = ["id"]
        constraints = [
            lasts("spot_price_lasts"),
            at_least_0("spot_price_not_negative", "price"),
            ExclusionConstraint(
                name="spot_price_disjoint",
                expressions=[
                    ("plan", RangeOperators.EQUAL),
                    ("resource", RangeOperators.EQUAL),
                    ("kind", RangeOperators.EQUAL),
                    (TimeRange("start", "end"), RangeOperators.OVERLAPS),
                ],
                violation_error_code="spot_price.overlap",
                violation_error_message="Two spot prices of one kind and resource hold at one time.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.resource}"


class Commitment(models.Model):
    """A commitment of a tenant to pay for `quantity` of the pool's own servers over a term.

    It is paid whether or not the servers are used. `price` is per unit and hour, `upfront` is paid in
    the term's first month. The term may outlast the plan that it was published with.
    """

    plan = models.ForeignKey(PricePlan, models.CASCADE, related_name="commitments")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    resource = models.CharField(max_length=63)
    quantity = price_field()
    price = price_field()
    upfront = price_field(default=Decimal(0))
    start = models.DateTimeField()
    end = models.DateTimeField()

    class Meta:
        db_table = "billing_commitment"
        ordering = ["id"]
        constraints = [
            lasts("commitment_lasts"),
            at_least_0("commitment_not_negative", "quantity", "price", "upfront"),
        ]

    def __str__(self) -> str:
        return f"{self.quantity.normalize():f} {self.resource}"


class FixedCost(models.Model):
    """A monthly amount, divided among tenants in proportion to their shares."""

    plan = models.ForeignKey(PricePlan, models.CASCADE, related_name="fixed_costs")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=200)
    amount = price_field()
    tenants = models.JSONField(help_text="Keys of tenants in their order, each with its share.")

    class Meta:
        db_table = "billing_fixed_cost"
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["plan", "position"], name="fixed_cost_position"),
            at_least_0("fixed_cost_not_negative", "amount"),
        ]

    def __str__(self) -> str:
        return self.name


class UnitWeight(models.Model):
    """The number of service units that a unit of a resource costs per second."""

    plan = models.ForeignKey(PricePlan, models.CASCADE, related_name="unit_weights")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    resource = models.CharField(max_length=63)
    weight = price_field()

    class Meta:
        db_table = "billing_unit_weight"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["plan", "resource"],
                name="unit_weight_unique",
                violation_error_code="rate.duplicate",
                violation_error_message="A plan weighs each resource once.",
            ),
            at_least_0("unit_weight_not_negative", "weight"),
        ]

    def __str__(self) -> str:
        return f"{self.resource} × {self.weight}"
