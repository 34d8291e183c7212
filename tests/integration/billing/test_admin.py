"""Money in the admin: a plan from draft to publication, a month from what it lacks to its page."""

import csv
import json
import re
from decimal import Decimal

import pytest
import time_machine
from django.contrib.auth import get_user_model
from django.urls import reverse

from allocator_service.billing.admin.statements import DOWNLOADS
from allocator_service.billing.models import (
    Budget,
    Closing,
    CreditNote,
    Posting,
    PricePlan,
    Rerating,
    Statement,
)
from allocator_service.billing.statements.paper import typesetting
from allocator_service.core.quantities import decimal_text
from allocator_service.ledger.models import Entry
from allocator_service.pools.group_services import GroupDraft, GroupSettings, groups_create
from allocator_service.pools.member_services import members_admit
from tests.integration.billing.conftest import APRIL_2, at, seal, used
from tests.statements import pdf_text


@pytest.fixture
def admin(client, worked, monkeypatch):
    """A superuser on the 2nd of April."""
    for module in ("plans", "statements", "budgets"):
        monkeypatch.setattr(f"allocator_service.billing.admin.{module}.utc_now", lambda: APRIL_2)
    client.force_login(get_user_model().objects.create_superuser("operator"))
    return client


def plan_form(pool, **changes):
    return {
        "pool": pool.pk,
        "name": "from April",
        "start_0": "2027-03-31",
        "start_1": "22:00:00",
        "fee": "0.1",
        "increment": "exact",
        "exhausted": "event",
        "prices": "cpu own=0.02 shared=0.08 outside=0.12\ncpu on=b shared=0.1",
        **changes,
    }


def test_a_plan_is_drafted_previewed_and_published(admin, worked):
    answer = admin.post(reverse("admin:billing_priceplan_add"), plan_form(worked))
    assert answer.status_code == 302, answer.content.decode()
    plan = PricePlan.objects.get(state="draft")
    assert plan.start == at(1, 4)
    preview = reverse("admin:billing_priceplan_preview", args=[plan.pk])
    page = admin.get(preview).content.decode()
    assert "The usage of March 2027 in" in page
    assert "102.03" in page
    assert "211.26" in page  # 4,458 × 0.02 + 1,221 × 0.10
    assert admin.post(preview, {"reason": "agreed"}).status_code == 302
    plan.refresh_from_db()
    assert plan.state == "published"
    change = reverse("admin:billing_priceplan_change", args=[plan.pk])
    page = admin.get(change).content
    assert b'name="_save"' not in page
    assert b"cpu on=b shared=0.1" in page


def test_tiers_are_written_and_shown_in_one_line(admin, worked):
    line = "cpu own=0.02 tiers=10000:0,0.02"
    answer = admin.post(reverse("admin:billing_priceplan_add"), plan_form(worked, prices=line))
    assert answer.status_code == 302
    plan = PricePlan.objects.get(state="draft")
    assert plan.rates.get().tiers == [["10000", "0"], [None, "0.02"]]
    change = reverse("admin:billing_priceplan_change", args=[plan.pk])
    assert line in admin.get(change).content.decode()
    preview = reverse("admin:billing_priceplan_preview", args=[plan.pk])
    assert "102.03" in admin.get(preview).content.decode()


def test_the_form_of_a_plan_explains_its_choices(admin, worked):
    page = admin.get(reverse("admin:billing_priceplan_add")).content.decode()
    for text in (
        "Billed time", "whole hours, rounded up for each usage event",
        "When service units run out", "an event reports it, and the tenant gets only what others",
        "0.05 for 5 %",
    ):  # fmt: skip
        assert text in page
    assert "Exhausted" not in page
    admin.post(reverse("admin:billing_priceplan_add"), plan_form(worked))
    plan = PricePlan.objects.get(state="draft")
    admin.post(reverse("admin:billing_priceplan_preview", args=[plan.pk]))
    page = admin.get(reverse("admin:billing_priceplan_change", args=[plan.pk])).content.decode()
    for text in ("Billed time", "exact time", "When service units run out", "an event reports it"):
        assert text in page
    assert "second-min-60" not in page


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prices": "gpu own=1"}, "no resource"),
        ({"prices": "cpu own=x"}, "a price is a decimal"),
        ({"prices": "cpu own=NaN"}, "a price is a decimal"),
        ({"prices": "cpu"}, "prices are own"),
        ({"prices": "cpu on=nobody own=1"}, "No tenant"),
        ({"prices": "cpu own=-1"}, "at least 0"),
        ({"prices": "cpu tiers=x:1,2"}, "write tiers as"),
        ({"prices": "cpu tiers=NaN"}, "write tiers as"),
        ({"prices": "cpu on=a\0 own=1"}, "No tenant"),
        ({"prices": "cpu own=1e999999"}, "a price is a decimal"),
        ({"prices": "cpu own=\uff11"}, "a price is a decimal"),
        ({"prices": "cpu tiers=1e9999999:1,2"}, "write tiers as"),
        ({"start_0": "9999-12-31"}, "`from` must be between 2000 and 2200."),
        ({"end_0": "9999-12-31", "end_1": "00:00:00"}, "`to` must be between 2000 and 2200."),
        ({"prices": "cpu tiers=-1"}, "at least 0"),
        ({"prices": "cpu tiers=10:1"}, "every tier but the last"),
        ({"increment": "hour-up"}, "charged exactly"),
    ],
)
def test_what_cannot_be_a_plan_is_said_on_the_form(admin, worked, changes, said):
    answer = admin.post(reverse("admin:billing_priceplan_add"), plan_form(worked, **changes))
    assert (answer.status_code, said in answer.content.decode()) == (200, True)
    assert not PricePlan.objects.filter(state="draft").exists()


