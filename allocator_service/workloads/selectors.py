"""Reads of workloads."""

from django.db.models import QuerySet

from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload


def workloads_for(*, pool: Pool, tenant: Tenant | None) -> QuerySet[Workload]:
    """The pool's workloads that a caller may see, withdrawn ones included."""
    return Workload.objects.filter(pool=pool).for_tenant(tenant).select_related("tenant", "pool")
