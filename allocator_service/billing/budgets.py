"""Budgets of nodes per period, with one event at each threshold that is reached."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django.db import transaction

from allocator_service.billing.balances import Balance, balances, budgets_for
from allocator_service.billing.models import Budget, BudgetReached
from allocator_service.billing.models.watching import CALENDAR_MONTH
from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.dates import date_range_text, is_settable
from allocator_service.core.display import instant_text, money_text
from allocator_service.core.durations import parse_duration
from allocator_service.core.errors import Unacceptable
from allocator_service.core.models import AuditEntry
from allocator_service.core.money import exactly
from allocator_service.core.outbox import event_record
from allocator_service.core.quantities import decimal_text
from allocator_service.core.versions import check_version
from allocator_service.pools.budgets import Then, effect_text, node_text
from allocator_service.pools.limits import MAX_OF_POOL, limits_count, refuse_limits
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Group, Pool
from allocator_service.pools.moving import refuse_moved
from allocator_service.pools.recompute import pool_changed
from allocator_service.pools.selectors import groups_of, resources_of
from allocator_service.tenants.models import Tenant

MAX_THRESHOLDS = 20
HIGHEST_THRESHOLD = 1_000
MAX_BUDGETS = 2_000


@dataclass(frozen=True)
class Periods:
    """The periods of a budget.

    They have the duration `per` and start at `start` or, without it, with the calendar. Without `per`
    there is one, from `start` to `end`.
    """

    per: str = CALENDAR_MONTH
    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True)
class BudgetSettings:
    """Editable fields of a budget.

    `amount` is money, or hours of a resource, and `thresholds` are percentages of it. `carry` is the
    fraction of it that is carried over unused.
    """

    amount: Decimal
    thresholds: Sequence[int]
    carry: Decimal = Decimal(0)
    then: Then = Then.NOTIFY


@dataclass(frozen=True)
class BudgetDraft:
    """A budget to create for a tenant or a group.

    `resource` is empty for a budget of money.
    """

    node: Tenant | Group
    resource: str
    settings: BudgetSettings
    periods: Periods = field(default_factory=Periods)


@transaction.atomic
def budget_create(*, pool: Pool, draft: BudgetDraft, now: datetime) -> Budget:
    """Give a node of a pool a budget.

    A budget that binds counts from the next decision on. Raises `Unacceptable` for an unknown resource
    and for settings that are invalid or contradict each other. A second budget of the node for the
    same resource and periods is a conflict (`budget.exists`).
    """
    pool = pool_lock(pool)
    if draft.resource and draft.resource not in [each.name for each in resources_of(pool)]:
        raise Unacceptable(
            f'The pool has no resource "{draft.resource[:80]}".',
            code="resource.unknown",
            pointer="/resource",
        )
    group = draft.node if isinstance(draft.node, Group) else None
    if group is not None and not groups_of(pool=pool).filter(pk=group.pk).exists():
        raise Unacceptable(
            f'The pool has no group "{group.slug}".', code="group.unknown", pointer="/group"
        )
    # Every decision reads all that bind, and every check all of them.
    if Budget.objects.filter(pool=pool, retired_at=None).count() >= MAX_BUDGETS:
        raise Unacceptable(
            f"The pool has {MAX_BUDGETS:,} budgets, and no more are allowed.",
            code="budget.too_many",
        )
    _refuse_periods(draft.periods)
    _refuse_settings(draft.settings, per=draft.periods.per)
    if not draft.resource:
        _refuse_money(draft)
    # A new budget counts as a limit that was not there before.
    _refuse_stop(pool, draft.settings, before=Then.NOTIFY)
    budget = Budget.objects.create(
        pool=pool,
        tenant=draft.node if isinstance(draft.node, Tenant) else None,
        group=group,
        resource=draft.resource,
        per=draft.periods.per,
        starts_at=draft.periods.start,
        ends_at=draft.periods.end,
        created_at=now,
        **_stored(draft.settings),
    )
    # One that only notifies changes no decision.
    if budget.then:
        pool_changed(pool, now=now)
    audit_record(action="budget.create", instance=budget, now=now, pool=pool.slug)
    return budget


@transaction.atomic
def budget_update(
    *, budget: Budget, settings: BudgetSettings, version: int | None, now: datetime
) -> Budget:
    """Change the settings of a budget from the next decision on, for its present period as a whole.

    A threshold that was reported in the period is not reported again. Raises `Stale` and `Unacceptable`.
    """
    budget = _locked(budget, version)
    _refuse_settings(settings, per=budget.per)
    if not budget.resource:
        _refuse_money(BudgetDraft(budget.node, "", settings))
    _refuse_stop(budget.pool, settings, before=Then(budget.then))
    before, bound = stated_fields(budget), budget.then
    for name, value in _stored(settings).items():
        setattr(budget, name, value)
    budget.version += 1
    budget.save()
    # A budget that only notifies changes no decision, so that none is requested.
    if bound or budget.then:
        pool_changed(budget.pool, now=now)
    audit_record(
        action="budget.update", instance=budget, before=before, now=now, pool=budget.pool.slug
    )
    return budget


@transaction.atomic
def budget_retire(*, budget: Budget, version: int | None, now: datetime) -> None:
    """Retire a budget. A budget that bound has no effect from the next decision on."""
    budget = _locked(budget, version)
    budget_end(budget, now)
    if budget.then:
        pool_changed(budget.pool, now=now)


def budget_end(budget: Budget, now: datetime) -> None:
    """Retire a budget of a locked pool, and record it in the audit."""
    before = stated_fields(budget)
    budget.retired_at = now
    budget.version += 1
    budget.save(update_fields=["retired_at", "version"])
    audit_record(
        action="budget.retire", instance=budget, before=before, now=now, pool=budget.pool.slug
    )


def budget_warning(budget: Budget, *, now: datetime) -> str:
    """Return the effect of a budget that its present period has exhausted already, empty otherwise."""
    found = balances(pool=budget.pool, budgets=[budget], now=now)
    if not found or not found[0].is_exhausted:
        return ""
    (balance,) = found
    of = f" of {budget.resource}" if budget.resource else ""
    whose = node_text(budget.scope, budget.node.slug)
    until = instant_text(balance.period.end, budget.pool.timezone)
    available = money_text(balance.available_text, balance.unit)
    spent = money_text(balance.spent_text)
    effect = effect_text(budget.then, budget.resource)
    return (
        f"The budget of {whose} is {available}{of}, and {spent} are spent in its present period:"
        f" {effect} until {until}."
    )


@dataclass(frozen=True)
class BudgetTerms:
    """The settings of a budget over an interval. The present ones have no end."""

    settings: BudgetSettings
    start: datetime
    end: datetime | None


def budget_history(budget: Budget) -> list[BudgetTerms]:
    """Return the settings of a budget over time, oldest first, as the audit recorded them."""
    entries = AuditEntry.objects.filter(
        object_type=str(Budget._meta.model_name), object_id=str(budget.pk)
    ).order_by("id")
    changes = [(entry.at, entry.after) for entry in entries]
    # An entry states the budget after a change, which therefore holds until the next one.
    ends = [at for at, _ in changes[1:]]
    values: dict[str, Any] = {"carry": "0", "then": ""}  # recorded before budgets had them
    terms = []
    for (start, after), end in zip(changes, [*ends, budget.retired_at], strict=True):
        # Later entries may state changed fields alone, and the others hold on.
        values |= after
        settings = BudgetSettings(
            Decimal(values["amount"]),
            values["thresholds"],
            Decimal(values["carry"]),
            Then(values["then"]),
        )
        terms.append(BudgetTerms(settings, start, end))
    return terms


def _locked(budget: Budget, version: int | None) -> Budget:
    pool = pool_lock(budget.pool)
    # Read again under the lock: its version may have changed since.
    budget = Budget.objects.select_related("tenant", "group").get(pk=budget.pk)
    budget.pool = pool
    check_version(budget.version, version)
    return budget


def _stored(settings: BudgetSettings) -> dict[str, object]:
    """Return the settings by the fields of `Budget`."""
    return {
        "amount": settings.amount,
        # Ascending, on which `budgets_check` relies.
        "thresholds": sorted(set(settings.thresholds)),
        "carry": settings.carry,
        "then": settings.then.value,
    }


def _refuse_periods(periods: Periods) -> None:
    """Raise `Unacceptable` for periods that are undefined, not whole days, or out of range."""
    start, end = periods.start, periods.end
    if periods.per:
        # Events and pages name a period by its first day.
        if parse_duration(periods.per, pointer="/per").seconds:
            raise Unacceptable(
                "`per` must be whole days, weeks, months or years, such as P7D or P1M.",
                code="budget.period",
                pointer="/per",
            )
    elif start is None or end is None:
        raise Unacceptable(
            "A budget must have `per`, or both `from` and `to`.",
            code="budget.period",
            pointer="/per",
        )
    for name, instant in (("from", start), ("to", end)):
        if instant is not None and not is_settable(instant):
            raise Unacceptable(date_range_text(name), code="budget.period", pointer=f"/{name}")
    if start is not None and end is not None and end <= start:
        raise Unacceptable("`to` must be later than `from`.", code="budget.period", pointer="/to")


def _refuse_settings(settings: BudgetSettings, *, per: str) -> None:
    if settings.amount <= 0:
        raise Unacceptable(
            "The amount must be greater than 0.", code="budget.amount", pointer="/amount"
        )
    if not 0 <= settings.carry <= 1:
        raise Unacceptable(
            "`carry` must be a number from 0 to 1.", code="budget.carry", pointer="/carry"
        )
    if settings.carry and not per:
        raise Unacceptable(
            "A budget without `per` has one period, so nothing can be carried over.",
            code="budget.carry",
            pointer="/carry",
        )
    ordered = sorted(set(settings.thresholds))
    few = 1 <= len(ordered) <= MAX_THRESHOLDS
    if not few or not 1 <= ordered[0] <= ordered[-1] <= HIGHEST_THRESHOLD:
        raise Unacceptable(
            f"Expected 1 to {MAX_THRESHOLDS} percentages from 1 to {HIGHEST_THRESHOLD}.",
            code="budget.thresholds",
            pointer="/thresholds",
        )


def _refuse_money(draft: BudgetDraft) -> None:
    """Raise `Unacceptable` for a budget of money that is not a tenant's per month, or that binds."""
    wrong = {
        "/group": isinstance(draft.node, Group),
        "/per": draft.periods != Periods(),
        "/carry": draft.settings.carry > 0,
        "/then": draft.settings.then != Then.NOTIFY,
    }
    for pointer, differs in wrong.items():
        if differs:
            raise Unacceptable(
                "A budget of money must be for a tenant, per calendar month, without `carry` and `then`."
                " Name a resource for any other budget.",
                code="budget.money",
                pointer=pointer,
            )


