"""A bill is a function of the ledger: the table of the specification, to the cent.

Berlin, March 2027, 743 hours; 10 cores are committed at 0.05, and the plan's price is 0.10.
"""

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from allocator_service.billing.models import Posting, Statement
from allocator_service.billing.plans.services import CommitmentDraft, SpotDraft
from allocator_service.billing.plans.tiers import Tier
from allocator_service.billing.reratings import rerating_apply
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.statements.drafting import month_draft
from allocator_service.billing.tie_out import billing_report
from allocator_service.core.quantities import Resource
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.models import Entry
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.services import pool_create
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
from tests.integration.conftest import settings

PRICES = rate(pooled="0.10")
TEN = Decimal(10)
FULL = Decimal("371.50")


def committed_to(tenant, start=None, end=None, resource="cpu", quantity=TEN, price="0.05"):
    return CommitmentDraft(
        tenant, resource, quantity, Decimal(price), start or at(1), end or at(1, year=2028)
    )


@pytest.fixture
def lab(db):
    resources = [Resource("cpu", "core"), Resource("memory", "GiB")]
    chosen = settings(timezone="Europe/Berlin", resources=resources)
    return pool_create(slug="lab", settings=chosen, now=at(1, 2))


def all_march(pool, tenant, **more):
    id_ = used(pool, tenant, None, 10, at(1), at(1, 4), **more)
    seal()
    return id_


def close(pool, text, now=MAY_2):
    month_close(pool=pool, month=month(text, pool), now=now)
    found = Statement.objects.filter(closing__pool=pool, closing__month=month(text, pool).first)
    return {row.tenant.slug: row.billed for row in found}


def open_(pool, text, tenant=None):
    """What the open statement bills, per tenant; of one tenant's own draft if there is one."""
    key = None if tenant is None else tenant.pk
    sums = {}
    for line in month_draft(pool=pool, month=month(text, pool), tenant=key).lines:
        slug = line.tenant.slug
        sums[slug] = sums.get(slug, 0) + line.tenant_amount
    return sums


def april_lines(pool):
    """Kind and amount of what the open April holds for a."""
    lines = month_draft(pool=pool, month=month("2027-04", pool)).lines
    of_march = [line for line in lines if line.service_month == month("2027-03", pool).first]
    return sorted((line.rated_kind, line.tenant_amount) for line in of_march)


def test_the_committed_cores_are_billed_at_their_price_open_and_closed(lab, tenant):
    a = tenant("a")
    publish(lab, at(1), PRICES, commitments=[committed_to(a)])
    all_march(lab, a)
    assert open_(lab, "2027-03") == open_(lab, "2027-03", a) == {"a": FULL}
    assert close(lab, "2027-03") == {"a": FULL}


def test_a_neighbours_commitment_changes_nothing(lab, tenant):
    a, b = tenant("a"), tenant("b")
    neighbours = committed_to(b, start=at(16), quantity=Decimal(1), price="0.01")
    publish(lab, at(1), PRICES, commitments=[committed_to(a), neighbours])
    all_march(lab, a)
    assert open_(lab, "2027-03")["a"] == FULL
    assert close(lab, "2027-03") == {"a": FULL, "b": Decimal("3.83")}  # 383 h × 0.01, unused


def test_a_spot_price_of_another_resource_changes_nothing(lab, tenant):
    a = tenant("a")
    spot = SpotDraft("memory", "pool", at(10), at(20, hour=7), Decimal(9))
    publish(lab, at(1), PRICES, commitments=[committed_to(a)], spot_prices=[spot])
    used(lab, a, None, 20, at(1), at(6))  # bursts would be averaged over coarser segments
    used(lab, a, None, 10, at(6), at(1, 4))
    seal()
    expected = FULL + 120  # 10 more cores for 120 h at 0.10
    assert open_(lab, "2027-03") == {"a": expected}
    assert close(lab, "2027-03") == {"a": expected}


def test_a_plan_that_says_the_same_cuts_no_coverage(lab, tenant):
    a = tenant("a")
    publish(lab, at(1), PRICES, commitments=[committed_to(a)])
    publish(lab, at(16), PRICES)
    all_march(lab, a)
    assert close(lab, "2027-03") == {"a": FULL}
    assert Posting.objects.count() == 1


