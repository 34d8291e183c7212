"""Costs of use under tiers, entry by entry in ledger order."""

from collections.abc import Iterable, Mapping
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
class TieredCosts:
    """Unit × seconds by price of use under tiers, by tenant, owner, resource and segment."""

    prices: Timeline
    _parts: dict[_Key, dict[Decimal, Fraction]] = field(default_factory=dict)

    def pairs(self, uses: Iterable[Use]) -> list[tuple[int, str]]:
        """Return the (tenant, resource) pairs with any use under tiers."""
        return sorted({(use.tenant, use.resource) for use in uses if self._tiers_of(use)})

    def take(self, use: Use) -> Mapping[Decimal, Fraction] | None:
        """Remove and return the unit × seconds of a use by price, None if it is not under tiers.

        Uses of one owner's servers in one segment may come in parts: the first one gets all of it.
        """
        if self._tiers_of(use) is None:
            return None
        key = (use.tenant, use.owner, use.resource, use.segment)
        return self._parts.pop(key, {})

    def add(self, entry: UsedEntry) -> None:
        """Add an entry, cut at the edges of the price segments."""
        for number, segment in enumerate(self.prices.segments):
            start, end = max(segment.start, entry.start), min(segment.end, entry.end)
            if start < end:
                self._change(entry, entry.quantity, start, end, number)

    def cover(
        self, entry: UsedEntry, quantity: Decimal, start: datetime, end: datetime, segment: int
    ) -> None:
        """Subtract the part of an entry that a commitment covers in an interval."""
        self._change(entry, -quantity, start, end, segment)

    def _change(
        self, entry: UsedEntry, quantity: Decimal, start: datetime, end: datetime, number: int
    ) -> None:
        tiers = self.prices.tiers(number, entry.resource, entry.tenant, entry.owner)
        if tiers is None:
            return
        first, last = self._position(entry, start), self._position(entry, end)
        key = (entry.tenant, entry.owner, entry.resource, number)
        found = self._parts.setdefault(key, {})
        # A commitment may cover a part of an entry, which has the positions of the whole.
        part = Fraction(quantity) / Fraction(entry.quantity)
        for price, amount in tiers.parts(first, last):
            found[price] = found.get(price, Fraction(0)) + part * amount
        if end == entry.end and entry.increments:
            # Increments are charged like the event's last instant.
            price = tiers.price_at(last)
            added = Fraction(quantity) * Fraction(entry.increments)
            found[price] = found.get(price, Fraction(0)) + added

    def _position(self, entry: UsedEntry, at: datetime) -> Decimal:
        # `before` counts from the start of the month, and so does the entry.
        begun = max(entry.start, self.prices.edges[0])
        return entry.before + entry.quantity * seconds(at - begun)

    def _tiers_of(self, use: Use) -> Tiers | None:
        return self.prices.tiers(use.segment, use.resource, use.tenant, use.owner)
