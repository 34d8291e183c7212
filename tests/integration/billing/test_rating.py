"""Rating: every entry exactly once, at the prices of its time, in the units of any currency."""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random

import pytest
from django.db import IntegrityError, transaction

from allocator_service.billing.models import LineKind, Posting
from allocator_service.billing.plans.services import CommitmentDraft, FixedCostDraft, SpotDraft
from allocator_service.billing.plans.timeline import timeline
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.statements.drafting import month_draft
from allocator_service.core.money import MINOR_DIGITS
from allocator_service.core.quantities import Resource
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.usage import UsageEvent, usage_record
from allocator_service.ledger.models import Entry
from allocator_service.ledger.reporting.lending import lending_report
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.services import pool_create
from tests.integration.billing.conftest import APRIL_2, MAY_2, at, month, publish, rate, seal, used
from tests.integration.conftest import settings
from tests.references.billing import plain_lines

CPU = {"own": "0.01", "shared": "0.04", "pooled": "0.03"}
SECOND = timedelta(seconds=1)


def pool_of(slug, **changes):
    chosen = {"timezone": "Europe/Berlin", "resources": [Resource("cpu", "core")], **changes}
    return pool_create(slug=slug, settings=settings(**chosen), now=at(1, 1))


def drafted(pool, text="2027-03", **limits):
    return month_draft(pool=pool, month=month(text, pool), **limits)


def charges(lines):
    return sorted(line.tenant_amount for line in lines)


@pytest.mark.parametrize(
    ("increment", "charge"), [("exact", "0.29"), ("second-min-60", "0.40"), ("hour-up", "24.00")]
)
def test_the_time_of_events_counts_in_steps(tenant, increment, charge):
    """200 cores for 10.25, 60 and 61 seconds at 0.04."""
    pool, a = pool_of("batch", metering="reported"), tenant("a")
    publish(pool, at(1), rate(pooled="0.04"), increment=increment)
    lengths = (SECOND * 10.25, SECOND * 60, SECOND * 61)
    events = [
        UsageEvent("meter", str(n), a, None, [Decimal(200)], at(2), at(2) + length)
        for n, length in enumerate(lengths)
    ]
    usage_record(pool=pool, events=events, now=at(3), members_only=False)
    seal()
    (line,) = drafted(pool).lines
    assert (line.tenant_amount, line.amount) == (Decimal(charge), Decimal("26250"))


def test_corrections_of_events_count_in_the_same_steps(tenant):
    pool, a = pool_of("batch", metering="reported"), tenant("a")
    publish(pool, at(1), rate(pooled="1"), increment="hour-up")
    event = UsageEvent("meter", "1", a, None, [Decimal(4)], at(2), at(2) + 61 * SECOND)
    usage_record(pool=pool, events=[event], now=at(3), members_only=False)
    entry_correct(entry=Entry.objects.get(), quantity=Decimal(1), reason="fewer", now=at(3))
    seal()
    (line,) = drafted(pool).lines
    assert (line.tenant_amount, line.amount) == (Decimal("1.00"), Decimal(61))


@pytest.mark.parametrize(
    ("currency", "charge", "fee"),
    [("JPY", "12", "1"), ("KWD", "12.346", "1.235"), ("EUR", "12.35", "1.24")],
)
def test_lines_are_rounded_to_the_currencys_units(tenant, currency, charge, fee):
    pool = pool_of("money", currency=currency)
    publish(pool, at(1), rate(shared="12.3455"))
    used(pool, tenant("a"), tenant("b"), 1, at(2), at(2, hour=1))
    seal()
    (line,) = drafted(pool).lines
    legs = (line.tenant_amount, line.fee_amount, line.owner_amount)
    assert legs == (Decimal(charge), -Decimal(fee), Decimal(fee) - Decimal(charge))


@pytest.mark.parametrize(("text", "hours"), [("2027-03", 743), ("2027-10", 745), ("2027-02", 672)])
def test_months_have_the_hours_of_their_clocks(berlin, tenant, text, hours):
    """One core from January to December: a month takes its own part, to the second."""
    publish(berlin, at(1, 1), rate(pooled="1"))
    used(berlin, tenant("a"), None, 1, at(1, 1), at(1, 12))
    seal()
    (line,) = drafted(berlin, text).lines
    assert (line.tenant_amount, line.amount) == (hours, hours * 3600)


def test_an_entry_is_split_at_every_border(berlin, tenant):
    spot = SpotDraft("cpu", "pool", at(10), at(11), Decimal(7))
    publish(berlin, at(1), rate(pooled="1"), spot_prices=[spot])
    publish(berlin, at(20), rate(pooled="2"))
    used(berlin, tenant("a"), None, 1, at(9, hour=23), at(20, hour=1))
    seal()
    first, second = sorted(drafted(berlin).lines, key=lambda line: line.start)
    assert (first.tenant_amount, first.price) == (Decimal(1 + 24 * 7 + 9 * 24), None)
    assert (second.tenant_amount, second.price) == (Decimal(2), Decimal(2))


def test_a_fixed_cost_is_divided_without_a_rest(berlin, tenant):
    shares = [(tenant(slug), Decimal(1)) for slug in "abc"]
    power = FixedCostDraft("power", Decimal("100.00"), shares)
    publish(berlin, at(1), rate(own="0"), fixed_costs=[power])
    lines = drafted(berlin).lines
    assert [line.tenant_amount for line in lines] == [
        Decimal("33.34"),
        Decimal("33.33"),
        Decimal("33.33"),
    ]
    assert {line.kind for line in lines} == {LineKind.FIXED}


