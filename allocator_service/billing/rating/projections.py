"""Costs of a constant use at the prices in force, for previews of changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.utils.text import get_text_list

from allocator_service.billing.models import Commitment
from allocator_service.billing.plans.selectors import plans_for
from allocator_service.billing.plans.tiers import Tiers
from allocator_service.billing.plans.timeline import Timeline, commitments_of, timeline
from allocator_service.billing.rating.lines import minor_digits
from allocator_service.core.display import money_text
from allocator_service.core.money import exactly, rounded
from allocator_service.pools.models import Metering, Pool
from allocator_service.tenants.models import Tenant

PROJECTED_DAYS = 30
_HOURS = PROJECTED_DAYS * 24
_EXTRA_DIGITS = 4  # an hour of a small task costs less than a minor unit
_NO_PRICE = Fraction(-1)  # below every price: commitments cover use without a price last


@dataclass(frozen=True)
class UseNow:
    """Quantity of a resource on an owner's servers, None for the pool's own."""

    owner: int | None
    resource: str
    quantity: Decimal


@dataclass(frozen=True)
class Cost:
    """Cost of an hour.

    `least` and `greatest` differ only under tiers, whose price depends on the hours of the month.
    """

    least: Fraction
    greatest: Fraction
    unpriced: Sequence[str]


@dataclass(frozen=True)
class ChangeCost:
    """Cost of a tenant's use before and after a change."""

    currency: str
    digits: int
    before: Cost
    after: Cost
    is_reported: bool
    has_commitments: bool

    def hour(self, amount: Fraction) -> Decimal:
        """Return an hour's cost with the digits of the currency, and more where it has them."""
        exact = rounded(amount, self.digits + _EXTRA_DIGITS).normalize()
        exponent = exact.as_tuple().exponent
        if not isinstance(exponent, int) or -exponent >= self.digits:
            return exact
        return exact.quantize(Decimal(1).scaleb(-self.digits))

    def days(self, amount: Fraction) -> Decimal:
        """Return the cost of 30 days in whole minor units."""
        return rounded(amount * _HOURS, self.digits)

    @property
    def words(self) -> str:
        """The costs and what they leave out, in sentences."""
        hour_before, hour_after = (
            self._text(self.before, self.hour),
            self._text(self.after, self.hour),
        )
        days = self._text(self.after, self.days)
        if hour_before == hour_after:
            change = f"{hour_after} per hour, as before"
        else:
            change = f"from {hour_before} to {hour_after} per hour"
        over = f"{days} over {PROJECTED_DAYS} days"
        found = [f"At today's prices: {change}, {over} for all your tasks in this pool."]
        if any(cost.least != cost.greatest for cost in (self.before, self.after)):
            found.append("The price depends on the hours that you use in the month.")
        if self.has_commitments:
            found.append("Your commitments are included, used or not.")
        found.append("Credits, upfront prices and fixed costs are not included.")
        if self.is_reported:
            found.append(
                "Your reported usage is billed: this is the cost if you use all that is allocated."
            )
        unpriced = list(dict.fromkeys([*self.before.unpriced, *self.after.unpriced]))
        if unpriced:
            found.append(f"The price plan has no price for {get_text_list(unpriced, 'and')}.")
        return " ".join(found)

    def _text(self, cost: Cost, in_digits: Callable[[Fraction], Decimal]) -> str:
        least, greatest = in_digits(cost.least), in_digits(cost.greatest)
        text = money_text(greatest, self.currency)
        return text if least == greatest else f"{money_text(least)} to {text}"


@dataclass(frozen=True)
class PricesNow:
    """Prices that a tenant pays in a pool at an instant."""

    pool: Pool
    tenant: Tenant
    prices: Timeline
    commitments: Sequence[Commitment]

    def change_cost(self, uses: Mapping[str, Sequence[Mapping[str, Any]]]) -> ChangeCost:
        """Return the cost of the uses before and after a change, as a simulation stores them."""
        slugs = {row["owner"] for rows in uses.values() for row in rows} - {None}
        keys = dict(Tenant.objects.filter(slug__in=slugs).values_list("slug", "pk"))
        before, after = (
            self.cost(
                UseNow(keys.get(row["owner"]), row["resource"], Decimal(row["quantity"]))
                for row in uses[side]
            )
            for side in ("before", "after")
        )
        return ChangeCost(
            self.pool.currency,
            minor_digits(self.pool),
            before,
            after,
            is_reported=self.pool.metering == Metering.REPORTED,
            has_commitments=bool(self.commitments),
        )

    @exactly
    def cost(self, uses: Iterable[UseNow]) -> Cost:
        """Return the cost of an hour of a constant use.

        Committed units cost their price whether they are used or not. They cover the use with the
        highest price first, as on statements.
        """
        by_resource: dict[str, list[UseNow]] = {}
        for use in uses:
            by_resource.setdefault(use.resource, []).append(use)
        least = greatest = sum(
            (Fraction(each.quantity) * Fraction(each.price) for each in self.commitments),
            Fraction(0),
        )
        unpriced = []
        for resource, of_resource in by_resource.items():
            committed = sum(
                (Fraction(each.quantity) for each in self.commitments if each.resource == resource),
                Fraction(0),
            )
            bounds = [self._bounds(use) for use in of_resource]
            total = sum((Fraction(use.quantity) for use in of_resource), Fraction(0))
            if None in bounds and total > committed:
                unpriced.append(resource)
            low, high = (
                _uncovered(
                    [
                        (_NO_PRICE if bound is None else bound[side], Fraction(use.quantity))
                        for use, bound in zip(of_resource, bounds, strict=True)
                    ],
                    committed,
                )
                for side in (0, 1)
            )
            least, greatest = least + low, greatest + high
        return Cost(least, greatest, unpriced)

    def _bounds(self, use: UseNow) -> tuple[Fraction, Fraction] | None:
        """Return the least and greatest price of a use, None without a price."""
        at = use.resource, self.tenant.pk, use.owner
        tiers: Tiers | None = self.prices.tiers(0, *at)
        if tiers is not None:
            prices = [Fraction(tier.price) for tier in tiers.tiers]
            return min(prices), max(prices)
        price = self.prices.price(0, *at)
        return None if price is None else (Fraction(price), Fraction(price))


def _uncovered(parts: Sequence[tuple[Fraction, Fraction]], committed: Fraction) -> Fraction:
    """Return the cost of prices × quantities that exceed the committed quantity, the dearest first."""
    cost = Fraction(0)
    for price, quantity in sorted(parts, reverse=True):
        covered = min(quantity, committed)
        committed -= covered
        cost += max(price, Fraction(0)) * (quantity - covered)
    return cost


def prices_now(*, pool: Pool, tenant: Tenant, now: datetime) -> PricesNow | None:
    """Return the prices of a tenant, or None if no plan holds that the tenant may see."""
    soon = now + timedelta(microseconds=1)
    prices = timeline(pool=pool, start=now, end=soon)
    plan = prices.segments[0].plan
    if plan is None or not plans_for(tenant).filter(pk=plan.pk).exists():
        return None
    commitments = [each for each in commitments_of(pool, now, soon) if each.tenant_id == tenant.pk]
    return PricesNow(pool, tenant, prices, commitments)
