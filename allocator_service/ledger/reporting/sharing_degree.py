"""The sharing degree, a tenant's use divided by its use alone.

Source: Tang et al., TPDS 2018, §3 (policies §4): β[r] = used[r] / alone[r], β = the least of them.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

from allocator_service.core.quantities import Resource
from allocator_service.core.snapshots import one_snapshot
from allocator_service.ledger.amounts.clusters import ClusterUse, cluster_order, used_by_cluster
from allocator_service.ledger.amounts.intervals import Amounts, Use
from allocator_service.ledger.amounts.rate_changes import amounts_between
from allocator_service.ledger.models import Kind, PendingDecision, SealedDecision
from allocator_service.ledger.reporting.amounts import amounts_within, exact_sums, ratio
from allocator_service.ledger.reporting.groups import DividedPeriod, column_sums
from allocator_service.ledger.reporting.limits import refuse_too_long
from allocator_service.ledger.reporting.periods import Period
from allocator_service.ledger.reporting.tenants import tenants_reported
from allocator_service.pools.clusters import has_had_clusters
from allocator_service.pools.models import Group, Metering, Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.tree_history import Child
from allocator_service.tenants.models import Tenant

K = TypeVar("K")

BASELINE = "entitled"
DEFINITIONS = {
    "used": "Resource × seconds of the entries of kind usage within the period, with their"
    " corrections: an entry that lies in it in part counts with that part of its seconds.",
    "alone": "Resource × seconds of the entries of kind alone: what the tenant would have used in its"
    " entitled partition of the pool, which is C[r] · w / Σ w. Whole tasks where the pool's policy"
    " hands out whole tasks.",
    "sharing_degree": "used / alone per resource, of the time from alone_from on; min is the least of"
    " them over the resources with alone above 0. Above 1 is a benefit, below 1 a loss.",
    "rounding": "Amounts are exact: nothing is rounded. Ratios are the nearest double.",
}

# Reasons for a missing sharing degree.
NO_DEMAND = "no_demand"
NOTHING_ALONE = "nothing_alone"
NO_REFERENCE = "no_reference"
REASONS = {
    NO_DEMAND: "It used nothing and would have used nothing alone.",
    NOTHING_ALONE: "It used some, and alone could have used none.",
    NO_REFERENCE: "The usage was reported or imported for a time without decisions: what would have"
    " been used alone is not known.",
}


@dataclass(frozen=True)
class Degree:
    """Used and alone of one tenant over one interval, per resource in the pool's order.

    `compared` is the part of `used` in the time for which `alone` is known. `reasons` explain the
    `ratios` that are None. `least` is the sharing degree. It is None without any ratio, and
    `reason` then explains it.
    """

    used: Sequence[Decimal]
    compared: Sequence[Decimal]
    alone: Sequence[Decimal]
    ratios: Sequence[float | None]
    reasons: Sequence[str | None]

    @property
    def least(self) -> float | None:
        return min((ratio for ratio in self.ratios if ratio is not None), default=None)

    @property
    def reason(self) -> str | None:
        """The most specific of the resources' reasons."""
        if self.least is not None:
            return None
        return next(reason for reason in (NO_REFERENCE, NOTHING_ALONE, NO_DEMAND)
                    if reason in self.reasons)  # fmt: skip


@dataclass(frozen=True)
class TenantDegree:
    """A tenant's sharing degree over the period, and in each of its intervals.

    `clusters` divide what it used over the period, if that was requested and the pool has clusters.
    The cluster None is not known.
    """

    tenant: str
    total: Degree
    series: Sequence[Degree]
    clusters: Mapping[str | None, Sequence[Decimal]] | None = None


@dataclass(frozen=True)
class SharingDegreeReport:
    """The sharing degrees of a pool's tenants, or of the children of one of its groups, by slug.

    `alone_from` is the first decision's beginning: nothing is known of `alone` before it. In the
    report of a group, `group` is its sum, `groups` are the groups directly below it, and `tenants`
    its own members. All three are named by their slugs.
    """

    pool: Pool
    alone_from: datetime | None
    period: Period
    resources: Sequence[Resource]
    tenants: Sequence[TenantDegree]
    group: TenantDegree | None = None
    groups: Sequence[TenantDegree] = ()

    def under(
        self, name: Callable[[str], str], includes: Callable[[str], bool]
    ) -> "SharingDegreeReport":
        """Return the report with tenants renamed, limited to the included names."""
        named = [replace(each, tenant=name(each.tenant)) for each in self.tenants]
        kept = [each for each in named if includes(each.tenant)]
        return replace(self, tenants=sorted(kept, key=lambda each: each.tenant))


