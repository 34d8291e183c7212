"""Use of servers by owner and tenant, and the balance of every two tenants."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext

from allocator_service.core.quantities import EXACT_DIGITS, Resource
from allocator_service.ledger.amounts.rate_changes import used_of_owners
from allocator_service.ledger.reporting.amounts import exact_sum, exact_sums
from allocator_service.ledger.reporting.groups import DividedPeriod, column_sums
from allocator_service.ledger.reporting.limits import amounts_unless_too_long, refuse_too_long
from allocator_service.ledger.reporting.periods import Period
from allocator_service.ledger.reporting.tenants import tenants_reported
from allocator_service.pools.models import Group, Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.tree_history import Child
from allocator_service.tenants.models import Tenant

DEFINITIONS = {
    "used": "Resource × seconds of the entries of kind usage within the period, with their"
    " corrections, that the tenant used of the servers of the owner. Without an owner the servers are"
    " the pool's own or not known, as in reported usage and under policies that see one server.",
    "balance": "What the tenant lent to the other less what it borrowed from it.",
    "rounding": "Amounts are exact: nothing is rounded.",
}


@dataclass(frozen=True)
class Flow:
    """A tenant's use of an owner's servers per resource, in all and in every interval."""

    owner: str | None
    tenant: str
    used: Sequence[Decimal]
    series: Sequence[Sequence[Decimal]]

    @property
    def lends(self) -> bool:
        """True for use of another tenant's servers."""
        return self.owner is not None and self.owner != self.tenant


@dataclass(frozen=True)
class Balance:
    """The amounts per resource that a tenant lent to another and borrowed from it."""

    tenant: str
    other: str
    lent: Sequence[Decimal]
    borrowed: Sequence[Decimal]

    @property
    def balance(self) -> list[Decimal]:
        return _difference(self.lent, self.borrowed)


def _difference(lent: Sequence[Decimal], borrowed: Sequence[Decimal]) -> list[Decimal]:
    with localcontext(prec=EXACT_DIGITS):
        return [out - back for out, back in zip(lent, borrowed, strict=True)]


@dataclass(frozen=True)
class LendingReport:
    """The flows by owner and tenant, the pool's own servers last."""

    pool: Pool
    period: Period
    resources: Sequence[Resource]
    flows: Sequence[Flow]

    @property
    def balances(self) -> list[Balance]:
        """The balances of every two tenants of which one lent to the other, by their names."""
        lent = {(str(flow.owner), flow.tenant): flow.used for flow in self.flows if flow.lends}
        nothing = [Decimal(0)] * len(self.resources)
        # Every two tenants once, whichever of them lends.
        pairs = sorted({(min(pair), max(pair)) for pair in lent})
        return [
            Balance(a, b, lent.get((a, b), nothing), lent.get((b, a), nothing)) for a, b in pairs
        ]

    @property
    def total(self) -> list[Decimal]:
        """The use per resource in all."""
        return [exact_sum(flow.used[r] for flow in self.flows) for r in range(len(self.resources))]

    def under(self, name: Callable[[str], str], includes: Callable[[str], bool]) -> "LendingReport":
        """Return the report with tenants renamed, limited to flows from or to the included names."""
        named = [
            replace(flow, owner=flow.owner and name(flow.owner), tenant=name(flow.tenant))
            for flow in self.flows
        ]
        kept = [
            flow for flow in named if includes(flow.tenant) or (flow.owner and includes(flow.owner))
        ]
        # Sorted again: the order of the slugs would reveal something of the tenants behind
        # pseudonyms.
        return replace(self, flows=sorted(kept, key=_order))


def lending_report(*, pool: Pool, period: Period, tenant: Tenant | None = None) -> LendingReport:
    """Return the use by owner and tenant, or only that by `tenant` and of its servers.

    A member without use has a flow of zeros, without an owner. Raises `Unacceptable` if the report
    would be too long.
    """
    resources = resources_of(pool)
    amounts = amounts_unless_too_long(
        lambda edges: used_of_owners(pool=pool, edges=edges, tenant=tenant),
        period=period,
        row=lambda use: (use.owner, use.tenant),
        values=len(resources),
    )
    pairs: set[tuple[int | None, int]] = {(use.owner, use.tenant) for use in amounts.present}
    users = {user for _, user in pairs}
    members = tenants_reported(pool=pool, period=period, found=users, tenant=tenant)
    pairs |= {(None, member) for member in members.keys() - users}
    refuse_too_long(len(pairs) * len(period.intervals) * len(resources))
    keys = {key for pair in pairs for key in pair if key is not None}
    slugs = dict(Tenant.objects.filter(pk__in=keys).values_list("pk", "slug"))
    sums = {
        (use.owner, use.tenant, interval, use.resource): amount
        for use, interval, amount in amounts.all_intervals()
    }
    flows = []
    for owner, user in pairs:
        series = [
            [sums.get((owner, user, interval, each.name), Decimal(0)) for each in resources]
            for interval in range(len(period.intervals))
        ]
        used = [exact_sum(interval[r] for interval in series) for r in range(len(resources))]
        flows.append(Flow(None if owner is None else slugs[owner], slugs[user], used, series))
    return LendingReport(pool, period, resources, sorted(flows, key=_order))


