"""Coverage of a tenant's use by its commitments at every instant.

A sweep over the entries of one tenant and resource. Intervals are cut where entries and commitments
begin and end, and also at the price segments, which changes no sum. Entries and commitments of other
tenants do not affect the result.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Context, Decimal
from heapq import heappop, heappush
from itertools import accumulate, groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

from allocator_service.billing.models import Commitment
from allocator_service.billing.plans.tiers import Tiers
from allocator_service.billing.plans.timeline import Timeline
from allocator_service.billing.rating.amounts import seconds
from allocator_service.billing.rating.entries import UsedEntry, entries_used
from allocator_service.billing.rating.tiered import TieredCosts
from allocator_service.core.quantities import EXACT_DIGITS
from allocator_service.pools.models import Pool

_EXACT = Context(prec=EXACT_DIGITS)
_NOTHING = Decimal(0)
_NO_RATE = Decimal(-1)  # below every price, so that use without a price is covered last


class CoverageKey(NamedTuple):
    """Use of an owner's servers in a segment of the prices, covered by a commitment."""

    commitment: int
    owner: int | None
    segment: int


@dataclass
class Covered:
    """Unit × seconds that a commitment covers.

    `counted` includes the increments of events.
    """

    amount: Decimal = _NOTHING
    counted: Decimal = _NOTHING

    def add(self, amount: Decimal, increments: Decimal = _NOTHING) -> None:
        """Add an amount and its increments."""
        self.amount = _EXACT.add(self.amount, amount)
        self.counted = _EXACT.add(self.counted, _EXACT.add(amount, increments))


class _Slice(NamedTuple):
    """Part of the use at an instant, where an `entry` of None means all of an owner's entries."""

    owner: int | None
    quantity: Decimal
    entry: UsedEntry | None


def coverage(
    *,
    pool: Pool,
    prices: Timeline,
    commitments: Sequence[Commitment],
    through: int | None,
    tiered: TieredCosts,
) -> Mapping[CoverageKey, Covered]:
    """Return the covered amounts of entries numbered up to `through`, or of all if it is None.

    The oldest commitment to a resource covers first. Covered use is subtracted from the `tiered` costs.
    """
    by_pair: dict[tuple[int, str], list[Commitment]] = {}
    # Ascending keys: the oldest commitment first.
    for commitment in sorted(commitments, key=attrgetter("pk")):
        by_pair.setdefault((commitment.tenant_id, commitment.resource), []).append(commitment)
    covered: dict[CoverageKey, Covered] = {}
    entries = entries_used(pool=pool, prices=prices, pairs=list(by_pair), through=through)
    for pair, of_pair in groupby(entries, key=lambda entry: (entry.tenant, entry.resource)):
        _cover(covered, pair, of_pair, prices, by_pair[pair], tiered)
    return covered


def _cover(
    covered: dict[CoverageKey, Covered],
    pair: tuple[int, str],
    entries: Iterable[UsedEntry],
    prices: Timeline,
    commitments: Sequence[Commitment],
    tiered: TieredCosts,
) -> None:
    tenant, resource = pair
    first, last = prices.edges[0], prices.edges[-1]
    boundaries = {min(max(each, first), last) for c in commitments for each in (c.start, c.end)}
    # Cut at prices too: the order of coverage is by rate, which changes there.
    boundaries |= {edge for edge in prices.edges if min(boundaries) < edge < max(boundaries)}
    for start, end, active in _intervals(iter(entries), sorted(boundaries)):
        holding = [each for each in commitments if each.start <= start < each.end]
        if not holding:
            continue
        # The boundaries include the edges of prices, so that an interval lies in one segment.
        segment = bisect_right(prices.edges, start) - 1
        ranking = _Ranking(prices, segment, tenant, resource)
        # Where one commitment is used up and the next one begins to cover.
        cuts = list(accumulate((each.quantity for each in holding), _EXACT.add))
        # Under tiers each entry has its own rate, by the hours of the month before it.
        if any(ranking.tiers(owner) for owner in active.by_owner):
            parts = _by_entry(active, ranking)
        else:
            parts = _by_rate(active, ranking, cuts, each=active.increments_end(end))
        lasts = seconds(end - start)
        for commitment, part in _allotted(holding, parts):
            if part.entry is not None:
                tiered.cover(part.entry, part.quantity, start, end, segment)
            key = CoverageKey(commitment.pk, part.owner, segment)
            increments = _NOTHING
            if part.entry is not None and part.entry.end == end:
                # An event's increments are charged like its last instant.
                increments = _EXACT.multiply(part.quantity, part.entry.increments)
            amount = _EXACT.multiply(part.quantity, lasts)
            covered.setdefault(key, Covered()).add(amount, increments)