def test_coverage_is_of_each_instant_not_of_an_average(lab, tenant):
    """20 cores for half of a day and none for the other: 10 covered, 10 at the plan's, 10 unused."""
    a = tenant("a")
    publish(lab, at(1), PRICES, commitments=[committed_to(a, end=at(2))])
    used(lab, a, None, 20, at(1), at(1, hour=12))
    seal()
    found = {
        x.kind: x.tenant_amount for x in month_draft(pool=lab, month=month("2027-03", lab)).lines
    }
    assert found == {
        "usage": Decimal("12.00"), "commitment": Decimal("6.00"), "commitment_unused": Decimal("6.00"),
    }  # fmt: skip


def test_corrected_to_nothing_after_closing_moves_the_money_and_pays_out_none(lab, tenant):
    a = tenant("a")
    publish(lab, at(1), PRICES, commitments=[committed_to(a)])
    all_march(lab, a)
    assert close(lab, "2027-03") == {"a": FULL}
    correction = entry_correct(
        entry=Entry.objects.get(), quantity=Decimal(0), reason="it never ran", now=APRIL_2
    )
    seal()
    assert april_lines(lab) == [("commitment", -FULL), ("commitment_unused", FULL)]
    assert open_(lab, "2027-04")["a"] == open_(lab, "2027-04", a)["a"]
    unused_in_april = TEN * 720 * Decimal("0.05")
    assert close(lab, "2027-04") == {"a": unused_in_april}
    document = json.loads(bytes(Statement.objects.get(closing__month="2027-04-01").document))
    adjusted = [line for line in document["lines"] if line["adjusts"]]
    assert [(x["kind"], x["adjusted_kind"], x["adjusts"], x["billed"]) for x in adjusted] == [
        ("adjustment", "commitment", "2027-03", "-371.50"),
        ("adjustment", "commitment_unused", "2027-03", "371.50"),
    ]
    assert {x["entry"] for x in adjusted} == {str(correction.pk)}
    assert all(x["entries"] == [str(correction.pk)] for x in adjusted)


def test_late_usage_takes_the_place_of_what_was_unused(lab, tenant):
    a = tenant("a")
    publish(lab, at(1), PRICES, commitments=[committed_to(a, end=at(1, 4))])
    assert close(lab, "2027-03", APRIL_2) == {"a": FULL}
    all_march(lab, a)
    assert april_lines(lab) == [("commitment", FULL), ("commitment_unused", -FULL)]
    assert close(lab, "2027-04") == {"a": Decimal(0)}


def test_a_rerating_at_the_same_prices_adds_nothing(lab, tenant):
    a = tenant("a")
    commitment = committed_to(a, end=at(1, 4))
    publish(lab, at(1), PRICES, commitments=[commitment])
    all_march(lab, a)
    close(lab, "2027-03", APRIL_2)
    plan = draft_plan(lab, at(1), at(1, 4), PRICES)
    rerating, _ = rerating_apply(pool=lab, plan=plan, reason="the same", now=APRIL_2)
    assert all(row["difference"] == "0.00" for row in rerating.changes)
    assert close(lab, "2027-04") == {}


def test_a_rerating_after_a_burst_is_the_difference_of_prices(lab, tenant):
    """15 cores, 10 committed: 5 × 743 h at 0.20 instead of 0.10, then at 0.10 again."""
    a = tenant("a")
    publish(lab, at(1), PRICES, commitments=[committed_to(a, end=at(1, 4))])
    used(lab, a, None, 15, at(1), at(1, 4))
    seal()
    assert close(lab, "2027-03", APRIL_2) == {"a": FULL * 2}
    for price, difference in (("0.20", "371.50"), ("0.10", "-371.50"), ("0.10", None)):
        plan = draft_plan(lab, at(1), at(1, 4), rate(pooled=price))
        rerating, _ = rerating_apply(pool=lab, plan=plan, reason=price, now=APRIL_2)
        assert [row["difference"] for row in rerating.changes] in (
            [[difference]] if difference else [[], ["0.00"]]
        )
    assert close(lab, "2027-04") == {"a": Decimal(0)}


def test_a_fixed_cost_of_a_backdated_plan_is_rated_again(lab, tenant):
    from allocator_service.billing.plans.services import FixedCostDraft, PlanDraft, plan_create

    a = tenant("a")
    power = FixedCostDraft("power", Decimal("100"), [(a, Decimal(1))])
    publish(lab, at(1), PRICES, fixed_costs=[power])
    assert close(lab, "2027-03", APRIL_2) == {"a": Decimal(100)}
    dearer = replace(power, amount=Decimal(130))
    draft = PlanDraft("dearer", at(1), at(1, 4), rates=[PRICES], fixed_costs=[dearer])
    plan = plan_create(pool=lab, draft=draft, now=APRIL_2)
    rerating, _ = rerating_apply(pool=lab, plan=plan, reason="power rose", now=APRIL_2)
    assert [row["difference"] for row in rerating.changes] == ["30.00"]


