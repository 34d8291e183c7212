"""Costs of a constant use at the prices in force, of the present one and in previews of changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

from django.utils.text import get_text_list

from allocator_service.allocation.long_term.metered_uses import uses_at
from allocator_service.allocation.models import Run
from allocator_service.billing.models import Commitment
from allocator_service.billing.months import HOUR_SECONDS
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
    """Quantity of a resource on an owner's servers, None for the pool's own.

    Use that `has_price` excludes is on servers of an unknown owner, and has no price.
    """

    owner: int | None
    resource: str
    quantity: Decimal
    has_price: bool = True


@dataclass(frozen=True)
class Cost:
    """Cost of an hour, from `least` to `greatest`, and of the first 30 `days` of a month.

    `least` and `greatest` differ only under tiers, whose price depends on the hours of the month.
    """

    least: Fraction
    greatest: Fraction
    days: Fraction
    unpriced: Sequence[str]


@dataclass(frozen=True)
class _Projection:
    """Currency of projected costs, and the facts on which their notes depend."""

    currency: str
    digits: int
    is_reported: bool
    has_commitments: bool

    def hour(self, amount: Fraction) -> Decimal:
        """Return an hour's cost with the digits of the currency, and more where it has them."""
        exact = rounded(amount, self.digits + _EXTRA_DIGITS).normalize()
        exponent = exact.as_tuple().exponent
        if not isinstance(exponent, int) or -exponent >= self.digits:
            return exact
        return exact.quantize(Decimal(1).scaleb(-self.digits))

    def days(self, cost: Cost) -> Decimal:
        """Return the cost of 30 days in whole minor units."""
        return rounded(cost.days, self.digits)

    def _hour_text(self, cost: Cost) -> str:
        least, greatest = self.hour(cost.least), self.hour(cost.greatest)
        text = money_text(greatest, self.currency)
        return text if least == greatest else f"{money_text(least)} to {text}"

    def _days_text(self, cost: Cost, *, depends: bool) -> str:
        text = f"{money_text(self.days(cost), self.currency)} over {PROJECTED_DAYS} days"
        return f"{text} from the start of a month" if depends else text

    def _notes(self, *costs: Cost) -> str:
        """Return sentences on the parts that costs include and leave out."""
        found = []
        if any(_depends(cost) for cost in costs):
            found.append("The price of an hour depends on the hours that are used in the month.")
        if self.has_commitments:
            found.append("Commitments are included, used or not.")
        found.append("Credits, upfront prices and fixed costs are not included.")
        if self.is_reported:
            found.append(
                "Reported usage is billed: this is the cost if all that is allocated is used."
            )
        unpriced = dict.fromkeys(resource for cost in costs for resource in cost.unpriced)
        if unpriced:
            found.append(f"The price plan has no price for {get_text_list(list(unpriced), 'and')}.")
        return " ".join(found)


def _depends(cost: Cost) -> bool:
    """Return True if the cost of an hour depends on the hours of the month."""
    return cost.least != cost.greatest


@dataclass(frozen=True)
class CurrentCost(_Projection):
    """Cost of a tenant's present use, if it lasts."""

    tenant: str
    cost: Cost

    @property
    def words(self) -> str:
        """Sentences on the cost and on the parts that it leaves out."""
        return (
            f"The allocation of {self.tenant} costs {self.hour_text} per hour at today's prices:"
            f" {self.days_text}. {self.notes}"
        )

    @property
    def hour_text(self) -> str:
        """Cost of an hour with the currency."""
        return self._hour_text(self.cost)

    @property
    def days_text(self) -> str:
        """Cost of 30 days with the currency."""
        return self._days_text(self.cost, depends=_depends(self.cost))

    @property
    def notes(self) -> str:
        """Sentences on the parts that the cost includes and leaves out."""
        return self._notes(self.cost)


