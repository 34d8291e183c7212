"""Reads of price plans."""

from uuid import UUID

from django.db.models import QuerySet

from allocator_service.billing.models import PlanState, PricePlan
from allocator_service.core.selecting import get_or_missing
from allocator_service.tenants.models import Tenant

PARTS = (
    "rates__owner",
    "spot_prices",
    "commitments__tenant",
    "fixed_costs",
    "unit_weights",
)


def plans_for(tenant: Tenant | None) -> QuerySet[PricePlan]:
    """Return the plans that a caller may see, which for a tenant are those of its pools without drafts.

    Plans of retired pools are included, because statements name them.
    """
    plans = PricePlan.objects.select_related("pool")
    if tenant is not None:
        plans = plans.filter(pool__memberships__tenant=tenant).exclude(state=PlanState.DRAFT)
    return plans.prefetch_related(*PARTS, "pool__resource_types")


def plan_get(*, plan_id: UUID | None, tenant: Tenant | None) -> PricePlan:
    """Return the plan of this id, if the caller may see it. Raises `Missing`."""
    return get_or_missing(plans_for(tenant), "price_plan.not_found", pk=plan_id)
