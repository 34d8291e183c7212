"""Trees of groups over the time of a backtest."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from allocator_service.core.errors import Unacceptable
from allocator_service.pools.limits import Limit as Amount
from allocator_service.pools.limits import limits_from
from allocator_service.pools.models import Count, GroupTerms, MembershipTerms, OwnServers, Pool
from policies import Guarantee, Limit

POOL = -1
# Of a group: second, parent, weight, tier, limits, guarantees, own servers. Of a member: second, weight,
# best effort, group, tier, limits, guarantees, own servers, loans. Limits, guarantees and loans are
# [{"where", "amount"}] in force.
Rows = list[list[Any]]
_LIMITS, _GUARANTEES, _OWN_SERVERS, _LOANS = range(4)
# Where these begin in a row.
_AMOUNTS_AT = {"group": 4, "tenant": 5}
_ABSENT: list[Any] = [POOL, 1.0, 0, [], [], OwnServers.INHERIT.value]
_STRANGER: list[Any] = [0.0, 1.0, False, POOL, 0, [], [], OwnServers.INHERIT.value, []]


class DatedTree:
    """Terms of groups and members, each from a second on.

    Members are named. Groups are numbered, because another group may get the slug of a retired one.
    """

    def __init__(
        self, groups: list[Rows], members: Mapping[str, Rows], *, own: bool = False, count: str = ""
    ) -> None:
        self.groups, self.members = groups, members
        # The settings of the pool, which have no dates.
        self.own, self.count = own, count or Count.TOTAL.value

    def numbered(self, tenants: Sequence[str]) -> dict[str, Any]:
        """Return the tree as JSON, with the terms of tenants in their order."""
        return {
            "groups": self.groups,
            "members": [self.members.get(name, [_STRANGER]) for name in tenants],
            "own_servers": self.own,
            "count": self.count,
        }


def tree_between(*, pool: Pool, start: datetime, end: datetime) -> DatedTree | None:
    """Return the tree of a pool in a period.

    It is None if the pool had no groups with members, no tiers, and no amounts of members.

    Second 0 is `start`. A member has its nearest terms while it was none. A group that was not there
    belongs to the pool itself. Amounts begin and end with their dates as well as with the terms. The
    pool's own settings are the present ones.
    """
    memberships = MembershipTerms.objects.filter(membership__pool=pool, start__lt=end)
    inside = memberships.exclude(end__lte=start)
    plain = inside.filter(group=None, tier=0, limit=[], guarantee=[], lend=[]).exclude(
        own_servers=OwnServers.YES
    )
    if not pool.own_servers and plain.count() == inside.count():
        return None
    terms = GroupTerms.objects.filter(group__pool=pool, start__lt=end).exclude(end__lte=start)

    def second(instant: datetime) -> float:
        # Terms from before the period hold from its start.
        return max((instant - start).total_seconds(), 0.0)

    number = {
        group: position
        for position, group in enumerate(
            terms.order_by("group__slug", "group").values_list("group", flat=True).distinct()
        )
    }
    groups: list[Rows] = [[] for _ in number]
    for group, parent, weight, tier, limit, guarantee, own, since, until in terms.order_by(
        "start"
    ).values_list(
        "group", "parent", "weight", "tier", "limit", "guarantee", "own_servers", "start", "end"
    ):
        rows = groups[number[group]]
        if not rows and since > start:
            # Created during the period, the group was absent until then.
            rows.append([0.0, *_ABSENT])
        # Terms that follow without a gap replace the absence that the last ones ended with.
        if rows and rows[-1][0] == second(since):
            rows.pop()
        fixed = [number.get(parent, POOL), float(weight), tier]
        within = max(since, start), end if until is None else min(until, end)
        rows += [
            [second(at), *fixed, *found, own]
            for at, found in _amounts_over([limit, guarantee], *within)
        ]
        if until is not None and until < end:
            rows.append([second(until), *_ABSENT])
    members: dict[str, Rows] = {}
    for slug, weight, best_effort, group, tier, limit, guarantee, lend, own, since, until in (
        inside.order_by("start").values_list(
            "membership__tenant__slug", "weight", "best_effort", "group", "tier", "limit",
            "guarantee", "lend", "own_servers", "start", "end",
        )
    ):  # fmt: skip
        fixed = [float(weight), best_effort, number.get(group, POOL), tier]
        within = max(since, start), end if until is None else min(until, end)
        members.setdefault(slug, []).extend(
            [second(at), *fixed, limits, guarantees, own, loans]
            for at, (limits, guarantees, loans) in _amounts_over([limit, guarantee, lend], *within)
        )
    return DatedTree(groups, members, own=pool.own_servers, count=pool.count)


def _amounts_over(
    stored: Sequence[Sequence[Mapping[str, Any]]], start: datetime, end: datetime
) -> list[tuple[datetime, list[list[dict[str, Any]]]]]:
    """Return the amounts in force from each instant of a period at which any of them change.

    Args:
        stored: lists of limits, guarantees or loans, as nodes store them.
    """
    lists = [limits_from(amounts) for amounts in stored]
    edges = {
        edge for each in lists for amount in each for edge in (amount.start, amount.end) if edge
    }
    moments = [start, *sorted(edge for edge in edges if start < edge < end)]
    return [(moment, [_in_force(each, moment) for each in lists]) for moment in moments]


def _in_force(amounts: Sequence[Amount], moment: datetime) -> list[dict[str, Any]]:
    """Return the amounts in force at an instant, as rows have them."""
    return [
        {
            "where": dict(each.where),
            "amount": {name: float(amount) for name, amount in each.amount.items()},
        }
        for each in amounts
        if each.is_in_force(moment)
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
        [
            [
                0.0, of(row["parent"], f"/groups/{position}/parent"), row["weight"], row["tier"],
                *_ABSENT[3:],
            ]
        ]
        for position, row in enumerate(groups)
    ]  # fmt: skip
    members: dict[str, Rows] = {
        row["name"]: [
            [
                0.0, row["weight"], row["best_effort"],
                of(row.get("group"), f"/tenants/{position}/group"), row.get("tier", 0),
                *_STRANGER[5:],
            ]
        ]
        for position, row in enumerate(tenants)
    }  # fmt: skip
    # Groups without members decide nothing.
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
        "limits": (
            *_limits("group", groups, resources),
            *_limits("tenant", members, resources),
            *_limits("lend", members, resources),
        ),
        "guarantees": (
            *_guarantees("group", groups, resources),
            *_guarantees("tenant", members, resources),
        ),
        "own_servers": np.array(
            [_has_own_servers(row, groups, tree) for row in members], dtype=np.bool_
        ),
        "count_guaranteed": tree.get("count", Count.TOTAL) == Count.TOTAL,
    }


def _limits(
    scope: Literal["group", "tenant", "lend"], rows: Rows, resources: Sequence[str]
) -> list[Limit]:
    """Return the limits or loans of nodes."""
    kind, columns = (_LIMITS, scope) if scope != "lend" else (_LOANS, "tenant")
    return [
        Limit(scope, node, _amount(entry, resources), _selector(entry))
        for node, row in enumerate(rows)
        for entry in _column(row, columns, kind, [])
    ]


def _guarantees(
    scope: Literal["group", "tenant"], rows: Rows, resources: Sequence[str]
) -> list[Guarantee]:
    """Return the guarantees of nodes."""
    return [
        Guarantee(scope, node, _amount(entry, resources), _selector(entry))
        for node, row in enumerate(rows)
        for entry in _column(row, scope, _GUARANTEES, [])
    ]


def _column(row: list[Any], scope: str, kind: int, absent: Any) -> Any:
    """Return a value at the end of a row, which scenarios of earlier versions lack."""
    at = _AMOUNTS_AT[scope] + kind
    return row[at] if at < len(row) else absent


def _amount(entry: Mapping[str, Any], resources: Sequence[str]) -> Any:
    """Return the amount (m,) of each resource, inf for one that is not named."""
    return np.array([entry["amount"].get(name, np.inf) for name in resources], dtype=np.float64)


def _selector(entry: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the selector of servers of an entry."""
    return {
        label: (values,) if isinstance(values, str) else tuple(values)
        for label, values in entry["where"].items()
    }


def _has_own_servers(row: list[Any], groups: Sequence[list[Any]], tree: Mapping[str, Any]) -> bool:
    """Return the setting of a member, else of the nearest group that has one, else of the pool."""
    setting, group = _column(row, "tenant", _OWN_SERVERS, OwnServers.INHERIT), row[3]
    # Groups that lead back to each other are refused later, with the problem.
    for _ in groups:
        if setting != OwnServers.INHERIT or group == POOL:
            break
        setting = _column(groups[group], "group", _OWN_SERVERS, OwnServers.INHERIT)
        group = groups[group][1]
    if setting == OwnServers.INHERIT:
        return bool(tree.get("own_servers", False))
    return bool(setting == OwnServers.YES)


def _at(every: Sequence[Rows], second: float) -> list[list[Any]]:
    """Return the last row of each that has begun, or its first."""
    return [rows[max(bisect_right(rows, second, key=itemgetter(0)) - 1, 0)] for rows in every]
