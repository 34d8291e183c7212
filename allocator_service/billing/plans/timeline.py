"""The timeline of prices, cut wherever any price changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from itertools import pairwise

from django.db.models import Q

from allocator_service.billing.models import (
    Commitment,
    Increment,
    PlanState,
    PriceKind,
    PricePlan,
    Rate,
)
from allocator_service.billing.plans.tiers import Tiers, tiers_from
from allocator_service.pools.models import Pool


class Prices:
    """The prices of one plan, by resource."""

    def __init__(self, plan: PricePlan) -> None:
        self._rates = {(rate.resource, rate.owner_id): rate for rate in plan.rates.all()}
        self._spots = list(plan.spot_prices.all())

    def of(
        self, resource: str, kind: PriceKind, owner: int | None, at: datetime
    ) -> Decimal | Tiers | None:
        """Return the price per unit and hour, or None where it is not charged.

        An owner's own price precedes a spot price, and that precedes the price of all owners.
        """
        for_owner = self._rates.get((resource, owner)) if owner is not None else None
        price = None if for_owner is None else _price_of(for_owner, kind)
        if price is not None:
            return price
        # Spot prices of one resource and kind do not overlap: the first that holds is the only one.
        for spot in self._spots:
            if (spot.resource, spot.kind) == (resource, kind) and spot.start <= at < spot.end:
                return spot.price
        rate = self._rates.get((resource, None))
        return None if rate is None else _price_of(rate, kind)

    @property
    def has_tiers(self) -> bool:
        """True if any price is by tiers."""
        return any(rate.tiers for rate in self._rates.values())

    def outside(self, resource: str) -> Decimal | None:
        """Return the price of a resource elsewhere, if there is one."""
        rate = self._rates.get((resource, None))
        return None if rate is None else rate.outside


def _price_of(rate: Rate, kind: PriceKind) -> Decimal | Tiers | None:
    """Return a rate's price of a kind, or its tiers where it has none."""
    price: Decimal | None = getattr(rate, "pooled" if kind == PriceKind.POOL else kind.value)
    if price is None and rate.tiers:
        return Tiers(tiers_from(rate.tiers))
    return price


def kind_of(tenant: int, owner: int | None) -> PriceKind:
    """Return the kind of price that a tenant pays on the servers of an owner, where None is the pool."""
    if owner is None:
        return PriceKind.POOL
    return PriceKind.OWN if owner == tenant else PriceKind.SHARED


@dataclass(frozen=True)
class Segment:
    """An interval in which no price changes.

    `plan` is None if none holds.
    """

    start: datetime
    end: datetime
    plan: PricePlan | None


@dataclass(frozen=True)
class Timeline:
    """Consecutive segments of an interval, with the prices of their plans."""

    segments: Sequence[Segment]
    prices: Mapping[object, Prices]

    @cached_property
    def edges(self) -> list[datetime]:
        """The boundaries of the segments, one more than there are segments."""
        return [*(segment.start for segment in self.segments), self.segments[-1].end]

    @property
    def increments(self) -> list[str]:
        """The increments in which the time of usage events counts, per segment."""
        return [segment.plan.increment if segment.plan else "exact" for segment in self.segments]

    @property
    def exact(self) -> bool:
        """True if the time of events counts exactly in all segments."""
        return all(increment == Increment.EXACT for increment in self.increments)

    def price(self, segment: int, resource: str, tenant: int, owner: int | None) -> Decimal | None:
        """Return a tenant's price in a segment, None where use is not charged or is charged by tiers."""
        found = self._found(segment, resource, tenant, owner)
        return found if isinstance(found, Decimal) else None

    def tiers(self, segment: int, resource: str, tenant: int, owner: int | None) -> Tiers | None:
        """Return the tiers by which a tenant pays in a segment, if it does."""
        found = self._found(segment, resource, tenant, owner)
        return found if isinstance(found, Tiers) else None

    @property
    def has_tiers(self) -> bool:
        """True if any price is by tiers."""
        return any(of_plan.has_tiers for of_plan in self.prices.values())

    def _found(
        self, segment: int, resource: str, tenant: int, owner: int | None
    ) -> Decimal | Tiers | None:
        at = self.segments[segment]
        if at.plan is None:
            return None
        key = (segment, resource, tenant, owner)
        # Each entry of a month asks for a price, and few combinations occur.
        if key not in self._known:
            prices = self.prices[at.plan.pk]
            # No price changes within a segment, so that its start stands for all of it.
            self._known[key] = prices.of(resource, kind_of(tenant, owner), owner, at.start)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[int, str, int, int | None], Decimal | Tiers | None]:
        return {}

    def outside(self, segment: int, resource: str) -> Decimal | None:
        """Return the price of a resource elsewhere in a segment."""
        plan = self.segments[segment].plan
        return None if plan is None else self.prices[plan.pk].outside(resource)


def plans_of(pool: Pool, start: datetime, end: datetime) -> list[PricePlan]:
    """Return the published and rerated plans that hold within `[start, end)`, by number."""
    plans = (
        PricePlan.objects.filter(pool=pool, start__lt=end)
        .exclude(state=PlanState.DRAFT)
        .filter(Q(end=None) | Q(end__gt=start))
        .prefetch_related("rates", "spot_prices", "fixed_costs")
    )
    # By number, as `_holding` takes the last.
    return list(plans.order_by("number"))


def commitments_of(pool: Pool, start: datetime, end: datetime) -> list[Commitment]:
    """Return the published commitments whose term reaches into `[start, end)`, oldest first."""
    found = Commitment.objects.filter(
        pool=pool, plan__state=PlanState.PUBLISHED, start__lt=end, end__gt=start
    )
    return list(found.select_related("plan").order_by("id"))


def timeline(*, pool: Pool, start: datetime, end: datetime) -> Timeline:
    """Return the prices of `[start, end)`.

    The last plan that a rerating applied holds, and where there is none the published one.
    """
    plans = plans_of(pool, start, end)
    boundaries = {start, end}
    for plan in plans:
        boundaries |= {plan.start, plan.end or end}
        for spot in plan.spot_prices.all():
            boundaries |= {spot.start, spot.end}
    # A plan may begin before the interval and end after it.
    inside = sorted(boundary for boundary in boundaries if start <= boundary <= end)
    segments = [Segment(since, until, _holding(plans, since)) for since, until in pairwise(inside)]
    return Timeline(segments, {plan.pk: Prices(plan) for plan in plans})


def _holding(plans: Sequence[PricePlan], at: datetime) -> PricePlan | None:
    """Return the plan that holds at an instant, which is the latest of any that replace the past."""
    there = [plan for plan in plans if plan.start <= at and (plan.end is None or at < plan.end)]
    # A rerating is applied to replace what was published, whatever was published since.
    replacing = [plan for plan in there if plan.state == PlanState.RERATED]
    found = replacing or there
    return found[-1] if found else None
