"""A pool that takes reports, and tenants to report for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from allocator_service.allocation.policies import policy_choose
from allocator_service.core.quantities import Resource
from allocator_service.pools.models import Pool
from allocator_service.pools.policy import Window
from allocator_service.pools.services import PoolSettings, pool_create
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.services import tenant_create

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def open_pool(slug: str, resources: Sequence[str]) -> Pool:
    """A new pool whose usage is reported."""
    chosen = PoolSettings(
        name=slug,
        resources=[Resource(name, "") for name in resources],
        policy=policy_choose("drf", None, {}),
        window=Window("unbounded", NOW),
        weights="explicit",
        decision_interval="PT1M",
        metering="reported",
        currency="EUR",
        timezone="UTC",
        transparent=False,
    )
    return pool_create(slug=slug, settings=chosen, now=NOW)


def some_tenants(count: int) -> list[Tenant]:
    """Tenants of the benchmark, the same for every pool."""
    slugs = [f"ledger-bench-{number}" for number in range(count)]
    present = {tenant.slug: tenant for tenant in Tenant.objects.filter(slug__in=slugs)}
    return [present.get(slug) or tenant_create(slug=slug, name=slug, now=NOW) for slug in slugs]
