"""Entitlements, with the tenants that use them and the time of their return.

Source of the entitlement: Tang et al., TPDS 2018, §4, formula (1). A tenant's part of the pool is its
weight divided by the sum of all weights.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal, localcontext

from allocator_service.allocation.decided import decided_by_class
from allocator_service.allocation.decided_parts import (
    EXACT,
    Decided,
    DecidedSlot,
    Vector,
)
from allocator_service.allocation.models import Run
from allocator_service.allocation.selectors import decision_now
from allocator_service.core.quantities import FRACTIONAL_DIGITS, Resource
from allocator_service.enforcement.rendering.rounding import whole_limits
from allocator_service.pools.clusters import CLUSTER_LABEL
from allocator_service.pools.models import Group, Pool
from allocator_service.pools.recompute import interval_around
from allocator_service.pools.selectors import group_missing

DEFINITIONS = {
    "entitled": "The capacity of the pool's servers × the tenant's weight / all weights; nothing for who"
    " is served after all others.",
    "has": "What the decision in force gives it; of the slot in force where time is divided.",
    "lent": "What it is entitled to and does not have, as far as others have more than they are entitled"
    " to. Who borrowed from whom: the largest lender lends to the largest borrower first, resource by"
    " resource. It is about parts of the pool; whose servers were used, the report of lending says.",
    "unused": "What it is entitled to and neither has nor lent: nobody has it.",
    "borrowed": "What it has above its entitlement, as far as others lend it. All that is lent is all"
    " that is borrowed, exactly.",
    "returns": "When it has back what it lent, once it asks for it: at_once, because every change is"
    " decided at once; next_boundary, at the end of the decision interval; next_slot, when its next slot"
    " begins.",
}
AT_ONCE, NEXT_BOUNDARY, NEXT_SLOT = "at_once", "next_boundary", "next_slot"
WHEN = (AT_ONCE, NEXT_BOUNDARY, NEXT_SLOT)
_QUANTUM = Decimal(1).scaleb(-FRACTIONAL_DIGITS)


@dataclass(frozen=True)
class Returns:
    """The time at which a tenant gets back what it lent.

    `at` is None where it only has to ask, or never.
    """

    when: str
    at: datetime | None


@dataclass(frozen=True)
class Entitlement:
    """A tenant's part of the pool with its users, in the order of the pool's resources.

    `lent_to` and `borrowed_from` are per tenant. `returns` is None where nothing is lent. `next_slot` is
    the start of its next slot, None where time is not divided or it has none. `clusters` has the parts
    of `has` by cluster, and `entitled_in` those of `entitled`, none in a pool without clusters.
    """

    tenant: str
    entitled: Vector
    has: Vector
    lent: Vector
    borrowed: Vector
    unused: Vector
    lent_to: Mapping[str, Vector] = field(default_factory=dict)
    borrowed_from: Mapping[str, Vector] = field(default_factory=dict)
    returns: Returns | None = None
    next_slot: datetime | None = None
    clusters: Mapping[str, Vector] = field(default_factory=dict)
    entitled_in: Mapping[str, Vector] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupEntitlement:
    """The sums of the entitlements of all members of a group, in the order of the pool's resources."""

    group: str
    entitled: Vector
    has: Vector
    lent: Vector
    borrowed: Vector
    unused: Vector


@dataclass(frozen=True)
class GroupEntitlements:
    """The entitlements of a group in the tree of a decision.

    Attributes:
        group: the sum of the children. groups: those directly below. members: with the tenants
        directly below. inside: the slugs of all tenants below, or of all within the outer group.
    """

    group: GroupEntitlement
    groups: Sequence[GroupEntitlement]
    members: "Entitlements"
    inside: Collection[str]


@dataclass(frozen=True)
class Entitlements:
    """The entitlements under a decision at an instant."""

    pool: Pool
    run: Run
    at: datetime
    resources: Sequence[Resource]
    tenants: Sequence[Entitlement]
    has_groups: bool


def pool_entitlements(*, pool: Pool, now: datetime) -> Entitlements:
    """Return the entitlements under the decision in force. Raises `Missing` without any."""
    run = decision_now(pool=pool, now=now)
    decided = decided_by_class(run, label=CLUSTER_LABEL)
    rows = entitlements(decided, pool, now)
    return Entitlements(pool, run, now, decided.resources, rows, bool(decided.groups))


