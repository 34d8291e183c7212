"""Writes to price plans, which are edited as drafts and published on one timeline per pool."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Max

from allocator_service.billing.models import (
    Closing,
    Commitment,
    FixedCost,
    Increment,
    PlanState,
    PricePlan,
    Rate,
    SpotPrice,
    UnitWeight,
)
from allocator_service.billing.plans.tiers import Tier, tier_errors, tiers_stored
from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.dates import date_range_text, is_settable
from allocator_service.core.errors import Conflict, FieldError, Unacceptable
from allocator_service.core.money import exactly
from allocator_service.core.outbox import event_record
from allocator_service.core.quantities import LIMIT
from allocator_service.core.versions import check_version
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Metering, Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant

# Names of prices in documents, and their columns.
PRICES = {"own": "own", "shared": "shared", "pool": "pooled", "outside": "outside"}
LONGEST_MONTH = 745
# Exports hold 26 digits before the point: a hundred lines of this still add up.
LARGEST_CHARGE = Decimal(10) ** 24


@dataclass(frozen=True)
class RateDraft:
    """Prices of a resource, on the servers of one owner if there is one."""

    resource: str
    owner: Tenant | None = None
    own: Decimal | None = None
    shared: Decimal | None = None
    pooled: Decimal | None = None
    outside: Decimal | None = None
    tiers: Sequence[Tier] = ()


@dataclass(frozen=True)
class SpotDraft:
    resource: str
    kind: str
    start: datetime
    end: datetime
    price: Decimal


@dataclass(frozen=True)
class CommitmentDraft:
    tenant: Tenant
    resource: str
    quantity: Decimal
    price: Decimal
    start: datetime
    end: datetime
    upfront: Decimal = Decimal(0)


@dataclass(frozen=True)
class FixedCostDraft:
    """A monthly amount, with the tenants that share it and their parts."""

    name: str
    amount: Decimal
    shares: Sequence[tuple[Tenant, Decimal]]


@dataclass(frozen=True)
class PlanDraft:
    """The fields of a plan that operators write, with error pointers as in the request."""

    name: str
    start: datetime
    end: datetime | None = None
    currency: str | None = None
    fee: Decimal = Decimal(0)
    increment: str = Increment.EXACT
    exhausted: str = "event"
    rates: Sequence[RateDraft] = ()
    spot_prices: Sequence[SpotDraft] = ()
    commitments: Sequence[CommitmentDraft] = ()
    fixed_costs: Sequence[FixedCostDraft] = ()
    unit_weights: Mapping[str, Decimal] = field(default_factory=dict)


@transaction.atomic
def plan_create(*, pool: Pool, draft: PlanDraft, now: datetime) -> PricePlan:
    """Create a draft. Raises `Unacceptable` for all of its mistakes at once."""
    pool = pool_lock(pool)
    _check(pool, draft)
    plan = PricePlan.objects.create(pool=pool, created_at=now, **_own_fields(draft))
    _write_parts(plan, draft)
    audit_record(action="price_plan.create", instance=plan, now=now, pool=pool.slug)
    return plan


@transaction.atomic
def plan_update(
    *, plan: PricePlan, draft: PlanDraft, version: int | None, now: datetime
) -> PricePlan:
    """Replace a draft. Raises `Conflict` with `plan.published` for one that is published."""
    pool = pool_lock(plan.pool)
    plan = _locked_draft(plan, version)
    _check(pool, draft)
    before = stated_fields(plan)
    for name, value in _own_fields(draft).items():
        setattr(plan, name, value)
    plan.version += 1
    plan.save()
    # Parts have no history while the plan is a draft: they are replaced as a whole.
    _drop_parts(plan)
    _write_parts(plan, draft)
    audit_record(action="price_plan.update", instance=plan, before=before, now=now, pool=pool.slug)
    return plan


@transaction.atomic
def plan_delete(*, plan: PricePlan, version: int | None, now: datetime) -> None:
    """Delete a draft. Raises `Conflict` for a published plan."""
    pool = pool_lock(plan.pool)
    plan = _locked_draft(plan, version)
    # Before the row is gone, whose fields the entry states.
    audit_record(action="price_plan.delete", instance=plan, now=now, pool=pool.slug)
    _drop_parts(plan)
    plan.delete()


@transaction.atomic
def plan_publish(*, plan: PricePlan, version: int | None, now: datetime) -> PricePlan:
    """Put a draft on the pool's timeline. The first one fixes the pool's currency and time zone.

    A plan without an end ends where the next one begins. Raises `Conflict` for an overlap, a gap, or a
    start in a closed month.
    """
    pool = pool_lock(plan.pool)
    plan = _locked_draft(plan, version)
    if not plan.rates.exists():
        raise Unacceptable(
            "A plan without prices cannot be published.", code="plan.empty", pointer="/rates"
        )
    # Again, because the pool's metering may have changed since the draft was checked.
    if plan.increment != Increment.EXACT and pool.metering == Metering.ALLOCATION:
        raise _increment()
    _join_timeline(pool, plan)
    before = stated_fields(plan)
    plan_number(plan, PlanState.PUBLISHED, now)
    if pool.money_fixed_at is None:
        # Prices are in the pool's currency and months in its time zone: neither may change from here on.
        pool.money_fixed_at = now
        pool.save(update_fields=["money_fixed_at"])
    audit_record(action="price_plan.publish", instance=plan, before=before, now=now, pool=pool.slug)
    event_record(
        kind="price_plan.published",
        pool=pool.slug,
        payload={"price_plan": str(plan.pk), "number": plan.number},
        now=now,
    )
    return plan


def plan_number(plan: PricePlan, state: PlanState, now: datetime) -> None:
    """Give a draft its number, under which it holds from now on."""
    # Numbers are without gaps: a sequence of the database would skip those of transactions undone.
    last = PricePlan.objects.filter(pool=plan.pool).aggregate(last=Max("number"))["last"]
    plan.state, plan.number, plan.published_at = state, (last or 0) + 1, now
    plan.version += 1
    plan.save()


def _locked_draft(plan: PricePlan, version: int | None) -> PricePlan:
    plan = PricePlan.objects.select_for_update(of=("self",), no_key=True).get(pk=plan.pk)
    check_version(plan.version, version)
    if plan.state != PlanState.DRAFT:
        raise Conflict(
            "The plan is published and stays as it is: write another one.", code="plan.published"
        )
    return plan


def _join_timeline(pool: Pool, plan: PricePlan) -> None:
    """Reject an overlap or a gap, and end the plan before where this one begins."""
    # Months close in their order, so that the last one bounds them all.
    closed = Closing.objects.filter(pool=pool).order_by("-month").first()
    if closed is not None and plan.start < closed.end:
        raise Conflict(
            f"Months are closed until {closed.end:%Y-%m-%dT%H:%M:%SZ}: change earlier prices by a"
            " rerating.",
            code="plan.backdated",
            pointer="/from",
        )
    published = list(
        PricePlan.objects.filter(pool=pool, state=PlanState.PUBLISHED).order_by("start")
    )
    if not published:
        return
    first, last = published[0], published[-1]
    # It may also come before all others, if it leaves no gap.
    if plan.end == first.start:
        return
    # The usual case: prices change from an instant on.
    if last.end is None and plan.start > last.start:
        last.end = plan.start
        last.version += 1
        last.save(update_fields=["end", "version"])
        return
    if plan.start == last.end:
        return
    apart = (last.end is not None and plan.start > last.end) or (
        plan.end is not None and plan.end < first.start
    )
    if apart:
        raise Conflict(
            "The plan leaves a gap on the pool's timeline: it begins where the last plan ends, or ends"
            " where the first one begins.",
            code="plan.gap",
            pointer="/from",
        )
    raise Conflict(
        "Another published plan of the pool holds at that time.",
        code="plan.overlap",
        pointer="/from",
    )


def _increment() -> Unacceptable:
    return Unacceptable(
        "A pool that meters itself is charged exactly: its intervals are cut at every decision, and"
        " increments count per usage event.",
        code="plan.increment",
        pointer="/increment",
    )


def _check(pool: Pool, draft: PlanDraft) -> None:
    if draft.currency is not None and draft.currency != pool.currency:
        raise Conflict(
            f"The pool's currency is {pool.currency}.", code="plan.currency", pointer="/currency"
        )
    if draft.increment != Increment.EXACT and pool.metering == Metering.ALLOCATION:
        raise _increment()
    errors = [
        *_intervals(draft),
        *_unknown_resources(pool, draft),
        *_duplicates(draft),
        *_bounds(draft),
    ]
    for number, rate in enumerate(draft.rates):
        errors += tier_errors(rate.tiers, f"/rates/{number}/tiers")
    if not 0 <= draft.fee <= 1:
        errors.append(FieldError("/fee", "plan.fee", "A fee is a part of the price, from 0 to 1."))
    for number, cost in enumerate(draft.fixed_costs):
        if not any(share > 0 for _, share in cost.shares):
            pointer = f"/fixed_costs/{number}/shares"
            errors.append(FieldError(pointer, "fixed_cost.shares", "A tenant must have a share."))
    if errors:
        raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors[:20])


def _intervals(draft: PlanDraft) -> list[FieldError]:
    errors = [*_range_errors("", "plan", draft.start, draft.end)]
    for number, spot in enumerate(draft.spot_prices):
        pointer = f"/spot_prices/{number}"
        errors += _range_errors(pointer, "spot_price", spot.start, spot.end)
    for number, commitment in enumerate(draft.commitments):
        pointer = f"/commitments/{number}"
        errors += _range_errors(pointer, "commitment", commitment.start, commitment.end)
    if errors:
        # What lies beside a date out of range follows from it.
        return errors
    if draft.end is not None and draft.end <= draft.start:
        errors.append(FieldError("/to", "plan.interval", "`to` is after `from`."))
    for number, spot in enumerate(draft.spot_prices):
        within = draft.start <= spot.start < spot.end <= (draft.end or spot.end)
        if not within:
            detail = "A spot price begins before it ends, and holds within its plan."
            errors.append(FieldError(f"/spot_prices/{number}", "spot_price.interval", detail))
    for number, commitment in enumerate(draft.commitments):
        if not draft.start <= commitment.start < commitment.end:
            detail = "A term begins before it ends, and no earlier than its plan."
            errors.append(FieldError(f"/commitments/{number}", "commitment.interval", detail))
    return errors


def _range_errors(
    pointer: str, kind: str, start: datetime, end: datetime | None
) -> Iterator[FieldError]:
    """Yield the errors of dates out of range, which have no month in some time zone."""
    for name, instant in (("from", start), ("to", end)):
        if instant is not None and not is_settable(instant):
            yield FieldError(f"{pointer}/{name}", f"{kind}.interval", date_range_text(name))


def _unknown_resources(pool: Pool, draft: PlanDraft) -> list[FieldError]:
    known = [resource.name for resource in resources_of(pool)]
    named = [
        *((f"/rates/{n}/resource", rate.resource) for n, rate in enumerate(draft.rates)),
        *(
            (f"/spot_prices/{n}/resource", spot.resource)
            for n, spot in enumerate(draft.spot_prices)
        ),
        *(
            (f"/commitments/{n}/resource", each.resource)
            for n, each in enumerate(draft.commitments)
        ),
        *((f"/unit_weights/{name}", name) for name in draft.unit_weights),
    ]
    return [
        FieldError(
            pointer,
            "resource.unknown",
            f'The pool has no resource "{name[:80]}"; it has: {", ".join(known)}.',
        )
        for pointer, name in named
        if name not in known
    ]


def _duplicates(draft: PlanDraft) -> list[FieldError]:
    seen: set[tuple[str, int | None]] = set()
    errors = []
    for number, rate in enumerate(draft.rates):
        key = (rate.resource, None if rate.owner is None else rate.owner.pk)
        if key in seen:
            detail = "A plan prices each resource once, and once per owner."
            errors.append(FieldError(f"/rates/{number}", "rate.duplicate", detail))
        seen.add(key)
    return errors


def _bounds(draft: PlanDraft) -> list[FieldError]:
    """Reject prices at which the largest usage of a month could not be exported to the last digit."""
    most = Decimal(LIMIT)
    priced = [
        *(
            (f"/rates/{n}/{name}", getattr(rate, column), most)
            for n, rate in enumerate(draft.rates)
            for name, column in PRICES.items()
        ),
        *(
            (f"/rates/{n}/tiers/{m}/price", tier.price, most)
            for n, rate in enumerate(draft.rates)
            for m, tier in enumerate(rate.tiers)
        ),
        *(
            (f"/spot_prices/{n}/price", spot.price, most)
            for n, spot in enumerate(draft.spot_prices)
        ),
        *(
            (f"/commitments/{n}/price", each.price, each.quantity)
            for n, each in enumerate(draft.commitments)
        ),
    ]
    return [
        FieldError(
            pointer,
            "plan.bounds",
            f"Expected a price of which {quantity:f} units for {LONGEST_MONTH} hours come to at most"
            f" {LARGEST_CHARGE:e}, got {price:f}.",
        )
        for pointer, price, quantity in priced
        if price is not None and _charge(price, quantity) > LARGEST_CHARGE
    ]


@exactly
def _charge(price: Decimal, quantity: Decimal) -> Decimal:
    return price * quantity * LONGEST_MONTH


def _own_fields(draft: PlanDraft) -> dict[str, Any]:
    names = ("name", "start", "end", "fee", "increment", "exhausted")
    return {name: getattr(draft, name) for name in names}


def _drop_parts(plan: PricePlan) -> None:
    for part in (Rate, SpotPrice, Commitment, FixedCost, UnitWeight):
        part.objects.filter(plan=plan).delete()


def _write_parts(plan: PricePlan, draft: PlanDraft) -> None:
    of: dict[str, Any] = {"plan": plan, "pool": plan.pool}
    Rate.objects.bulk_create(
        Rate(**{**of, **vars(rate), "tiers": tiers_stored(rate.tiers)}) for rate in draft.rates
    )
    SpotPrice.objects.bulk_create(SpotPrice(**of, **vars(spot)) for spot in draft.spot_prices)
    Commitment.objects.bulk_create(Commitment(**of, **vars(each)) for each in draft.commitments)
    UnitWeight.objects.bulk_create(
        UnitWeight(**of, resource=name, weight=weight)
        for name, weight in draft.unit_weights.items()
    )
    FixedCost.objects.bulk_create(
        FixedCost(
            plan=plan,
            position=position,
            name=cost.name,
            amount=cost.amount,
            tenants=[[tenant.pk, f"{share:f}"] for tenant, share in cost.shares],
        )
        for position, cost in enumerate(draft.fixed_costs)
    )
