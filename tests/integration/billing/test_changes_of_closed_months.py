"""Closed months change only by lines of later ones: reratings, credit notes, late usage, manifests."""

import hashlib
import json
from decimal import Decimal

import pytest

from allocator_service.billing.credit_notes import credit_note_create, credit_note_reverse
from allocator_service.billing.models import (
    Closing,
    CreditNote,
    LateEntry,
    Manifest,
    Posting,
    PricePlan,
    Rerating,
    Statement,
)
from allocator_service.billing.reratings import rerating_apply, rerating_preview
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.statements.drafting import month_draft
from allocator_service.billing.statements.manifest import manifest_write
from allocator_service.billing.watching import late_entries_watch
from allocator_service.core.errors import Conflict, DomainError
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.models import Entry
from allocator_service.ledger.selectors import BEGINNING, entries_after
from tests.integration.billing.conftest import (
    APRIL_2,
    MAY_2,
    at,
    draft_plan,
    month,
    publish,
    rate,
    seal,
    used,
)


@pytest.fixture
def march(worked):
    month_close(pool=worked, month=month("2027-03", worked), now=APRIL_2)
    return worked


def totals(pool, text):
    found = Statement.objects.filter(closing__pool=pool, closing__month=month(text, pool).first)
    return {row.tenant.slug: str(row.billed.quantize(Decimal("0.01"))) for row in found}


def balance():
    """What all postings add up to, per account of the four."""
    legs = ("tenant_amount", "owner_amount", "fee_amount", "pool_amount")
    return sum(getattr(line, leg) for line in Posting.objects.all() for leg in legs)


def test_a_rerating_reverses_and_posts_in_the_open_month(march):
    """Shared cores at 0.05 from the 15th on, instead of the 20th: 3 × 120 h × 0.01 more."""
    bytes_before = [bytes(row.document) for row in Statement.objects.order_by("id")]
    prices = rate(own="0.01", outside="0.12", shared="0.05")
    plan = draft_plan(march, at(15), at(20), prices)
    asked = {
        "pool": march,
        "plan": plan,
        "reason": "the new price held from the 15th",
        "now": APRIL_2,
    }
    preview, new = rerating_preview(**asked)
    assert new
    assert Posting.objects.filter(kind__in=["reversal", "rerated"]).count() == 0
    assert PricePlan.objects.get(pk=plan.pk).state == "draft"
    rerating, new = rerating_apply(**asked)
    assert new
    assert rerating.changes == preview.changes
    assert {row["tenant"]: row["difference"] for row in rerating.changes} == {
        "a": "3.60",
        "b": "-3.24",
    }
    again, new = rerating_apply(**asked)
    assert (again.pk, new) == (rerating.pk, False)
    month_close(pool=march, month=month("2027-04", march), now=MAY_2)
    assert totals(march, "2027-04") == {"a": "3.60", "b": "-3.24"}
    assert [bytes(row.document) for row in Statement.objects.order_by("id")][:2] == bytes_before
    assert balance() == 0
    assert Rerating.objects.count() == 1


def test_what_is_late_after_a_rerating_is_at_its_prices(march, tenant):
    prices = rate(own="0.01", outside="0.12", shared="0.05")
    plan = draft_plan(march, at(15), at(20), prices)
    rerating_apply(pool=march, plan=plan, reason="dearer", now=APRIL_2)
    used(march, tenant("a"), tenant("b"), 1, at(16), at(16, hour=10))
    seal()
    month_close(pool=march, month=month("2027-04", march), now=MAY_2)
    late = Posting.objects.get(kind="adjustment")
    assert (late.tenant_amount, late.plan) == (Decimal("0.50"), plan)


def test_a_second_rerating_takes_in_the_first_and_what_was_adjusted(march):
    lent = Entry.objects.get(start=at(15), end=at(20))
    entry_correct(entry=lent, quantity=Decimal("2.5"), reason="half", now=APRIL_2)
    seal()
    month_close(pool=march, month=month("2027-04", march), now=MAY_2)
    for number, price in enumerate(("0.08", "0.04")):
        prices = rate(own="0.01", outside="0.12", shared=price)
        plan = draft_plan(march, at(15), at(20), prices)
        rerating, _ = rerating_apply(pool=march, plan=plan, reason=f"{number}", now=MAY_2)
        expected = {"a": "12.00", "b": "-10.80"} if number == 0 else {"a": "-12.00", "b": "10.80"}
        assert {row["tenant"]: row["difference"] for row in rerating.changes} == expected
    live = [
        line
        for line in Posting.objects.filter(service_month=month("2027-03", march).first)
        if line.resource
    ]
    paid = sum(line.tenant_amount for line in live if line.tenant.slug == "a")
    assert paid == Decimal("102.03") - Decimal("2.40")
    used_in_march = sum(line.amount for line in live)
    assert used_in_march == (4458 + 2972 + 300 + 861) * 3600
    assert balance() == 0


def test_what_cannot_be_rerated_is_refused(march):
    prices = rate(own="0.02")

    def refused(code, plan, reason="because"):
        before = Posting.objects.count()
        with pytest.raises(DomainError) as raised:
            rerating_apply(pool=march, plan=plan, reason=reason, now=APRIL_2)
        assert raised.value.code == code
        assert Posting.objects.count() == before

    refused("rerating.interval", draft_plan(march, at(15), at(20, 4), prices))
    refused("rerating.interval", draft_plan(march, at(15), None, prices))
    refused("rerating.interval", draft_plan(march, at(15, 2), at(20), prices))
    refused("rerating.reason", draft_plan(march, at(15), at(20), prices), reason="  ")
    refused("plan.published", PricePlan.objects.get(number=1))


