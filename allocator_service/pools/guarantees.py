"""Comparison of limits with the guarantees below them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import decimal_text
from allocator_service.pools.limits import Limit, limits_from
from allocator_service.pools.models import GroupTerms, MembershipTerms, Pool

# Selector and resource of an amount.
Kind = tuple[object, str]


@dataclass
class AmountNode:
    """A group or member with amounts, and the nodes below it. `key` identifies it for the caller."""

    name: str
    parent: str | None
    guarantees: Sequence[Limit]
    limits: Sequence[Limit]
    key: Any = None
    below: list["AmountNode"] = field(default_factory=list)

    def below_and_itself(self) -> list["AmountNode"]:
        """Return the node and all nodes below it."""
        found = [self]
        # The list grows while it is read, level by level.
        for node in found:
            found += node.below
        return found


@dataclass(frozen=True)
class ExceededLimit:
    """A limit that is less than the guarantees under it on the same servers."""

    node: AmountNode
    amount: Decimal
    resource: str
    needed: Decimal

    @property
    def detail(self) -> str:
        return (
            f"The limit of {self.node.name} is {self.resource}={decimal_text(self.amount)}. It must be"
            f" at least {self.resource}={decimal_text(self.needed)}, which is guaranteed under it on the"
            " same servers."
        )


def refuse_limits_below_guarantees(pool: Pool, *, now: datetime, pointer: str) -> None:
    """Raise `Unacceptable` if a limit is less than the guarantees under it, now or later.

    Guarantees count that are for the servers of the limit: of a node its own, or those of the nodes
    below together if these are more. It is called in the transaction of a change, after it.
    """
    groups, members = _stored(pool)
    for exceeded in limits_below_guarantees(groups, members, now=now):
        raise Unacceptable(exceeded.detail, code="limit.below_guarantees", pointer=pointer)


def limits_below_guarantees(
    groups: Mapping[str, AmountNode], members: Sequence[AmountNode], *, now: datetime
) -> Iterator[ExceededLimit]:
    """Yield the limits that are less than the guarantees under them, now or later.

    `groups` are by slug and must be a tree. Each limit may be yielded for several instants.
    """
    nodes = [*groups.values(), *members]
    # Most pools have one kind or none, and a comparison walks the tree once per date.
    if not any(node.limits for node in nodes) or not any(node.guarantees for node in nodes):
        return
    for node in nodes:
        if node.parent is not None:
            groups[node.parent].below.append(node)
    edges = {
        edge
        for node in nodes
        for amount in (*node.guarantees, *node.limits)
        for edge in (amount.start, amount.end)
        if edge is not None and edge > now
    }
    # Amounts are constant between dates, so that a violation at any time shows at one of these.
    for instant in sorted({now, *edges}):
        for root in nodes:
            if root.parent is None:
                yield from _exceeded(root, instant)


def _stored(pool: Pool) -> tuple[dict[str, AmountNode], list[AmountNode]]:
    """Return the groups of a pool by slug, and its members that have amounts."""
    groups = {
        slug: AmountNode(slug, parent, limits_from(guarantee), limits_from(limit))
        for slug, parent, guarantee, limit in GroupTerms.objects.filter(
            group__pool=pool, end=None
        ).values_list("group__slug", "parent__slug", "guarantee", "limit")
    }
    members = [
        AmountNode(slug, group, limits_from(guarantee), limits_from(limit))
        for slug, group, guarantee, limit in MembershipTerms.objects.filter(
            membership__pool=pool, end=None
        )
        .exclude(guarantee=[], limit=[])
        .values_list("membership__tenant__slug", "group__slug", "guarantee", "limit")
    ]
    return groups, members


def _exceeded(root: AmountNode, at: datetime) -> Iterator[ExceededLimit]:
    """Yield the limits in force that are less than the guarantees under them."""
    order = root.below_and_itself()
    needed: dict[int, Mapping[Kind, Decimal]] = {}
    # Children precede their parents in this order, without recursion over deep trees.
    for node in reversed(order):
        together: dict[Kind, Decimal] = {}
        for child in node.below:
            for kind, amount in needed[id(child)].items():
                together[kind] = together.get(kind, Decimal(0)) + amount
        for kind, amount in _amounts(node.guarantees, at):
            # Guarantees below count towards the node's own: the larger of the two is due, not their sum.
            together[kind] = max(together.get(kind, Decimal(0)), amount)
        needed[id(node)] = together
        for limit in node.limits:
            for kind, amount in _amounts([limit], at):
                if amount < together.get(kind, Decimal(0)):
                    yield ExceededLimit(node, amount, kind[1], together[kind])


def _amounts(entries: Sequence[Limit], at: datetime) -> Iterator[tuple[Kind, Decimal]]:
    for entry in entries:
        if entry.is_in_force(at):
            # Amounts are compared on the very same selection of servers only.
            servers: Any = entry.meaning[0]
            for resource, amount in entry.amount.items():
                yield (servers, resource), amount
