"""Costs of present allocations, and of changes in the results of tenants' simulations."""

from typing import Any
from uuid import UUID

from allocator_service.allocation.models import Simulation
from allocator_service.billing.rating.projections import (
    PROJECTED_DAYS,
    ChangeCost,
    Cost,
    CurrentCost,
    PoolPrices,
    pool_prices,
)
from allocator_service.core.clock import utc_now
from api.contract import documents


class CostDocument(documents.Document):
    per_hour = documents.DecimalField(description="Cost of an hour, the least under tiers.")
    per_hour_at_most = documents.DecimalField(description="Cost of an hour, the greatest.")
    over_30_days = documents.DecimalField(description="Cost of 30 days from the start of a month.")
    over_30_days_at_most = documents.DecimalField(
        description="Greatest cost of 30 days, which is equal to `over_30_days`."
    )
    unpriced = documents.ListField(
        documents.TextField(max_length=63),
        min_items=0,
        description="Resources that the price plan has no price for.",
    )


class ChangeCostDocument(documents.Document):
    currency = documents.CurrencyField()
    before = documents.DocumentField(CostDocument)
    after = documents.DocumentField(CostDocument)
    words = documents.TextField(max_length=2_000, description="The costs in sentences.")


class CurrentCostDocument(CostDocument):
    currency = documents.CurrencyField()
    words = documents.TextField(max_length=2_000, description="The cost in sentences.")


class CostReader:
    """Prices of the pools whose simulations a view shows, each read once for all tenants."""

    _prices: dict[UUID, PoolPrices | None]

    def change_cost(self, simulation: Simulation, uses: Any) -> dict[str, Any] | None:
        """Return the cost of a simulated change, None where the tenant sees no prices."""
        tenant = simulation.tenant
        if tenant is None or uses is None:
            return None
        # On the view, which serves one request: prices on the class would outlive a change of the
        # plans.
        known = self.__dict__.setdefault("_prices", {})
        if simulation.pool_id not in known:
            # A list shows many simulations of one pool, whose prices are the same for all.
            known[simulation.pool_id] = pool_prices(pool=simulation.pool, now=utc_now())
        of_pool: PoolPrices | None = known[simulation.pool_id]
        prices = None if of_pool is None else of_pool.of(tenant)
        return None if prices is None else _change_document(prices.change_cost(uses))


def cost_document(found: CurrentCost) -> dict[str, Any]:
    """Return the cost of a present allocation."""
    return {
        "currency": found.currency,
        **_side(found, found.cost),
        "words": found.words,
    }


def _change_document(found: ChangeCost) -> dict[str, Any]:
    return {
        "currency": found.currency,
        "before": _side(found, found.before),
        "after": _side(found, found.after),
        "words": found.words,
    }


def _side(found: ChangeCost | CurrentCost, cost: Cost) -> dict[str, Any]:
    return {
        "per_hour": f"{found.hour(cost.least):f}",
        "per_hour_at_most": f"{found.hour(cost.greatest):f}",
        f"over_{PROJECTED_DAYS}_days": f"{found.days(cost):f}",
        f"over_{PROJECTED_DAYS}_days_at_most": f"{found.days(cost):f}",
        "unpriced": list(cost.unpriced),
    }
