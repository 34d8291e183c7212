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
class _Node:
    """A group or member with amounts, and the group above it."""

    name: str
    parent: str | None
    guarantees: Sequence[Limit]
    limits: Sequence[Limit]
    below: list["_Node"] = field(default_factory=list)


def refuse_limits_below_guarantees(pool: Pool, *, now: datetime, pointer: str) -> None:
    """Raise `Unacceptable` if a limit is less than the guarantees under it, now or later.

    Guarantees count that are for the servers of the limit: of a node its own, or those of the nodes
    below together if these are more. It is called in the transaction of a change, after it.
    """
    top, nodes = _tree(pool)
    if not any(node.limits for node in nodes) or not any(node.guarantees for node in nodes):
        return
    edges = {
        edge
        for node in nodes
        for amount in (*node.guarantees, *node.limits)
        for edge in (amount.start, amount.end)
        if edge is not None and edge > now
    }
    for instant in sorted({now, *edges}):
        for root in top:
            for node, limit, resource, needed in _exceeded(root, instant):
                raise Unacceptable(
                    f"The limit of {node.name} is {decimal_text(limit.amount[resource])} {resource}, and"
                    f" {decimal_text(needed)} are guaranteed under it on the same servers.",
                    code="limit.below_guarantees",
                    pointer=pointer,
                )


def _tree(pool: Pool) -> tuple[list[_Node], list[_Node]]:
    """Return the nodes at the top of the pool's tree, and all nodes."""
    groups = {
        slug: _Node(slug, parent, limits_from(guarantee), limits_from(limit))
        for slug, parent, guarantee, limit in GroupTerms.objects.filter(
            group__pool=pool, end=None
        ).values_list("group__slug", "parent__slug", "guarantee", "limit")
    }
    members = [
        _Node(slug, group, limits_from(guarantee), limits_from(limit))
        for slug, group, guarantee, limit in MembershipTerms.objects.filter(
            membership__pool=pool, end=None
        )
        .exclude(guarantee=[], limit=[])
        .values_list("membership__tenant__slug", "group__slug", "guarantee", "limit")
    ]
    nodes = [*groups.values(), *members]
    for node in nodes:
        if node.parent is not None:
            groups[node.parent].below.append(node)
    return [node for node in nodes if node.parent is None], nodes


def _exceeded(root: _Node, at: datetime) -> Iterator[tuple[_Node, Limit, str, Decimal]]:
    """Yield the limits in force that are less than what is guaranteed under them."""
    order = [root]
    for node in order:
        order += node.below
    needed: dict[int, Mapping[Kind, Decimal]] = {}
    for node in reversed(order):
        together: dict[Kind, Decimal] = {}
        for child in node.below:
            for kind, amount in needed[id(child)].items():
                together[kind] = together.get(kind, Decimal(0)) + amount
        for kind, amount in _amounts(node.guarantees, at):
            together[kind] = max(together.get(kind, Decimal(0)), amount)
        needed[id(node)] = together
        for limit in node.limits:
            for kind, amount in _amounts([limit], at):
                if amount < together.get(kind, Decimal(0)):
                    yield node, limit, kind[1], together[kind]


def _amounts(entries: Sequence[Limit], at: datetime) -> Iterator[tuple[Kind, Decimal]]:
    for entry in entries:
        if entry.is_in_force(at):
            servers: Any = entry.meaning[0]
            for resource, amount in entry.amount.items():
                yield (servers, resource), amount