def test_a_month_is_shown_and_closed(admin, worked, tenant):
    used(worked, tenant("a"), None, 1, at(2), at(3))  # the plan has no price for the pool's servers
    seal()
    assert "Research lab" in admin.get(reverse("admin:billing_closing_changelist")).content.decode()
    open_ = reverse("admin:billing_closing_open", args=[worked.pk])
    page = admin.get(open_).content.decode()
    for text in (
        "102.03",
        "-21.99",
        "Nothing is missing.",
        "The plan has no price for the resource",
        ">24<",
    ):
        assert text in page, text
    sheet = reverse("admin:billing_closing_page", args=[worked.pk, tenant("a").pk])
    assert "102.03 EUR" in admin.get(sheet).content.decode()
    assert admin.post(open_, {"month": "2027-03", "reason": "checked"}).status_code == 302
    assert Closing.objects.get().sequence == 7
    page = admin.get(open_).content.decode()
    assert "The month ends on 1 May 2027, 00:00" in page
    assert "The month ends" in admin.post(open_, {"month": "2027-04"}).content.decode()
    stored = Statement.objects.get(tenant=tenant("a"))
    sent = admin.get(reverse("admin:billing_statement_page", args=[stored.pk])).content.decode()
    assert "closed" in sent
    assert "10.22" in sent  # 52.01 + 502 × 0.12 − 102.03


def test_months_are_found_and_read_by_their_names(admin, worked):
    admin.post(reverse("admin:billing_closing_open", args=[worked.pk]), {"month": "2027-03"})
    for model, lookup in (("closing", "month"), ("statement", "closing__month")):
        path = reverse(f"admin:billing_{model}_changelist")
        page = admin.get(path).content.decode()
        (choice,) = re.findall(rf'<a href="\?{lookup}=([^"]+)"[^>]*>\s*March 2027', page)
        assert choice == "2027-03-01"
        shown = admin.get(path, {lookup: choice}).context["cl"].result_count
        assert (shown, "Today" in page) == (admin.get(path).context["cl"].result_count, False)
        assert admin.get(path, {lookup: "2027-02-01"}).context["cl"].result_count == 0
    closing = Closing.objects.get()
    page = admin.get(reverse("admin:billing_closing_change", args=[closing.pk])).content.decode()
    assert f"<h1>{worked.name}: March 2027</h1>" in page
    for text in (
        "1 March 2027, 00:00 CET to 1 April 2027, 00:00 CEST",
        "Last ledger entry of the month",
        f">{closing.sequence}<",
        ">Statements</a>",
    ):
        assert text in page, text


def test_credit_notes_and_reratings(admin, worked, tenant):
    note = {"pool": worked.pk, "tenant": tenant("a").pk, "amount": "5", "reason": "outage"}
    assert admin.post(reverse("admin:billing_creditnote_add"), note).status_code == 302
    taken = {"action": "take_back", "_selected_action": [CreditNote.objects.get().pk]}
    path = reverse("admin:billing_creditnote_changelist")
    assert "needs a reason" in admin.post(path, taken, follow=True).content.decode()
    admin.post(path, {**taken, "reason": "none"})
    assert sorted(CreditNote.objects.values_list("amount", "reason")) == [
        (-5, "none"),
        (5, "outage"),
    ]
    admin.post(reverse("admin:billing_closing_open", args=[worked.pk]), {"month": "2027-03"})
    form = plan_form(
        worked, start_0="2027-03-15", start_1="00:00:00", end_0="2027-03-20", end_1="00:00:00"
    )
    admin.post(reverse("admin:billing_priceplan_add"), form)
    draft = PricePlan.objects.get(state="draft")
    path = reverse("admin:billing_priceplan_changelist")
    admin.post(path, {"action": "rerate", "_selected_action": [draft.pk], "reason": "agreed"})
    assert Rerating.objects.get().reason == "agreed"


