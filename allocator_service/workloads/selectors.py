"""Reads of workloads."""

from collections.abc import Collection

from django.db.models import QuerySet

from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload


def workloads_for(*, pool: Pool, tenant: Tenant | None) -> QuerySet[Workload]:
    """Return the pool's workloads that a caller may see, including withdrawn ones."""
    return Workload.objects.filter(pool=pool).for_tenant(tenant).select_related("tenant", "pool")


def workloads_named(
    *, pool: Pool, tenants: Collection[int], names: Collection[str]
) -> QuerySet[Workload]:
    """Return these tenants' workloads of these names, withdrawn ones included, oldest first.

    Of tenants by their keys, because every tenant of a large pool may have a workload of one name.
    """
    return Workload.objects.filter(pool=pool, tenant__in=tenants, name__in=names).order_by("pk")