def group_entitlements(
    *, pool: Pool, slug: str, now: datetime, within: Group | None = None
) -> GroupEntitlements:
    """Return the entitlements of a group and its children under the decision in force.

    The tree is the decision's own. Raises `Missing` without a decision, without the group in it, and
    for a group that is not `within` another one there.
    """
    run = decision_now(pool=pool, now=now)
    decided = decided_by_class(run, label=CLUSTER_LABEL)
    # An earlier group may have had the slug of one that the decision does not know yet.
    known = within is None or run.created_at >= within.created_at
    outer = slug if within is None else within.slug
    if not known or slug not in decided.parents or outer not in _path(decided, slug):
        raise group_missing()
    below: dict[str, list[Entitlement]] = {
        each: [] for each, parent in decided.parents.items() if parent == slug
    }
    own = []
    for tenant, row in zip(decided.tenants, entitlements(decided, pool, now), strict=True):
        path = _path(decided, tenant.group)
        if tenant.group == slug:
            own.append(row)
        elif slug in path:
            # The path leads upwards: the child is what comes before the group.
            below[path[path.index(slug) - 1]].append(row)
    size = len(decided.resources)
    members = [*own, *(row for rows in below.values() for row in rows)]
    return GroupEntitlements(
        _together(slug, members, size),
        [_together(each, rows, size) for each, rows in sorted(below.items())],
        Entitlements(pool, run, now, decided.resources, own, bool(decided.groups)),
        {each.slug for each in decided.tenants if outer in _path(decided, each.group)},
    )


def _path(decided: Decided, group: str | None) -> list[str]:
    """Return a group and those above it, in their order."""
    path = []
    while group is not None:
        path.append(group)
        group = decided.parents[group]
    return path


def _together(group: str, rows: Sequence[Entitlement], size: int) -> GroupEntitlement:
    with localcontext(EXACT):
        sums = [
            [sum((getattr(row, name)[r] for row in rows), Decimal(0)) for r in range(size)]
            for name in ("entitled", "has", "lent", "borrowed", "unused")
        ]
    return GroupEntitlement(group, *sums)


def entitlements(decided: Decided, pool: Pool, now: datetime) -> list[Entitlement]:
    """Return the entitlements under a decision that is in memory."""
    with localcontext(EXACT):
        resources = range(len(decided.resources))
        has = _has_now(decided, now)
        clusters = _by_cluster(decided, now)
        entitled = _entitled(decided)
        lent_to: dict[str, dict[str, Vector]] = defaultdict(dict)
        borrowed_from: dict[str, dict[str, Vector]] = defaultdict(dict)
        # Resource by resource: one tenant may lend memory and borrow GPUs at the same time.
        for r in resources:
            above = {slug: has[slug][r] - part[r] for slug, part in entitled.items()}
            for lender, borrower, amount in _matched(above):
                for one, other, book in (
                    (lender, borrower, lent_to),
                    (borrower, lender, borrowed_from),
                ):
                    book[one].setdefault(other, [Decimal(0)] * len(resources))[r] = amount
        rows = []
        for slug, part in entitled.items():
            lent = _sum(lent_to[slug], len(resources))
            next_slot = _next_slot(decided, slug, now) if decided.period_seconds else None
            rows.append(
                Entitlement(
                    slug,
                    part,
                    has[slug],
                    lent,
                    _sum(borrowed_from[slug], len(resources)),
                    # Never below 0: no tenant is matched for more than it has below its
                    # entitlement.
                    [max(part[r] - has[slug][r], Decimal(0)) - lent[r] for r in resources],
                    lent_to[slug],
                    borrowed_from[slug],
                    _returns(decided, pool, next_slot, now) if any(lent) else None,
                    next_slot,
                    clusters[slug],
                    _entitled_in(part, decided),
                )
            )
        return rows


def _entitled(decided: Decided) -> dict[str, Vector]:
    """Return parts of the capacity in whole 10⁻¹² of the resource's unit, which add up to all of it."""
    weights = [tenant.weight for tenant in decided.tenants]
    all_weights = sum(weights, Decimal(0))
    ranks = [tenant.rank for tenant in decided.tenants]
    columns = []
    for r in range(len(decided.resources)):
        capacity = sum((offered[r] for offered in decided.capacity.values()), Decimal(0)) / _QUANTUM
        # In quanta of 10⁻¹² and by largest remainder, so that what is lent is exactly what is borrowed.
        parts = [capacity * weight / all_weights for weight in weights]
        columns.append([limit * _QUANTUM for limit in whole_limits(parts, int(capacity), ranks)])
    return {tenant.slug: list(row) for tenant, *row in zip(decided.tenants, *columns, strict=True)}