def _refuse_stop(pool: Pool, settings: BudgetSettings, *, before: Then) -> None:
    """Raise `Unacceptable` for a budget that stops its node where limits are not kept or too many."""
    if settings.then != Then.STOP:
        return
    # An exhausted budget that stops is a limit of 0, which a policy without limits would ignore.
    refuse_limits(pool.policy_name, pool.policy_options, pointer="/then")
    if before != Then.STOP and limits_count(pool) >= MAX_OF_POOL:
        raise Unacceptable(
            f'A budget with `then` "stop" counts as a limit. The pool has {MAX_OF_POOL:,} limits,'
            " guarantees, loans and such budgets already, and no more are allowed.",
            code="limit.too_many",
            pointer="/then",
        )


@transaction.atomic
@exactly
def budgets_check(*, pool: Pool, now: datetime) -> int:
    """Record an event for each threshold that a budget of the pool has newly reached.

    Idempotent: a threshold is reported once per period. Returns the number of events.
    """
    refuse_moved(pool.pk)
    recorded = 0
    for balance in balances(pool=pool, budgets=list(budgets_for(pool, None)), now=now):
        for threshold in balance.budget.thresholds:
            if balance.spent * 100 < balance.available * threshold:
                # Thresholds are stored in ascending order: none of the rest is reached either.
                break
            if _claim_threshold(balance, threshold, now):
                recorded += 1
                _record_reached(balance, threshold, now)
    return recorded