def test_what_is_paid_upfront_is_spread_over_its_term(berlin, tenant):
    """878.40 for the 8,784 hours from March to March: 74.30 of them are this March's."""
    commitment = CommitmentDraft(
        tenant("a"), "cpu", Decimal(0), Decimal(0), at(1), at(1, year=2028), Decimal("878.40")
    )
    publish(berlin, at(1), rate(pooled="1"), commitments=[commitment])
    (line,) = drafted(berlin).lines
    assert (line.kind, line.tenant_amount, line.effective) == (
        LineKind.UPFRONT,
        Decimal("878.40"),
        Decimal("74.30"),
    )
    spread = [line.effective]
    for number in [*range(4, 13), *range(1, 3)]:
        (line,) = drafted(berlin, f"{2027 + (number < 3)}-{number:02d}").lines
        assert line.tenant_amount == 0
        spread.append(line.effective)
    assert sum(spread) == Decimal("878.40")
    assert drafted(berlin, "2028-03").lines == []


def test_unused_committed_hours_are_a_line_of_their_own(berlin, tenant):
    a = tenant("a")
    commitment = CommitmentDraft(a, "cpu", Decimal(2), Decimal("0.5"), at(1), at(11))
    publish(berlin, at(1), rate(pooled="1"), commitments=[commitment])
    used(berlin, a, None, 3, at(1), at(1, hour=10))  # 30, of which 2 × 10 are covered
    used(berlin, a, None, 1, at(20), at(20, hour=5))  # after the term
    seal()
    found = {line.kind: line for line in drafted(berlin).lines}
    assert found[LineKind.COMMITMENT].tenant_amount == Decimal("10.00")
    assert found[LineKind.UNUSED].tenant_amount == Decimal("230.00")
    assert found[LineKind.USAGE].tenant_amount == Decimal("15.00")
    ledger = sum(found[kind].amount for kind in (LineKind.COMMITMENT, LineKind.USAGE))
    assert ledger == 35 * 3600


def test_what_has_no_price_is_told(berlin, tenant):
    publish(berlin, at(10), rate(own="1"))
    used(berlin, tenant("a"), None, 1, at(9, hour=23), at(10, hour=2))
    seal()
    draft = drafted(berlin)
    assert draft.lines == []
    assert [(each.reason, each.amount) for each in draft.rated.unrated] == [
        ("no_plan", 3600),
        ("no_price", 7200),
    ]


def test_random_months_are_as_entry_by_entry(berlin, tenant):
    """And the ledger's own totals by owner, kept in another way, hold the same amounts."""
    chance = Random(13)
    members = [tenant(slug) for slug in "abcd"]
    special = rate(shared="0.123456789012", of_owner=members[1])
    spots = [SpotDraft("cpu", "shared", at(3), at(4, hour=7), Decimal("0.3"))]
    publish(berlin, at(1, 2), rate(**CPU), special)
    publish(berlin, at(1), rate(**CPU), special, spot_prices=spots, fee=Decimal("0.037"))
    publish(berlin, at(17, hour=5), rate(own="0", shared="0.049", pooled="0.031"))
    for _ in range(250):
        start = at(1, 2) + timedelta(microseconds=chance.randrange(60 * 86400 * 10**6))
        lasts = timedelta(microseconds=chance.randrange(1, 10 ** chance.randrange(1, 13)))
        owner = chance.choice([None, *members])
        quantity = Decimal(chance.randrange(1, 10**6)).scaleb(-chance.randrange(0, 6))
        used(berlin, chance.choice(members), owner, quantity, start, start + lasts)
    seal()
    for entry in Entry.objects.order_by("id")[:20]:
        entry_correct(entry=entry, quantity=Decimal("0.5"), reason="random", now=MAY_2)
    seal()
    for text in ("2027-02", "2027-03", "2027-04"):
        of = month(text, berlin)
        prices = timeline(pool=berlin, start=of.start, end=of.end)
        plain = plain_lines(berlin, of, prices, MINOR_DIGITS["EUR"])
        lines = drafted(berlin, text).lines
        assert len(plain) > 3
        assert {
            (line.tenant_id, line.owner_id, line.resource, line.plan.pk): (
                Fraction(line.amount),
                Fraction(line.tenant_amount),
                -Fraction(line.fee_amount),
            )
            for line in lines
        } == plain
        flows = lending_report(pool=berlin, period=Period([of.start, of.end])).flows
        assert sum(line.amount for line in lines) == sum(flow.used[0] for flow in flows)
        for member in members:
            mine = [x for x in lines if member.pk in (x.tenant_id, x.owner_id)]
            assert charges(drafted(berlin, text, tenant=member.pk).lines) == charges(mine)


def test_a_posting_that_does_not_balance_is_refused(worked):
    month_close(pool=worked, month=month("2027-03", worked), now=APRIL_2)
    line = Posting.objects.first()
    line.pk, line.month, line._state.adding = None, month("2027-05", worked).first, True
    line.id = "00000000-0000-7000-8000-000000000001"
    line.tenant_amount += Decimal("0.01")
    with pytest.raises(IntegrityError, match="posting_balances"), transaction.atomic():
        line.save(force_insert=True)


def test_what_is_closed_is_not_changed_by_anybody(worked):
    closing = month_close(pool=worked, month=month("2027-03", worked), now=APRIL_2)
    line = Posting.objects.first()
    for change in (
        lambda: Posting.objects.update(tenant_amount=0),
        lambda: line.delete(),
        lambda: closing.statements.update(document=b"{}"),
        lambda: closing.statements.all()._raw_delete("default"),
        lambda: Posting.objects.create(
            pool=worked, month=closing.month, service_month=closing.month, kind="usage",
            tenant=line.tenant, start=closing.start, end=closing.end, currency="EUR",
        ),
    ):  # fmt: skip
        with pytest.raises(IntegrityError, match=r"only added to|is closed"), transaction.atomic():
            change()
