"""Price plans: one timeline per pool, published plans stay, and what is refused changes nothing."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import IntegrityError, connection, transaction

from allocator_service.billing.models import PricePlan, Rate
from allocator_service.billing.plans.services import (
    CommitmentDraft,
    FixedCostDraft,
    PlanDraft,
    SpotDraft,
    plan_create,
    plan_delete,
    plan_publish,
    plan_update,
)
from allocator_service.billing.plans.timeline import timeline
from allocator_service.billing.statements.closing import month_close
from allocator_service.core.errors import Conflict, DomainError, Unacceptable
from allocator_service.pools.services import pool_create, pool_update
from tests.integration.billing.conftest import APRIL_2, at, draft_plan, month, publish, rate
from tests.integration.conftest import settings

CPU = rate(own="0.01", shared="0.04", pooled="0.03")


def refused(error, code, call, **arguments):
    with pytest.raises(error) as raised:
        call(**arguments)
    assert raised.value.code == code
    return raised.value


def write_rate(plan, pool):
    Rate.objects.create(plan=plan, pool=pool, resource="memory", own=1)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def test_a_plan_without_an_end_ends_where_the_next_begins(berlin):
    first = publish(berlin, at(1), CPU)
    second = publish(berlin, at(20), CPU)
    first.refresh_from_db()
    assert (first.end, first.number, second.end, second.number) == (at(20), 1, None, 2)


@pytest.mark.parametrize(
    ("start", "end", "code"),
    [
        (at(10), at(12), "plan.overlap"),
        (at(1), None, "plan.overlap"),
        (at(30), None, "plan.gap"),
        (at(1, 2), at(20, 2), "plan.gap"),
        (at(1, 2), at(2), "plan.overlap"),
    ],
)
def test_overlaps_and_gaps_are_refused(berlin, start, end, code):
    publish(berlin, at(1), CPU, end=at(20))
    plan = draft_plan(berlin, start, end, CPU)
    refused(Conflict, code, plan_publish, plan=plan, version=None, now=at(1))
    assert PricePlan.objects.get(pk=plan.pk).state == "draft"


def test_a_plan_may_come_before_the_first_one(berlin):
    publish(berlin, at(1), CPU)
    before = draft_plan(berlin, at(1, 2), at(1), CPU)
    assert plan_publish(plan=before, version=None, now=at(1)).state == "published"


def test_the_database_refuses_an_overlap_by_itself(berlin):
    publish(berlin, at(1), CPU)
    plan = draft_plan(berlin, at(10), at(12), CPU)
    with pytest.raises(IntegrityError, match="plan_timeline_disjoint"), transaction.atomic():
        PricePlan.objects.filter(pk=plan.pk).update(state="published", number=9, published_at=at(1))


def test_a_published_plan_stays_as_it_is(berlin):
    plan = publish(berlin, at(1), CPU)
    draft = PlanDraft("another", at(1), rates=[CPU])
    refused(
        Conflict, "plan.published", plan_update, plan=plan, draft=draft, version=None, now=at(1)
    )
    refused(Conflict, "plan.published", plan_delete, plan=plan, version=None, now=at(1))
    refused(Conflict, "plan.published", plan_publish, plan=plan, version=None, now=at(1))
    for change in (
        lambda: PricePlan.objects.filter(pk=plan.pk).update(fee=0),
        lambda: PricePlan.objects.filter(pk=plan.pk).delete(),
        lambda: Rate.objects.filter(plan=plan).update(own=9),
        lambda: Rate.objects.filter(plan=plan).delete(),
        lambda: Rate.objects.create(plan=plan, pool=berlin, resource="cpu", owner=None, own=1),
    ):
        with pytest.raises(IntegrityError, match="stays as it is"), transaction.atomic():
            change()


def test_no_price_names_another_pools_resource(berlin):
    other = pool_create(slug="other", settings=settings(), now=at(1))
    plan = draft_plan(berlin, at(1), None, CPU)
    error = refused(
        Unacceptable,
        "resource.unknown",
        plan_update,
        plan=plan,
        draft=PlanDraft("x", at(1), rates=[rate("memory", own="1")]),
        version=None,
        now=at(1),
    )
    assert error.errors[0].pointer == "/rates/0/resource"
    for pool in (berlin, other):  # an unknown name, and a plan of another pool
        with pytest.raises(IntegrityError, match="of_pool"), transaction.atomic():
            write_rate(plan, pool)
    assert list(Rate.objects.values_list("resource", flat=True)) == ["cpu"]


@pytest.mark.parametrize(
    ("draft", "code", "pointer"),
    [
        (PlanDraft("x", at(2), at(1)), "plan.interval", "/to"),
        (PlanDraft("x", at(1), fee=Decimal("1.1")), "plan.fee", "/fee"),
        (PlanDraft("x", at(1), rates=[CPU, CPU]), "rate.duplicate", "/rates/1"),
        (
            PlanDraft("x", at(2), spot_prices=[SpotDraft("cpu", "own", at(1), at(3), Decimal(1))]),
            "spot_price.interval",
            "/spot_prices/0",
        ),
        (
            PlanDraft("x", at(1), unit_weights={"gpu": Decimal(1)}),
            "resource.unknown",
            "/unit_weights/gpu",
        ),
        (
            PlanDraft("x", at(1), fixed_costs=[FixedCostDraft("power", Decimal(1), [])]),
            "fixed_cost.shares",
            "/fixed_costs/0/shares",
        ),
    ],
)
def test_what_cannot_be_a_plan_is_refused(berlin, draft, code, pointer):
    error = refused(Unacceptable, code, plan_create, pool=berlin, draft=draft, now=at(1))
    assert error.errors[0].pointer == pointer
    assert not PricePlan.objects.exists()


def test_a_commitment_begins_no_earlier_than_its_plan(berlin, tenant):
    commitment = CommitmentDraft(tenant("a"), "cpu", Decimal(1), Decimal(0), at(1, 2), at(2))
    draft = PlanDraft("x", at(1), commitments=[commitment])
    refused(Unacceptable, "commitment.interval", plan_create, pool=berlin, draft=draft, now=at(1))


def test_negative_prices_are_refused_by_the_database_too(berlin):
    with pytest.raises(IntegrityError, match="rate_not_negative"):
        draft_plan(berlin, at(1), None, rate(own="-0.01"))


def test_increments_need_reported_usage(berlin):
    draft = PlanDraft("x", at(1), increment="hour-up", rates=[CPU])
    refused(Unacceptable, "plan.increment", plan_create, pool=berlin, draft=draft, now=at(1))
    reported = pool_create(slug="r", settings=settings(metering="reported"), now=at(1))
    assert plan_create(pool=reported, draft=draft, now=at(1)).increment == "hour-up"


def test_an_empty_plan_is_not_published(berlin):
    plan = draft_plan(berlin, at(1), None)
    refused(Unacceptable, "plan.empty", plan_publish, plan=plan, version=None, now=at(1))


def test_currency_and_time_zone_are_fixed_by_the_first_published_plan(berlin):
    def change(**changes):
        chosen = settings(**{"timezone": "Europe/Berlin", **changes})
        return pool_update(pool=berlin, settings=chosen, version=None, now=at(1))

    change(currency="CHF")
    change(currency="EUR")
    refused(Unacceptable, "currency.unknown", change, currency="EUX")
    draft = PlanDraft("x", at(1), currency="USD", rates=[CPU])
    refused(Conflict, "plan.currency", plan_create, pool=berlin, draft=draft, now=at(1))
    publish(berlin, at(1), CPU)
    refused(Conflict, "pool.money_fixed", change, currency="CHF")
    refused(Conflict, "pool.money_fixed", change, timezone="UTC")
    change(name="Another name")
    berlin.refresh_from_db()
    assert (berlin.currency, berlin.timezone, berlin.name) == (
        "EUR",
        "Europe/Berlin",
        "Another name",
    )


def test_prices_of_a_closed_month_are_not_published(worked):
    month_close(pool=worked, month=month("2027-03", worked), now=APRIL_2)
    plan = draft_plan(worked, at(25), None, CPU)
    refused(Conflict, "plan.backdated", plan_publish, plan=plan, version=None, now=APRIL_2)
    later = draft_plan(worked, at(1, 4), None, CPU)
    assert plan_publish(plan=later, version=None, now=APRIL_2).number == 3


def test_the_price_of_an_instant(berlin, tenant):
    """An owner's own price, else a spot price, else the price of all; cut where one of them changes."""
    a, b, c = (tenant(slug) for slug in "abc")
    special = rate(shared="0.5", of_owner=b)
    spot = SpotDraft("cpu", "shared", at(5), at(6), Decimal("0.2"))
    publish(berlin, at(1), CPU, special, spot_prices=[spot])
    found = timeline(pool=berlin, start=at(1), end=at(1, 4))
    assert found.edges == [at(1), at(5), at(6), at(1, 4)]
    shared = [[found.price(n, "cpu", a.pk, owner.pk) for n in range(3)] for owner in (b, c)]
    assert shared == [[Decimal("0.5")] * 3, [Decimal("0.04"), Decimal("0.2"), Decimal("0.04")]]
    assert found.price(1, "cpu", a.pk, a.pk) == Decimal("0.01")
    assert found.price(1, "cpu", a.pk, None) == Decimal("0.03")
    assert found.price(1, "gpu", a.pk, None) is None


def test_a_stale_edit_is_refused(berlin):
    plan = draft_plan(berlin, at(1), None, CPU)
    draft = PlanDraft("new name", at(1), rates=[CPU])
    plan_update(plan=plan, draft=draft, version=1, now=at(1))
    refused(DomainError, "version.stale", plan_update, plan=plan, draft=draft, version=1, now=at(1))
    refused(DomainError, "version.stale", plan_publish, plan=plan, version=1, now=at(1))
    plan_delete(plan=plan, version=2, now=at(1) + timedelta(days=1))
    assert not PricePlan.objects.exists()
