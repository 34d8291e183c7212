"""Graduated prices, by a tenant's hours of a resource in a month, in the order of the ledger."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from allocator_service.billing.months import HOUR_SECONDS
from allocator_service.core.errors import FieldError

MAX_TIERS = 20


class Tier(NamedTuple):
    """A price that holds through a number of hours in the month, or without an end if that is None."""

    through: Decimal | None
    price: Decimal


@dataclass(frozen=True)
class Tiers:
    """Tiers in ascending order, of which the last has no end.

    A position is unit × seconds that the tenant used of the resource in the month before.
    """

    tiers: tuple[Tier, ...]

    def price_at(self, position: Decimal | Fraction) -> Decimal:
        """Return the price of the next use after a position."""
        # The end of a tier belongs to it: the next use is at the price of the next one.
        return self.tiers[bisect_right(self._ends, Fraction(position))].price

    def parts(
        self, first: Decimal | Fraction, last: Decimal | Fraction
    ) -> Iterator[tuple[Decimal, Fraction]]:
        """Yield each price from one position to another with its unit × seconds.

        Amounts are negative if `last` is below `first`.
        """
        sign = -1 if last < first else 1
        low, high = sorted((Fraction(first), Fraction(last)))
        begin = Fraction(0)
        for tier, end in zip(self.tiers, [*self._ends, high], strict=True):
            within = min(high, max(end, begin)) - max(low, begin)
            if within > 0:
                yield tier.price, sign * within
            begin = end

    @property
    def _ends(self) -> list[Fraction]:
        return [
            Fraction(tier.through) * HOUR_SECONDS for tier in self.tiers if tier.through is not None
        ]


def tiers_stored(tiers: Sequence[Tier]) -> list[list[str | None]] | None:
    """Return tiers as they are stored in their column."""
    return [[_text(tier.through), f"{tier.price:f}"] for tier in tiers] or None


def tiers_from(stored: Sequence[Sequence[str | None]] | None) -> tuple[Tier, ...]:
    """Return the tiers of a column."""
    return tuple(
        Tier(None if through is None else Decimal(through), Decimal(str(price)))
        for through, price in stored or ()
    )


def _text(value: Decimal | None) -> str | None:
    return None if value is None else f"{value:f}"


def tier_errors(tiers: Sequence[Tier], pointer: str) -> list[FieldError]:
    """Return the mistakes in the tiers of a rate."""
    if len(tiers) > MAX_TIERS:
        detail = f"Expected at most {MAX_TIERS} tiers, got {len(tiers)}."
        return [FieldError(pointer, "rate.tiers", detail)]
    errors = []
    for number, tier in enumerate(tiers):
        last = number == len(tiers) - 1
        if last != (tier.through is None):
            detail = "Expected `through` in every tier but the last, which has no end."
            errors.append(FieldError(f"{pointer}/{number}/through", "rate.tiers", detail))
    ends = [Decimal(0), *(tier.through for tier in tiers if tier.through is not None)]
    for number, (before, end) in enumerate(pairwise(ends)):
        if end <= before:
            detail = f"Expected hours greater than {before:f}, got {end:f}."
            errors.append(FieldError(f"{pointer}/{number}/through", "rate.tiers", detail))
    return errors
