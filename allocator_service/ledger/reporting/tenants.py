"""The tenants of a report."""

from collections.abc import Collection, Iterable, Mapping

from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant


def tenants_reported(
    *,
    pool: Pool,
    period: Period,
    found: Iterable[int],
    tenant: Tenant | None,
    among: Collection[int] | None = None,
) -> Mapping[int, str]:
    """Return the sorted slugs of the members in the period and of the tenants in the ledger.

    `found` are the keys of the tenants in the ledger. `tenant` limits the result to one, `among` to
    these keys.
    """
    # Those that have left are included, since they may have used some.
    members = pool.memberships.filter(admitted_at__lt=period.end).values_list("tenant", flat=True)
    keys = {*members, *found}
    if tenant is not None:
        keys &= {tenant.pk}
    if among is not None:
        keys &= set(among)
    return dict(Tenant.objects.filter(pk__in=keys).order_by("slug").values_list("pk", "slug"))