def sharing_degree_report(
    *, pool: Pool, period: Period, tenant: Tenant | None = None, by_cluster: bool = False
) -> SharingDegreeReport:
    """Return the sharing degrees of a pool, or of one tenant.

    With `by_cluster`, the use of each tenant is divided among the clusters of a pool that has any.
    Raises `Unacceptable` if the report would be too long.
    """

    def read(edges: Sequence[datetime]) -> Amounts[Use]:
        return amounts_between(pool=pool, edges=edges, tenant=tenant)

    # One snapshot, so that clusters add up to what was used.
    with one_snapshot() if by_cluster else nullcontext():
        amounts = amounts_within(
            pool=pool, period=period, tenant=tenant, values=len(resources_of(pool))
        )
        clusters: _ClusterRows[int] | None = None
        if by_cluster and has_had_clusters(pool):
            among = None if tenant is None else [tenant.pk]
            edges = [period.start, period.end]
            uses = used_by_cluster(pool=pool, edges=edges, among=among)
            clusters = _cluster_rows((use.tenant, use) for use in uses)
        return _report(pool, period, amounts, read, tenant, clusters=clusters)


_ClusterRows = Mapping[K, Mapping[tuple[str | None, str], Decimal]]
"""Amounts by cluster and resource of each tenant or child."""


def _cluster_rows(parts: Iterable[tuple[K, ClusterUse]]) -> _ClusterRows[K]:
    rows: dict[K, dict[tuple[str | None, str], Decimal]] = {}
    sums = exact_sums(((key, use.cluster, use.resource), use.amount) for key, use in parts)
    for (key, cluster, resource), amount in sums.items():
        rows.setdefault(key, {})[cluster, resource] = amount
    return rows


def _clusters(
    amounts: Mapping[tuple[str | None, str], Decimal], resources: Sequence[Resource]
) -> dict[str | None, Sequence[Decimal]]:
    """Return the vectors of each cluster, the unknown one last."""
    return {
        cluster: [amounts.get((cluster, each.name), Decimal(0)) for each in resources]
        for cluster in sorted({cluster for cluster, _ in amounts}, key=cluster_order)
    }


def _refuse_too_many_clusters(report: SharingDegreeReport, rows: _ClusterRows[K]) -> None:
    vectors = sum(len({cluster for cluster, _ in amounts}) for amounts in rows.values())
    intervals = len(report.period.intervals) * (len(report.tenants) + len(report.groups))
    refuse_too_long((vectors + intervals) * len(report.resources))


def sharing_degree_history(
    *, pool: Pool, period: Period, among: Collection[int]
) -> SharingDegreeReport:
    """Return the sharing degrees of the tenants with these keys, unsealed entries included."""

    def read(edges: Sequence[datetime]) -> Amounts[Use]:
        return amounts_between(pool=pool, edges=edges, among=among, unsealed=True)

    return _report(pool, period, read(period.edges), read, None, among)


def group_sharing_degree(
    *, group: Group, period: Period, within: Group | None = None, by_cluster: bool = False
) -> SharingDegreeReport:
    """Return the sharing degree of a group and of its children.

    Only time counts in which the group was `within` another one, if given. With `by_cluster`, their use
    is divided among the clusters of a pool that has any. Raises `Unacceptable` if the report would be
    too long.
    """
    pool = group.pool
    resources = resources_of(pool)
    alone_from = _alone_from(pool)
    divided = DividedPeriod(group, period, also=[alone_from] if alone_from else (), within=within)
    children = divided.children
    refuse_too_long(len(children) * len(divided.edges) * len(resources))
    has_clusters = by_cluster and has_had_clusters(pool)
    # One snapshot, so that clusters add up to what was used.
    with one_snapshot() if has_clusters else nullcontext():
        amounts = amounts_between(pool=pool, edges=divided.edges, among=divided.tenants)
        uses = (
            used_by_cluster(pool=pool, edges=divided.edges, among=divided.tenants)
            if has_clusters
            else []
        )
    sums = _sums_of_children(amounts, divided)
    # `alone_from` is one of the edges unless it is outside the period.
    since = 0 if alone_from is None else bisect_left(divided.edges, alone_from)
    compared = _sums_of_children(amounts, divided, since)
    metered = pool.metering == Metering.ALLOCATION

    def degree(child: Child, interval: int) -> Degree:
        def vector(of: _ChildSums, kind: Kind) -> list[Decimal]:
            return [
                of.get((child, interval, kind.value, each.name), Decimal(0)) for each in resources
            ]

        return degree_of(
            vector(sums, Kind.USAGE),
            vector(compared, Kind.USAGE),
            vector(sums, Kind.ALONE),
            metered=metered,
        )

    intervals = range(len(period.intervals))
    series = {child: [degree(child, interval) for interval in intervals] for child in children}
    of_children = _cluster_rows(
        (child, use)
        for use in uses
        if (child := divided.child_of(use.tenant, use.interval)) is not None
    )
    of_group = exact_sums(part for amounts in of_children.values() for part in amounts.items())

    def row(
        slug: str, degrees: Sequence[Degree], used: Mapping[tuple[str | None, str], Decimal]
    ) -> TenantDegree:
        total = _total(degrees, len(resources), metered=metered)
        return TenantDegree(
            slug, total, degrees, _clusters(used, resources) if has_clusters else None
        )

    rows = [
        (child, row(child.slug, each, of_children.get(child, {}))) for child, each in series.items()
    ]
    whole = [
        _total([each[interval] for each in series.values()], len(resources), metered=metered)
        for interval in intervals
    ]
    report = SharingDegreeReport(
        pool,
        alone_from,
        period,
        resources,
        [each for child, each in rows if not child.is_group],
        row(group.slug, whole, of_group),
        [each for child, each in rows if child.is_group],
    )
    _refuse_too_many_clusters(report, of_children)
    return report


