"""A decision in whole units of a target, with the decided, rendered and lost amounts of each tenant."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal, localcontext
from functools import cached_property

from allocator_service.allocation.decided_parts import (
    EXACT,
    GROUP,
    TENANT,
    Decided,
    DecidedLimit,
    DecidedTenant,
    ServerClassName,
    Vector,
)
from allocator_service.core.quantities import decimal_text
from allocator_service.enforcement.rendering.rounding import NOISE, whole_limits
from allocator_service.enforcement.rendering.units import TargetUnit
from allocator_service.pools.budgets import MonthlyStops

SHORTEST_SLOT_SECONDS = 60
HARD, SOFT, EFFECTIVE = "hard", "soft", "effective"
Limits = list[int]


@dataclass(frozen=True)
class TenantLimits:
    """A tenant's limits, in the order of the pool's resources.

    `decided` and `lost` are in the pool's units, `rendered` and `by_class` in the target's. `lost` is
    below 0 where rounding gave a unit more. `weight` divides among siblings: the tenants and groups of
    the same `group`. `reserved` is the part of `by_class` that is not lent to others.
    """

    slug: str
    weight: Decimal
    decided: Vector
    rendered: Limits
    lost: Vector
    by_class: Mapping[ServerClassName, Limits]
    notes: list[str]
    group: str | None = None
    reserved: Mapping[ServerClassName, Limits] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupLimits:
    """The sums of the limits of all tenants below a group, which therefore never stop any of them."""

    slug: str
    parent: str | None
    weight: Decimal
    rendered: Limits
    by_class: Mapping[ServerClassName, Limits]
    reserved: Mapping[ServerClassName, Limits] = field(default_factory=dict)


@dataclass(frozen=True)
class SlotLimits:
    """The limits within `[start, end)` seconds of a period, by tenant and class."""

    start: int
    end: int
    limits: Mapping[tuple[str, ServerClassName], Limits]


@dataclass(frozen=True)
class DecisionLimits:
    """A decision in a target's units at an instant.

    `classes` are the names of those that have limits. `quota` sets whether tenants may have more than
    their limits while others do not use theirs. `groups` has parents before their children. `removed`
    are slugs of former groups that schedulers may still limit. `stops` are the hours of the month after
    which budgets stop nodes.
    """

    decided: Decided
    label: str
    quota: str
    at: datetime
    units: Sequence[TargetUnit]
    tenants: Sequence[TenantLimits]
    classes: Sequence[str]
    notes: Sequence[str]
    slots: Sequence[SlotLimits] = field(default_factory=tuple)
    groups: Sequence[GroupLimits] = field(default_factory=tuple)
    removed: Sequence[str] = field(default_factory=tuple)
    stops: MonthlyStops = field(default_factory=MonthlyStops)

    def capacity(self, name: ServerClassName) -> Limits:
        """Return the capacity of the servers of a class, in whole units of the target."""
        with localcontext(EXACT):
            offered = self.decided.capacity.get(name, [Decimal(0)] * len(self.units))
            return [
                int(amount * unit.per) for amount, unit in zip(offered, self.units, strict=True)
            ]

    def room_to_borrow(
        self, node: "TenantLimits | GroupLimits", name: ServerClassName, position: int
    ) -> int | None:
        """Return what a node may have of a resource on a class beyond its limits here, None for any.

        It is what the node's own limits leave, of all servers or of values of the label. A limit of
        several classes is counted on each of them.
        """
        rooms = [
            room
            for limit, room in self._rooms(node, position)
            if not limit.where or name in limit.where[self.label]
        ]
        return min(rooms, default=None)

    def total_room_to_borrow(self, node: "TenantLimits | GroupLimits", position: int) -> int | None:
        """Return what a node's limits of all servers leave of a resource, None without any."""
        rooms = [room for limit, room in self._rooms(node, position) if not limit.where]
        return min(rooms, default=None)

    def _rooms(
        self, node: "TenantLimits | GroupLimits", position: int
    ) -> Iterator[tuple[DecidedLimit, int]]:
        """Yield the limits of a node that name a resource, and how much each leaves.

        Limits that select servers by another label are left out.
        """
        scope = GROUP if isinstance(node, GroupLimits) else TENANT
        unit = self.units[position]
        for limit in self.decided.limits:
            amount = limit.amount.get(unit.resource.name)
            is_of_node = (limit.scope, limit.slug) == (scope, node.slug)
            if not is_of_node or amount is None or limit.where.keys() - {self.label}:
                continue
            # A limit without values of the label counts the servers of all classes.
            values = limit.where.get(self.label)
            held = sum(
                limits[position]
                for name, limits in node.by_class.items()
                if values is None or name in values
            )
            with localcontext(EXACT):
                # Not below 0: a limit in force may be rounded up to a unit beyond it.
                yield limit, max(int(amount * unit.per) - held, 0)

    def reserved(self, node: "TenantLimits | GroupLimits") -> Limits:
        """Return the sum of a node's reserved amounts over all classes."""
        columns = zip(*node.reserved.values(), strict=True)
        return [sum(column) for column in columns] or [0] * len(self.units)

    @cached_property
    def has_reserved(self) -> bool:
        """True if anything is reserved for any tenant."""
        return any(any(self.reserved(tenant)) for tenant in self.tenants)

    def rounded_up(self, amounts: Vector) -> Limits:
        """Return amounts of the pool in whole units of the target, at least as much."""
        with localcontext(EXACT):
            return [
                _rounded_up(amount * unit.per)
                for amount, unit in zip(amounts, self.units, strict=True)
            ]

    def named(self, limits: Limits) -> dict[str, int]:
        """Return limits by the target's names of the resources that it knows."""
        return {
            unit.name: limit
            for unit, limit in zip(self.units, limits, strict=True)
            if unit.name is not None
        }

    def named_on_servers(self, limits: Limits) -> dict[str, int]:
        """Return the limits of resources that jobs use where they run, by the target's names."""
        on_servers = {unit.name for unit in self.units if unit.on_servers}
        return {name: limit for name, limit in self.named(limits).items() if name in on_servers}

    def has_jobs(self, name: ServerClassName) -> bool:
        """Return false for a class whose servers have licences alone, because no job runs there."""
        offered = self.decided.capacity.get(name, [])
        used = [
            unit.on_servers for unit, amount in zip(self.units, offered, strict=False) if amount
        ]
        return any(used) or not used


