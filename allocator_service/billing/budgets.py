"""Budgets: what a tenant means to spend in a month, and one event at each threshold that it reaches."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, localcontext

from django.db import transaction
from django.db.models import QuerySet

from allocator_service.billing.models import Budget, BudgetReached
from allocator_service.billing.months import HOUR_SECONDS, Month, month_of
from allocator_service.billing.rating.lines import minor_digits
from allocator_service.billing.statements.documents import account_totals, money_text
from allocator_service.billing.statements.drafting import first_month, month_draft
from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.errors import Unacceptable
from allocator_service.core.money import exactly
from allocator_service.core.outbox import event_record
from allocator_service.core.quantities import EXACT_DIGITS, decimal_text
from allocator_service.core.versions import check_version
from allocator_service.ledger.models import Kind
from allocator_service.ledger.reporting.amounts import amounts_within
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant

MAX_THRESHOLDS = 20
HIGHEST_THRESHOLD = 1_000
_HOUR_DIGITS = 2


@dataclass(frozen=True)
class BudgetSettings:
    """What operators edit: money, or hours of a resource, and per cents of it."""

    amount: Decimal
    thresholds: Sequence[int]


def budgets_for(pool: Pool, tenant: Tenant | None) -> QuerySet[Budget]:
    """The budgets that a caller may see: all of the pool, or a tenant's own."""
    budgets = Budget.objects.filter(pool=pool, retired_at=None).select_related("tenant", "pool")
    return budgets if tenant is None else budgets.filter(tenant=tenant)


@transaction.atomic
def budget_create(
    *, pool: Pool, tenant: Tenant, resource: str, settings: BudgetSettings, now: datetime
) -> Budget:
    """Give a tenant a budget; a second one of its kind is a conflict (`budget.exists`)."""
    pool = pool_lock(pool)
    if resource and resource not in [each.name for each in resources_of(pool)]:
        raise Unacceptable(
            f'The pool has no resource "{resource[:80]}".',
            code="resource.unknown",
            pointer="/resource",
        )
    budget = Budget.objects.create(
        pool=pool,
        tenant=tenant,
        resource=resource,
        amount=_amount(settings.amount),
        thresholds=_thresholds(settings.thresholds),
        created_at=now,
    )
    audit_record(action="budget.create", instance=budget, now=now, pool=pool.slug)
    return budget


@transaction.atomic
def budget_update(
    *, budget: Budget, settings: BudgetSettings, version: int | None, now: datetime
) -> Budget:
    """Change amount and thresholds; what was told this month is not told again."""
    budget = _locked(budget, version)
    before = stated_fields(budget)
    budget.amount, budget.thresholds = _amount(settings.amount), _thresholds(settings.thresholds)
    budget.version += 1
    budget.save()
    audit_record(
        action="budget.update", instance=budget, before=before, now=now, pool=budget.pool.slug
    )
    return budget


@transaction.atomic
def budget_retire(*, budget: Budget, version: int | None, now: datetime) -> None:
    """Watch a budget no longer; what it told stays."""
    budget = _locked(budget, version)
    before = stated_fields(budget)
    budget.retired_at = now
    budget.version += 1
    budget.save(update_fields=["retired_at", "version"])
    audit_record(
        action="budget.retire", instance=budget, before=before, now=now, pool=budget.pool.slug
    )


def _locked(budget: Budget, version: int | None) -> Budget:
    pool_lock(budget.pool)
    budget = Budget.objects.select_related("pool", "tenant").get(pk=budget.pk)
    check_version(budget.version, version)
    return budget


def _amount(amount: Decimal) -> Decimal:
    if amount <= 0:
        raise Unacceptable("A budget is above 0.", code="budget.amount", pointer="/amount")
    return amount


def _thresholds(thresholds: Sequence[int]) -> list[int]:
    ordered = sorted(set(thresholds))
    few = 1 <= len(ordered) <= MAX_THRESHOLDS
    if not few or not 1 <= ordered[0] <= ordered[-1] <= HIGHEST_THRESHOLD:
        raise Unacceptable(
            f"Thresholds are 1 to {MAX_THRESHOLDS} per cents from 1 to {HIGHEST_THRESHOLD}.",
            code="budget.thresholds",
            pointer="/thresholds",
        )
    return ordered


