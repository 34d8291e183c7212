"""Budgets and banks of service units tell once what they watch for."""

from datetime import timedelta
from decimal import Decimal

import pytest

from allocator_service.billing.budgets import (
    BudgetDraft,
    BudgetSettings,
    budget_create,
    budget_update,
    budgets_check,
)
from allocator_service.billing.models import BudgetReached
from allocator_service.billing.service_units import banks_check, banks_of, units_grant
from allocator_service.core.models import Event
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.models import Entry
from allocator_service.pools.group_services import GroupDraft, GroupSettings, groups_create
from allocator_service.pools.member_services import member_put, members_admit
from allocator_service.pools.models import Membership, MembershipTerms
from tests.integration.billing.conftest import at, publish, rate, seal, used

MARCH_31 = at(31)


def told(kind):
    return [event.payload for event in Event.objects.filter(kind=kind).order_by("id")]


@pytest.fixture
def billed(berlin, tenant):
    """Tenant a has used 10 core-hours of the pool, at 1 each, by the 2nd of March."""
    publish(berlin, at(1), rate(pooled="1"), unit_weights={"cpu": Decimal("0.5")})
    members_admit(pool=berlin, tenants=[tenant("a")], now=at(1))
    used(berlin, tenant("a"), None, 1, at(1), at(1, hour=10))
    seal()
    return berlin


def test_each_threshold_is_told_once_a_month(billed, tenant):
    settings = BudgetSettings(Decimal("12.5"), [50, 80, 100])
    draft = BudgetDraft(tenant("a"), "", settings)
    budget = budget_create(pool=billed, draft=draft, now=at(2))
    assert [budgets_check(pool=billed, now=at(2)) for _ in range(3)] == [2, 0, 0]
    first, second = told("budget.reached")
    assert (first["threshold"], first["spent"], first["month"]) == (50, "10", "2027-03")
    assert second["threshold"] == 80
    used(billed, tenant("a"), None, 1, at(3), at(3, hour=5))
    seal()
    assert budgets_check(pool=billed, now=at(4)) == 1
    assert told("budget.reached")[2]["threshold"] == 100
    budget_update(budget=budget, settings=settings, version=None, now=at(4))
    assert budgets_check(pool=billed, now=at(4)) == 0
    used(billed, tenant("a"), None, 1, at(1, 4), at(2, 4))
    seal()
    assert budgets_check(pool=billed, now=at(2, 4)) == 3
    assert BudgetReached.objects.count() == 6


def test_a_budget_of_hours_counts_a_resource(billed, tenant):
    settings = BudgetSettings(Decimal(10), [100])
    budget_create(pool=billed, draft=BudgetDraft(tenant("a"), "cpu", settings), now=at(2))
    assert budgets_check(pool=billed, now=at(2)) == 1
    payload = told("budget.reached")[0]
    assert (payload["resource"], payload["spent"], payload["amount"]) == ("cpu", "10", "10")


def test_the_bank_is_charged_by_weight(billed, tenant):
    """10 core-hours × 0.5 per core-second are 18,000 units."""
    a = tenant("a")
    units_grant(pool=billed, tenant=a, units=Decimal(20_000), reason="", now=at(1))
    (bank,) = banks_of(pool=billed, now=at(2))
    assert (bank.used, bank.balance) == (18_000, 2_000)
    assert banks_check(pool=billed, now=at(2)) == 0
    used(billed, a, None, 1, at(3), at(3, hour=2))
    seal()
    assert [banks_check(pool=billed, now=at(4)) for _ in range(2)] == [1, 0]
    assert told("service_units.exhausted") == [{"balance": "-1600", "best_effort": False}]
    units_grant(pool=billed, tenant=a, units=Decimal(1), reason="more", now=at(5))
    assert banks_check(pool=billed, now=at(6)) == 1


def test_whose_bank_is_empty_is_best_effort_if_the_plan_says_so(billed, tenant):
    a = tenant("a")
    publish(
        billed, at(2), rate(pooled="1"), unit_weights={"cpu": Decimal(1)}, exhausted="best_effort"
    )
    units_grant(pool=billed, tenant=a, units=Decimal(1), reason="", now=at(1))
    now = at(2) + timedelta(hours=1)
    assert banks_check(pool=billed, now=now) == 1
    assert told("service_units.exhausted")[0]["best_effort"] is True
    terms = MembershipTerms.objects.filter(membership__tenant=a).order_by("start")
    assert [(each.best_effort, each.end) for each in terms] == [(False, now), (True, None)]