def decision_limits(
    decided: Decided,
    *,
    label: str,
    units: Sequence[TargetUnit],
    members: Sequence[str],
    departed: Collection[str] = (),
    former_groups: Collection[str] = (),
    quota: str,
    at: datetime,
) -> DecisionLimits:
    """Round a decision to a target's units, per class and resource.

    `members` are the pool's at present. One that the decision does not know has limits of 0. Members of
    `departed` that the decision gives nothing are left out. `former_groups` that the decision does not
    know are freed of their limits. A tenant's limit is the sum of its limits by class, or where time is
    divided its maximum over the slots.
    """
    with localcontext(EXACT):
        known = {tenant.slug for tenant in decided.tenants}
        joined = [_joined(slug, decided) for slug in members if slug not in known]
        present = [
            tenant
            for tenant in decided.tenants
            if tenant.slug not in departed or any(tenant.amounts)
        ]
        tenants = [*present, *joined]
        if decided.period_seconds:
            slots = [_slot(decided, index, tenants, units) for index in range(len(decided.slots))]
            by_class = _most(slots)
        else:
            slots = []
            by_class = _rounded(
                {
                    (tenant.slug, name): amounts
                    for tenant in tenants
                    for name, amounts in tenant.by_class.items()
                },
                decided,
                tenants,
                units,
            )
        classes = sorted(name for name in decided.capacity if name is not None)
        rows = [
            _tenant(tenant, by_class.get(tenant.slug, {}), slots, units, label)
            for tenant in tenants
        ]
        # Hard limits lend nothing, so nothing has to be kept from it.
        if decided.reserved and quota == SOFT:
            rows = [replace(row, reserved=_reserved(row, decided, units)) for row in rows]
        groups = _groups(decided, rows, len(units))
        removed = sorted(set(former_groups) - {group.slug for group in groups})
        notes = _notes(decided, units, classes, label)
        if quota == SOFT:
            notes += _notes_of_limits(decided, label)
        return DecisionLimits(
            decided, label, quota, at, units, rows, classes, notes, slots, groups, removed
        )