@dataclass
class _Active:
    """Entries in use at an instant, with their sums by the owner of the servers."""

    entries: dict[int, UsedEntry] = field(default_factory=dict)
    by_owner: dict[int | None, Decimal] = field(default_factory=dict)
    _ends: list[tuple[datetime, int]] = field(default_factory=list)
    _count: int = 0
    _with_increments: int = 0

    def add(self, entry: UsedEntry) -> None:
        self.entries[self._count] = entry
        heappush(self._ends, (entry.end, self._count))
        self._count += 1
        self._with_increments += bool(entry.increments)
        self._change(entry.owner, entry.quantity)

    def drop_ended(self, at: datetime) -> None:
        """Remove the entries that end at or before an instant."""
        # A heap by end: a sweep over n entries costs n log n, where a scan per interval is quadratic.
        while self._ends and self._ends[0][0] <= at:
            entry = self.entries.pop(heappop(self._ends)[1])
            self._with_increments -= bool(entry.increments)
            self._change(entry.owner, -entry.quantity)

    def first_end(self, default: datetime) -> datetime:
        """Return the earliest end of the entries, `default` if there are none."""
        return self._ends[0][0] if self._ends else default

    def increments_end(self, at: datetime) -> bool:
        """Return whether an event that ends at an instant is counted for longer than it lasted."""
        return bool(self._with_increments) and any(
            entry.end == at and entry.increments for entry in self.entries.values()
        )

    def _change(self, owner: int | None, quantity: Decimal) -> None:
        sum_ = _EXACT.add(self.by_owner.get(owner, _NOTHING), quantity)
        # Exact sums return to 0 when all entries have ended: an owner without use would still be ranked.
        if sum_:
            self.by_owner[owner] = sum_
        else:
            self.by_owner.pop(owner, None)


def _intervals(
    entries: Iterator[UsedEntry], boundaries: Sequence[datetime]
) -> Iterator[tuple[datetime, datetime, _Active]]:
    """Yield the intervals of constant use between boundaries.

    `entries` must be in order of their start.
    """
    active = _Active()
    waiting = next(entries, None)
    for at, boundary in pairwise(boundaries):
        while at < boundary:
            while waiting is not None and waiting.start <= at:
                active.add(waiting)
                waiting = next(entries, None)
            # Intervals are half-open: what ends at `at` is not in use from there on.
            active.drop_ended(at)
            until = min(boundary, active.first_end(boundary))
            if waiting is not None:
                until = min(until, waiting.start)
            if active.by_owner:
                yield at, until, active
            at = until


@dataclass(frozen=True)
class _Ranking:
    """Plan rates of a tenant and resource in a segment, which set the order of coverage."""

    prices: Timeline
    segment: int
    tenant: int
    resource: str

    def rate(self, owner: int | None) -> Decimal:
        price = self.prices.price(self.segment, self.resource, self.tenant, owner)
        return _NO_RATE if price is None else price

    def tiers(self, owner: int | None) -> Tiers | None:
        return self.prices.tiers(self.segment, self.resource, self.tenant, owner)

    def rate_of(self, entry: UsedEntry) -> Decimal:
        """Return the rate of an entry.

        Under tiers it is the rate of the entry's first hour in the month.
        """
        tiers = self.tiers(entry.owner)
        return self.rate(entry.owner) if tiers is None else tiers.price_at(entry.before)


def _allotted(
    commitments: Sequence[Commitment], parts: Iterator[_Slice]
) -> Iterator[tuple[Commitment, _Slice]]:
    """Divide the use in an interval among commitments, one after the other."""
    part = next(parts, None)
    for commitment in commitments:
        left = commitment.quantity
        while part is not None and left > 0:
            taken = min(part.quantity, left)
            if taken > 0:
                yield commitment, part._replace(quantity=taken)
            left = _EXACT.subtract(left, taken)
            rest = _EXACT.subtract(part.quantity, taken)
            part = part._replace(quantity=rest) if rest > 0 else next(parts, None)


def _by_entry(active: _Active, ranking: _Ranking) -> Iterator[_Slice]:
    """Yield the use entry by entry in descending order of rate, ties by sequence."""
    entries = active.entries.values()
    for entry in sorted(entries, key=lambda each: (-ranking.rate_of(each), each.sequence)):
        if entry.quantity > 0:
            yield _Slice(entry.owner, entry.quantity, entry)


def _by_rate(
    active: _Active, ranking: _Ranking, cuts: Sequence[Decimal], *, each: bool
) -> Iterator[_Slice]:
    """Yield the use in descending order of rate, ties by sequence.

    Single entries are yielded only with `each`, and where coverage ends among entries that have one rate
    but several owners. Otherwise the entries of an owner are yielded as one slice.
    """
    owners = sorted(active.by_owner, key=ranking.rate, reverse=True)
    begin = _NOTHING
    for _, group in groupby(owners, key=ranking.rate):
        # Corrections can make an owner's sum negative, of which nothing can be covered.
        tied = {owner: active.by_owner[owner] for owner in group if active.by_owner[owner] > 0}
        end = begin
        for quantity in tied.values():
            end = _EXACT.add(end, quantity)
        if each or (len(tied) > 1 and any(begin < cut < end for cut in cuts)):
            entries = [entry for entry in active.entries.values() if entry.owner in tied]
            room = _EXACT.subtract(end, begin)  # less than their sum, where one is negative
            for entry in sorted(entries, key=attrgetter("sequence")):
                quantity = min(entry.quantity, room)
                if quantity > 0:
                    yield _Slice(entry.owner, quantity, entry)
                    room = _EXACT.subtract(room, quantity)
        else:
            for owner, quantity in tied.items():
                yield _Slice(owner, quantity, None)
        begin = end