def test_the_entries_with_the_highest_rate_are_covered_first(lab, tenant):
    """12 cores: 8 of b's at 0.30, 4 of the pool's at 0.10; 10 are committed at 0.05 for a day."""
    a, b = tenant("a"), tenant("b")
    plan = {"fee": Decimal("0.1"), "commitments": [committed_to(a, end=at(2))]}
    publish(lab, at(1), rate(pooled="0.10", shared="0.30"), **plan)
    used(lab, a, None, 4, at(1), at(2))
    used(lab, a, b, 8, at(1), at(2))
    seal()
    lines = month_draft(pool=lab, month=month("2027-03", lab)).lines
    (lent,) = (line for line in lines if line.owner_id)
    assert (lent.kind, lent.owner) == ("commitment", b)
    legs = (lent.tenant_amount, lent.owner_amount, lent.fee_amount)
    assert legs == (Decimal("9.60"), Decimal("-8.64"), Decimal("-0.96"))
    assert sorted((x.kind, x.tenant_amount) for x in lines if not x.owner_id) == [
        ("commitment", Decimal("2.40")),
        ("usage", Decimal("4.80")),
    ]
    mine = month_draft(pool=lab, month=month("2027-03", lab), tenant=b.pk).lines
    assert [(x.kind, x.owner_amount) for x in mine] == [("commitment", Decimal("-8.64"))]


def test_of_two_entries_at_one_rate_the_first_in_the_ledger_is_covered(lab, tenant):
    a, b, c = tenant("a"), tenant("b"), tenant("c")
    publish(lab, at(1), rate(shared="0.30"), commitments=[committed_to(a, end=at(2))])
    for owner, cores in ((c, 4), (b, 8), (c, 8)):
        used(lab, a, owner, cores, at(1), at(2))
        seal()
    lines = month_draft(pool=lab, month=month("2027-03", lab)).lines
    covered = {x.owner.slug: x.amount for x in lines if x.kind == "commitment"}
    assert covered == {"c": 4 * 86400, "b": 6 * 86400}


def test_two_commitments_cover_one_after_the_other(lab, tenant):
    a = tenant("a")
    both = [
        committed_to(a, end=at(2), quantity=Decimal(quantity), price=price)
        for quantity, price in (("6", "0.05"), ("4", "0.07"))
    ]
    publish(lab, at(1), PRICES, commitments=both)
    used(lab, a, None, 7, at(1), at(2))
    seal()
    found = month_draft(pool=lab, month=month("2027-03", lab)).lines
    assert sorted((x.kind, x.price, x.amount / 86400) for x in found) == [
        ("commitment", Decimal("0.05"), 6),
        ("commitment", Decimal("0.07"), 1),
        ("commitment_unused", Decimal("0.07"), 3),
    ]


def test_the_steps_of_an_event_are_paid_as_its_last_instant(tenant):
    """3 cores for 30 minutes count as an hour; one of them is covered."""
    from allocator_service.ledger.intake.usage import UsageEvent, usage_record

    chosen = settings(
        metering="reported", timezone="Europe/Berlin", resources=[Resource("cpu", "core")]
    )
    pool, a = pool_create(slug="batch", settings=chosen, now=at(1, 1)), tenant("a")
    one = committed_to(a, end=at(2), quantity=Decimal(1), price="2")
    publish(pool, at(1), rate(pooled="10"), increment="hour-up", commitments=[one])
    event = UsageEvent("meter", "1", a, None, [Decimal(3)], at(1), at(1) + (at(2) - at(1)) / 48)
    usage_record(pool=pool, events=[event], now=at(3), members_only=False)
    seal()
    lines = month_draft(pool=pool, month=month("2027-03", pool)).lines
    found = {line.kind: (line.tenant_amount, line.amount) for line in lines}
    assert found == {
        "commitment": (Decimal(2), 1800),
        "usage": (Decimal(20), 3600),
        "commitment_unused": (Decimal(47), 84600),
    }


