"""Parts of a decision as exact decimals.

A whole task is exact. A divisible one is the shortest decimal that reads back as the stored double,
which is the number that the API shows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from functools import cached_property

from allocator_service.allocation.decided_gangs import DecidedGang
from allocator_service.allocation.models import Run
from allocator_service.core.quantities import Resource

# Products of a double's 17 digits with 24 of a demand, added up over 10^6 rows, are exact in so many.
EXACT = Context(prec=120)
GROUP, TENANT = "group", "tenant"
Vector = list[Decimal]
# The value of the label, or None for servers without it and for what no server is named for.
ServerClassName = str | None


@dataclass(frozen=True)
class DecidedTenant:
    """A tenant's part, in the order of the pool's resources.

    `weight` is the one that counted, which is 0 for a tenant that is served after all others. In a tree
    of groups it is in proportion to the tenant's part of the pool. `rank` orders tenants as the policy
    would: the least weighted share first, then the order of the input. `amounts` is all of it,
    `by_class` its parts. `group` is the slug of the tenant's group, and `sibling_weight` divides the
    group's part among its children. Without groups it is `weight`.
    """

    slug: str
    weight: Decimal
    rank: tuple[float, int]
    amounts: Vector
    by_class: Mapping[ServerClassName, Vector]
    sibling_weight: Decimal
    group: str | None = None


@dataclass(frozen=True)
class DecidedGroup:
    """A group of the tree.

    `weight` divides its parent's part among siblings; `parent` is None below the pool itself.
    """

    slug: str
    parent: str | None
    weight: Decimal


@dataclass(frozen=True)
class DecidedLimit:
    """A limit of a group or tenant that the decision kept, in the pool's units by resource."""

    scope: str
    slug: str
    where: Mapping[str, Sequence[str]]
    amount: Mapping[str, Decimal]


@dataclass(frozen=True)
class DecidedSlot:
    """The resources in use within `[start, end)` seconds of the period, by tenant and class."""

    start: int
    end: int
    amounts: Mapping[tuple[str, ServerClassName], Vector]


@dataclass(frozen=True)
class Decided:
    """A decision by tenant and class.

    `capacity` is what the servers of each class offered. `placed` is true if the policy chose servers,
    so that classes mean something. Under a policy that divides time a tenant's amounts are the most that
    it has in any slot, and `period_seconds` is above 0. `groups` has parents before their children.
    `reserved` is the part of a tenant's amounts, by class, that others must not use while the tenant
    does not: what guarantees and own servers give it, and what it does not lend. It is empty unless it
    was requested. `gangs` are the workloads whose tasks have several pieces, if they were requested.
    With a `cluster` all of it is on the servers of that cluster alone.
    """

    run: Run
    resources: Sequence[Resource]
    tenants: Sequence[DecidedTenant]
    capacity: Mapping[ServerClassName, Vector]
    placed: bool
    whole_tasks: bool
    period_seconds: int = 0
    slots: Sequence[DecidedSlot] = field(default_factory=tuple)
    groups: Sequence[DecidedGroup] = field(default_factory=tuple)
    limits: Sequence[DecidedLimit] = field(default_factory=tuple)
    reserved: Mapping[tuple[str, ServerClassName], Vector] = field(default_factory=dict)
    gangs: Sequence[DecidedGang] = field(default_factory=tuple)
    cluster: str = ""

    @cached_property
    def parents(self) -> dict[str, str | None]:
        """The parent of each group by slug, None for the pool."""
        return {group.slug: group.parent for group in self.groups}
