"""Invoice lines of a month as balanced postings, rounded once per line."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Context, Decimal
from fractions import Fraction

from allocator_service.billing.models import LineKind, Posting, PricePlan
from allocator_service.billing.months import HOUR_DIGITS, HOUR_SECONDS, Month
from allocator_service.billing.plans.timeline import Segment, Timeline
from allocator_service.billing.rating.amounts import Use
from allocator_service.billing.rating.tiered import TieredCosts
from allocator_service.core.money import MINOR_DIGITS, exactly, rounded
from allocator_service.core.quantities import EXACT_DIGITS, decimal_text
from allocator_service.ledger.models import Kind
from allocator_service.pools.models import Pool

NO_PLAN, NO_PRICE = "no_plan", "no_price"
REASONS = {
    NO_PLAN: "No published plan of the pool holds at that time.",
    NO_PRICE: "The plan has no price for the resource on such servers.",
}
_EXACT = Context(prec=EXACT_DIGITS)


@dataclass(frozen=True)
class Unrated:
    """Usage that is not charged, with the reason."""

    tenant: int
    resource: str
    service_month: Month
    reason: str
    start: datetime
    end: datetime
    amount: Decimal


@dataclass
class Rated:
    """Unsaved postings of a month and its unrated usage."""

    lines: list[Posting] = field(default_factory=list)
    unrated: list[Unrated] = field(default_factory=list)


@dataclass
class _Sum:
    """Unit × seconds of one line, and those that are charged by price."""

    plan: PricePlan
    amount: Decimal = Decimal(0)
    parts: dict[Decimal, Fraction] = field(default_factory=dict)

    def add(self, amount: Decimal, parts: Mapping[Decimal, Fraction]) -> None:
        self.amount = _EXACT.add(self.amount, amount)
        for price, counted in parts.items():
            self.parts[price] = self.parts.get(price, Fraction(0)) + counted


class Priced:
    """Priced sums by tenant, owner, resource and plan, one per line."""

    def __init__(
        self,
        pool: Pool,
        prices: Timeline,
        service_month: Month,
        tiered: TieredCosts | None = None,
    ) -> None:
        self._pool, self._prices, self._month = pool, prices, service_month
        self._tiered = tiered
        self._sums: dict[tuple[int, int | None, str, object], _Sum] = {}
        self.unrated: list[Unrated] = []

    def add(self, use: Use) -> None:
        """Add the use of a segment, as unrated if it has no price."""
        at = self._prices.segments[use.segment]
        price = self._prices.price(use.segment, use.resource, use.tenant, use.owner)
        tiered = None if self._tiered is None else self._tiered.take(use)
        if at.plan is None or (price is None and tiered is None):
            # Use that corrections have cancelled does not have to be explained.
            if use.amount:
                self.unrated.append(_unrated(use, at, self._month))
            return
        # By plan: several segments of one plan are one line.
        key = (use.tenant, use.owner, use.resource, at.plan.pk)
        if key not in self._sums:
            self._sums[key] = _Sum(at.plan)
        if tiered is not None:
            self._sums[key].add(use.amount, tiered)
        elif price is not None:
            self._sums[key].add(use.amount, {price: Fraction(use.counted)})

    def lines(self, kind: LineKind, *, month: Month, units: Mapping[str, str]) -> Iterator[Posting]:
        """Yield the lines for the statement of `month`."""
        for (tenant, owner, resource, _), found in self._sums.items():
            parts = {price: counted for price, counted in found.parts.items() if counted}
            # Corrections can take away all that a line has, which would be a line of nothing.
            if not found.amount and not parts:
                continue
            priced = sum(
                (Fraction(price) * counted for price, counted in parts.items()), Fraction(0)
            )
            # Rounded once per line: rounding each entry would add up an error per entry.
            charge = rounded(priced / HOUR_SECONDS, minor_digits(self._pool))
            yield Posting(
                pool=self._pool,
                month=month.first,
                service_month=self._month.first,
                kind=kind,
                tenant_id=tenant,
                owner_id=owner,
                plan=found.plan,
                resource=resource,
                unit=units.get(resource, ""),
                start=max(found.plan.start, self._month.start),
                end=min(found.plan.end or self._month.end, self._month.end),
                amount=found.amount,
                # A line at several prices has none of its own. Its parts have them.
                price=next(iter(parts or found.parts)) if len(parts or found.parts) == 1 else None,
                parts=parts_stored(parts, found.amount),
                currency=self._pool.currency,
                **balanced(charge, found.plan.fee, tenant, owner, minor_digits(self._pool)),
            )


def _unrated(use: Use, at: Segment, month: Month) -> Unrated:
    reason = NO_PLAN if at.plan is None else NO_PRICE
    return Unrated(use.tenant, use.resource, month, reason, at.start, at.end, use.amount)


def parts_stored(parts: Mapping[Decimal, Fraction], amount: Decimal) -> list[list[str]] | None:
    """Return the price and the charged hours of each part of a line, by price.

    A line that is charged for exactly its amount at one price has no parts.
    """
    if len(parts) == 1 and Fraction(amount) in parts.values():
        return None
    return [
        [decimal_text(price), decimal_text(rounded(counted / HOUR_SECONDS, HOUR_DIGITS))]
        for price, counted in sorted(parts.items())
    ] or None


@exactly
def balanced(
    charge: Decimal, fee: Decimal, tenant: int, owner: int | None, digits: int
) -> dict[str, Decimal]:
    """Return the amounts of a charge for the four accounts, rounded so that their sum is 0."""
    legs = {"tenant_amount": charge, "effective": charge}
    if owner is None or owner == tenant:
        # On its own servers and on the pool's a tenant pays the pool alone.
        return {**legs, "pool_amount": -charge}
    kept = rounded(Fraction(charge) * Fraction(fee), digits)
    # The owner's part is what the rounded fee leaves, so that the four amounts add up to 0.
    return {**legs, "owner_amount": kept - charge, "fee_amount": -kept}


def minor_digits(pool: Pool) -> int:
    """Return the number of digits of the minor unit of the pool's currency."""
    return MINOR_DIGITS[pool.currency]


