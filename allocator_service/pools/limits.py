"""Limits and guarantees of groups, members and workloads, and what members lend.

Each of these nodes stores such amounts as lists in JSON. An entry has `where` (a server selector),
`amount` (decimals as text, by resource) and, if it has dates, `from` and `to`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Q

from allocator_service.core.dates import date_range_text, is_settable
from allocator_service.core.errors import MAX_ERRORS, FieldError, Unacceptable
from allocator_service.core.quantities import decimal_text
from allocator_service.pools.budgets import stops_of
from allocator_service.pools.models import GroupTerms, MembershipTerms, OwnServers, Pool

# Of one node, and of all nodes of a pool: each may cost a linear program.
MAX_LIMITS, MAX_OF_POOL = 100, 1_000
# Of a pool: selectors of guarantees that differ, and members that limit what they lend, whose servers
# are classes of their own.
MAX_SELECTORS, MAX_LENDERS = 10, 64
# The condition of the indexes of nodes with limits.
# PostgreSQL uses a partial index only for queries whose condition implies that of the index.
HAS_LIMIT = ~Q(limit=[])
Selector = Mapping[str, str | list[str]]
Selection = frozenset[tuple[str, frozenset[str]]]
NOUNS = {"limit": "limit", "guarantee": "guarantee", "lend": "loan"}


@dataclass(frozen=True)
class Limit:
    """A ceiling on what a decision allocates below a node, on the servers that match `where`.

    A guarantee has the same form and is a floor, and what a member lends is a ceiling for all others.

    It holds from `start` until before `end`. None is no bound.
    """

    amount: Mapping[str, Decimal]
    where: Selector = field(default_factory=dict)
    start: datetime | None = None
    end: datetime | None = None

    def is_in_force(self, at: datetime) -> bool:
        """Return True if the limit holds at an instant."""
        has_started = self.start is None or self.start <= at
        return has_started and (self.end is None or at < self.end)

    @property
    def dates(self) -> dict[str, datetime]:
        """Its `from` and `to`, without those that are None."""
        edges = {"from": self.start, "to": self.end}
        return {name: edge for name, edge in edges.items() if edge is not None}

    @property
    def selection(self) -> Selection:
        """Labels of the selector with the values that each accepts."""
        return frozenset(
            (label, frozenset([values] if isinstance(values, str) else values))
            for label, values in self.where.items()
        )

    @property
    def meaning(self) -> tuple[object, ...]:
        """Value that limits share if they differ only in how their selectors are written."""
        return self.selection, dict(self.amount), self.start, self.end

    @property
    def stored(self) -> dict[str, Any]:
        """Entry of the stored list, as JSON."""
        entry: dict[str, Any] = {
            "where": dict(self.where),
            "amount": {name: decimal_text(amount) for name, amount in self.amount.items()},
        }
        return {**entry, **{name: edge.isoformat() for name, edge in self.dates.items()}}


def limits_stored(limits: Iterable[Limit]) -> list[dict[str, Any]]:
    """Return the list that a node stores."""
    return [limit.stored for limit in limits]


def limits_from(stored: Iterable[Mapping[str, Any]]) -> list[Limit]:
    """Return the limits in the list that a node stores."""
    return [
        Limit(
            amount={name: Decimal(amount) for name, amount in entry["amount"].items()},
            where=entry["where"],
            start=_instant(entry.get("from")),
            end=_instant(entry.get("to")),
        )
        for entry in stored
    ]


def is_same_list(limits: Iterable[Limit], others: Iterable[Limit]) -> bool:
    """Return whether two lists have limits of the same meaning in the same order."""
    return [limit.meaning for limit in limits] == [limit.meaning for limit in others]


def limits_kept_or_stored(
    limits: Sequence[Limit] | None, present: Sequence[Mapping[str, Any]]
) -> list[Any]:
    """Return the list to store for a node that stores `present`.

    It is the present one if `limits` is None or differs only in how selectors are written.
    """
    # A selector written in another way must not give the node new terms in its history.
    if limits is None or is_same_list(limits, limits_from(present)):
        return list(present)
    return limits_stored(limits)


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def selector_text(selector: Mapping[str, Any]) -> str:
    """Return a selector as text for people, empty for all servers."""
    return ", ".join(
        f"{label}={values if isinstance(values, str) else ' or '.join(values)}"
        for label, values in selector.items()
    )


LimitRule = Callable[[str, Mapping[str, Any]], str]
_limit_rules: list[LimitRule] = []


def register_limit_rule(rule: LimitRule) -> None:
    """Register the function that returns why a policy with its options does not keep limits.

    The function returns an empty text for a policy that keeps limits. It is registered because this
    app must not import the policies.
    """
    _limit_rules[:] = [rule]  # replaced, because apps can be set up twice in one process


def refuse_limits(
    policy_name: str,
    options: Mapping[str, Any],
    *,
    pointer: str,
    kind: str = "limit",
    nouns: str = "",
) -> None:
    """Raise `Unacceptable` unless the policy keeps limits, and with them guarantees and loans.

    `nouns` names what the policy would have to keep, by default the amounts of the kind.
    """
    for rule in _limit_rules:
        reason = rule(policy_name, options)
        if reason:
            code = "policy.no_guarantees" if kind == "guarantee" else "policy.no_limits"
            detail = reason.replace("limits", nouns or kinds_text([kind]))
            raise Unacceptable(detail, code=code, pointer=pointer)


def limits_check(
    pool: Pool,
    lists: Iterable[tuple[str, Sequence[Limit]]],
    *,
    replaced: int = 0,
    is_counted: bool = True,
) -> None:
    """Raise `Unacceptable` for amounts of the locked pool that are invalid, too many or not kept.

    `lists` are the lists of a request, each with its pointer, which ends with the kind: `limit`,
    `guarantee` or `lend`. `replaced` is the number of present amounts that they replace. Without
    `is_counted` the caller compares their number with what a pool may have.
    """
    named = [(pointer, limits) for pointer, limits in lists if limits]
    if not named:
        return
    first = named[0][0]
    refuse_limits(pool.policy_name, pool.policy_options, pointer=first, kind=_kind_at(first))
    if is_counted:
        # What the request replaces does not count: a full pool could not be changed at all.
        total = sum(len(limits) for _, limits in named) - replaced
        refuse_amounts(limits_count(pool) + total, pointer=first)
    known = set(pool.resource_types.values_list("name", flat=True))
    kept = dates_kept(pool, (limit for _, limits in named for limit in limits))
    errors = [
        error
        for pointer, limits in named
        for error in count_errors(limits, pointer, _kind_at(pointer))
    ] or [
        error
        for pointer, limits in named
        for index, limit in enumerate(limits)
        for error in limit_errors(
            pool, limit, known, f"{pointer}/{index}", _kind_at(pointer), kept=kept
        )
    ]
    if errors:
        raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors[:MAX_ERRORS])


def refuse_amounts(total: int, *, pointer: str) -> None:
    """Raise `Unacceptable` for more limits, guarantees and loans than a pool may have."""
    if total > MAX_OF_POOL:
        raise Unacceptable(
            f"The pool would have {total:,} limits, guarantees, loans and budgets that stop; at most"
            f" {MAX_OF_POOL:,} are allowed.",
            code=f"{_kind_at(pointer)}.too_many",
            pointer=pointer,
        )


def refuse_too_many_selections(pool: Pool) -> None:
    """Raise `Unacceptable` for more selectors of guarantees, or more lenders, than decisions take.

    It is called in the transaction of a change, after it: what it refuses is undone.
    """
    guarantees = [limits_from(entries) for entries in _present_limits(pool, ["guarantee"])]
    refuse_selections(guarantees, lenders=sum(1 for _ in _present_limits(pool, ["lend"])))


def refuse_selections(guarantees: Iterable[Iterable[Limit]], *, lenders: int) -> None:
    """Raise `Unacceptable` for more selectors of the guarantees of nodes than decisions take.

    `lenders` is the number of members that limit what they lend, which is compared as well.
    """
    selectors = {limit.meaning[0] for entries in guarantees for limit in entries}
    if len(selectors) > MAX_SELECTORS:
        raise Unacceptable(
            f"The guarantees of the pool would be for {len(selectors)} different selections of"
            f" servers; at most {MAX_SELECTORS} are allowed.",
            code="guarantee.too_many",
            pointer="/guarantee",
        )
    if lenders > MAX_LENDERS:
        raise Unacceptable(
            f"{lenders} members of the pool would limit what they lend; at most {MAX_LENDERS} may.",
            code="lend.too_many",
            pointer="/lend",
        )


def _kind_at(pointer: str) -> str:
    return pointer.rpartition("/")[2]


def count_errors(limits: Sized, pointer: str, kind: str) -> Iterable[FieldError]:
    """Yield the error of a list with more entries than a node may have."""
    if len(limits) > MAX_LIMITS:
        detail = f"Expected at most {MAX_LIMITS} entries, got {len(limits)}."
        yield FieldError(pointer, f"{kind}.too_many", detail)


def dates_kept(pool: Pool, limits: Iterable[Limit]) -> Collection[datetime]:
    """Return the dates out of range that the pool stores already, if a limit has one.

    Lists are changed as a whole: without them, no entry beside an old one could be added or removed.
    """
    if all(is_settable(edge) for limit in limits for edge in limit.dates.values()):
        return ()
    stored = (limit for entries in _present_limits(pool) for limit in limits_from(entries))
    return {edge for limit in stored for edge in limit.dates.values() if not is_settable(edge)}


def limit_errors(
    pool: Pool,
    limit: Limit,
    known: Collection[str],
    pointer: str,
    kind: str = "limit",
    *,
    kept: Collection[datetime] = (),
) -> Iterable[FieldError]:
    """Yield the errors of an amount of the pool, whose resources are `known`.

    `kept` are dates that are accepted although they are out of range.
    """
    if not limit.amount:
        detail = f"A {NOUNS[kind]} must name at least one resource."
        yield FieldError(f"{pointer}/amount", f"{kind}.empty", detail)
    for name in sorted(limit.amount.keys() - set(known)):
        detail = f'The pool has no resource "{name}".'
        yield FieldError(f"{pointer}/amount/{name}", f"{kind}.unknown_resource", detail)
    # A member lends its own servers, so that a loan selects servers without a selector.
    if (limit.where or kind == "lend") and not pool.policy_places:
        detail = (
            f"The pool's policy, {pool.policy_name}, sees the pool as one server: a {NOUNS[kind]} in"
            " the pool cannot select servers."
        )
        where = f"{pointer}/where" if limit.where else pointer
        yield FieldError(where, "policy.no_placement", detail)
    for name, edge in limit.dates.items():
        if not (is_settable(edge) or edge in kept):
            yield FieldError(f"{pointer}/{name}", f"{kind}.interval", date_range_text(name))
    if limit.start is not None and limit.end is not None and limit.end <= limit.start:
        detail = "`to` must be later than `from`."
        yield FieldError(f"{pointer}/to", f"{kind}.interval", detail)


def limits_count(pool: Pool) -> int:
    """Return the number of limits of the pool, including those that budgets may become."""
    return sum(map(len, _present_limits(pool))) + stops_of(pool)


def has_limits(pool: Pool, *, now: datetime) -> bool:
    """Return True if a present node has an amount that has not ended, or a budget that stops it."""
    return any(True for _ in _limits_to_come(pool, now)) or stops_of(pool, ending_after=now) > 0


def has_guarantees(pool: Pool, *, now: datetime) -> bool:
    """Return True if a present node has a guarantee that has not ended."""
    return any(True for _ in _limits_to_come(pool, now, ["guarantee"]))


def has_own_servers(pool: Pool) -> bool:
    """Return True if a present node is set to have what it gets alone on its own servers."""
    yes = Q(own_servers=OwnServers.YES, end=None)
    return (
        GroupTerms.objects.filter(yes, group__pool=pool).exists()
        or MembershipTerms.objects.filter(yes, membership__pool=pool).exists()
    )


def kinds_in_use(pool: Pool, *, now: datetime, of_servers: bool = False) -> list[str]:
    """Return the kinds of the amounts of present nodes that have not ended.

    `of_servers` leaves out amounts that are for the pool as a whole.
    """
    return [
        kind
        for kind in NOUNS
        for limits in [_limits_to_come(pool, now, [kind])]
        # A loan is for the servers of its member alone, also without a selector.
        if any(limit.where or kind == "lend" or not of_servers for limit in limits)
    ]


def kinds_text(kinds: Sequence[str]) -> str:
    """Return the plural of kinds of amounts, such as "limits, guarantees and loans"."""
    *others, last = [f"{NOUNS[kind]}s" for kind in kinds]
    return f"{', '.join(others)} and {last}" if others else last


def _limits_to_come(
    pool: Pool, now: datetime, kinds: Collection[str] = tuple(NOUNS)
) -> Iterable[Limit]:
    return (
        limit
        for stored in _present_limits(pool, kinds)
        for limit in limits_from(stored)
        if limit.end is None or limit.end > now
    )


def next_change_of_limits(pool: Pool, *, after: datetime) -> datetime | None:
    """Return the first instant later than `after` at which an amount starts or ends."""
    edges = (
        edge
        for stored in _present_limits(pool)
        for limit in limits_from(stored)
        for edge in limit.dates.values()
    )
    return min((edge for edge in edges if edge > after), default=None)


def _present_limits(
    pool: Pool, kinds: Collection[str] = tuple(NOUNS)
) -> Iterable[list[dict[str, Any]]]:
    """Yield each stored list of amounts of some kinds of a present node that is not empty."""
    groups = GroupTerms.objects.filter(group__pool=pool, end=None)
    members = MembershipTerms.objects.filter(membership__pool=pool, end=None)
    workloads = pool.workloads.exclude(state="withdrawn")
    for rows, kind in (
        (groups, "guarantee"), (groups, "limit"), (members, "guarantee"), (members, "limit"),
        (members, "lend"), (workloads, "limit"),
    ):  # fmt: skip
        if kind in kinds:
            yield from rows.filter(~Q(**{kind: []})).values_list(kind, flat=True)
