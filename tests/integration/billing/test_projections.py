"""Costs of a constant use are those of the statement of a month in which it is used."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest

from allocator_service.allocation.long_term.metering import pool_meter
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.billing.models import LineKind
from allocator_service.billing.plans.services import CommitmentDraft, FixedCostDraft, SpotDraft
from allocator_service.billing.plans.tiers import Tier
from allocator_service.billing.rating.months import month_rated
from allocator_service.billing.rating.projections import UseNow, current_costs, pool_prices
from allocator_service.core.money import rounded
from allocator_service.ledger.models import Entry
from allocator_service.pools.member_services import members_admit
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.billing.conftest import at, month, publish, rate, seal, used

PRICES = rate(own="0.01", shared="0.04", pooled="0.03")
HOURS = 24 * 31 - 1  # of March in Berlin


@pytest.fixture
def lab(berlin, tenant):
    members_admit(pool=berlin, tenants=[tenant("a"), tenant("b")], now=at(1))
    berlin.transparent = True
    return berlin


def billed(pool, payer, uses):
    """What March bills if these are used all the time, without fixed costs and upfront prices."""
    for owner, quantity in uses:
        used(pool, payer, owner, quantity, at(1), at(1, 4))
    seal()
    lines = month_rated(pool=pool, month=month("2027-03", pool)).rated.lines
    kinds = (LineKind.USAGE, LineKind.COMMITMENT, LineKind.UNUSED)
    return sum(
        line.tenant_amount for line in lines if line.tenant_id == payer.pk and line.kind in kinds
    )


def prices_of(pool, payer, now=None):
    of_pool = pool_prices(pool=pool, now=now or at(2))
    return None if of_pool is None else of_pool.of(payer)


def cost(pool, payer, uses, now=None):
    return prices_of(pool, payer, now).cost(
        UseNow(None if owner is None else owner.pk, "cpu", Decimal(quantity))
        for owner, quantity in uses
    )


@pytest.mark.parametrize("committed", [None, "2", "7", "20"])
def test_an_hour_costs_its_part_of_the_statement(lab, tenant, committed):
    a, b = tenant("a"), tenant("b")
    more = {}
    if committed is not None:
        terms = CommitmentDraft(
            a, "cpu", Decimal(committed), Decimal("0.025"), at(1), at(1, 4), Decimal(100)
        )
        more = {
            "commitments": [terms],
            "fixed_costs": [FixedCostDraft("room", Decimal(9), [(a, 1)])],
        }
    publish(lab, at(1), PRICES, **more)
    uses = [(a, "3"), (b, "2.5"), (None, "4")]
    found = cost(lab, a, uses)
    exact = {
        None: Fraction("0.25"),  # 0.03 + 0.10 + 0.12
        "2": Fraction("0.22"),  # 0.05 for 2; the dearest 2 of 2.5 at 0.04 are covered
        "7": Fraction("0.2"),  # 0.175 for 7; 2.5 cores of its own are left
        "20": Fraction("0.5"),
    }[committed]
    assert (found.least, found.greatest, list(found.unpriced)) == (exact, exact, [])
    assert found.days == exact * 720
    # Each line of the statement is rounded to the cent.
    assert abs(billed(lab, a, uses) - rounded(exact * HOURS, 2)) <= Decimal("0.02")


def test_tiers_give_a_range_in_which_the_statement_is(lab, tenant):
    a = tenant("a")
    tiers = (Tier(Decimal(1000), Decimal("0.05")), Tier(None, Decimal("0.02")))
    publish(lab, at(1), replace(rate(), tiers=tiers))
    found = cost(lab, a, [(None, "4")])
    assert (found.least, found.greatest) == (Fraction("0.08"), Fraction("0.2"))
    paid = billed(lab, a, [(None, "4")])
    assert paid == Decimal("1000") * Decimal("0.05") + (4 * HOURS - 1000) * Decimal("0.02")
    assert found.least * HOURS < Fraction(paid) < found.greatest * HOURS
    # 2,880 hours in 30 days, of which the first 1,000 cost 50.00.
    assert found.days == Fraction("87.6")


@pytest.mark.parametrize(("committed", "exact"), [(None, "138.4"), ("2", "83.52")])
def test_all_use_of_a_resource_counts_towards_its_tiers(lab, tenant, committed, exact):
    """Use 3 own cores at 0.01 and 2 of another tenant by tiers, which is 5 hours of the month an hour.

    The first tier ends after 200 hours: 21.60 for own cores, 96.00 and 20.80 for the others. Covered
    cores are those of the other tenant, which are dearer in both tiers.
    """
    a, b = tenant("a"), tenant("b")
    tiers = (Tier(Decimal(1000), Decimal("0.24")), Tier(None, Decimal("0.02")))
    more = {}
    if committed is not None:
        terms = CommitmentDraft(a, "cpu", Decimal(committed), Decimal("0.043"), at(1), at(1, 4))
        more = {"commitments": [terms]}
    publish(lab, at(1), replace(rate(own="0.01"), tiers=tiers), **more)
    uses = [(a, "3"), (b, "2")]
    found = cost(lab, a, uses)
    assert found.days == Fraction(exact)
    # March is billed by entries of ten hours, in the order of time. It has 23 more hours.
    edges = [at(1) + timedelta(hours=hours) for hours in [*range(0, HOURS, 10), HOURS]]
    for start, end in pairwise(edges):
        for owner, quantity in uses:
            used(lab, a, owner, quantity, start, end)
    paid = billed(lab, a, [])
    later = Fraction("0.07") if committed is None else Fraction("0.116")
    assert abs(Fraction(paid) - found.days - 23 * later) <= Fraction("0.01")


def test_use_of_an_unknown_owner_has_no_price(lab, tenant):
    """Cores of the pool have a price, which is not that of servers whose owner is unknown."""
    publish(lab, at(1), PRICES)
    prices = prices_of(lab, tenant("a"))
    rows = [{"owner": owner, "resource": "cpu", "quantity": "2"} for owner in (None, "b", "gone")]
    found = prices.change_cost({"before": rows[:2], "after": rows})
    assert (found.before.least, list(found.before.unpriced)) == (Fraction("0.14"), [])
    assert (found.after.least, list(found.after.unpriced)) == (Fraction("0.14"), ["cpu"])


def test_what_has_no_price_is_named_unless_it_is_covered(lab, tenant):
    a, b = tenant("a"), tenant("b")
    terms = CommitmentDraft(a, "cpu", Decimal(3), Decimal("0.01"), at(1), at(1, 4))
    publish(lab, at(1), rate(own="0.04"), commitments=[terms])
    assert list(cost(lab, a, [(b, "2"), (a, "2")]).unpriced) == ["cpu"]
    assert cost(lab, a, [(b, "2"), (a, "2")]).least == Fraction("0.03")
    assert list(cost(lab, a, [(b, "1"), (a, "2")]).unpriced) == []


def test_a_commitment_of_another_tenant_costs_and_covers_nothing(lab, tenant):
    a, b = tenant("a"), tenant("b")
    terms = CommitmentDraft(b, "cpu", Decimal(3), Decimal("0.025"), at(1), at(1, 4))
    publish(lab, at(1), PRICES, commitments=[terms])
    assert cost(lab, a, [(None, "2")]).least == Fraction("0.06")
    assert cost(lab, b, [(None, "2")]).least == Fraction("0.075")
    assert cost(lab, b, [(None, "5")]).least == Fraction("0.135")


def test_a_spot_price_counts_while_it_holds(lab, tenant):
    spot = SpotDraft("cpu", "pool", at(5), at(6), Decimal("0.5"))
    publish(lab, at(1), PRICES, spot_prices=[spot])
    uses = [(None, "2")]
    assert cost(lab, tenant("a"), uses, at(5, hour=3)).least == 1
    assert cost(lab, tenant("a"), uses, at(6)).least == Fraction("0.06")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("policy", "hour"), [("drfh", "0.2"), ("tda", "0.21")])
def test_the_present_cost_is_that_of_an_hour_in_the_ledger(lab, tenant, policy, hour):
    """Tenant a runs on 4 own cores and on 4 of b, and takes turns on 7 of the pool."""
    a, b = tenant("a"), tenant("b")
    lab.policy_name, lab.policy_mode = policy, "indivisible"
    lab.save()
    publish(lab, at(1), PRICES)
    size = 4 if policy == "drfh" else Decimal("3.5")
    drafts = [ServerDraft(each.slug, [Decimal(size)], each) for each in (a, b)]
    servers_contribute(pool=lab, drafts=drafts, now=at(1))
    demand = [Decimal(size)]
    workloads_submit(pool=lab, drafts=[WorkloadDraft(a, "work", demand)], now=at(1))
    run = recompute_pool(pool_id=lab.pk, clock=lambda: at(2), early=True)
    assert run is not None
    found = current_costs(pool=lab, tenants=[a, b], run=run, now=at(2, hour=1))
    assert list(found) == ["a"]
    found = found["a"]
    assert found.cost.least == found.cost.greatest == Fraction(hour)
    assert found.hour_text == f"{Decimal(hour):.2f} EUR"
    assert found.days_text == f"{Decimal(hour) * 720:.2f} EUR over 30 days"
    pool_meter(pool_id=lab.pk, now=at(2, hour=3))
    price = {None: "0.03", a.pk: "0.01", b.pk: "0.04"}
    entries = Entry.objects.filter(tenant=a, kind="usage", start=at(2, hour=1))
    assert entries
    paid = sum(
        Fraction(each.amount) / 3600 * Fraction(price[each.server_owner_id]) for each in entries
    )
    assert paid == found.cost.least
    stranger = [tenant("stranger")]
    assert current_costs(pool=lab, tenants=stranger, run=run, now=at(2, hour=1)) == {}


def test_reported_usage_costs_what_its_statement_charges(lab, tenant):
    """Reports state no owner, so that use on servers of members has the pool's price, too."""
    a, b = tenant("a"), tenant("b")
    lab.metering = "reported"
    lab.save()
    publish(lab, at(1), PRICES)
    uses = [(a, "3"), (b, "2"), (None, "1")]
    assert cost(lab, a, uses).least == Fraction("0.18")
    rows = [{"owner": owner, "resource": "cpu", "quantity": "2"} for owner in ("a", "gone")]
    found = prices_of(lab, a).change_cost({"before": rows, "after": rows})
    assert (found.after.least, list(found.after.unpriced)) == (Fraction("0.12"), [])
    total = sum(Decimal(quantity) for _, quantity in uses)
    assert billed(lab, a, [(None, total)]) == rounded(Fraction("0.18") * HOURS, 2)


def test_members_see_a_cost_and_strangers_do_not(lab, tenant):
    assert prices_of(lab, tenant("a")) is None  # there is no plan
    publish(lab, at(1), PRICES)
    assert prices_of(lab, tenant("a")) is not None
    assert prices_of(lab, tenant("a"), at(1, 2)) is None  # it holds later
    assert prices_of(lab, tenant("stranger")) is None