def test_a_closed_statement_shows_its_lines(admin, worked, tenant):
    admin.post(reverse("admin:billing_closing_open", args=[worked.pk]), {"month": "2027-03"})
    stored = Statement.objects.get(tenant=tenant("a"))
    page = admin.get(reverse("admin:billing_statement_change", args=[stored.pk])).content.decode()
    for text in ("Usage, cpu, on servers of b", "861", "0.05", "43.05", "4.30", "102.03"):
        assert text in page, text
    stored = Statement.objects.get(tenant=tenant("b"))
    page = admin.get(reverse("admin:billing_statement_change", args=[stored.pk])).content.decode()
    assert "used by a" in page
    assert "-38.75" in page


def test_statements_are_listed_newest_first_then_in_the_order_of_their_numbers(
    admin, worked, tenant, monkeypatch
):
    names = ["a", "b", "c", "n-2", "n-9", "n-10", "n-100"]
    members_admit(pool=worked, tenants=[tenant(slug) for slug in reversed(names)], now=at(2))
    monkeypatch.setattr("allocator_service.billing.admin.statements.utc_now", lambda: at(2, 5))
    for month, day in (("2027-03", at(2, 4)), ("2027-04", at(2, 5))):
        seal(day)
        admin.post(reverse("admin:billing_closing_open", args=[worked.pk]), {"month": month})
    page = admin.get(reverse("admin:billing_statement_changelist")).content.decode()
    cells = [
        re.findall(f"field-{name}[^>]*>(?:<a[^>]*>)?([^<]*)", page) for name in ("month", "tenant")
    ]
    shown = list(zip(*cells, strict=True))
    assert shown == [(month, name) for month in ("April 2027", "March 2027") for name in names]


def test_a_statement_has_its_currency_and_downloads(admin, worked, tenant, monkeypatch):
    admin.post(reverse("admin:billing_closing_open", args=[worked.pk]), {"month": "2027-03"})
    stored = Statement.objects.get(tenant=tenant("a"))
    page = admin.get(reverse("admin:billing_statement_change", args=[stored.pk])).content.decode()
    assert "102.03\N{NO-BREAK SPACE}EUR" in page
    assert "March 2027" in page
    assert 'class="closelink">Back to the list</a>' in page  # months are closed elsewhere
    assert ">Close</a>" not in page
    links = {
        kind: reverse(f"admin:billing_statement_{kind}", args=[stored.pk]) for kind in DOWNLOADS
    }
    for link in (reverse("admin:billing_statement_page", args=[stored.pk]), *links.values()):
        assert f'href="{link}"' in page
    answer = admin.get(links["json"])
    assert answer.content == bytes(stored.document)
    name = f"statement-{worked.slug}-2027-03-a"
    assert answer["Content-Disposition"] == f'attachment; filename="{name}.json"'
    answer = admin.get(links["csv"])
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(answer.content.decode().splitlines()))
    lines = json.loads(bytes(stored.document))["lines"]
    assert [row["billed"] for row in rows] == [line["billed"] for line in lines]
    answer = admin.get(links["pdf"])
    assert answer["Content-Type"] == "application/pdf"
    assert "Total 102.03 EUR" in pdf_text(answer.content)
    monkeypatch.setattr(typesetting, "MAX_ROWS", 1)
    refused = admin.get(links["pdf"], follow=True).content.decode()
    assert f"A PDF file has at most 1 lines, and this statement has {len(lines)}" in refused
    listed = reverse("admin:billing_statement_changelist")
    assert (
        "102.03\N{NO-BREAK SPACE}EUR"
        in admin.get(f"{listed}?closing__id__exact={stored.closing_id}").content.decode()
    )


def test_the_accounts_of_a_posting_come_to_what_its_tenant_pays(admin, worked, tenant):
    used(worked, tenant("a"), None, 1, at(2), at(3))
    seal()
    admin.post(reverse("admin:billing_closing_open", args=[worked.pk]), {"month": "2027-03"})
    page = admin.get(reverse("admin:billing_posting_changelist"), {"all": ""}).content.decode()
    rows = re.findall('field-charged">(.*?)</td><td class="field-counterparts">(.*?)</td>', page)
    assert len(rows) == Posting.objects.count() > 1

    def amounts(text):
        found = re.findall(r"(-?[\d,]+\.\d\d)\s*EUR", text)
        return [Decimal(each.replace(",", "")) for each in found]

    assert {sum(amounts(paid)) - sum(amounts(others)) for paid, others in rows} == {0}
    assert {sum(amounts(paid)) for paid, _ in rows} == {
        posting.tenant_amount for posting in Posting.objects.all()
    }


