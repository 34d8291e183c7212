"""Which tenants a report is about."""

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
    """The slugs, in their order, of the members in the period and of whom the ledger names.

    `found` are the keys of those that the ledger names; `tenant` limits them to that one, `among` to
    those of these keys.
    """
    members = pool.memberships.filter(admitted_at__lt=period.end).values_list("tenant", flat=True)
    keys = {*members, *found}
    if tenant is not None:
        keys &= {tenant.pk}
    if among is not None:
        keys &= set(among)
    return dict(Tenant.objects.filter(pk__in=keys).order_by("slug").values_list("pk", "slug"))