@dataclass(frozen=True)
class ChangeCost(_Projection):
    """Cost of a tenant's use before and after a change."""

    before: Cost
    after: Cost

    @property
    def words(self) -> str:
        """Sentences on the costs and on the parts that they leave out."""
        hour_before, hour_after = self._hour_text(self.before), self._hour_text(self.after)
        if hour_before == hour_after:
            change = f"{hour_after} per hour, as before"
        else:
            change = f"from {hour_before} to {hour_after} per hour"
        depends = _depends(self.before) or _depends(self.after)
        over = self._days_text(self.after, depends=depends)
        notes = self._notes(self.before, self.after)
        return f"At today's prices: {change}, {over} for all your tasks in this pool. {notes}"


@dataclass(frozen=True)
class PricesNow:
    """Prices that a tenant pays in a pool at an instant.

    `members` are the tenants that ever were in the pool, by slug.
    """

    pool: Pool
    tenant: Tenant
    prices: Timeline
    commitments: Sequence[Commitment]
    members: Mapping[str, int]

    def change_cost(self, uses: Mapping[str, Sequence[Mapping[str, Any]]]) -> ChangeCost:
        """Return the cost of the uses before and after a change, as a simulation stores them."""
        before, after = (self.cost(map(self._use, uses[side])) for side in ("before", "after"))
        return ChangeCost(*self._terms, before, after)

    def current_cost(self, uses: Mapping[tuple[int | None, str], Decimal]) -> CurrentCost:
        """Return the cost of quantities in use, by owner of the servers and resource."""
        cost = self.cost(UseNow(*key, quantity) for key, quantity in uses.items())
        return CurrentCost(*self._terms, self.tenant.slug, cost)

    @property
    def _is_reported(self) -> bool:
        return bool(self.pool.metering == Metering.REPORTED)

    @property
    def _terms(self) -> tuple[str, int, bool, bool]:
        """Fields that all projections of the tenant have in common."""
        digits = minor_digits(self.pool)
        return self.pool.currency, digits, self._is_reported, bool(self.commitments)

    @exactly
    def cost(self, uses: Iterable[UseNow]) -> Cost:
        """Return the cost of a constant use.

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
        days = least * _HOURS
        unpriced = []
        for resource, of_resource in by_resource.items():
            committed = sum(
                (Fraction(each.quantity) for each in self.commitments if each.resource == resource),
                Fraction(0),
            )
            parts = [(self._price(use), Fraction(use.quantity)) for use in of_resource]
            total = sum((quantity for _, quantity in parts), Fraction(0))
            # Within the commitment its price is due either way, so that a missing price changes nothing.
            if total > committed and any(price is None for price, _ in parts):
                unpriced.append(resource)
            low, high = (
                _uncovered([(_bound(price, end), quantity) for price, quantity in parts], committed)
                for end in (min, max)
            )
            least, greatest = least + low, greatest + high
            days += _from_start_of_month(parts, committed)
        return Cost(least, greatest, days, unpriced)

    def _use(self, row: Mapping[str, Any]) -> UseNow:
        """Return a use that a simulation stores."""
        slug = row["owner"]
        is_known = slug is None or slug in self.members
        owner = self.members.get(slug) if slug is not None else None
        return UseNow(owner, row["resource"], Decimal(row["quantity"]), has_price=is_known)

    def _price(self, use: UseNow) -> Decimal | Tiers | None:
        if not use.has_price and not self._is_reported:
            return None
        # Reports do not state whose servers were used: statements charge the pool's price.
        owner = None if self._is_reported else use.owner
        at = use.resource, self.tenant.pk, owner
        tiers: Tiers | None = self.prices.tiers(0, *at)
        return self.prices.price(0, *at) if tiers is None else tiers


def _bound(
    price: Decimal | Tiers | None, end: Callable[[Iterable[Fraction]], Fraction]
) -> Fraction:
    """Return the least or greatest price of a use."""
    if price is None:
        return _NO_PRICE
    if isinstance(price, Tiers):
        return end(Fraction(tier.price) for tier in price.tiers)
    return Fraction(price)


def _from_start_of_month(
    parts: Sequence[tuple[Decimal | Tiers | None, Fraction]], committed: Fraction
) -> Fraction:
    """Return the cost of the first 30 days of a month, of prices and quantities of one resource.

    All quantities count towards the hours of tiers, covered ones included. Prices hold between two ends
    of tiers.
    """
    total = sum((quantity for _, quantity in parts), Fraction(0))
    ends = {
        Fraction(tier.through)
        for price, _ in parts
        if isinstance(price, Tiers)
        for tier in price.tiers
        if tier.through is not None
    }
    last, cost = total * _HOURS, Fraction(0)
    edges = [Fraction(0), *sorted(end for end in ends if end < last), last]
    for begin, end in pairwise(edges):
        prices = [(_price_at(price, begin), quantity) for price, quantity in parts]
        # The quantities together pass this many hours of the month in their part of the time.
        cost += _uncovered(prices, committed) * (end - begin) / (total or 1)
    return cost


def _price_at(price: Decimal | Tiers | None, hours: Fraction) -> Fraction:
    """Return the price of a use after hours of the month."""
    if isinstance(price, Tiers):
        price = price.price_at(hours * HOUR_SECONDS)
    return _NO_PRICE if price is None else Fraction(price)


def _uncovered(parts: Sequence[tuple[Fraction, Fraction]], committed: Fraction) -> Fraction:
    """Return the cost of prices × quantities that exceed the committed quantity, the dearest first."""
    cost = Fraction(0)
    for price, quantity in sorted(parts, reverse=True):
        covered = min(quantity, committed)
        committed -= covered
        # The marker of a missing price is below 0 to be covered last, but it must not lower the cost.
        cost += max(price, Fraction(0)) * (quantity - covered)
    return cost


@dataclass(frozen=True)
class PoolPrices:
    """Prices in a pool at an instant, read once for all tenants of a list."""

    pool: Pool
    prices: Timeline
    commitments: Sequence[Commitment]
    members: Mapping[str, int]

    def of(self, tenant: Tenant) -> PricesNow | None:
        """Return the prices of a tenant, None unless it ever was a member, as for the plan itself."""
        if tenant.slug not in self.members:
            return None
        own = self._commitments_by_tenant.get(tenant.pk, [])
        return PricesNow(self.pool, tenant, self.prices, own, self.members)

    @cached_property
    def _commitments_by_tenant(self) -> Mapping[int, Sequence[Commitment]]:
        # Once for all tenants: in a large pool, each of them may have a commitment.
        found: dict[int, list[Commitment]] = {}
        for each in self.commitments:
            found.setdefault(each.tenant_id, []).append(each)
        return found


def pool_prices(*, pool: Pool, now: datetime) -> PoolPrices | None:
    """Return the prices of a pool, or None if no plan holds."""
    # The shortest interval that PostgreSQL distinguishes: it has one segment, the prices at `now`.
    soon = now + timedelta(microseconds=1)
    prices = timeline(pool=pool, start=now, end=soon)
    if prices.segments[0].plan is None:
        return None
    members = dict(pool.memberships.values_list("tenant__slug", "tenant_id"))
    return PoolPrices(pool, prices, commitments_of(pool, now, soon), members)


def current_costs(
    *, pool: Pool, tenants: Iterable[Tenant], run: Run, now: datetime
) -> dict[str, CurrentCost]:
    """Return the costs of tenants' use under the decision in force, by slug.

    Tenants without prices are left out, and those without use and commitments.
    """
    of_pool = pool_prices(pool=pool, now=now)
    if of_pool is None:
        return {}
    priced = [prices for each in tenants if (prices := of_pool.of(each)) is not None]
    if not priced:
        return {}
    uses = uses_at(run=run, tenants={each.tenant.pk for each in priced}, at=now)
    return {
        each.tenant.slug: each.current_cost(uses.get(each.tenant.pk, {}))
        for each in priced
        if each.tenant.pk in uses or each.commitments
    }
