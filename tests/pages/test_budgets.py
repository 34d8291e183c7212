"""Budgets on the pages of a group, with the forms of its manager."""

from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine

from allocator_service.billing.budgets import BudgetDraft, BudgetSettings, Periods, budget_create
from allocator_service.billing.models import Budget
from allocator_service.core.clock import utc_now
from allocator_service.core.models import AuditEntry
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.ledger.models import UsageSource
from allocator_service.pools.budgets import Then
from allocator_service.pools.models import Pool
from tests import factories
from tests.pages.people import person_of_group
from tests.pages.test_amounts import by_key_and_as_person, tree
from tests.pages.test_pages import words

__all__ = ["tree"]  # fixtures of other modules

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("people_sign_in")]

NOW = "2026-12-15T12:00:00+00:00"
GROUP = "/my/groups/ml/budgets/"
MEMBER = "/my/members/ada/budgets/"
EMPTY = {"start": "", "end": "", "carry": "", "then": "", "thresholds": "100", "confirmed": ""}
NEW = {**EMPTY, "resource": "cpu", "amount": "100", "period": "P1M"}


@pytest.fixture
def clock(tree):
    with time_machine.travel(NOW, tick=False) as traveller:
        yield traveller


def used(tree, hours):
    """CPU-hours of ada in the last hour, spent of the budgets of ml."""
    now = utc_now()
    row = {
        "pool_id": tree.lab.pk, "tenant_id": tree.ada.pk, "server_owner_id": None, "workload_id": None,
        "resource": "cpu", "unit": "core", "quantity": Decimal(hours), "kind": "usage",
        "start": now, "end": now + timedelta(hours=1), "corrects": None, "reason": "",
        "source": "test", "event_id": None, "run_id": None, "recorded_at": now,
    }  # fmt: skip
    entries_append([row])
    entries_seal_all(now=now)


def budget(tree, node, amount, **more):
    settings = BudgetSettings(Decimal(amount), [100], **more)
    draft = BudgetDraft(node, "cpu", settings)
    return budget_create(pool=tree.lab, draft=draft, now=utc_now())


def generation(tree):
    return Pool.objects.get(pk=tree.lab.pk).generation


@by_key_and_as_person
def test_a_manager_creates_changes_and_withdraws_budgets_below_its_group(tree, clock, signed_in_by):
    visitor = signed_in_by(tree.science)
    assert 'href="/my/groups/ml/budgets/"' in visitor.text("/my/groups/ml/")
    assert "It has none." in words(visitor.text(GROUP))
    before = generation(tree)
    fields = {"carry": "10", "then": "stop", "thresholds": "50, 100"}
    answer = visitor.post(GROUP, GROUP, **{**NEW, **fields})
    assert (answer.status_code, answer["Location"]) == (302, GROUP)
    made = Budget.objects.get()
    assert (made.group.slug, made.resource, made.amount, made.per) == ("ml", "cpu", 100, "P1M")
    assert (made.carry, made.then, made.thresholds) == (Decimal("0.1"), "stop", [50, 100])
    assert generation(tree) == before + 1
    assert AuditEntry.objects.get(action="budget.create").actor.startswith(("key ", "user Person+"))
    one = f"{GROUP}{made.pk}/"
    page = visitor.text(one)
    assert 'value="100"' in page
    assert 'name="resource"' not in page
    changed = {**EMPTY, "amount": "80.5", "carry": "0", "then": "last", "version": "1"}
    assert visitor.post(one, one, **changed)["Location"] == GROUP
    made.refresh_from_db()
    assert (made.amount, made.carry, made.then, made.version) == (Decimal("80.5"), 0, "last", 2)
    assert visitor.post(one, one, **changed).status_code == 412
    asked = {"withdraw": str(made.pk), "version": "1"}
    assert visitor.post(GROUP, GROUP, **asked).status_code == 412
    assert visitor.post(GROUP, GROUP, **{**asked, "version": "2"})["Location"] == GROUP
    made.refresh_from_db()
    assert made.retired_at == utc_now()
    assert "It has none." in words(visitor.text(GROUP))
    assert visitor.get(one).status_code == 404