@pytest.fixture
def emptied(billed, tenant):
    """The bank of tenant a is empty an hour into the 2nd of March, which made it best-effort."""
    publish(
        billed, at(2), rate(pooled="1"), unit_weights={"cpu": Decimal(1)}, exhausted="best_effort"
    )
    units_grant(pool=billed, tenant=tenant("a"), units=Decimal(1), reason="", now=at(1))
    assert banks_check(pool=billed, now=at(2, hour=1)) == 1
    return billed


def best_effort(tenant):
    terms = MembershipTerms.objects.filter(membership__tenant=tenant).order_by("start")
    return [each.best_effort for each in terms]


def test_a_bank_refilled_above_0_ends_the_best_effort_that_it_caused(emptied, tenant):
    a = tenant("a")
    units_grant(pool=emptied, tenant=a, units=Decimal(1), reason="not enough", now=at(3))
    assert [banks_check(pool=emptied, now=at(3, hour=hour)) for hour in (1, 2)] == [1, 0]
    assert told("service_units.exhausted")[-1]["best_effort"] is True
    assert best_effort(a) == [False, True]
    units_grant(pool=emptied, tenant=a, units=Decimal(100_000), reason="paid", now=at(4))
    assert best_effort(a) == [False, True, False]
    assert banks_check(pool=emptied, now=at(5)) == 0
    used(emptied, a, None, 100, at(5), at(6))
    seal()
    assert banks_check(pool=emptied, now=at(6)) == 1
    assert best_effort(a) == [False, True, False, True]


def test_an_empty_bank_leaves_a_member_in_its_group(billed, tenant):
    a = tenant("a")
    publish(
        billed, at(2), rate(pooled="1"), unit_weights={"cpu": Decimal(1)}, exhausted="best_effort"
    )
    drafts = [GroupDraft("ml", GroupSettings("Learning", None))]
    groups_create(pool=billed, drafts=drafts, now=at(1))
    version = Membership.objects.get(tenant=a).version
    member_put(
        pool=billed, tenant=a, weight=Decimal(2), best_effort=False, group="ml", tier=-1,
        version=version, now=at(1),
    )  # fmt: skip
    units_grant(pool=billed, tenant=a, units=Decimal(1), reason="", now=at(1))
    assert banks_check(pool=billed, now=at(2, hour=1)) == 1
    units_grant(pool=billed, tenant=a, units=Decimal(100_000), reason="paid", now=at(3))
    terms = MembershipTerms.objects.filter(membership__tenant=a, start__gte=at(1)).order_by("start")
    assert [(row.best_effort, row.group.slug, row.tier, row.weight) for row in terms] == [
        (False, "ml", -1, 2), (True, "ml", -1, 2), (False, "ml", -1, 2),
    ]  # fmt: skip


def test_a_correction_that_fills_the_bank_ends_it_too(emptied, tenant):
    entry_correct(entry=Entry.objects.get(), quantity=Decimal(0), reason="none ran", now=at(3))
    seal()
    assert banks_check(pool=emptied, now=at(3, hour=1)) == 0
    assert best_effort(tenant("a")) == [False, True, False]


def test_best_effort_by_an_operator_is_not_ended_by_a_grant(emptied, tenant):
    a = tenant("a")
    for day, wanted in ((3, False), (4, True)):
        member = Membership.objects.get(tenant=a)
        member_put(
            pool=emptied, tenant=a, weight=Decimal(1), best_effort=wanted,
            version=member.version, now=at(day),
        )  # fmt: skip
    units_grant(pool=emptied, tenant=a, units=Decimal(100_000), reason="paid", now=at(5))
    assert best_effort(a) == [False, True, False, True]


def test_best_effort_of_before_the_bank_was_empty_stays(billed, tenant):
    a = tenant("a")
    publish(
        billed, at(2), rate(pooled="1"), unit_weights={"cpu": Decimal(1)}, exhausted="best_effort"
    )
    units_grant(pool=billed, tenant=a, units=Decimal(1), reason="", now=at(1))
    version = Membership.objects.get(tenant=a).version
    member_put(
        pool=billed, tenant=a, weight=Decimal(1), best_effort=True, version=version, now=at(2)
    )
    assert banks_check(pool=billed, now=at(2, hour=1)) == 1
    units_grant(pool=billed, tenant=a, units=Decimal(100_000), reason="paid", now=at(3))
    assert best_effort(a) == [False, True]
