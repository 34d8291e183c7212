"""Groups and members of a pool, and their weights and amounts over time."""

from decimal import Decimal

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeOperators
from django.db import models
from django.db.models import F, Q

from allocator_service.core.constraints import TimeRange
from allocator_service.core.quantities import FRACTIONAL_DIGITS
from allocator_service.pools.models.pool import (
    LARGEST_TIER,
    TIER_RANGE,
    Pool,
    limit_field,
    own_servers_field,
)
from allocator_service.tenants.models import SLUG_PATTERN, Tenant, validate_slug


class Group(models.Model):
    """Members and groups of a pool that share as one.

    A retired group has no present terms.
    """

    pool = models.ForeignKey(Pool, models.PROTECT, related_name="groups")
    slug = models.CharField(max_length=63, validators=[validate_slug])
    name = models.CharField(max_length=200)
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(editable=False)
    retired_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "pool_group"
        ordering = ["slug"]
        constraints = [
            models.UniqueConstraint(
                fields=["pool", "slug"],
                # A retired group frees its slug, which a reorganised pool may need again.
                condition=Q(retired_at=None),
                name="group_slug_unique",
                violation_error_code="group.exists",
                violation_error_message="The pool has a group with this slug.",
            ),
            models.CheckConstraint(
                condition=Q(slug__regex=SLUG_PATTERN),
                name="group_slug_wellformed",
                violation_error_code="slug.syntax",
                violation_error_message="A slug is 1 to 63 lower-case letters, digits and hyphens.",
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class GroupTerms(models.Model):
    """Parent, weight, tier and amounts of a group over an interval.

    The present terms have no end. `parent` null is the pool itself.
    """

    group = models.ForeignKey(Group, models.PROTECT, related_name="terms")
    parent = models.ForeignKey(Group, models.PROTECT, null=True, related_name="terms_below")
    weight = models.DecimalField(
        max_digits=24, decimal_places=FRACTIONAL_DIGITS, default=Decimal(1)
    )
    tier = models.IntegerField(default=0)
    guarantee = limit_field()
    limit = limit_field()
    own_servers = own_servers_field()
    start = models.DateTimeField()
    end = models.DateTimeField(null=True)

    class Meta:
        db_table = "pool_group_terms"
        ordering = ["start"]
        indexes = [
            models.Index(
                fields=["group"],
                condition=Q(end=None) & ~Q(limit=[]),
                name="group_terms_limited",
            )
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(weight__gt=0, weight__lt=Decimal(10) ** 12),
                name="group_weight_positive",
                violation_error_code="weight.not_positive",
                violation_error_message="The weight must be greater than 0 and less than 10^12.",
            ),
            models.CheckConstraint(
                condition=Q(tier__gte=-LARGEST_TIER, tier__lte=LARGEST_TIER),
                name="group_tier_in_range",
                violation_error_code="tier.out_of_range",
                violation_error_message=TIER_RANGE,
            ),
            # Longer cycles are refused by the service, which sees the whole tree under the pool's lock.
            models.CheckConstraint(
                condition=Q(parent=None) | ~Q(parent=F("group")),
                name="group_not_its_own_parent",
                violation_error_code="group.cycle",
                violation_error_message="A group cannot be its own parent.",
            ),
            models.UniqueConstraint(
                fields=["group"], condition=Q(end=None), name="group_terms_one_present"
            ),
            ExclusionConstraint(
                name="group_terms_disjoint",
                expressions=[
                    ("group", RangeOperators.EQUAL),
                    (TimeRange("start", "end"), RangeOperators.OVERLAPS),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.group}: {self.weight}"


class Membership(models.Model):
    """A tenant's membership in a pool, without present terms once it has ended."""

    pool = models.ForeignKey(Pool, models.PROTECT, related_name="memberships")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="memberships")
    version = models.PositiveIntegerField(default=1, editable=False)
    admitted_at = models.DateTimeField(editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "pool_membership"
        constraints = [
            models.UniqueConstraint(
                fields=["pool", "tenant"],
                # One row forever: a tenant that is admitted again continues its history.
                name="membership_unique",
                violation_error_code="member.exists",
                violation_error_message="The tenant is a member of the pool.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.tenant} in {self.pool}"


class MembershipTerms(models.Model):
    """Weight, group, tier and amounts of a member over an interval.

    The present terms have no end. `group` null is the pool itself.
    """

    membership = models.ForeignKey(Membership, models.PROTECT, related_name="terms")
    weight = models.DecimalField(
        max_digits=24, decimal_places=FRACTIONAL_DIGITS, default=Decimal(1)
    )
    best_effort = models.BooleanField(default=False)
    group = models.ForeignKey(
        # The members of one group are read by the pool's index on memberships.
        Group,
        models.PROTECT,
        null=True,
        related_name="member_terms",
        db_index=False,
    )
    tier = models.IntegerField(default=0, db_default=0)
    guarantee = limit_field()
    limit = limit_field()
    lend = limit_field()
    own_servers = own_servers_field()
    start = models.DateTimeField()
    end = models.DateTimeField(null=True)

    class Meta:
        db_table = "pool_membership_terms"
        ordering = ["start"]
        indexes = [
            models.Index(
                fields=["membership"],
                condition=Q(end=None) & ~Q(limit=[]),
                name="membership_terms_limited",
            )
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(weight__gt=0, weight__lt=Decimal(10) ** 12),
                name="membership_weight_positive",
                violation_error_code="weight.not_positive",
                violation_error_message="A weight is above 0 and below 10^12.",
            ),
            models.CheckConstraint(
                condition=Q(tier__gte=-LARGEST_TIER, tier__lte=LARGEST_TIER),
                name="membership_tier_in_range",
                violation_error_code="tier.out_of_range",
                violation_error_message=TIER_RANGE,
            ),
            # Present terms are those without an end: with two, a member would count twice.
            models.UniqueConstraint(
                fields=["membership"], condition=Q(end=None), name="membership_terms_one_present"
            ),
            ExclusionConstraint(
                name="membership_terms_disjoint",
                expressions=[
                    ("membership", RangeOperators.EQUAL),
                    (TimeRange("start", "end"), RangeOperators.OVERLAPS),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.membership}: {self.weight}"