@by_key_and_as_person
def test_each_budget_shows_what_is_spent_and_left_and_until_when(tree, clock, signed_in_by):
    budget(tree, tree.ada, "40", then=Then.LAST, carry=Decimal("0.25"))
    used(tree, 10)
    clock.shift(timedelta(hours=12))
    text = words(signed_in_by(tree.science).text(MEMBER))
    assert "40 hours of cpu per calendar month" in text
    assert "Spent 10.00 hours Left 30.00 hours" in text
    assert "Period 1 December 2026 until 1 January 2027, 00:00 UTC" in text
    # 10 hours in the last day, so that 30 hours last three days more.
    assert "At the rate of the last day spent on 19 December 2026, 00:00 UTC" in text
    assert "Carried over at most 25 %" in text
    assert "everything below it is served after everybody else, until the period ends" in text


def test_a_budget_without_a_present_period_is_listed(tree, clock):
    later = Periods("", utc_now() + timedelta(days=20), utc_now() + timedelta(days=30))
    draft = BudgetDraft(tree.ml, "cpu", BudgetSettings(Decimal(7), [100]), later)
    budget_create(pool=tree.lab, draft=draft, now=utc_now())
    text = words(person_of_group(tree.science).text(GROUP))
    assert "7 hours of cpu Period none now" in text
    assert "In force from 4 January 2027, 12:00 UTC until 14 January 2027, 12:00 UTC" in text


@by_key_and_as_person
def test_a_budget_below_what_is_spent_is_confirmed_first(tree, clock, signed_in_by):
    """A budget that would have its effect at once, new and changed."""
    visitor = signed_in_by(tree.science)
    budget(tree, tree.ml, "100")
    used(tree, 30)
    effect = (
        "The budget of group ml is 20.00 hours of cpu, and 30.00 are spent in its present period: it"
        " gets no cpu until 1 January 2027, 00:00 UTC."
    )
    week = {**NEW, "amount": "20", "period": "P1Y", "then": "stop"}
    before = generation(tree)
    asked = visitor.post(GROUP, GROUP, **week)
    assert asked.status_code == 200
    shown = words(asked.content.decode())
    assert effect in shown
    assert "Nothing was changed yet." in shown
    assert 'name="confirmed" value="20"' in asked.content.decode()
    assert (Budget.objects.count(), generation(tree)) == (1, before)
    # A confirmation is that of the amount that was shown.
    lower = visitor.post(GROUP, GROUP, **{**week, "amount": "10", "confirmed": "20"})
    assert "The budget of group ml is 10.00 hours" in words(lower.content.decode())
    assert visitor.post(GROUP, GROUP, **{**week, "confirmed": "20"}).status_code == 302
    assert Budget.objects.get(per="P1Y").then == "stop"
    one = f"{GROUP}{Budget.objects.get(per='P1M').pk}/"
    change = {**EMPTY, "amount": "20", "then": "stop", "version": "1"}
    assert effect in words(visitor.post(one, one, **change).content.decode())
    assert Budget.objects.get(per="P1M").amount == 100
    assert visitor.post(one, one, **{**change, "confirmed": "20"}).status_code == 302
    assert Budget.objects.get(per="P1M").amount == 20


