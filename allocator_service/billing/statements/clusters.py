"""Use of a month by cluster, as statements have it."""

from collections.abc import Collection, Mapping
from decimal import Decimal

from allocator_service.billing.months import Month
from allocator_service.core.money import exactly
from allocator_service.ledger.amounts.clusters import used_by_cluster
from allocator_service.pools.clusters import has_had_clusters
from allocator_service.pools.models import Pool

ClusterHours = Mapping[str | None, Mapping[str, Decimal]]
"""Unit × seconds by cluster and resource. None is the use whose cluster is not known."""


@exactly
def month_clusters(
    pool: Pool,
    month: Month,
    among: Collection[int] | None = None,
    *,
    through: int | None = None,
) -> dict[int, ClusterHours] | None:
    """Return what each tenant used in a month on each cluster, None in a pool without clusters.

    `among` limits it to the tenants with these keys. Entries with a number above `through` are left out.
    """
    if not has_had_clusters(pool):
        return None
    found: dict[int, dict[str | None, dict[str, Decimal]]] = {}
    edges = [month.start, month.end]
    for use in used_by_cluster(pool=pool, edges=edges, among=among, through=through):
        found.setdefault(use.tenant, {}).setdefault(use.cluster, {})[use.resource] = use.amount
    return {**found}