def _claim_threshold(balance: Balance, threshold: int, now: datetime) -> bool:
    """Store that a threshold was reached. Return False if it was stored before."""
    zone = ZoneInfo(balance.budget.pool.timezone)
    # The unique row is the claim: of workers that check at once, one records the event.
    _, is_new = BudgetReached.objects.get_or_create(
        budget=balance.budget,
        month=balance.period.start.astimezone(zone).date(),
        threshold=threshold,
        defaults={"spent": balance.written(balance.spent), "at": now},
    )
    return is_new


def _record_reached(balance: Balance, threshold: int, now: datetime) -> None:
    budget, period = balance.budget, balance.period
    first = period.start.astimezone(ZoneInfo(budget.pool.timezone))
    is_month = budget.per == CALENDAR_MONTH and budget.starts_at is None
    event_record(
        kind="budget.reached",
        # Members of the pool see its events without a tenant, and a group's use is not for them.
        pool=budget.pool.slug if budget.tenant else None,
        tenant=budget.tenant.slug if budget.tenant else None,
        payload={
            "budget": str(budget.pk),
            "pool": budget.pool.slug,
            "group": budget.group.slug if budget.group else None,
            "month": f"{first:%Y-%m}" if is_month else None,
            "from": period.start.isoformat(),
            "to": period.end.isoformat(),
            "threshold": threshold,
            "resource": budget.resource or None,
            "currency": None if budget.resource else budget.pool.currency,
            "amount": decimal_text(balance.written(balance.available)),
            "spent": decimal_text(balance.written(balance.spent)),
        },
        now=now,
    )
