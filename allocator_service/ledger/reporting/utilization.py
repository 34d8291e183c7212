"""Utilisation, the use divided by the contributed capacity."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, localcontext
from typing import Any

from allocator_service.core.quantities import EXACT_DIGITS, Resource
from allocator_service.core.snapshots import one_snapshot
from allocator_service.ledger.amounts.clusters import (
    DEFINITION,
    ClusterUse,
    cluster_order,
    used_by_cluster,
)
from allocator_service.ledger.amounts.intervals import Amounts
from allocator_service.ledger.amounts.rate_changes import amounts_between, used_in_all
from allocator_service.ledger.models import Kind
from allocator_service.ledger.reporting.amounts import exact_sums, ratio
from allocator_service.ledger.reporting.groups import DividedPeriod, column_sums
from allocator_service.ledger.reporting.limits import refuse_too_long
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.clusters import has_had_clusters
from allocator_service.pools.contributed import capacity_within
from allocator_service.pools.models import Group, Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.tree_history import Child
from allocator_service.tenants.models import Tenant

DEFINITIONS = {
    "capacity": "Resource × seconds of the servers in the pool within the period, from the start of"
    " each contribution to its end, with the capacity they had then; draining servers count.",
    "used": "Resource × seconds of the entries of kind usage within the period, with their"
    " corrections: an entry that lies in it in part counts with that part of its seconds. Entries follow"
    " the use, those of metering after about a minute: a period that ends now lacks its last entries.",
    "idle": "capacity − used. Below 0 where more was reported than there was.",
    "utilization": "used / capacity.",
    "rounding": "Amounts are exact: nothing is rounded. Ratios are the nearest double.",
}
OF_CLUSTERS = f"{DEFINITION} Capacity is of the cluster that the servers are in now."
NO_CAPACITY = "no_capacity"

_Amounts = Mapping[tuple[str, int], Decimal]
"""Amounts by the name of a resource and the number of an interval."""


@dataclass(frozen=True)
class Use:
    """Capacity and use of one resource over one interval, in its unit × seconds."""

    capacity: Decimal
    used: Decimal

    @property
    def idle(self) -> Decimal:
        with localcontext(prec=EXACT_DIGITS):
            return self.capacity - self.used

    @property
    def utilization(self) -> float | None:
        """The utilisation, or None without capacity."""
        return ratio(self.used, self.capacity) if self.capacity else None


@dataclass(frozen=True)
class ChildUse:
    """The use of a pool by a child of a group, per resource, in all and in every interval."""

    child: Child
    used: Sequence[Decimal]
    series: Sequence[Sequence[Decimal]]


@dataclass(frozen=True)
class ClusterUtilization:
    """The utilisation of a cluster, by interval in `uses` and over the period in `totals`.

    None is use whose cluster is not known.
    """

    cluster: str | None
    uses: Sequence[Sequence[Use]]
    totals: Sequence[Use]


@dataclass(frozen=True)
class UtilizationReport:
    """The utilisation of every resource, by interval in `uses` and over the period in `totals`.

    In the report of a group, `used` is the group's, and `children` divide it. `clusters` divide both
    capacity and use, and are none in a pool without clusters.
    """

    pool: Pool
    period: Period
    resources: Sequence[Resource]
    uses: Sequence[Sequence[Use]]
    totals: Sequence[Use]
    group: str = ""
    children: Sequence[ChildUse] = ()
    clusters: Sequence[ClusterUtilization] = ()


def utilization_report(
    *, pool: Pool, period: Period, includes: Callable[[str], bool] | None = None
) -> UtilizationReport:
    """Return the utilisation of a pool by all tenants, or by those whose slug is included.

    Raises `Unacceptable` if the report would be too long.
    """
    resources = resources_of(pool)
    refuse_too_long(len(period.intervals) * len(resources))
    # One snapshot, so that the clusters add up to the whole.
    with one_snapshot():
        tenants, amounts = (
            (None, used_in_all(pool=pool, edges=period.edges))
            if includes is None
            else _used_by(pool, period, includes)
        )
        used = {
            (resource, interval): amount for resource, interval, amount in amounts.all_intervals()
        }
        uses = _cluster_uses(pool, period.edges, tenants)
        by_cluster = exact_sums(
            ((use.cluster, use.resource, use.interval), use.amount) for use in uses
        )
        return _report(pool, period, used, by_cluster)


def group_utilization(
    *, group: Group, period: Period, within: Group | None = None
) -> UtilizationReport:
    """Return the utilisation of a pool by a group, and the use by each of the group's children.

    Only time counts in which the group was `within` another one, if given. Raises `Unacceptable` if the
    report would be too long.
    """
    pool = group.pool
    names = [each.name for each in resources_of(pool)]
    divided = DividedPeriod(group, period, within=within)
    refuse_too_long((len(divided.children) + 1) * len(divided.edges) * len(names))
    with one_snapshot():
        amounts = amounts_between(
            pool=pool, edges=divided.edges, among=divided.tenants, kinds=[Kind.USAGE]
        )
        sums = exact_sums(
            ((child, use.resource, divided.interval_of(part)), amount)
            for use, part, amount in amounts.all_intervals()
            if (child := divided.child_of(use.tenant, part)) is not None
        )
        by_cluster = exact_sums(
            ((use.cluster, use.resource, divided.interval_of(use.interval)), use.amount)
            for use in _cluster_uses(pool, divided.edges, divided.tenants)
            if divided.child_of(use.tenant, use.interval) is not None
        )
        children = []
        for child in divided.children:
            series = [
                [sums.get((child, name, interval), Decimal(0)) for name in names]
                for interval in range(len(period.intervals))
            ]
            children.append(ChildUse(child, column_sums(series, len(names)), series))
        used = exact_sums(
            ((name, interval), amount) for (_, name, interval), amount in sums.items()
        )
        return _report(pool, period, used, by_cluster, group=group.slug, children=children)


def _report(
    pool: Pool,
    period: Period,
    used: _Amounts,
    by_cluster: Mapping[tuple[str | None, str, int], Decimal],
    **of_group: Any,
) -> UtilizationReport:
    names = [each.name for each in resources_of(pool)]
    capacities = exact_sums(
        # Servers without the label are those of the cluster named like the pool.
        ((each.cluster or pool.slug, names[each.resource], each.interval), each.amount)
        for each in capacity_within(pool=pool, edges=period.edges)
    )
    capacity = exact_sums(((name, at), amount) for (_, name, at), amount in capacities.items())

    def uses(of_capacity: _Amounts, of_use: _Amounts) -> list[list[Use]]:
        nothing = Decimal(0)
        return [
            [
                Use(of_capacity.get((name, at), nothing), of_use.get((name, at), nothing))
                for at in range(len(period.intervals))
            ]
            for name in names
        ]

    whole = uses(capacity, used)
    clusters = []
    if has_had_clusters(pool):
        offered, consumed = _divided(capacities), _divided(by_cluster)
        found = offered.keys() | consumed.keys()
        refuse_too_long((len(found) + 1) * len(period.intervals) * len(names))
        for cluster in sorted(found, key=cluster_order):
            rows = uses(offered.get(cluster, {}), consumed.get(cluster, {}))
            clusters.append(ClusterUtilization(cluster, rows, [_total(row) for row in rows]))
    totals = [_total(row) for row in whole]
    resources = resources_of(pool)
    return UtilizationReport(pool, period, resources, whole, totals, clusters=clusters, **of_group)


def _divided(amounts: Mapping[tuple[Any, str, int], Decimal]) -> dict[str | None, _Amounts]:
    """Return the amounts of each cluster by resource and interval."""
    found: dict[str | None, dict[tuple[str, int], Decimal]] = {}
    for (cluster, resource, interval), amount in amounts.items():
        found.setdefault(cluster, {})[resource, interval] = amount
    return {**found}


def _cluster_uses(
    pool: Pool, edges: Sequence[datetime], among: Collection[int] | None
) -> list[ClusterUse]:
    """Return the use by cluster, none in a pool without clusters."""
    if not has_had_clusters(pool):
        return []
    return used_by_cluster(pool=pool, edges=edges, among=among)


def _used_by(
    pool: Pool, period: Period, includes: Callable[[str], bool]
) -> tuple[set[int], Amounts[str]]:
    """Return the tenants with use whose slug is included, and their use of each resource."""
    amounts = amounts_between(pool=pool, edges=period.edges, kinds=[Kind.USAGE])
    tenants = Tenant.objects.filter(pk__in={use.tenant for use in amounts.changes})
    kept = {pk for pk, slug in tenants.values_list("pk", "slug") if includes(slug)}
    return kept, amounts.of(lambda use: use.tenant in kept).by(lambda use: use.resource)


def _total(row: Sequence[Use]) -> Use:
    sums = exact_sums((name, getattr(use, name)) for use in row for name in ("capacity", "used"))
    return Use(sums["capacity"], sums["used"])