def test_a_month_that_lacks_nothing_is_closed_by_two_clicks(admin, worked):
    with time_machine.travel(APRIL_2, tick=False):
        admin.force_login(get_user_model().objects.get())  # a session of the present
        board = admin.get("/admin/").content.decode()
        text = f"{worked}: March 2027 is over and not closed."
        (link,) = re.findall(f'<a href="([^"]+)">{re.escape(text)}</a>', board)
        page = admin.get(link).content.decode()
        assert 'value="Close March 2027"' in page
        (month,) = re.findall('name="month" value="([^"]+)"', page)
        assert admin.post(link, {"month": month}).status_code == 302
        assert Closing.objects.count() == 1
        page = admin.get(link).content.decode()
    assert "The month ends on 1 May 2027, 00:00" in page
    assert 'value="Close' not in page


def test_the_tab_of_a_pool_has_its_months_plans_and_budgets(admin, worked, tenant):
    admin.post(reverse("admin:billing_closing_open", args=[worked.pk]), {"month": "2027-03"})
    form = {
        "pool": worked.pk, "tenant": tenant("a").pk, "amount": "500", "per_0": "1",
        "per_1": "months", "then": "", "thresholds": "50,100", "carry": 0,
    }  # fmt: skip
    added = admin.post(reverse("admin:billing_budget_add"), form)
    assert added.status_code == 302, added.context["adminform"].form.errors
    with time_machine.travel(APRIL_2, tick=False):
        admin.force_login(get_user_model().objects.get())
        page = admin.get(reverse("admin:pools_pool_tab_money", args=[worked.pk])).content.decode()
    page = re.sub('<span class="cell-label">.*?</span>', "", page)
    text = " ".join(re.sub("<[^>]+>", " ", page).split())
    assert "April 2027 is open." in text
    assert re.search(r"March 2027 2 -?[\d,]+\.\d\d ", text), text
    assert "Published" in text
    assert "500.00 EUR" in text


def test_a_budget_of_a_group_is_created_and_its_balance_shown(admin, worked, tenant):
    (ml,) = groups_create(
        pool=worked, drafts=[GroupDraft("ml", GroupSettings("ML", None))], now=at(1)
    )
    members_admit(pool=worked, tenants=[tenant("a")], now=at(1))
    form = {
        "pool": worked.pk, "group": ml.pk, "resource": "cpu", "amount": "500", "per_0": "1",
        "per_1": "months",
        "carry": "0.5", "then": "stop", "thresholds": "50,100",
    }  # fmt: skip
    add = reverse("admin:billing_budget_add")
    for wrong in ({"group": ""}, {"tenant": tenant("a").pk}, {"per_0": ""}, {"carry": "2"}):
        answer = admin.post(add, {**form, **wrong})
        assert answer.status_code == 200, wrong
        assert "errorlist" in answer.content.decode()
    assert admin.post(add, form).status_code == 302
    budget = Budget.objects.get()
    assert (budget.group, budget.then, budget.carry) == (ml, "stop", Decimal("0.5"))
    assert budget.per == "P1M"
    change = reverse("admin:billing_budget_change", args=[budget.pk])
    page = admin.get(change).content.decode()
    assert "500.00 hours" in page
    assert 'value="500"' in page
    assert 'value="0.5"' in page
    assert '<div class="readonly">a month</div>' in page
    history = admin.get(reverse("admin:billing_budget_history", args=[budget.pk]))
    assert "per: <ins>a month</ins>" in history.content.decode()
    assert admin.post(change, {**form, "amount": "600", "then": ""}).status_code == 302
    budget.refresh_from_db()
    assert (budget.amount, budget.then, budget.version) == (600, "", 2)
    by_amount = {"o": "3"}  # the third column
    listed = admin.get(reverse("admin:billing_budget_changelist"), by_amount).content.decode()
    assert (
        "ml" in listed,
        ">600 hours of cpu</td>" in listed,
        "column-limit sorted" in listed,
    ) == (True,) * 3
    assert (">a month</td>" in listed, "P1M" in listed) == (True, False)


def test_numbers_that_are_only_read_have_no_zeros_of_their_columns(admin, worked, tenant):
    entry = Entry.objects.filter(quantity__gt=1).first()
    page = admin.get(reverse("admin:ledger_entry_change", args=[entry.pk])).content.decode()
    shown = re.findall('<div class="readonly">([0-9.,]+)</div>', page)
    assert f"{decimal_text(entry.quantity)}" in shown
    assert not [each for each in shown if "." in each and each.endswith("0")]