def _sums_of_children(
    amounts: Amounts[Use], divided: DividedPeriod, since: int = 0
) -> "_ChildSums":
    """Return the sums by child and interval of the parts from number `since` on."""
    return exact_sums(
        ((child, divided.interval_of(part), use.kind, use.resource), amount)
        for use, part, amount in amounts.all_intervals()
        if part >= since and (child := divided.child_of(use.tenant, part)) is not None
    )


def _report(
    pool: Pool,
    period: Period,
    amounts: Amounts[Use],
    read: Callable[[Sequence[datetime]], Amounts[Use]],
    tenant: Tenant | None,
    among: Collection[int] | None = None,
    clusters: _ClusterRows[int] | None = None,
) -> SharingDegreeReport:
    resources = resources_of(pool)
    alone_from = _alone_from(pool)
    slugs = tenants_reported(
        pool=pool,
        period=period,
        found={use.tenant for use in amounts.present},
        tenant=tenant,
        among=among,
    )
    refuse_too_long(len(slugs) * len(period.intervals) * len(resources))
    sums = _sums(amounts)
    compared = sums if alone_from is None else _sums_from(alone_from, period, sums, read)
    metered = pool.metering == Metering.ALLOCATION

    def degree(key: int, interval: int) -> Degree:
        def vector(of: _Sums, kind: Kind) -> list[Decimal]:
            return [
                of.get((key, interval, kind.value, each.name), Decimal(0)) for each in resources
            ]

        return degree_of(
            vector(sums, Kind.USAGE),
            vector(compared, Kind.USAGE),
            vector(sums, Kind.ALONE),
            metered=metered,
        )

    tenants = []
    for key, slug in slugs.items():
        series = [degree(key, interval) for interval in range(len(period.intervals))]
        total = _total(series, len(resources), metered=metered)
        used = None if clusters is None else _clusters(clusters.get(key, {}), resources)
        tenants.append(TenantDegree(slug, total, series, used))
    report = SharingDegreeReport(pool, alone_from, period, resources, tenants)
    _refuse_too_many_clusters(report, clusters or {})
    return report


_Sums = Mapping[tuple[int, int, str, str], Decimal]
_ChildSums = Mapping[tuple[Child, int, str, str], Decimal]


def _sums(amounts: Amounts[Use]) -> _Sums:
    return {
        (use.tenant, interval, use.kind, use.resource): amount
        for use, interval, amount in amounts.all_intervals()
    }


def _alone_from(pool: Pool) -> datetime | None:
    """Return the instant at which the pool's first decision came into force, or None."""
    sealed, pending = (
        decisions.objects.filter(pool=pool).values("effective_from").order_by("effective_from")[:1]
        for decisions in (SealedDecision, PendingDecision)
    )
    # The first decision may still wait for its seal.
    firsts = [row["effective_from"] for row in sealed.union(pending, all=True)]
    return min(firsts, default=None)


def _sums_from(
    instant: datetime,
    period: Period,
    sums: _Sums,
    read: Callable[[Sequence[datetime]], Amounts[Use]],
) -> _Sums:
    """Return the sums of the part of each interval at or after an instant."""
    if instant <= period.start:
        return sums
    later = [edge for edge in period.edges if edge > instant]
    if not later:
        return {}
    # The intervals that end by the instant have no amounts after it.
    skipped = len(period.edges) - len(later) - 1
    return {
        (tenant, skipped + interval, kind, resource): amount
        for (tenant, interval, kind, resource), amount in _sums(read([instant, *later])).items()
    }


def degree_of(
    used: Sequence[Decimal],
    compared: Sequence[Decimal],
    alone: Sequence[Decimal],
    *,
    metered: bool,
) -> Degree:
    """Return the degree of amounts. `metered` pools meter themselves, so that `alone` is known."""
    ratios = [ratio(c, a) if a else None for c, a in zip(compared, alone, strict=True)]
    reasons = [
        _reason(u, c, a, metered=metered) for u, c, a in zip(used, compared, alone, strict=True)
    ]
    return Degree(used, compared, alone, ratios, reasons)


def _reason(used: Decimal, compared: Decimal, alone: Decimal, *, metered: bool) -> str | None:
    if alone:
        return None
    if not metered or (used and not compared):
        return NO_REFERENCE
    return NOTHING_ALONE if used else NO_DEMAND


def _total(degrees: Sequence[Degree], resources: int, *, metered: bool) -> Degree:
    # The ratio of the sums, since a mean of the intervals' ratios would weigh idle ones as much.
    used, compared, alone = (
        column_sums((getattr(degree, name) for degree in degrees), resources)
        for name in ("used", "compared", "alone")
    )
    return degree_of(used, compared, alone, metered=metered)
