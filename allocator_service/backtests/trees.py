"""Trees of groups over the time of a backtest."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, Literal

import numpy as np
from django.db.models import Q, QuerySet

from allocator_service.core.errors import Unacceptable
from allocator_service.pools.limits import limits_from
from allocator_service.pools.models import GroupTerms, MembershipTerms, OwnServers, Pool
from policies import Limit

POOL = -1
# Of a group: second, parent, weight, tier, limits. Of a member: second, weight, best effort, group,
# tier, limits. Limits are [{"where", "amount"}] in force.
Rows = list[list[Any]]
_LIMITS_AT = {"group": 4, "tenant": 5}
_ABSENT: list[Any] = [POOL, 1.0, 0, []]
_STRANGER: list[Any] = [0.0, 1.0, False, POOL, 0, []]


class DatedTree:
    """Terms of groups and members, each from a second on.

    Members are named. Groups are numbered, because another group may get the slug of a retired one.
    """

    def __init__(self, groups: list[Rows], members: Mapping[str, Rows]) -> None:
        self.groups, self.members = groups, members

    def numbered(self, tenants: Sequence[str]) -> dict[str, Any]:
        """Return the tree as JSON, with the terms of tenants in their order."""
        return {
            "groups": self.groups,
            "members": [self.members.get(name, [_STRANGER]) for name in tenants],
        }


def tree_between(*, pool: Pool, start: datetime, end: datetime) -> DatedTree | None:
    """Return the tree of a pool in a period, None if it had no groups with members, tiers and limits.

    Second 0 is `start`. A member has its nearest terms while it was none. A group that was not there
    belongs to the pool itself. Limits begin and end with their dates as well as with the terms.
    """
    memberships = MembershipTerms.objects.filter(membership__pool=pool, start__lt=end)
    inside = memberships.exclude(end__lte=start)
    _refuse_guarantees(pool, inside, start=start, end=end)
    if not inside.exclude(group=None, tier=0, limit=[]).exists():
        return None
    terms = GroupTerms.objects.filter(group__pool=pool, start__lt=end).exclude(end__lte=start)

    def second(instant: datetime) -> float:
        return max((instant - start).total_seconds(), 0.0)

    number = {
        group: position
        for position, group in enumerate(
            terms.order_by("group__slug", "group").values_list("group", flat=True).distinct()
        )
    }
    groups: list[Rows] = [[] for _ in number]
    for group, parent, weight, tier, limit, since, until in terms.order_by("start").values_list(
        "group", "parent", "weight", "tier", "limit", "start", "end"
    ):
        rows = groups[number[group]]
        if not rows and since > start:
            rows.append([0.0, *_ABSENT])
        if rows and rows[-1][0] == second(since):
            rows.pop()
        fixed = [number.get(parent, POOL), float(weight), tier]
        within = max(since, start), end if until is None else min(until, end)
        rows += [[second(at), *fixed, found] for at, found in _limits_over(limit, *within)]
        if until is not None and until < end:
            rows.append([second(until), *_ABSENT])
    members: dict[str, Rows] = {}
    for slug, weight, best_effort, group, tier, limit, since, until in inside.order_by(
        "start"
    ).values_list(
        "membership__tenant__slug",
        "weight",
        "best_effort",
        "group",
        "tier",
        "limit",
        "start",
        "end",
    ):
        fixed = [float(weight), best_effort, number.get(group, POOL), tier]
        within = max(since, start), end if until is None else min(until, end)
        members.setdefault(slug, []).extend(
            [second(at), *fixed, found] for at, found in _limits_over(limit, *within)
        )
    return DatedTree(groups, members)


def _refuse_guarantees(
    pool: Pool, members: "QuerySet[MembershipTerms]", *, start: datetime, end: datetime
) -> None:
    """Raise `Unacceptable` for a period in which a node had a guarantee, or lent a part."""
    groups = GroupTerms.objects.filter(group__pool=pool, start__lt=end).exclude(end__lte=start)
    own = Q(own_servers=OwnServers.YES)
    if (
        pool.own_servers
        or groups.filter(~Q(guarantee=[]) | own).exists()
        or members.filter(~Q(guarantee=[]) | ~Q(lend=[]) | own).exists()
    ):
        raise Unacceptable(
            "Backtests of a pool's history do not keep guarantees, own servers or what members lend, and"
            " the pool had some in this period.",
            code="simulation.no_guarantees",
        )


def _limits_over(
    stored: Sequence[Mapping[str, Any]], start: datetime, end: datetime
) -> list[tuple[datetime, list[dict[str, Any]]]]:
    """Return the limits in force from each instant of a period at which they change."""
    limits = limits_from(stored)
    edges = {edge for limit in limits for edge in (limit.start, limit.end) if edge is not None}
    moments = [start, *sorted(edge for edge in edges if start < edge < end)]
    return [
        (
            moment,
            [
                {
                    "where": dict(limit.where),
                    "amount": {name: float(amount) for name, amount in limit.amount.items()},
                }
                for limit in limits
                if limit.is_in_force(moment)
            ],
        )
        for moment in moments
    ]


def tree_named(
    groups: Sequence[Mapping[str, Any]], tenants: Sequence[Mapping[str, Any]]
) -> DatedTree | None:
    """Return the tree that a request names, None for a flat pool. Raises `Unacceptable`."""
    if groups and not tenants:
        raise Unacceptable(
            "Groups are those of the tenants that are named: name them in `tenants`.",
            code="backtest.groups",
            pointer="/groups",
        )
    number = {row["name"]: position for position, row in enumerate(groups)}

    def of(name: str | None, pointer: str) -> int:
        if name is not None and name not in number:
            raise Unacceptable(
                f'No group is named "{name[:60]}".', code="group.unknown", pointer=pointer
            )
        return POOL if name is None else number[name]

    rows: list[Rows] = [
        [[0.0, of(row["parent"], f"/groups/{position}/parent"), row["weight"], row["tier"], []]]
        for position, row in enumerate(groups)
    ]
    members: dict[str, Rows] = {
        row["name"]: [
            [
                0.0, row["weight"], row["best_effort"],
                of(row.get("group"), f"/tenants/{position}/group"), row.get("tier", 0), [],
            ]
        ]
        for position, row in enumerate(tenants)
    }  # fmt: skip
    if all(row[0][3:] == _STRANGER[3:] for row in members.values()):
        return None
    return DatedTree(rows, members)


def tree_moments(tree: Mapping[str, Any]) -> list[float]:
    """Return the seconds after 0 at which any terms change, ascending."""
    every = [*tree["groups"], *tree["members"]]
    return sorted({row[0] for rows in every for row in rows if row[0] > 0.0})


def tree_fields(tree: Mapping[str, Any], second: float, resources: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a problem that a tree decides at a second."""
    groups, members = _at(tree["groups"], second), _at(tree["members"], second)

    def column(rows: Sequence[list[Any]], place: int, kind: Any) -> Any:
        return np.array([row[place] for row in rows], dtype=kind)

    return {
        "groups": tuple(f"group-{position}" for position in range(len(groups))),
        "group_parent": column(groups, 1, np.int64),
        "group_weight": column(groups, 2, np.float64),
        "group_tier": column(groups, 3, np.int64),
        "weight": column(members, 1, np.float64),
        "best_effort": column(members, 2, np.bool_),
        "tenant_group": column(members, 3, np.int64),
        "tenant_tier": column(members, 4, np.int64),
        "limits": (*_limits("group", groups, resources), *_limits("tenant", members, resources)),
    }


def _limits(scope: Literal["group", "tenant"], rows: Rows, resources: Sequence[str]) -> list[Limit]:
    """Return the limits in the last column of the rows of nodes."""
    return [
        Limit(
            scope,
            node,
            np.array([limit["amount"].get(name, np.inf) for name in resources], dtype=np.float64),
            {
                label: (values,) if isinstance(values, str) else tuple(values)
                for label, values in limit["where"].items()
            },
        )
        for node, row in enumerate(rows)
        # Scenarios of an earlier version have no such column.
        for limits in row[_LIMITS_AT[scope] :]
        for limit in limits
    ]


def _at(every: Sequence[Rows], second: float) -> list[list[Any]]:
    """Return the last row of each that has begun, or its first."""
    return [rows[max(bisect_right(rows, second, key=itemgetter(0)) - 1, 0)] for rows in every]
