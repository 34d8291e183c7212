"""Comparison of limits with the guarantees below them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache

from django.db.models import Q

from allocator_service.core.display import instant_text
from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import decimal_text
from allocator_service.pools.limits import Limit, Selection, is_same_list, limits_from
from allocator_service.pools.models import GroupTerms, MembershipTerms, Pool

# Selection and resource of an amount.
Kind = tuple[Selection, str]
# Whether a node is a member, and its slug.
NodeKey = tuple[bool, str]


@dataclass(frozen=True)
class AmountChange:
    """The amounts and the parent of a group or member after a change.

    `pointer` is that of the node in the request. Amounts are None to keep what the node has, and
    `parent` counts only if the node is new or `is_moved`.
    """

    is_member: bool
    slug: str
    parent: str | None
    guarantee: Sequence[Limit] | None
    limit: Sequence[Limit] | None
    is_moved: bool = False
    pointer: str = ""

    @property
    def key(self) -> NodeKey:
        """Key of the node."""
        return self.is_member, self.slug

    def against(self, stored: "AmountNode | None") -> "AmountChange":
        """Return the change without what the node has already.

        A request may state amounts and the parent that stay as they are.
        """
        if stored is None:
            return self
        return replace(
            self,
            guarantee=_changed_list(self.guarantee, stored.guarantees),
            limit=_changed_list(self.limit, stored.limits),
            is_moved=self.is_moved and self.parent != stored.parent,
        )


def _changed_list(given: Sequence[Limit] | None, stored: Sequence[Limit]) -> Sequence[Limit] | None:
    return None if given is None or is_same_list(given, stored) else given


@dataclass
class AmountNode:
    """A group or member with amounts, and the nodes below it."""

    key: NodeKey
    parent: str | None
    guarantees: Sequence[Limit] = ()
    limits: Sequence[Limit] = ()
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
    """A limit that is less than the guarantees under it on the same servers.

    `index` is the position of the limit in the list of its node. `since` is the instant at which the
    limit is less, None for the present. `change` is the change that makes it less, and `place` the
    pointer in it: `/limit`, `/guarantee` with a row or without one, `/parent` or `/group`.
    """

    node: AmountNode
    index: int
    kind: Kind
    amount: Decimal
    needed: Decimal
    at: datetime
    since: datetime | None
    change: AmountChange | None = None
    place: str = ""

    @property
    def pointer(self) -> str:
        """Pointer to the row, list or parent of a request, empty if none makes the limit less."""
        return "" if self.change is None else f"{self.change.pointer}{self.place}"

    @property
    def lacking(self) -> Decimal:
        """Part of the guarantees that exceeds the limit."""
        return self.needed - self.amount

    @property
    def detail(self) -> str:
        start = "The" if self.since is None else f"From {instant_text(self.since)} on, the"
        return (
            f"{start} limit of {self.node.key[1]} is {self.kind[1]}={decimal_text(self.amount)}. It must"
            f" be at least {self.kind[1]}={decimal_text(self.needed)}, which is guaranteed under it on"
            " the same servers."
        )

    def pointer_in(self, guarantees: Sequence[Limit]) -> str | None:
        """Return the pointer in a list of guarantees to the row that exceeds the limit.

        It is empty if no single row does, and None if no row counts against the limit.
        """
        servers, resource = self.kind
        counted = {
            position: entry.amount[resource]
            for position, entry in enumerate(guarantees)
            if entry.is_in_force(self.at)
            and entry.amount.get(resource)
            and is_subset(entry.selection, servers)
        }
        larger = [position for position, amount in counted.items() if amount > self.amount]
        for rows in (list(counted), larger):
            if len(rows) == 1:
                return f"/{rows[0]}"
        return "" if counted else None


def refuse_limits_below_guarantees(
    pool: Pool, changes: Iterable[AmountChange], *, now: datetime
) -> None:
    """Raise `Unacceptable` if changes make a limit less than the guarantees under it, now or later.

    It is called before the changes are made, with the pool locked. Their parents must be a tree.
    """
    for exceeded in limits_exceeded_by(pool, list(changes), now=now):
        raise Unacceptable(exceeded.detail, code="limit.below_guarantees", pointer=exceeded.pointer)


def limits_exceeded_by(
    pool: Pool, changes: Sequence[AmountChange], *, now: datetime
) -> Iterator[ExceededLimit]:
    """Yield the limits that changes make less than the guarantees under them, now or later.

    Each limit may be yielded for several instants. A limit that was as much too low before is left
    out: a pool may have such limits from before a release that compares more.
    """
    if not any(change.guarantee or change.limit or change.is_moved for change in changes):
        return
    stored = _stored(pool, changes)
    effective = [change.against(stored.get(change.key)) for change in changes]
    changed = dict(stored)
    for change in effective:
        before = stored.get(change.key)
        node = before or AmountNode(change.key, change.parent)
        changed[change.key] = replace(
            node,
            parent=change.parent if change.is_moved else node.parent,
            guarantees=node.guarantees if change.guarantee is None else change.guarantee,
            limits=node.limits if change.limit is None else change.limit,
        )
    known: dict[datetime, dict[tuple[NodeKey, Kind], Decimal]] = {}
    for exceeded in limits_below_guarantees(changed, now=now):
        if exceeded.at not in known:
            known[exceeded.at] = _lacking_at(exceeded.at, stored, now)
        if exceeded.lacking > known[exceeded.at].get((exceeded.node.key, exceeded.kind), 0):
            yield _with_change(exceeded, effective, stored)


def _with_change(
    exceeded: ExceededLimit, changes: Sequence[AmountChange], stored: Mapping[NodeKey, AmountNode]
) -> ExceededLimit:
    """Return a limit with the change that makes it less than the guarantees under it."""
    before = stored.get(exceeded.node.key)
    present = [] if before is None else [limit.meaning for limit in before.limits]
    is_new = exceeded.node.limits[exceeded.index].meaning not in present
    own = [change for change in changes if change.key == exceeded.node.key and change.limit]
    below = {node.key for node in exceeded.node.below_and_itself()}
    under = [change for change in changes if change.key in below]
    rows = [(change, exceeded.pointer_in(change.guarantee or ())) for change in under]
    places = [
        *((change, f"/limit/{exceeded.index}") for change in own if is_new),
        *((change, f"/guarantee{row}") for change, row in rows if row is not None),
        *((each, "/group" if each.is_member else "/parent") for each in under if each.is_moved),
        *((change, f"/limit/{exceeded.index}") for change in own),
    ]
    change, place = places[0] if places else (None, "")
    return replace(exceeded, change=change, place=place)


def _lacking_at(
    at: datetime, nodes: Mapping[NodeKey, AmountNode], now: datetime
) -> dict[tuple[NodeKey, Kind], Decimal]:
    """Return by how much limits in force at an instant are less than the guarantees under them."""
    lacking: dict[tuple[NodeKey, Kind], Decimal] = {}
    for each in _exceeded_at(_roots(nodes), at, now):
        key = each.node.key, each.kind
        lacking[key] = max(lacking.get(key, each.lacking), each.lacking)
    return lacking


def limits_below_guarantees(
    nodes: Mapping[NodeKey, AmountNode], *, now: datetime
) -> Iterator[ExceededLimit]:
    """Yield the limits that are less than the guarantees under them, now or later.

    The nodes must be a tree. Guarantees count that are for servers of the limit: of a node its own, or
    those of the nodes below together if these are more.
    """
    present = nodes.values()
    # Most pools have one kind or none, and a comparison walks the tree once per date.
    if not any(node.limits for node in present) or not any(node.guarantees for node in present):
        return
    edges = {
        edge
        for node in present
        for amount in (*node.guarantees, *node.limits)
        for edge in (amount.start, amount.end)
        if edge is not None and edge > now
    }
    roots = _roots(nodes)
    # Amounts are constant between dates, so that a violation at any time shows at one of these.
    for instant in sorted({now, *edges}):
        yield from _exceeded_at(roots, instant, now)


def _stored(pool: Pool, changes: Sequence[AmountChange]) -> dict[NodeKey, AmountNode]:
    """Return the groups of a pool, and its members that have amounts or are changed."""
    nodes = [
        AmountNode((False, slug), parent, limits_from(guarantee), limits_from(limit))
        for slug, parent, guarantee, limit in GroupTerms.objects.filter(
            group__pool=pool, end=None
        ).values_list("group__slug", "parent__slug", "guarantee", "limit")
    ]
    changed = [change.slug for change in changes if change.is_member]
    nodes += [
        AmountNode((True, slug), group, limits_from(guarantee), limits_from(limit))
        for slug, group, guarantee, limit in MembershipTerms.objects.filter(
            ~Q(guarantee=[], limit=[]) | Q(membership__tenant__slug__in=changed),
            membership__pool=pool,
            end=None,
        ).values_list("membership__tenant__slug", "group__slug", "guarantee", "limit")
    ]
    return {node.key: node for node in nodes}


def _roots(nodes: Mapping[NodeKey, AmountNode]) -> list[AmountNode]:
    """Return the nodes without a parent, each linked with the nodes below it."""
    linked = {key: replace(node, below=[]) for key, node in nodes.items()}
    for node in linked.values():
        # An import may leave out the row of a parent: what it writes then refuses the nodes below.
        if node.parent is not None and (False, node.parent) in linked:
            linked[False, node.parent].below.append(node)
    return [node for node in linked.values() if node.parent is None]


def _exceeded_at(
    roots: Iterable[AmountNode], at: datetime, now: datetime
) -> Iterator[ExceededLimit]:
    """Yield the limits in force at an instant that are less than the guarantees under them."""
    for root in roots:
        needed: dict[NodeKey, dict[Kind, Decimal]] = {}
        # Children precede their parents in this order, without recursion over deep trees.
        for node in reversed(root.below_and_itself()):
            together: dict[Kind, Decimal] = {}
            for child in node.below:
                for kind, amount in needed.pop(child.key).items():
                    together[kind] = together.get(kind, Decimal(0)) + amount
            _add_own(together, _amounts(node.guarantees, at))
            needed[node.key] = together
            for index, limit in enumerate(node.limits):
                for kind, amount in _amounts([limit], at):
                    within = _within(together, kind)
                    if amount < within:
                        since = at if at > now else None
                        yield ExceededLimit(node, index, kind, amount, within, at, since)


def _add_own(needed: dict[Kind, Decimal], own: Iterable[tuple[Kind, Decimal]]) -> None:
    """Add the guarantees of a node to what the nodes below it need together.

    Guarantees below count towards the node's own: the larger of the two is due, not their sum.
    """
    entries = list(own)
    # A selection follows all those inside it, and what it adds may not count for these again.
    entries.sort(key=lambda entry: sum(is_subset(kind[0], entry[0][0]) for kind, _ in entries))
    for kind, amount in entries:
        lacking = amount - _within(needed, kind)
        # What is due on more servers may be had on these: the narrowest first, the others fit more.
        for around in _around(needed, kind) if lacking > 0 else ():
            part = min(lacking, needed[around])
            needed[around] -= part
            needed[kind] = needed.get(kind, Decimal(0)) + part
            lacking -= part
        if lacking > 0:
            needed[kind] = needed.get(kind, Decimal(0)) + lacking


def _within(needed: Mapping[Kind, Decimal], kind: Kind) -> Decimal:
    """Return the sum of a resource that is due on servers of a selection."""
    servers, resource = kind
    return sum(
        (
            amount
            for (inside, name), amount in needed.items()
            if name == resource and is_subset(inside, servers)
        ),
        Decimal(0),
    )


def _around(needed: Mapping[Kind, Decimal], kind: Kind) -> list[Kind]:
    """Return the kinds of a resource for more servers than those of a selection, narrowest first."""
    servers, resource = kind
    wider = [
        each
        for each in needed
        if each[1] == resource and each[0] != servers and is_subset(servers, each[0])
    ]
    return sorted(wider, key=lambda each: sum(is_subset(other[0], each[0]) for other in wider))


@lru_cache(maxsize=1_000)
def is_subset(inside: Selection, around: Selection) -> bool:
    """Return True if all servers of a selection are among those of another one by their labels."""
    accepted = dict(inside)
    return all(label in accepted and accepted[label] <= values for label, values in around)


def _amounts(entries: Sequence[Limit], at: datetime) -> Iterator[tuple[Kind, Decimal]]:
    for entry in entries:
        if entry.is_in_force(at):
            servers = entry.selection
            for resource, amount in entry.amount.items():
                yield (servers, resource), amount