@transaction.atomic
@exactly
def budgets_check(*, pool: Pool, now: datetime) -> int:
    """Tell each threshold that a budget of the pool has reached this month; returns how many were new.

    A threshold is told once per month, whoever checks and how often.
    """
    budgets = list(budgets_for(pool, None))
    if not budgets:
        return 0
    month = month_of(now, pool.timezone)
    told = 0
    for budget, spent in _spent(pool, month, budgets):
        for threshold in budget.thresholds:
            if spent * 100 < budget.amount * threshold:
                break
            reached = BudgetReached(
                budget=budget, month=month.first, threshold=threshold, spent=spent, at=now
            )
            if _claimed(reached):
                told += 1
                event_record(
                    kind="budget.reached",
                    pool=pool.slug,
                    tenant=budget.tenant.slug,
                    payload={
                        "budget": str(budget.pk),
                        "month": str(month),
                        "threshold": threshold,
                        "resource": budget.resource or None,
                        "amount": decimal_text(budget.amount),
                        "spent": decimal_text(spent),
                    },
                    now=now,
                )
    return told


def _claimed(reached: BudgetReached) -> bool:
    """Store that a threshold was reached, unless it was before."""
    _, new = BudgetReached.objects.get_or_create(
        budget=reached.budget,
        month=reached.month,
        threshold=reached.threshold,
        defaults={"spent": reached.spent, "at": reached.at},
    )
    return new


@dataclass(frozen=True)
class Balance:
    """A budget with what was spent of it in the current month."""

    budget: Budget
    spent: Decimal
    digits: int

    @property
    def left(self) -> Decimal:
        """The amount that remains, below 0 if more was spent."""
        return self.budget.amount - self.spent

    @property
    def unit(self) -> str:
        """Unit of the amounts."""
        return "hours" if self.budget.resource else str(self.budget.pool.currency)

    @property
    def left_text(self) -> str:
        """Remaining amount, rounded to the currency's minor unit, or to hundredths of an hour."""
        return money_text(self.left, self.digits)

    @property
    def amount_text(self) -> str:
        """The budget, rounded as what remains."""
        return money_text(self.budget.amount, self.digits)


@exactly
def budget_balances(*, pool: Pool, tenant: Tenant, now: datetime) -> list[Balance]:
    """Return a tenant's budgets in a pool with what it has spent of each in the current month."""
    budgets = list(budgets_for(pool, tenant))
    if not budgets:
        return []
    spent = _spent(pool, month_of(now, pool.timezone), budgets, tenant)
    return [
        Balance(budget, amount, _HOUR_DIGITS if budget.resource else minor_digits(pool))
        for budget, amount in spent
    ]


def _spent(
    pool: Pool, month: Month, budgets: Sequence[Budget], tenant: Tenant | None = None
) -> list[tuple[Budget, Decimal]]:
    """Return what each budget's tenant has spent of it in a month.

    `tenant` is that of all the budgets, if they have one only.
    """
    money: dict[int, Decimal] = {}
    hours: dict[tuple[int, str], Decimal] = {}
    if any(not budget.resource for budget in budgets) and first_month(pool) is not None:
        money, _, _ = account_totals(
            month_draft(pool=pool, month=month, tenant=None if tenant is None else tenant.pk).lines
        )
    if any(budget.resource for budget in budgets):
        amounts = amounts_within(
            pool=pool, period=Period([month.start, month.end]), tenant=tenant, values=1
        )
        with localcontext(prec=EXACT_DIGITS):
            for use, _, amount in amounts.all_intervals():
                if use.kind == Kind.USAGE:
                    key = (use.tenant, use.resource)
                    hours[key] = hours.get(key, Decimal(0)) + amount / HOUR_SECONDS
    return [
        (
            budget,
            hours.get((budget.tenant_id, budget.resource), Decimal(0))
            if budget.resource
            else money.get(budget.tenant_id, Decimal(0)),
        )
        for budget in budgets
    ]