def usage_lines(
    *,
    pool: Pool,
    month: Month,
    prices: Timeline,
    uses: Iterable[Use],
    units: Mapping[str, str],
    tiered: TieredCosts | None = None,
) -> Rated:
    """Return the lines of a month's usage and its unrated usage.

    Without `tiered` costs, usage priced by tiers is unrated.
    """
    priced = Priced(pool, prices, month, tiered)
    for use in uses:
        if use.kind == Kind.USAGE:
            priced.add(use)
    return Rated(list(priced.lines(LineKind.USAGE, month=month, units=units)), priced.unrated)


def in_order(
    lines: Iterable[Posting], slugs: Mapping[int, str], resources: Sequence[str]
) -> list[Posting]:
    """Return lines in the order of statements, by kind, time, resource, tenant and owner."""
    kinds = {kind.value: number for number, kind in enumerate(LineKind)}
    position = {name: number for number, name in enumerate(resources)}

    def key(line: Posting) -> tuple[object, ...]:
        owner = "" if line.owner_id is None else slugs[line.owner_id]
        return (
            kinds[line.kind],
            line.service_month,
            line.start,
            kinds[line.rated_kind],
            position.get(line.resource, len(position)),
            slugs[line.tenant_id],
            (line.owner_id != line.tenant_id, line.owner_id is None, owner),
            str(line.entry or ""),
            str(line.credit_note_id or line.reverses or ""),
            line.plan.number if line.plan is not None and line.plan.number else 0,
            line.note,
        )

    # By slugs, not keys: a copy of the data in another database must write the same document.
    return sorted(lines, key=key)
