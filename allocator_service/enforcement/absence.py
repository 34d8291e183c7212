"""Members that their schedulers do not know any more."""

from datetime import datetime, timedelta

from django.db import transaction

from allocator_service.core.errors import Conflict
from allocator_service.enforcement.state import absent_tenants
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.member_services import member_end
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload

LONGEST_ABSENCE = timedelta(days=30)


@transaction.atomic
def absent_members_end(*, pool: Pool, now: datetime) -> list[str]:
    """End the memberships that agents began and that are absent for 30 days.

    Returns their slugs. A member with servers or workloads stays, and so does one that no agent
    admitted. Raises `Missing` for a retired pool.
    """
    pool = pool_lock(pool)  # no report comes between the look and the end
    ended = []
    for slug, (since, agents) in sorted(absent_tenants(pool=pool, now=now).items()):
        if now - since < LONGEST_ABSENCE:
            continue
        names = [f"{agent}/admission" for agent in agents]
        tenant = Tenant.objects.filter(
            slug=slug, memberships__pool=pool, memberships__ended_at=None
        )
        # The agent's own workload shows that it began the membership: others were begun by operators.
        admitted = Workload.objects.filter(pool=pool, tenant__slug=slug, name__in=names)
        found = tenant.first()
        if found is None or not admitted.exists():
            continue
        try:
            member_end(pool=pool, tenant=found, version=None, now=now)
        except Conflict:
            continue
        ended.append(slug)
    return ended
