"""Savings of sharing, compared with the cost of a month alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction

from allocator_service.billing.models import LineKind, Posting
from allocator_service.billing.months import HOUR_SECONDS
from allocator_service.billing.plans.timeline import Timeline
from allocator_service.billing.rating.amounts import Use
from allocator_service.core.money import exactly, rounded
from allocator_service.core.quantities import EXACT_DIGITS
from allocator_service.ledger.models import Kind

NO_ALONE, NO_OUTSIDE, NO_OWN = "no_alone", "no_outside", "no_own"
REASONS = {
    NO_ALONE: "The ledger does not state what the tenant would have used alone.",
    NO_OUTSIDE: "A resource that it used has no price outside.",
    NO_OWN: "A resource that it would have used alone has no price on own servers.",
}
DEFINITION = (
    "saved = alone cost + outside cost − paid. Alone cost: what the tenant would have used alone, at its"
    " own prices. Outside cost: what it used beyond that in the month, at the prices outside. Paid: the"
    " month's lines, credits included, what was paid upfront spread over its term; without adjustments,"
    " reratings and credit notes. Less used than alone is a loss, in resource-hours, and has no price."
)
OF_THE_MONTH = {
    LineKind.USAGE,
    LineKind.COMMITMENT,
    LineKind.UNUSED,
    LineKind.UPFRONT,
    LineKind.FIXED,
}
_EXACT = Context(prec=EXACT_DIGITS)
_NOTHING = Decimal(0)


@dataclass(frozen=True)
class Savings:
    """Savings of a tenant in a month.

    `saved` is None if `reason` is set. `lost` is in unit × seconds by resource.
    """

    alone_cost: Decimal | None
    outside_cost: Decimal | None
    paid: Decimal
    saved: Decimal | None
    reason: str | None
    lost: dict[str, Decimal]


@dataclass
class _Resource:
    """Sums of one resource as used and as used alone, with and without prices."""

    used: Decimal = _NOTHING
    alone: Decimal = _NOTHING
    alone_priced: Decimal = _NOTHING
    outside_priced: Decimal = _NOTHING
    missing: set[str] = field(default_factory=set)

    def add(self, use: Use, prices: Timeline) -> None:
        own = prices.price(use.segment, use.resource, use.tenant, use.tenant)
        outside = prices.outside(use.segment, use.resource)
        if use.kind == Kind.ALONE:
            self.alone = _EXACT.add(self.alone, use.amount)
            self._price(own, NO_OWN)
            self.alone_priced = _EXACT.add(
                self.alone_priced, _EXACT.multiply(use.amount, own or _NOTHING)
            )
            return
        self.used = _EXACT.add(self.used, use.amount)
        self._price(outside, NO_OUTSIDE)
        self.outside_priced = _EXACT.add(
            self.outside_priced, _EXACT.multiply(use.amount, outside or _NOTHING)
        )

    def _price(self, price: Decimal | None, missing: str) -> None:
        if price is None:
            self.missing.add(missing)

    @property
    def outside_cost(self) -> Fraction:
        """Cost of the use beyond `alone`, at the mean outside price of all use."""
        beyond = Fraction(self.used) - Fraction(self.alone)
        if beyond <= 0:
            return Fraction(0)
        # No single use is "beyond": the mean prices all alike, and no order of uses favours a side.
        return beyond * Fraction(self.outside_priced) / Fraction(self.used)


@exactly
def savings(
    *, tenant: int, uses: Iterable[Use], prices: Timeline, lines: Sequence[Posting], digits: int
) -> Savings:
    """Return the savings of a tenant in a month.

    `uses` are the month's uses before coverage.
    """
    paid = sum((_paid(line, tenant) for line in lines if line.kind in OF_THE_MONTH), start=_NOTHING)
    resources: dict[str, _Resource] = {}
    for use in uses:
        if use.tenant == tenant:
            resources.setdefault(use.resource, _Resource()).add(use, prices)
    lost = {
        name: each.alone - each.used for name, each in resources.items() if each.used < each.alone
    }
    missing = set().union(*(each.missing for each in resources.values()))
    if not any(each.alone for each in resources.values()):
        missing.add(NO_ALONE)
    reason = next((each for each in REASONS if each in missing), None)
    if reason is not None:
        return Savings(None, None, paid, None, reason, lost)
    alone_cost = rounded(
        sum((Fraction(each.alone_priced) for each in resources.values()), Fraction(0))
        / HOUR_SECONDS,
        digits,
    )
    outside_cost = rounded(
        sum((each.outside_cost for each in resources.values()), Fraction(0)) / HOUR_SECONDS, digits
    )
    return Savings(alone_cost, outside_cost, paid, alone_cost + outside_cost - paid, None, lost)


def _paid(line: Posting, tenant: int) -> Decimal:
    if line.tenant_id == tenant:
        return line.effective
    # What an owner is credited for its servers lowers what it paid, and so counts as a saving.
    return line.owner_amount if line.owner_id == tenant else _NOTHING