def _entitled_in(entitled: Vector, decided: Decided) -> dict[str, Vector]:
    """Return the parts of an entitlement by cluster, in proportion to what the servers of each offer."""
    offered = {name: amounts for name, amounts in decided.capacity.items() if name is not None}
    names, columns = sorted(offered), []
    if not names:
        return {}
    for r, amount in enumerate(entitled):
        capacity = sum((amounts[r] for amounts in decided.capacity.values()), Decimal(0))
        quanta = amount / _QUANTUM
        parts = [quanta * offered[name][r] / capacity if capacity else quanta for name in names]
        whole = whole_limits(parts, int(quanta), [(0.0, place) for place in range(len(names))])
        columns.append([part * _QUANTUM for part in whole])
    return {name: list(row) for name, *row in zip(names, *columns, strict=True)}


def _has_now(decided: Decided, now: datetime) -> dict[str, Vector]:
    if not decided.period_seconds:
        return {tenant.slug: tenant.amounts for tenant in decided.tenants}
    nothing = [Decimal(0)] * len(decided.resources)
    has = {tenant.slug: nothing for tenant in decided.tenants}
    # A slot has one vector for each class of servers. Their sum is the tenant's.
    for (slug, _), amounts in _slot_now(decided, now).amounts.items():
        has[slug] = [a + b for a, b in zip(has[slug], amounts, strict=True)]
    return has


def _by_cluster(decided: Decided, now: datetime) -> dict[str, dict[str, Vector]]:
    """Return the parts of each tenant on the servers of each cluster, if the pool has clusters."""
    parts: dict[str, dict[str, Vector]] = {tenant.slug: {} for tenant in decided.tenants}
    if decided.period_seconds:
        cells = _slot_now(decided, now).amounts
    else:
        cells = {
            (tenant.slug, name): amounts
            for tenant in decided.tenants
            for name, amounts in tenant.by_class.items()
        }
    for (slug, cluster), amounts in cells.items():
        if cluster is not None:
            parts[slug][cluster] = amounts
    return parts


def _slot_now(decided: Decided, now: datetime) -> DecidedSlot:
    within = _seconds_within(decided, now)
    return next(slot for slot in decided.slots if within < slot.end)


def _seconds_within(decided: Decided, now: datetime) -> float:
    begin = decided.run.effective_from or now
    # The plan repeats, period by period, until another decision is in force.
    return (now - begin).total_seconds() % decided.period_seconds


def _matched(above: Mapping[str, Decimal]) -> list[tuple[str, str, Decimal]]:
    """Return lender, borrower and amount, the largest of both first, until one side has nothing left."""
    # Slugs break ties: the same decision names the same lenders at every read.
    lenders = sorted((amount, slug) for slug, amount in above.items() if amount < 0)
    borrowers = sorted((-amount, slug) for slug, amount in above.items() if amount > 0)
    matched = []
    lending, borrowing = iter(lenders), iter(borrowers)
    lender, borrower = next(lending, None), next(borrowing, None)
    left = -lender[0] if lender else Decimal(0)
    needed = -borrower[0] if borrower else Decimal(0)
    while lender is not None and borrower is not None:
        amount = min(left, needed)
        matched.append((lender[1], borrower[1], amount))
        left, needed = left - amount, needed - amount
        if not left:
            lender = next(lending, None)
            left = -lender[0] if lender else Decimal(0)
        if not needed:
            borrower = next(borrowing, None)
            needed = -borrower[0] if borrower else Decimal(0)
    return matched


def _sum(of: Mapping[str, Vector], count: int) -> Vector:
    return [sum((amounts[r] for amounts in of.values()), Decimal(0)) for r in range(count)]


def _returns(decided: Decided, pool: Pool, next_slot: datetime | None, now: datetime) -> Returns:
    if decided.period_seconds:
        return Returns(NEXT_SLOT, next_slot)
    # Such a policy decides at the ends of intervals alone, however early a demand comes.
    if pool.policy_long_term:
        return Returns(NEXT_BOUNDARY, interval_around(pool, now)[1])
    return Returns(AT_ONCE, None)


def _next_slot(decided: Decided, slug: str, now: datetime) -> datetime | None:
    """Return the start of the tenant's next slot, in this period or the next one, if it has any."""
    within = timedelta(seconds=_seconds_within(decided, now))
    starts = [
        timedelta(seconds=slot.start)
        for slot in decided.slots
        if any(tenant == slug for tenant, _ in slot.amounts)
    ]
    if not starts:
        return None
    begin, period = now - within, timedelta(seconds=decided.period_seconds)
    return min(begin + start + (period if start <= within else timedelta(0)) for start in starts)
