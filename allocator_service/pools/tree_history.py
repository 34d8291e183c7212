"""Membership of groups over time."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from django.db.models import Q

from allocator_service.pools.models import Group, GroupTerms, MembershipTerms, Pool
from allocator_service.pools.selectors import group_missing


class Child(NamedTuple):
    """A member or a group directly below a group."""

    slug: str
    is_group: bool


class Stay(NamedTuple):
    """An interval in which a tenant belonged to a group by way of one of the group's children."""

    start: datetime
    end: datetime
    child: Child


@dataclass(frozen=True)
class ChildrenOver:
    """The children of a group within `[start, end)`, and the tenants below each.

    Attributes:
        stays: by tenant, ascending and disjoint.
        children: all children at any instant, including groups without members.
    """

    group: Group
    start: datetime
    end: datetime
    stays: Mapping[int, Sequence[Stay]]
    children: Collection[Child]

    @cached_property
    def moves(self) -> Sequence[datetime]:
        """The instants within the interval at which a tenant entered, moved in or left the group."""
        found = {edge for stays in self.stays.values() for stay in stays for edge in stay[:2]}
        return sorted(edge for edge in found if self.start < edge < self.end)

    def child_at(self, tenant: int, instant: datetime) -> Child | None:
        """Return the child that a tenant belonged to at an instant, None outside the group."""
        stays = self.stays.get(tenant, ())
        # Stays are ascending and disjoint: the last one that starts by then is the only candidate.
        place = bisect_right(stays, instant, key=lambda stay: stay.start) - 1
        return stays[place].child if place >= 0 and instant < stays[place].end else None


def group_named(*, pool: Pool, slug: str, before: datetime) -> Group:
    """Return the last group that got a slug before an instant, or the first that ever got it.

    Retired groups are included. Raises `Missing`.
    """
    groups = list(Group.objects.filter(pool=pool, slug=slug).order_by("created_at", "pk"))
    if not groups:
        raise group_missing()
    # Retiring a group frees its slug, so that several groups can have had it.
    found = next((each for each in reversed(groups) if each.created_at < before), groups[0])
    found.pool = pool
    return found


def children_over(
    *, group: Group, start: datetime, end: datetime, within: Group | None = None
) -> ChildrenOver:
    """Return the children of a group at every instant of `[start, end)`.

    Instants are left out at which the group was not `within` another one, if given.
    """
    inside = Q(start__lt=end) & (Q(end=None) | Q(end__gt=start))
    rows = list(
        GroupTerms.objects.filter(inside, group__pool=group.pool)
        .select_related("group")
        .order_by("start")
    )
    above = _Above(group, rows)
    itself = Child(group.slug, is_group=True)
    times = list(_Above(within or group, rows).stays(group.pk, start, end, itself))
    memberships = MembershipTerms.objects.filter(
        inside, membership__pool=group.pool, group__isnull=False
    )
    stays: dict[int, list[Stay]] = {}
    for terms in memberships.select_related("membership__tenant").order_by("start"):
        tenant = terms.membership.tenant
        own = stays.setdefault(tenant.pk, [])
        child = Child(tenant.slug, is_group=False)
        for since, until in _shared(terms, times):
            for stay in above.stays(terms.group_id, since, until, child):
                _append(own, stay)
    children = {stay.child for each in stays.values() for stay in each}
    children |= {
        Child(terms.group.slug, is_group=True)
        for terms in rows
        # Groups without members too, which the tenants' stays do not show.
        if terms.parent_id == group.pk and any(_shared(terms, times))
    }
    kept = {tenant: each for tenant, each in stays.items() if each}
    return ChildrenOver(group, start, end, kept, children)


Times = Sequence[tuple[datetime, datetime]]


def members_over(
    *, pool: Pool, groups: Collection[Group], start: datetime, end: datetime
) -> dict[int, dict[int, Times]]:
    """Return when each tenant belonged to groups of a pool within `[start, end)`.

    The result is by the key of the group, then by that of the tenant. Before a tenant was admitted it
    counts where it was first, and after its membership ended where it was last. The same holds for
    groups, so that what never moved belongs to its groups all the time.
    """
    parents = _edges_over(
        GroupTerms.objects.filter(group__pool=pool, start__lt=end)
        .order_by("start")
        .values_list("group", "parent", "start", "end"),
        start,
        end,
    )
    memberships = _edges_over(
        MembershipTerms.objects.filter(membership__pool=pool, start__lt=end)
        .order_by("start")
        .values_list("membership__tenant", "group", "start", "end"),
        start,
        end,
    )
    found: dict[int, dict[int, Times]] = {group.pk: {} for group in groups}
    # Many tenants have the same group, so its paths are followed once.
    above: dict[int, list[_Edge]] = {}
    for tenant, own in memberships.items():
        times: dict[int, list[tuple[datetime, datetime]]] = {}
        for at, since, until in own:
            if at is None:
                continue
            if at not in above:
                reached = _groups_above(at, start, end, parents)
                above[at] = sorted(
                    (each for each in reached if each[0] in found), key=lambda each: each[1]
                )
            for group, first, last in above[at]:
                if group is None or max(since, first) >= min(until, last):
                    continue
                of_group, begin = times.setdefault(group, []), max(since, first)
                if of_group and of_group[-1][1] == begin:
                    # A move below the group does not interrupt the tenant's time in it.
                    begin = of_group.pop()[0]
                of_group.append((begin, min(until, last)))
        for group, intervals in times.items():
            found[group][tenant] = intervals
    return found