@by_key_and_as_person
def test_no_manager_changes_budgets_of_its_own_group_or_beside_it(tree, clock, signed_in_by):
    own, below = budget(tree, tree.science, "5"), budget(tree, tree.ml, "6")
    beside = budget(tree, tree.bob, "7")
    visitor = signed_in_by(tree.science)
    page = "/my/groups/science/budgets/"
    assert "5 hours of cpu" in words(visitor.text(page))
    assert 'name="amount"' not in visitor.text(page)
    one = f"{page}{own.pk}/"
    assert 'name="amount"' not in visitor.text(one)
    change = {**EMPTY, "amount": "1000", "version": "1"}
    withdrawal = {"withdraw": str(own.pk), "version": "1"}
    for path, fields in ((page, NEW), (page, withdrawal), (one, change)):
        assert visitor.post(path, page, **fields).status_code == 403
    # A budget of another node cannot be reached below a node of one's own.
    withdrawal = {"withdraw": str(beside.pk), "version": "1"}
    assert visitor.post(GROUP, GROUP, **withdrawal).status_code == 404
    for path in (
        f"{GROUP}{beside.pk}/",
        f"{GROUP}{own.pk}/",
        f"{GROUP}none/",
        "/my/groups/outertext/budgets/",
        "/my/groups/zootext/budgets/",
        "/my/members/bob/budgets/",
        f"/my/members/bob/budgets/{beside.pk}/",
    ):
        assert visitor.get(path).status_code == 404, path
        assert visitor.post(path, GROUP, **change).status_code == 404, path
    reader = signed_in_by(tree.science, "read")
    assert "6 hours of cpu" in words(reader.text(GROUP))
    for path in (GROUP, f"{GROUP}{below.pk}/"):
        assert 'name="amount"' not in reader.text(path)
        assert reader.post(path, "/my/group/", **change).status_code in (403, 404)
    amounts = Budget.objects.filter(retired_at=None).order_by("amount")
    assert list(amounts.values_list("amount", "version")) == [(5, 1), (6, 1), (7, 1)]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"amount": ""}, "This field is required."),
        ({"amount": "much"}, "much"),
        ({"amount": "0"}, "The amount must be greater than 0."),
        ({"resource": "gold"}, "gold is not one of the available choices."),
        ({"carry": "ten"}, "ten: expected a number from 0 to 100."),
        ({"carry": "1e9999999"}, "1e9999999: expected a number from 0 to 100."),
        ({"carry": "NaN"}, "NaN: expected a number from 0 to 100."),
        ({"carry": "150"}, "`carry` must be a number from 0 to 1."),
        ({"thresholds": "half"}, "half: expected whole percentages, such as 50, 100."),
        ({"thresholds": "0"}, "0"),
        ({"period": ""}, "A budget of one period must have both dates."),
        (
            {"start": "2027-02-01T00:00", "end": "2027-01-01T00:00"},
            "`to` must be later than `from`.",
        ),
        ({"amount": "9", "then": ""}, "The node has a budget of this kind and period in the pool."),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_changed(tree, clock, fields, sentence):
    budget(tree, tree.ml, "1000")
    visitor = person_of_group(tree.science)
    period = {} if "amount" in fields and "then" in fields else {"period": "P7D"}
    answer = visitor.post(GROUP, GROUP, **{**NEW, **period, **fields})
    assert answer.status_code == 422
    assert sentence in words(answer.content.decode())
    assert "Nothing was changed." in words(answer.content.decode())
    assert Budget.objects.get().amount == 1000


def test_a_policy_that_keeps_no_limits_has_no_budget_that_stops(world):
    pool = world.lab
    pool.policy_name = "lt-drf"
    pool.save()
    ml = factories.group(pool, "ml")
    factories.group(pool, "deep", "ml")
    visitor = person_of_group(ml)
    path = "/my/groups/deep/budgets/"
    answer = visitor.post(path, path, **{**NEW, "then": "stop"})
    assert answer.status_code == 422
    assert "limits" in words(answer.content.decode()).partition("Once it is spent")[2]
    assert visitor.post(path, path, **{**NEW, "then": "last"}).status_code == 302


def test_dates_are_those_of_the_pools_clock(tree, clock):
    tree.lab.timezone = "Europe/Berlin"
    tree.lab.save()
    dates = {"period": "", "start": "2027-01-01T00:00", "end": "2027-04-01T00:00"}
    visitor = person_of_group(tree.science)
    assert visitor.post(MEMBER, MEMBER, **{**NEW, **dates}).status_code == 302
    made = Budget.objects.get(tenant=tree.ada)
    assert made.per == ""
    assert made.starts_at.isoformat() == "2026-12-31T23:00:00+00:00"
    assert made.ends_at.isoformat() == "2027-03-31T22:00:00+00:00"


@by_key_and_as_person
def test_a_spent_budget_of_the_group_above_is_not_named(tree, clock, signed_in_by):
    budget(tree, tree.outer, "1", then=Then.STOP)
    used(tree, 2)
    factories.decision(tree.lab)
    member = words(signed_in_by(tree.science).text("/my/members/ada/"))
    assert "The limit of a group above yours is reached." in member
    for hidden in ("outertext", "spent until", "The budget of"):
        assert hidden not in member
    own = words(signed_in_by(tree.outer).text("/my/members/ada/"))
    assert "The budget of the group outertext, cpu hours, is spent until" in own


def test_a_budget_has_what_is_spent_on_each_cluster(tree, clock):
    visitor = person_of_group(tree.science)
    budget(tree, tree.ada, 100)
    used(tree, 30)
    assert "Spent by cluster" not in words(visitor.text(MEMBER))
    factories.server(tree.lab, "e", 4, 4, None, labels={"cluster": "east"})
    assert "Spent by cluster not known 30.00 hours" in words(visitor.text(MEMBER))
    UsageSource.objects.create(pool=tree.lab, source="test", cluster="east")
    assert "Spent by cluster east 30.00 hours" in words(visitor.text(MEMBER))