def _reserved(
    tenant: TenantLimits, decided: Decided, units: Sequence[TargetUnit]
) -> dict[ServerClassName, Limits]:
    """Return the reserved amounts of a tenant, rounded up to whole units within its limits."""
    return {
        name: [
            # Up, since a fraction of a unit would be lent away, but never more than there is to lend.
            min(_rounded_up(amount * unit.per), limit)
            for amount, unit, limit in zip(
                decided.reserved.get((tenant.slug, name), [Decimal(0)] * len(units)),
                units,
                limits,
                strict=True,
            )
        ]
        for name, limits in tenant.by_class.items()
    }


def _rounded_up(amount: Decimal) -> int:
    """Return the next whole number, or the nearest one if the difference is the noise of a double."""
    nearest = amount.to_integral_value(ROUND_HALF_EVEN)
    if abs(amount - nearest) <= NOISE * max(amount, Decimal(1)):
        return int(nearest)
    return int(amount.to_integral_value(ROUND_CEILING))


def _groups(decided: Decided, tenants: Sequence[TenantLimits], width: int) -> list[GroupLimits]:
    """Return the sum of the limits below each group, parents first."""
    sums = _sums(decided, [(tenant.group, tenant.by_class) for tenant in tenants], width)
    reserved = _sums(decided, [(tenant.group, tenant.reserved) for tenant in tenants], width)
    return [
        GroupLimits(
            group.slug,
            group.parent,
            group.weight,
            [sum(column) for column in zip(*sums[group.slug].values(), strict=True)] or [0] * width,
            sums[group.slug],
            reserved[group.slug],
        )
        for group in decided.groups
    ]


def _sums(
    decided: Decided,
    of_tenants: Sequence[tuple[str | None, Mapping[ServerClassName, Limits]]],
    width: int,
) -> dict[str, dict[ServerClassName, Limits]]:
    """Return the sums by group of amounts of tenants, each with the group of the tenant."""
    sums: dict[str, dict[ServerClassName, Limits]] = {group.slug: {} for group in decided.groups}
    amounts = list(of_tenants)
    # Children come after their parents, so each group is complete before it is added to its parent's.
    amounts += [(group.parent, sums[group.slug]) for group in reversed(decided.groups)]
    for group, by_class in amounts:
        if group is None:
            continue
        for name, limits in by_class.items():
            held = sums[group].setdefault(name, [0] * width)
            held[:] = [a + b for a, b in zip(held, limits, strict=True)]
    return sums


def _joined(slug: str, decided: Decided) -> DecidedTenant:
    """Return a member that the decision in force does not know yet."""
    zeros = [Decimal(0)] * len(decided.resources)
    last = (float("inf"), len(decided.tenants))
    # Limits of 0: without an entry the scheduler would not limit the new member at all.
    return DecidedTenant(slug, Decimal(0), last, zeros, {}, sibling_weight=Decimal(0))


def _rounded(
    amounts: Mapping[tuple[str, ServerClassName], Vector],
    decided: Decided,
    tenants: Sequence[DecidedTenant],
    units: Sequence[TargetUnit],
) -> dict[str, dict[ServerClassName, Limits]]:
    """Round each class and resource by itself, to sums of at most the class's whole units."""
    rank = {tenant.slug: tenant.rank for tenant in tenants}
    by_class: dict[str, dict[ServerClassName, Limits]] = {slug: {} for slug in rank}
    of_class: dict[ServerClassName, list[tuple[str, Vector]]] = {}
    for (slug, name), vector in amounts.items():
        of_class.setdefault(name, []).append((slug, vector))
    for name, cells in of_class.items():
        ranks = [rank[slug] for slug, _ in cells]
        columns = [
            whole_limits(
                [vector[r] * unit.per for _, vector in cells],
                # Rounded down by class: no scheduler can give out a part of a unit.
                int(decided.capacity[name][r] * unit.per) if name in decided.capacity else 0,
                ranks,
            )
            for r, unit in enumerate(units)
        ]
        for (slug, _), *limits in zip(cells, *columns, strict=True):
            by_class[slug][name] = limits
    return by_class