def test_a_credit_note_is_on_the_open_statement_and_is_taken_back_once(march, tenant):
    asked = {"pool": march, "tenant": tenant("a"), "now": APRIL_2}
    note = credit_note_create(**asked, amount=Decimal("5.00"), reason="a day of outage")
    back = credit_note_reverse(note=note, reason="there was none", now=APRIL_2)
    assert (back.amount, back.reverses) == (Decimal("-5.00"), note)
    for code, of in (("credit_note.reversed", note), ("credit_note.reversal", back)):
        with pytest.raises(Conflict) as raised:
            credit_note_reverse(note=of, reason="again", now=APRIL_2)
        assert raised.value.code == code
    credit_note_create(**asked, amount=Decimal("2.50"), reason="kindness")
    month_close(pool=march, month=month("2027-04", march), now=MAY_2)
    assert totals(march, "2027-04") == {"a": "-2.50"}
    assert balance() == 0


@pytest.mark.parametrize(
    ("amount", "reason", "code"),
    [
        ("0", "x", "credit_note.amount"),
        ("-1", "x", "credit_note.amount"),
        ("0.001", "x", "credit_note.amount"),
        ("1e13", "x", "credit_note.amount"),
        ("1", " ", "credit_note.reason"),
    ],
)
def test_what_cannot_be_a_credit_note_is_refused(march, tenant, amount, reason, code):
    with pytest.raises(DomainError) as raised:
        credit_note_create(
            pool=march, tenant=tenant("a"), amount=Decimal(amount), reason=reason, now=APRIL_2
        )
    assert raised.value.code == code
    assert not CreditNote.objects.exists()


def test_a_credit_note_needs_a_published_plan(berlin, tenant):
    with pytest.raises(Conflict) as raised:
        credit_note_create(
            pool=berlin, tenant=tenant("a"), amount=Decimal(1), reason="x", now=APRIL_2
        )
    assert raised.value.code == "statement.no_plan"


def test_a_late_entry_is_cut_by_month_and_plan(march, tenant):
    """From the last hour of February, which has no plan, into April: what is March's is adjusted."""
    used(march, tenant("a"), tenant("a"), 1, at(28, 2, hour=23), at(1, 4, hour=1))
    seal()
    month_close(pool=march, month=month("2027-04", march), now=MAY_2)
    lines = Posting.objects.filter(month=month("2027-04", march).first).order_by("start")
    assert [(x.kind, x.amount / 3600, x.tenant_amount) for x in lines] == [
        ("adjustment", 456, Decimal("4.56")),
        ("adjustment", 287, Decimal("2.87")),
        ("usage", 1, Decimal("0.01")),
    ]


def test_what_is_late_is_found_whether_it_was_kept_or_not(march, tenant):
    """Late entries are kept aside as they are numbered; the open statement is the same either way."""
    late_entries_watch()
    for hour in range(4):
        used(march, tenant("a"), tenant("a"), 1, at(2, hour=hour), at(2, hour=hour + 1))
        used(march, tenant("a"), tenant("a"), 1, at(2, 4, hour=hour), at(2, 4, hour=hour + 1))
        seal()
        if hour == 1:
            late_entries_watch()
            assert LateEntry.objects.count() == 2
    april = month("2027-04", march)
    lines = month_draft(pool=march, month=april).lines
    late, usage = sorted(lines, key=lambda line: line.kind)
    assert (late.kind, len(late.entries), usage.kind) == ("adjustment", 4, "usage")
    late_entries_watch()
    assert LateEntry.objects.count() == 4
    month_close(pool=march, month=april, now=MAY_2)
    used(march, tenant("a"), tenant("a"), 1, at(3, 4), at(4, 4))
    seal()
    late_entries_watch()
    assert LateEntry.objects.count() == 5
    may = month_draft(pool=march, month=april.next).lines
    assert [(line.kind, line.amount) for line in may] == [("adjustment", 86400)]


def test_the_manifest_is_that_of_the_entries(march, tenant):
    """Recomputed from the feed: entries of the month numbered when it was closed, and no later ones."""
    from allocator_service.ledger.selectors import COLUMNS

    closing = Closing.objects.get()
    used(march, tenant("a"), tenant("a"), 1, at(2), at(3))
    seal()
    document = json.loads(bytes(manifest_write(closing=closing).document))
    feed = entries_after(BEGINNING, caller=None, limit=1000)
    rows = [row for row in feed if row["sequence"] <= document["sequence"]]
    lines = "".join(
        json.dumps({name: row[name] for name in COLUMNS}, separators=(",", ":")) + "\n"
        for row in rows
    )
    assert document["rows"] == len(rows) == 6
    assert document["sha256"] == hashlib.sha256(lines.encode()).hexdigest()
    assert sum(Decimal(each["amount"]) for each in document["sums"]) == sum(
        Decimal(row["amount"]) for row in rows
    )
    assert manifest_write(closing=closing).pk == Manifest.objects.get().pk
    month_close(pool=march, month=month("2027-04", march), now=MAY_2)
    april = json.loads(bytes(manifest_write(closing=Closing.objects.last()).document))
    assert (april["rows"], april["previous_sequence"]) == (1, document["sequence"])


def test_a_plan_that_holds_later_changes_nothing_before(march):
    publish(march, at(1, 4), rate(own="9", shared="9"))
    month_close(pool=march, month=month("2027-04", march), now=MAY_2)
    assert set(totals(march, "2027-04").values()) <= {"0.00"}
    assert totals(march, "2027-03") == {"a": "102.03", "b": "-21.99"}
