"""Pools with prices, and entries as metering writes them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from allocator_service.billing.models import PricePlan
from allocator_service.billing.months import Month, month_named
from allocator_service.billing.plans.services import (
    PlanDraft,
    RateDraft,
    plan_create,
    plan_publish,
)
from allocator_service.core.quantities import Resource
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.pools.models import Pool
from allocator_service.pools.services import pool_create
from allocator_service.tenants.models import Tenant
from tests.integration.conftest import settings

BERLIN = ZoneInfo("Europe/Berlin")
APRIL_2 = datetime(2027, 4, 2, tzinfo=UTC)
MAY_2 = datetime(2027, 5, 2, tzinfo=UTC)


def at(day: int, month: int = 3, hour: int = 0, *, year: int = 2027) -> datetime:
    """An hour of a day in Berlin."""
    return datetime(year, month, day, hour, tzinfo=BERLIN).astimezone(UTC)


def rate(resource: str = "cpu", **prices: str) -> RateDraft:
    """Prices of a resource: `of_owner` is whose servers they are for."""
    owner: Any = prices.pop("of_owner", None)
    written: dict[str, Any] = {name: Decimal(text) for name, text in prices.items()}
    return RateDraft(resource, owner, **written)


def publish(pool: Pool, start: datetime, *rates: RateDraft, **more: Any) -> PricePlan:
    """A plan of these prices, on the pool's timeline."""
    more = {"name": f"from {start:%Y-%m-%d}", "fee": Decimal("0.1"), "end": None, **more}
    draft = PlanDraft(start=start, rates=rates, **more)
    plan = plan_create(pool=pool, draft=draft, now=start)
    return plan_publish(plan=plan, version=None, now=start)


def draft_plan(pool: Pool, start: datetime, end: datetime | None, *rates: RateDraft) -> PricePlan:
    """A plan of these prices that is not published."""
    draft = PlanDraft(f"draft {start:%Y-%m-%d}", start, end, fee=Decimal("0.1"), rates=rates)
    return plan_create(pool=pool, draft=draft, now=start)


def used(
    pool: Pool,
    tenant: Tenant,
    owner: Tenant | None,
    quantity: str | float,
    start: datetime,
    end: datetime,
    **more: Any,
) -> Any:
    """An entry as metering writes it; not sealed."""
    row = {
        "pool_id": pool.pk,
        "tenant_id": tenant.pk,
        "server_owner_id": None if owner is None else owner.pk,
        "workload_id": None,
        "resource": "cpu",
        "unit": "core",
        "quantity": Decimal(str(quantity)),
        "start": start,
        "end": end,
        "kind": "usage",
        "corrects": None,
        "reason": "",
        "source": "decisions",
        "event_id": None,
        "run_id": None,
        "recorded_at": end,
        **more,
    }
    return entries_append([row])[0]


def seal(now: datetime = APRIL_2) -> None:
    """Number what waits."""
    entries_seal_all(now=now)


def month(text: str, pool: Pool) -> Month:
    found = month_named(text, pool.timezone)
    assert found is not None
    return found


@pytest.fixture
def berlin(db: None) -> Pool:
    """A pool of cores whose months are Berlin's."""
    chosen = settings(timezone="Europe/Berlin", resources=[Resource("cpu", "core")])
    return pool_create(slug="lab", settings=chosen, now=at(1) - timedelta(days=1))


@pytest.fixture
def worked(berlin: Pool, tenant: Callable[[str], Tenant]) -> Pool:
    """March 2027 of the specification: a uses 6 cores of its own and 3 of b's, b uses 4 of its own."""
    a, b = tenant("a"), tenant("b")
    prices = {"own": "0.01", "outside": "0.12"}
    publish(berlin, at(1), rate(**prices, shared="0.04"))
    publish(berlin, at(20), rate(**prices, shared="0.05"))
    used(berlin, a, a, 6, at(1), at(1, 4))
    used(berlin, a, b, 3, at(15), at(20))
    used(berlin, a, b, 3, at(20), at(1, 4))
    used(berlin, b, b, 4, at(1), at(1, 4))
    for member, alone in ((a, 7), (b, 4)):
        used(berlin, member, None, alone, at(1), at(1, 4), kind="alone")
    seal()
    return berlin
