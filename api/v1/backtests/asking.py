"""What a caller may name in a backtest: pools and price plans that it sees, by the names it knows."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from allocator_service.backtests.models import Backtest
from allocator_service.backtests.selectors import Holder
from allocator_service.backtests.services import backtest_request
from allocator_service.billing.models import PricePlan
from allocator_service.billing.plans.selectors import plan_get
from allocator_service.core.errors import Missing, Unacceptable
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import pool_get
from allocator_service.tenants.models import Tenant
from api.pseudonyms import tenant_name
from api.v1.runs.visibility import sees_whole


def backtest_ask(
    *,
    holder: Holder,
    tenant: Tenant | None,
    pool: str | None,
    price_plan: UUID | None,
    asked: Mapping[str, Any],
    now: datetime,
) -> Backtest:
    """Ask for a backtest as a tenant, or as an operator.

    `pool` is a slug, `asked` what `backtest_request` takes. Raises `Unacceptable` for a pool or a price
    plan that the caller does not see, and for a trace on servers that are not the tenant's to read.
    """
    found = None if pool is None else _pool(pool, tenant)
    if (
        found is not None
        and asked["trace"] is not None
        and not asked["servers"]
        and not sees_whole(found, tenant)
    ):
        raise Unacceptable(
            "The servers of this pool are not yours to read: name those that the trace runs on.",
            code="backtest.no_servers",
            pointer="/servers",
        )
    return backtest_request(
        holder=holder,
        tenant=tenant,
        pool=found,
        plan=None if price_plan is None else _plan(price_plan, tenant),
        names=None if found is None else _names(found, tenant),
        asked=asked,
        now=now,
    )


def _pool(slug: str, tenant: Tenant | None) -> Pool:
    try:
        return pool_get(slug=slug, tenant=tenant)
    except Missing as error:
        raise Unacceptable(
            f'There is no pool "{slug}".', code="pool.unknown", pointer="/pool"
        ) from error


def _plan(plan_id: UUID, tenant: Tenant | None) -> PricePlan:
    try:
        return plan_get(plan_id=plan_id, tenant=tenant)
    except Missing as error:
        raise Unacceptable(
            "There is no such price plan.", code="price_plan.unknown", pointer="/price_plan"
        ) from error


def _names(pool: Pool, tenant: Tenant | None) -> dict[str, str] | None:
    """By which names a tenant knows the members of a pool; None for whoever knows their own."""
    if tenant is None:
        return None
    slugs = pool.memberships.values_list("tenant__slug", flat=True)
    return {slug: tenant_name(slug, pool=pool, caller=tenant) for slug in slugs}
