"""The worked month of the specification, to the cent: Europe/Berlin, March 2027, 743 hours, EUR."""

import json
from decimal import Decimal

import pytest

from allocator_service.billing.models import Closing, Posting, Statement
from allocator_service.billing.statements.closing import month_close
from allocator_service.core.errors import Conflict
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.models import Entry
from tests.integration.billing.conftest import APRIL_2, MAY_2, at, month, seal


def documents(pool, text):
    found = Statement.objects.filter(closing__pool=pool, closing__month=month(text, pool).first)
    return {row.tenant.slug: json.loads(bytes(row.document)) for row in found}


def shown(document, *names):
    return [tuple(line[name] for name in names) for line in document["lines"]]


def test_march_to_the_cent(worked):
    closing = month_close(pool=worked, month=month("2027-03", worked), now=APRIL_2)
    statements = documents(worked, "2027-03")
    a, b = statements["a"], statements["b"]
    assert shown(a, "role", "server_owner", "hours", "price", "charge", "fee", "billed") == [
        ("charge", "a", "2736", "0.01", "27.36", "0.00", "27.36"),
        ("charge", "b", "360", "0.04", "14.40", "1.44", "14.40"),
        ("charge", "a", "1722", "0.01", "17.22", "0.00", "17.22"),
        ("charge", "b", "861", "0.05", "43.05", "4.30", "43.05"),
    ]
    assert shown(b, "role", "user", "hours", "billed") == [
        ("credit", "a", "360", "-12.96"),
        ("charge", "b", "1824", "18.24"),
        ("credit", "a", "861", "-38.75"),
        ("charge", "b", "1148", "11.48"),
    ]
    assert (a["totals"]["billed"], b["totals"]["billed"]) == ("102.03", "-21.99")
    assert (a["savings"]["saved"], b["savings"]["saved"]) == ("7.34", "51.71")
    assert (a["savings"]["alone_cost"], a["savings"]["outside_cost"]) == ("52.01", "57.36")
    accounts = json.loads(bytes(closing.document))["accounts"]
    assert [(row["account"], row["billed"]) for row in accounts] == [
        ("tenant", "102.03"),
        ("tenant", "-21.99"),
        ("fee", "-5.74"),
        ("pool", "-74.30"),
    ]
    assert json.loads(bytes(closing.document))["sum"] == "0.00"
    assert sum(Decimal(row["billed"]) for row in accounts) == 0
    assert Decimal(accounts[2]["billed"]) + Decimal(accounts[3]["billed"]) == Decimal("-80.04")


def test_a_correction_of_march_is_on_the_statement_of_april(worked):
    month_close(pool=worked, month=month("2027-03", worked), now=APRIL_2)
    before = [bytes(row.document) for row in Statement.objects.order_by("id")]
    lent = Entry.objects.get(start=at(15), end=at(20))
    correction = entry_correct(
        entry=lent, quantity=Decimal("2.5"), reason="the third core ran half", now=APRIL_2
    )
    seal()
    month_close(pool=worked, month=month("2027-04", worked), now=MAY_2)
    april = documents(worked, "2027-04")
    names = ("kind", "billed", "adjusts", "entry", "hours", "price")
    assert shown(april["a"], *names) == [
        ("adjustment", "-2.40", "2027-03", str(correction.pk), "-60", "0.04")
    ]
    assert shown(april["b"], "role", *names)[0][:3] == ("credit", "adjustment", "2.16")
    line = Posting.objects.get(month=month("2027-04", worked).first)
    assert (line.tenant_amount, line.owner_amount, line.fee_amount) == (
        Decimal("-2.40"),
        Decimal("2.16"),
        Decimal("0.24"),
    )
    assert [bytes(row.document) for row in Statement.objects.order_by("id")][:2] == before


def test_closing_twice_gives_the_same_answer(worked):
    march = month("2027-03", worked)
    first = month_close(pool=worked, month=march, now=APRIL_2)
    again = month_close(pool=worked, month=march, now=MAY_2)
    assert (again.pk, bytes(again.document)) == (first.pk, bytes(first.document))
    assert Closing.objects.count() == 1


def test_what_is_missing_is_named_and_nothing_is_posted(worked, tenant):
    from tests.integration.billing.conftest import used

    used(worked, tenant("a"), None, 1, at(30), at(31))
    with pytest.raises(Conflict) as refused:
        month_close(pool=worked, month=month("2027-04", worked), now=at(31))
    assert [error.code for error in refused.value.errors] == [
        "statement.earlier_open",
        "statement.month_not_over",
        "statement.entries_pending",
    ]
    with pytest.raises(Conflict) as refused:
        month_close(pool=worked, month=month("2027-02", worked), now=APRIL_2)
    assert refused.value.code == "statement.no_plan"
    assert not Posting.objects.exists()
    assert not Closing.objects.exists()