# What a member or a group belonged to, from when until when.
_Edge = tuple[int | None, datetime, datetime]


def _edges_over(
    rows: Iterable[tuple[int, int | None, datetime, datetime | None]],
    start: datetime,
    end: datetime,
) -> dict[int, list[_Edge]]:
    """Return ascending terms by node. The first ones hold from `start` on, the last ones until `end`."""
    edges: dict[int, list[_Edge]] = {}
    for node, above, since, until in rows:
        edges.setdefault(node, []).append((above, since, until or end))
    for own in edges.values():
        own[0] = (own[0][0], start, own[0][2])
        own[-1] = (*own[-1][:2], end)
    return edges


def _groups_above(
    at: int,
    start: datetime,
    end: datetime,
    parents: Mapping[int, Sequence[_Edge]],
    passed: frozenset[int] = frozenset(),
) -> Iterator[_Edge]:
    """Yield a group and those above it, each with the parts of `[start, end)` in which it was above."""
    yield at, start, end
    for parent, first, last in parents.get(at, ()):
        since, until = max(first, start), min(last, end)
        # A clock that was set back can leave a cycle in the past.
        if parent is not None and since < until and parent not in passed:
            yield from _groups_above(parent, since, until, parents, passed | {at})


@dataclass(frozen=True)
class Place:
    """The place of a tenant below a group.

    `group` is the tenant's own group, `child` the outer group's child on the path to it.
    """

    tenant: str
    group: str
    child: Child


def places_before(*, group: Group, before: datetime) -> dict[int, Place]:
    """Return the tenants below a group just before an instant, by key.

    A membership that had ended, or a group that was retired, counts where it was last, so that a
    tenant is always in one place.
    """
    parents = _last_terms(group.pool, before)
    last = (
        MembershipTerms.objects.filter(membership__pool=group.pool, start__lt=before)
        # DISTINCT ON keeps the first row of each membership in this order: its last terms.
        .order_by("membership_id", "-start")
        .distinct("membership_id")
        .select_related("membership__tenant", "group")
    )
    places = {}
    for terms in last:
        tenant, own = terms.membership.tenant, terms.group
        path = _path_to(group, terms.group_id, parents)
        if path is not None and own is not None:
            child = Child(tenant.slug, is_group=False)
            if path:
                child = Child(parents[path[-1]].group.slug, is_group=True)
            places[tenant.pk] = Place(tenant.slug, own.slug, child)
    return places


def groups_before(*, group: Group, before: datetime) -> set[int]:
    """Return the groups below a group just before an instant, and the group itself, by key.

    A retired group counts where it was last.
    """
    parents = _last_terms(group.pool, before)
    return {group.pk} | {each for each in parents if _path_to(group, each, parents) is not None}


def slugs_before(*, groups: Collection[int], before: datetime) -> set[str]:
    """Return the slugs of those groups that were present just before an instant."""
    terms = GroupTerms.objects.filter(group__in=groups, start__lt=before)
    present = terms.filter(Q(end=None) | Q(end__gte=before))
    return set(present.values_list("group__slug", flat=True))


def _last_terms(pool: Pool, before: datetime) -> dict[int, GroupTerms]:
    terms = GroupTerms.objects.filter(group__pool=pool, start__lt=before)
    last = terms.order_by("group_id", "-start").distinct("group_id").select_related("group")
    return {each.group_id: each for each in last}


def _path_to(group: Group, at: int | None, parents: Mapping[int, GroupTerms]) -> list[int] | None:
    """Return the groups from one up to a group, without the latter. None if it is not above."""
    path: list[int] = []
    while at is not None and at != group.pk:
        if at in path or at not in parents:  # see `_Above.stays` on cycles
            return None
        path.append(at)
        at = parents[at].parent_id
    return path if at == group.pk else None


def _shared(
    terms: GroupTerms | MembershipTerms, times: Iterable[Stay]
) -> Iterator[tuple[datetime, datetime]]:
    """Yield the parts of some times in which terms were in force."""
    for time in times:
        since, until = max(terms.start, time.start), min(terms.end or time.end, time.end)
        if since < until:
            yield since, until


def _append(stays: list[Stay], stay: Stay) -> None:
    """Append a stay, or extend the last one if the child stays the same."""
    if stays and stays[-1].end == stay.start and stays[-1].child == stay.child:
        stays[-1] = stays[-1]._replace(end=stay.end)
    else:
        stays.append(stay)


class _Above:
    """The paths from groups up to one of them."""

    def __init__(self, group: Group, terms: Iterable[GroupTerms]) -> None:
        self._group = group
        self._terms: dict[int, list[GroupTerms]] = {}
        for each in terms:
            self._terms.setdefault(each.group_id, []).append(each)

    def stays(
        self,
        at: int | None,
        start: datetime,
        end: datetime,
        child: Child,
        passed: frozenset[int] = frozenset(),
    ) -> Iterator[Stay]:
        """Yield the parts of `[start, end)` in which a path led up from a group to the one asked for.

        `child` is the last node below `at` on the path.
        """
        if at == self._group.pk:
            yield Stay(start, end, child)
        # A clock that was set back can leave a cycle in the past; its groups belonged to none above.
        elif at is not None and at not in passed:
            for terms in self._terms.get(at, ()):
                since, until = max(terms.start, start), min(terms.end or end, end)
                if since < until:
                    below = Child(terms.group.slug, is_group=True)
                    yield from self.stays(terms.parent_id, since, until, below, passed | {at})