def test_the_tie_out_holds_with_commitments_and_what_came_late(lab, tenant):
    """Committed hours that no plan prices are on a statement, and nothing of the ledger is twice."""
    a, b = tenant("a"), tenant("b")
    publish(lab, at(1), rate(shared="0.1"), commitments=[committed_to(a)])
    used(lab, a, None, 14, at(1), at(10))
    used(lab, a, b, 3, at(5), at(12))
    seal()
    close(lab, "2027-03", APRIL_2)
    used(lab, a, b, 9, at(7), at(14))
    entry_correct(entry=Entry.objects.first(), quantity=Decimal(2), reason="x", now=APRIL_2)
    seal()
    for now, text in ((APRIL_2, None), (MAY_2, "2027-04")):
        if text:
            close(lab, text)
        report = billing_report(pool=lab, period=Period([at(1), at(1, 5)]), now=now)
        assert report.ties
        assert [tie for tie in report.ties if tie.difference] == []


def tiered(*tiers, resource="cpu", **prices):
    found = [Tier(through and Decimal(through), Decimal(price)) for through, price in tiers]
    return replace(rate(resource, **prices), tiers=found)


def test_tiers_are_graduated_by_the_hours_of_the_month_in_ledger_order(lab, tenant):
    """10,000 hours are free, then 0.02: 200 cores for a week are 33,600 hours, b's are its own."""
    a, b = tenant("a"), tenant("b")
    publish(lab, at(1), tiered(("10000", "0"), (None, "0.02")))
    used(lab, a, b, 100, at(8), at(15))  # numbered first: 16,800 hours, of which 6,800 are paid
    seal()
    used(lab, a, None, 100, at(1), at(8))
    used(lab, b, None, 50, at(1), at(8))
    seal()
    lines = month_draft(pool=lab, month=month("2027-03", lab)).lines
    assert {(x.tenant.slug, x.owner_id): (x.tenant_amount, x.price) for x in lines} == {
        ("a", b.pk): (Decimal("136.00"), None),
        ("a", None): (Decimal("336.00"), Decimal("0.02")),
        ("b", None): (Decimal("0.00"), Decimal(0)),
    }
    mine = month_draft(pool=lab, month=month("2027-03", lab), tenant=b.pk).lines
    assert sum(x.owner_amount for x in mine) == Decimal("-122.40")


def test_tiers_begin_anew_each_month_and_late_usage_moves_them(lab, tenant):
    a = tenant("a")
    publish(lab, at(1), tiered(("1000", "0.10"), (None, "0.05")))
    used(lab, a, None, 10, at(30), at(5, 4, hour=0))  # 48 h less one in March, 96 h in April
    seal()
    assert close(lab, "2027-03", APRIL_2) == {"a": Decimal("48.00")}
    used(lab, a, None, 10, at(1), at(5))  # 960 hours, late: 520 of all are above 1,000
    seal()
    assert april_lines(lab) == [("usage", Decimal("74.00"))]
    assert close(lab, "2027-04") == {"a": Decimal("74.00") + Decimal("96.00")}


def test_a_commitment_covers_before_tiers_price_the_rest(lab, tenant):
    """20 cores for 100 hours; 10 are covered, and half of each tier is left: 500 × 0.2 + 500 × 0.1."""
    a = tenant("a")
    prices = tiered(("1000", "0.2"), (None, "0.1"))
    publish(lab, at(1), prices, commitments=[committed_to(a, end=at(5, hour=4))])
    used(lab, a, None, 20, at(1), at(5, hour=4))
    seal()
    found = {
        x.kind: x.tenant_amount for x in month_draft(pool=lab, month=month("2027-03", lab)).lines
    }
    assert found == {"commitment": Decimal("50.00"), "usage": Decimal("150.00")}


@pytest.mark.parametrize(
    ("tiers", "place"),
    [
        ([("10", "1")], "0/through"),
        ([(None, "1"), (None, "2")], "0/through"),
        ([("10", "1"), ("10", "2"), (None, "3")], "1/through"),
        ([("0", "1"), (None, "3")], "0/through"),
        ([(None, "1")] * 21, ""),
    ],
)
def test_tiers_that_do_not_ascend_to_an_open_end_are_refused(lab, tiers, place):
    from allocator_service.billing.plans.services import PlanDraft, plan_create
    from allocator_service.core.errors import Unacceptable

    with pytest.raises(Unacceptable) as refused:
        plan_create(pool=lab, draft=PlanDraft("x", at(1), rates=[tiered(*tiers)]), now=at(1))
    error = refused.value.errors[0]
    assert error.code == "rate.tiers"
    assert error.pointer == f"/rates/0/tiers/{place}".rstrip("/")
