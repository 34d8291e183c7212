"""Utilisation, the use divided by the contributed capacity."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext

from allocator_service.core.quantities import EXACT_DIGITS, Resource
from allocator_service.ledger.amounts.intervals import Amounts
from allocator_service.ledger.amounts.rate_changes import amounts_between, used_in_all
from allocator_service.ledger.models import Kind
from allocator_service.ledger.reporting.amounts import exact_sums, ratio
from allocator_service.ledger.reporting.groups import DividedPeriod, column_sums
from allocator_service.ledger.reporting.limits import refuse_too_long
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.contributed import capacity_within
from allocator_service.pools.models import Group, Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.tree_history import Child
from allocator_service.tenants.models import Tenant

DEFINITIONS = {
    "capacity": "Resource × seconds of the servers in the pool within the period, from the start of"
    " each contribution to its end, with the capacity they had then; draining servers count.",
    "used": "Resource × seconds of the entries of kind usage within the period, with their"
    " corrections: an entry that lies in it in part counts with that part of its seconds.",
    "idle": "capacity − used. Below 0 where more was reported than there was.",
    "utilization": "used / capacity.",
    "rounding": "Amounts are exact: nothing is rounded. Ratios are the nearest double.",
}
NO_CAPACITY = "no_capacity"


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
class UtilizationReport:
    """The utilisation of every resource, by interval in `uses` and over the period in `totals`.

    In the report of a group, `used` is the group's, and `children` divide it.
    """

    pool: Pool
    period: Period
    resources: Sequence[Resource]
    uses: Sequence[Sequence[Use]]
    totals: Sequence[Use]
    group: str = ""
    children: Sequence[ChildUse] = ()


def utilization_report(
    *, pool: Pool, period: Period, includes: Callable[[str], bool] | None = None
) -> UtilizationReport:
    """Return the utilisation of a pool by all tenants, or by those whose slug is included.

    Raises `Unacceptable` if the report would be too long.
    """
    resources = resources_of(pool)
    refuse_too_long(len(period.intervals) * len(resources))
    amounts = (
        used_in_all(pool=pool, edges=period.edges)
        if includes is None
        else _used_by(pool, period, includes)
    )
    used = {(resource, interval): amount for resource, interval, amount in amounts.all_intervals()}
    return _report(pool, period, used)


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
    amounts = amounts_between(
        pool=pool, edges=divided.edges, among=divided.tenants, kinds=[Kind.USAGE]
    )
    sums = exact_sums(
        ((child, use.resource, divided.interval_of(part)), amount)
        for use, part, amount in amounts.all_intervals()
        if (child := divided.child_of(use.tenant, part)) is not None
    )
    children = []
    for child in divided.children:
        series = [
            [sums.get((child, name, interval), Decimal(0)) for name in names]
            for interval in range(len(period.intervals))
        ]
        children.append(ChildUse(child, column_sums(series, len(names)), series))
    used = exact_sums(((name, interval), amount) for (_, name, interval), amount in sums.items())
    return replace(_report(pool, period, used), group=group.slug, children=children)


def _report(
    pool: Pool, period: Period, used: Mapping[tuple[str, int], Decimal]
) -> UtilizationReport:
    resources = resources_of(pool)
    capacity = exact_sums(
        ((resources[each.resource].name, each.interval), each.amount)
        for each in capacity_within(pool=pool, edges=period.edges)
    )
    uses = [
        [
            Use(
                capacity.get((resource.name, interval), Decimal(0)),
                used.get((resource.name, interval), Decimal(0)),
            )
            for interval in range(len(period.intervals))
        ]
        for resource in resources
    ]
    return UtilizationReport(pool, period, resources, uses, [_total(row) for row in uses])


def _used_by(pool: Pool, period: Period, includes: Callable[[str], bool]) -> Amounts[str]:
    """Return the use of each resource by the tenants whose slug is included."""
    amounts = amounts_between(pool=pool, edges=period.edges, kinds=[Kind.USAGE])
    tenants = Tenant.objects.filter(pk__in={use.tenant for use in amounts.changes})
    kept = {pk for pk, slug in tenants.values_list("pk", "slug") if includes(slug)}
    return amounts.of(lambda use: use.tenant in kept).by(lambda use: use.resource)


def _total(row: Sequence[Use]) -> Use:
    sums = exact_sums((name, getattr(use, name)) for use in row for name in ("capacity", "used"))
    return Use(sums["capacity"], sums["used"])