def _order(flow: Flow) -> tuple[bool, str, str]:
    return flow.owner is None, flow.owner or "", flow.tenant


@dataclass(frozen=True)
class End:
    """An end of a flow in the report of a group.

    It is a child of the group or, outside the group, a tenant. `slug` None is the pool itself.
    """

    slug: str | None
    is_group: bool = False
    inside: bool = False


@dataclass(frozen=True)
class GroupFlow:
    """A use of servers between two ends, in all and in every interval."""

    owner: End
    user: End
    used: Sequence[Decimal]
    series: Sequence[Sequence[Decimal]]


@dataclass(frozen=True)
class Traffic:
    """Amounts per resource of a group or a child, used and across the bounds of the group.

    `borrowed` is use of servers of tenants outside the group, `lent` the use by them.
    """

    used: Sequence[Decimal]
    lent: Sequence[Decimal]
    borrowed: Sequence[Decimal]

    @property
    def balance(self) -> list[Decimal]:
        return _difference(self.lent, self.borrowed)


@dataclass(frozen=True)
class GroupLendingReport:
    """The flows from, to and within a group by its children, the pool's own servers last."""

    pool: Pool
    period: Period
    resources: Sequence[Resource]
    group: Group
    children: Sequence[Child]
    flows: Sequence[GroupFlow]

    @property
    def total(self) -> list[Decimal]:
        """The use per resource of all flows."""
        return column_sums((flow.used for flow in self.flows), len(self.resources))

    @property
    def sum(self) -> Traffic:
        """The group's own traffic, the sum of its children's."""
        return self._traffic(lambda end: end.inside)

    def of(self, child: Child) -> Traffic:
        """Return the traffic of a child."""
        return self._traffic(lambda end: end.inside and (end.slug, end.is_group) == child)

    def under(self, outsider: Callable[[str], str]) -> "GroupLendingReport":
        """Return the report with the tenants outside the group renamed."""

        def named(end: End) -> End:
            return end if end.inside or end.slug is None else replace(end, slug=outsider(end.slug))

        flows = [
            replace(flow, owner=named(flow.owner), user=named(flow.user)) for flow in self.flows
        ]
        flows.sort(key=lambda flow: (_place(flow.owner), _place(flow.user)))
        return replace(self, flows=flows)

    def _traffic(self, is_meant: Callable[[End], bool]) -> Traffic:
        # Use between two children does not cross the bounds of the group.
        by_it = [flow for flow in self.flows if is_meant(flow.user)]
        from_it = [flow for flow in self.flows if is_meant(flow.owner)]
        borrowed = [flow for flow in by_it if flow.owner.slug and not flow.owner.inside]
        lent = [flow for flow in from_it if not flow.user.inside]
        used, out, back = (
            column_sums((flow.used for flow in flows), len(self.resources))
            for flows in (by_it, lent, borrowed)
        )
        return Traffic(used, out, back)


def group_lending(
    *, group: Group, period: Period, within: Group | None = None
) -> GroupLendingReport:
    """Return the use from, to and within a group, with its members by the group's children.

    Only time counts in which the group was `within` another one, if given. Raises `Unacceptable` if the
    report would be too long.
    """
    pool = group.pool
    resources = resources_of(pool)
    divided = DividedPeriod(group, period, within=within)
    amounts = used_of_owners(pool=pool, edges=divided.edges)
    inside = set(divided.tenants)
    concerned = amounts.of(lambda use: use.tenant in inside or use.owner in inside)
    refuse_too_long(len(concerned.changes) * len(divided.edges) * len(resources))
    keys = {key for use in concerned.changes for key in (use.owner, use.tenant) if key is not None}
    slugs = dict(Tenant.objects.filter(pk__in=keys).values_list("pk", "slug"))

    def end(key: int | None, part: int) -> End:
        child = None if key is None else divided.child_of(key, part)
        if child is not None:
            return End(child.slug, child.is_group, inside=True)
        return End(None if key is None else slugs[key])

    parts = (
        ((end(use.owner, part), end(use.tenant, part)), divided.interval_of(part), use, amount)
        for use, part, amount in concerned.all_intervals()
    )
    sums = exact_sums(
        ((ends, interval, use.resource), amount)
        for ends, interval, use, amount in parts
        # A pair can be outside in one part and inside in another: it is kept by part.
        if ends[0].inside or ends[1].inside
    )
    flows = []
    for owner, user in {ends for ends, _, _ in sums}:
        series = [
            [sums.get(((owner, user), interval, each.name), Decimal(0)) for each in resources]
            for interval in range(len(period.intervals))
        ]
        flows.append(GroupFlow(owner, user, column_sums(series, len(resources)), series))
    flows.sort(key=lambda flow: (_place(flow.owner), _place(flow.user)))
    return GroupLendingReport(pool, period, resources, group, divided.children, flows)


def _place(end: End) -> tuple[bool, bool, bool, str]:
    """Return the sort key of an end.

    Groups inside come first, then members, tenants outside and the pool.
    """
    return end.slug is None, not end.inside, not end.is_group, end.slug or ""
