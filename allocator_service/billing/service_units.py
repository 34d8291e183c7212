"""Banks of service units per tenant, charged for use by the weights of the price plans.

As Slurm's TRESBillingWeights: quantity × seconds × weight, summed over resources. Use since a tenant's
first grant is read from the ledger's totals, so that the bank needs no bookkeeping.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Context, Decimal

from django.db import transaction
from django.db.models import Min, QuerySet, Sum

from allocator_service.billing.models import Exhausted, PricePlan, UnitGrant
from allocator_service.billing.plans.timeline import timeline
from allocator_service.core.audit import audit_record
from allocator_service.core.errors import Unacceptable
from allocator_service.core.outbox import event_record
from allocator_service.core.quantities import EXACT_DIGITS, decimal_text
from allocator_service.ledger.models import Kind
from allocator_service.ledger.reporting.amounts import amounts_within
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.member_services import member_put
from allocator_service.pools.models import MembershipTerms, Pool
from allocator_service.pools.selectors import members_of
from allocator_service.tenants.models import Tenant

LARGEST = Decimal(10) ** 24
_EXACT = Context(prec=EXACT_DIGITS)


@dataclass(frozen=True)
class Bank:
    """A tenant's service units since its first grant."""

    tenant: Tenant
    since: datetime
    granted: Decimal
    used: Decimal

    @property
    def balance(self) -> Decimal:
        return _EXACT.subtract(self.granted, self.used)


def banks_of(*, pool: Pool, now: datetime, tenant: Tenant | None = None) -> list[Bank]:
    """Return the banks of the pool's tenants that have one, by slug, or the bank of one tenant."""
    grants = UnitGrant.objects.filter(pool=pool, granted_at__lte=now)
    if tenant is not None:
        grants = grants.filter(tenant=tenant)
    summed = grants.values("tenant").annotate(granted=Sum("units"), since=Min("granted_at"))
    tenants = Tenant.objects.in_bulk([row["tenant"] for row in summed])
    banks = [
        Bank(
            tenants[row["tenant"]],
            row["since"],
            row["granted"],
            _used(pool, tenants[row["tenant"]], row["since"], now),
        )
        for row in summed
    ]
    return sorted(banks, key=lambda bank: bank.tenant.slug)


def _used(pool: Pool, tenant: Tenant, since: datetime, now: datetime) -> Decimal:
    if since >= now:
        return Decimal(0)
    prices = timeline(pool=pool, start=since, end=now)
    # Once for each plan, of which several segments are.
    weights = {segment.plan: _weights(segment.plan) for segment in prices.segments if segment.plan}
    amounts = amounts_within(pool=pool, period=Period(prices.edges), tenant=tenant, values=1)
    used = Decimal(0)
    for use, interval, amount in amounts.all_intervals():
        plan = prices.segments[interval].plan
        if use.kind == Kind.USAGE and plan is not None:
            weight = weights[plan].get(use.resource, Decimal(0))
            used = _EXACT.add(used, _EXACT.multiply(amount, weight))
    return used


def _weights(plan: PricePlan) -> dict[str, Decimal]:
    return dict(plan.unit_weights.values_list("resource", "weight"))


@transaction.atomic
def units_grant(
    *, pool: Pool, tenant: Tenant, units: Decimal, reason: str, now: datetime
) -> UnitGrant:
    """Grant service units to a tenant's bank. Raises `Unacceptable` for a number that is not above 0."""
    pool = pool_lock(pool)
    if not 0 < units < LARGEST:
        raise Unacceptable(
            "A grant is above 0 and below 10^24.", code="units.amount", pointer="/units"
        )
    grant = UnitGrant.objects.create(
        pool=pool, tenant=tenant, units=units, reason=reason.strip(), granted_at=now
    )
    audit_record(action="units.grant", instance=grant, now=now, pool=pool.slug)
    for bank in banks_of(pool=pool, now=now, tenant=tenant):
        # A grant may leave a bank that was overdrawn below 0 still.
        if bank.balance > 0:
            _restore(pool, tenant, now)
    return grant


@transaction.atomic
def banks_check(*, pool: Pool, now: datetime) -> int:
    """Record an event for each empty bank, once per grant, and return their number.

    If the plan sets it, their tenants are best-effort from then on, until the bank is above 0 again.
    """
    # Before the lock: few pools have banks, and all are checked all the time.
    if not UnitGrant.objects.filter(pool=pool).exists():
        return 0
    pool = pool_lock(pool)
    exhausted = 0
    for bank in banks_of(pool=pool, now=now):
        if bank.balance > 0:
            _restore(pool, bank.tenant, now)
            continue
        last = UnitGrant.objects.filter(pool=pool, tenant=bank.tenant).order_by("-id").first()
        # Once per grant, also if several workers check at once: the pool is locked.
        if last is None or last.exhausted_at is not None:
            continue
        last.exhausted_at = now
        last.best_effort_from = now if _demote(pool, bank.tenant, now) else None
        last.save(update_fields=["exhausted_at", "best_effort_from"])
        event_record(
            kind="service_units.exhausted",
            pool=pool.slug,
            tenant=bank.tenant.slug,
            payload={
                "balance": decimal_text(bank.balance),
                "best_effort": last.best_effort_from is not None,
            },
            now=now,
        )
        exhausted += 1
    return exhausted


def _demote(pool: Pool, tenant: Tenant, now: datetime) -> bool:
    """Make a member best-effort if the plan in force sets it. Return whether the bank caused it."""
    plan = timeline(pool=pool, start=now, end=now + timedelta(seconds=1)).segments[0].plan
    terms = members_of(pool=pool, tenant=tenant).first()
    if plan is None or plan.exhausted != Exhausted.BEST_EFFORT or terms is None:
        return False
    if terms.best_effort:  # by an operator, or by this bank before it was refilled below 0
        return _demotions(pool, tenant).exists()
    _put_best_effort(pool, tenant, terms, True, now)
    return True


def _restore(pool: Pool, tenant: Tenant, now: datetime) -> None:
    """End the best effort that an empty bank caused, unless an operator has decided otherwise since."""
    since = _demotions(pool, tenant).aggregate(since=Min("best_effort_from"))["since"]
    if since is None:
        return
    terms = members_of(pool=pool, tenant=tenant).first()
    if terms is not None and terms.best_effort:
        # Terms in between without best effort show that an operator has set it anew since.
        held = MembershipTerms.objects.filter(membership=terms.membership, end__gt=since)
        if not held.filter(best_effort=False).exists():
            _put_best_effort(pool, tenant, terms, False, now)
    # Also if the terms were changed by hand: the bank is not their cause any more.
    _demotions(pool, tenant).update(best_effort_until=now)


def _demotions(pool: Pool, tenant: Tenant) -> QuerySet[UnitGrant]:
    """Return the grants whose exhaustion made a tenant best-effort, and still does."""
    return UnitGrant.objects.filter(
        pool=pool, tenant=tenant, best_effort_from__isnull=False, best_effort_until=None
    )


def _put_best_effort(
    pool: Pool, tenant: Tenant, terms: MembershipTerms, best_effort: bool, now: datetime
) -> None:
    member_put(
        pool=pool,
        tenant=tenant,
        weight=terms.weight,
        best_effort=best_effort,
        # Terms are replaced as a whole: the member stays where it is in the tree.
        group=terms.group.slug if terms.group else None,
        tier=terms.tier,
        version=terms.membership.version,
        now=now,
    )