def _slot(
    decided: Decided, index: int, tenants: Sequence[DecidedTenant], units: Sequence[TargetUnit]
) -> SlotLimits:
    slot = decided.slots[index]
    by_class = _rounded(slot.amounts, decided, tenants, units)
    return SlotLimits(
        slot.start,
        slot.end,
        {(slug, name): limits for slug, of in by_class.items() for name, limits in of.items()},
    )


def _most(slots: Sequence[SlotLimits]) -> dict[str, dict[ServerClassName, Limits]]:
    """Return each tenant's maximum of all classes over the slots, under no class."""
    most: dict[str, dict[ServerClassName, Limits]] = {}
    for slot in slots:
        totals: dict[str, Limits] = {}
        for (slug, _), limits in slot.limits.items():
            held = totals.get(slug, [0] * len(limits))
            totals[slug] = [a + b for a, b in zip(held, limits, strict=True)]
        for slug, limits in totals.items():
            held = most.get(slug, {}).get(None, limits)
            # Each resource has its own maximum, perhaps of another slot: a limit must stop no slot.
            most[slug] = {None: [max(a, b) for a, b in zip(held, limits, strict=True)]}
    return most


def _tenant(
    tenant: DecidedTenant,
    by_class: Mapping[ServerClassName, Limits],
    slots: Sequence[SlotLimits],
    units: Sequence[TargetUnit],
    label: str,
) -> TenantLimits:
    rendered = [sum(column) for column in zip(*by_class.values(), strict=True)] or [0] * len(units)
    lost = [
        amount - Decimal(limit) / unit.per
        for amount, limit, unit in zip(tenant.amounts, rendered, units, strict=True)
    ]
    notes = [
        f"{decimal_text(amount)} {unit.resource.name} became {decimal_text(amount - less)}: fractions"
        f" of {unit.text} cannot be enforced."
        for amount, less, unit in zip(tenant.amounts, lost, units, strict=True)
        if unit.coarse and abs(less * unit.per) > NOISE * max(amount * unit.per, Decimal(1))
    ]
    without = by_class.get(None)
    if without is not None and len(by_class) > 1 and any(without):
        notes.append(
            f"A part is on servers without the label {label}: it is enforced in the total only."
        )
    # Schedulers take some seconds to start jobs: a short slot would be over before any runs.
    short = sum(
        slot.end - slot.start < SHORTEST_SLOT_SECONDS
        for slot in slots
        if any(slug == tenant.slug for slug, _ in slot.limits)
    )
    if short:
        notes.append(
            f"{short} of its slots {'is' if short == 1 else 'are'} shorter than"
            f" {SHORTEST_SLOT_SECONDS} s and left out."
        )
    return TenantLimits(
        tenant.slug,
        tenant.sibling_weight,
        tenant.amounts,
        rendered,
        lost,
        by_class,
        notes,
        tenant.group,
    )


def _notes_of_limits(decided: Decided, label: str) -> list[str]:
    """Return notes on limits that bound what a node may borrow less closely than the decision."""
    notes = []
    for limit in decided.limits:
        whose = f"A limit of {'the group ' if limit.scope == GROUP else ''}{limit.slug}"
        if limit.where.keys() - {label}:
            notes.append(
                f"{whose} selects servers by other labels than {label}: it bounds no borrowing."
            )
        elif len(limit.where.get(label, ())) > 1 or (not limit.where and len(decided.capacity) > 1):
            notes.append(f"{whose} is for several classes: it bounds borrowing on each by itself.")
    return notes


def _notes(
    decided: Decided, units: Sequence[TargetUnit], classes: Sequence[str], label: str
) -> list[str]:
    notes = [unit.note for unit in units if unit.note]
    if decided.period_seconds:
        notes.append(
            "A limit is the most that the tenant has in any slot; reservations keep the sum within the"
            " capacity."
        )
        return notes
    if not decided.placed:
        notes.append("The policy sees the pool as one server: limits are totals, none is by class.")
    elif not classes:
        notes.append(f"No server has the label {label}: limits are totals, none is by class.")
    return notes
