"""Use under tiers: entry by entry, as the hours of a tenant add up in the order of the ledger."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from allocator_service.billing.plans.tiers import Tiers
from allocator_service.billing.plans.timeline import Timeline
from allocator_service.billing.rating.amounts import Use, seconds
from allocator_service.billing.rating.entries import UsedEntry

_Key = tuple[int, int | None, str, int]


@dataclass
class TieredCost:
    """Unit × seconds × price of what was used of an owner's servers in a segment of the prices."""

    cost: Fraction = Fraction(0)
    prices: set[Decimal] = field(default_factory=set)


@dataclass
class TieredCosts:
    """The costs of what tiers price, by tenant, owner, resource and segment."""

    prices: Timeline
    _costs: dict[_Key, TieredCost] = field(default_factory=dict)

    def pairs(self, uses: Iterable[Use]) -> list[tuple[int, str]]:
        """Return the tenants and resources of which any use is priced by tiers."""
        return sorted({(use.tenant, use.resource) for use in uses if self._tiers_of(use)})

    def take(self, use: Use) -> TieredCost | None:
        """Return the cost of a use once, None if its price is not by tiers.

        Uses of one owner's servers in one segment come in several parts; the first takes the whole cost.
        """
        if self._tiers_of(use) is None:
            return None
        key = (use.tenant, use.owner, use.resource, use.segment)
        return self._costs.pop(key, TieredCost())

    def add(self, entry: UsedEntry) -> None:
        """Add an entry, cut at the segments of the prices."""
        for number, segment in enumerate(self.prices.segments):
            start, end = max(segment.start, entry.start), min(segment.end, entry.end)
            if start < end:
                self._change(entry, entry.quantity, start, end, number)

    def cover(
        self, entry: UsedEntry, quantity: Decimal, start: datetime, end: datetime, segment: int
    ) -> None:
        """Take away a part of an entry that a commitment covers in an interval."""
        self._change(entry, -quantity, start, end, segment)

    def _change(
        self, entry: UsedEntry, quantity: Decimal, start: datetime, end: datetime, number: int
    ) -> None:
        tiers = self.prices.tiers(number, entry.resource, entry.tenant, entry.owner)
        if tiers is None:
            return
        first, last = self._position(entry, start), self._position(entry, end)
        part = Fraction(quantity) / Fraction(entry.quantity)
        cost = part * tiers.cost(first, last)
        if end == entry.end and entry.increments:
            # What increments add is paid as the event's last instant is.
            price = tiers.price_at(last)
            cost += Fraction(quantity) * Fraction(entry.increments) * Fraction(price)
        found = self._costs.setdefault(
            (entry.tenant, entry.owner, entry.resource, number), TieredCost()
        )
        found.cost += cost
        found.prices |= {tiers.price_at(first), tiers.price_at(last)}

    def _position(self, entry: UsedEntry, at: datetime) -> Decimal:
        begun = max(entry.start, self.prices.edges[0])
        return entry.before + entry.quantity * seconds(at - begun)

    def _tiers_of(self, use: Use) -> Tiers | None:
        return self.prices.tiers(use.segment, use.resource, use.tenant, use.owner)
