"""What a plan accepts can be billed: the largest prices and quantities close, in every format."""

import json
from decimal import Decimal
from fractions import Fraction

import pytest

from allocator_service.billing.exports.focus import LATEST, focus_documents, focus_rows
from allocator_service.billing.models import Closing, Posting, PricePlan, Rate, Statement
from allocator_service.billing.plans.services import (
    CommitmentDraft,
    PlanDraft,
    SpotDraft,
    plan_create,
    plan_publish,
)
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.statements.pages import statement_page
from allocator_service.billing.statements.selectors import statement_content
from allocator_service.billing.tie_out import billing_report
from allocator_service.core.errors import Unacceptable
from allocator_service.ledger.reporting.periods import Period
from api.v1.focus import focus_content, lines_parquet
from tests.integration.billing.conftest import (
    APRIL_2,
    at,
    draft_plan,
    month,
    publish,
    rate,
    seal,
    used,
)

LARGEST = "999999999999.999999999999"
ACCEPTED = "1342281879"
MARCH_HOURS = 743


@pytest.mark.parametrize(
    ("parts", "pointer"),
    [
        ({"rates": [rate(pooled=LARGEST)]}, "/rates/0/pool"),
        ({"rates": [rate(own="1"), rate(own="1342281880")]}, "/rates/1/own"),
        ({"rates": [rate(shared=LARGEST)]}, "/rates/0/shared"),
        ({"rates": [rate(outside=LARGEST)]}, "/rates/0/outside"),
        (
            {"spot_prices": [SpotDraft("cpu", "pool", at(2), at(3), Decimal(LARGEST))]},
            "/spot_prices/0/price",
        ),
    ],
)
def test_a_price_that_could_not_be_billed_is_refused_with_its_place(berlin, parts, pointer):
    with pytest.raises(Unacceptable) as refused:
        plan_create(pool=berlin, draft=PlanDraft("x", at(1), **parts), now=at(1))
    found = {error.pointer: error.code for error in refused.value.errors}
    assert found[pointer] == "plan.bounds"
    assert not PricePlan.objects.exists()


def test_a_commitment_that_could_not_be_billed_is_refused(berlin, tenant):
    commitment = CommitmentDraft(
        tenant("a"), "cpu", Decimal(LARGEST), Decimal(LARGEST), at(1), at(2)
    )
    draft = PlanDraft("x", at(1), rates=[rate(own="1")], commitments=[commitment])
    with pytest.raises(Unacceptable) as refused:
        plan_create(pool=berlin, draft=draft, now=at(1))
    assert [(e.pointer, e.code) for e in refused.value.errors] == [
        ("/commitments/0/price", "plan.bounds")
    ]


def closes_exactly(pool, tenant, price):
    """Close March with the largest usage there is, and read it in every format."""
    a, b = tenant("a"), tenant("b")
    used(pool, a, None, LARGEST, at(1), at(1, 4))
    used(pool, a, b, LARGEST, at(1), at(1, 4))
    seal()
    month_close(pool=pool, month=month("2027-03", pool), now=APRIL_2)
    units, rates = int(LARGEST.replace(".", "")), int(price) * MARCH_HOURS * 100
    cents, rest = divmod(units * rates, 10**12)
    cents += rest > 10**12 // 2
    lines = list(Posting.objects.all())
    assert len(lines) == 2
    for line in lines:
        legs = (line.tenant_amount, line.owner_amount, line.fee_amount, line.pool_amount)
        assert sum(map(Fraction, legs)) == 0
        assert Fraction(line.tenant_amount) * 100 == cents
    statement = Statement.objects.get(tenant=a)
    document = json.loads(bytes(statement.document))
    assert document["totals"]["billed"] == f"{statement.billed:.2f}"
    assert statement_page(document)
    assert lines_parquet(document["lines"])[:4] == b"PAR1"
    for file_format in ("csv", "ndjson", "parquet"):
        rows = [
            r
            for d in focus_documents(Closing.objects.get(), None)
            for r in focus_rows(json.loads(d))
        ]
        assert b"".join(
            focus_content(lambda rows=rows: rows, version=LATEST, file_format=file_format)
        )
    report = billing_report(pool=pool, period=Period([at(1), at(1, 4)]), now=APRIL_2)
    assert [tie.difference for tie in report.ties] == [0]
    assert sum(Fraction(account.billed) for account in report.accounts) == sum(
        -Fraction(line.fee_amount) - Fraction(line.pool_amount) for line in lines
    )


def test_the_largest_accepted_price_and_usage_close(berlin, tenant):
    prices = {"pooled": ACCEPTED, "shared": ACCEPTED, "outside": ACCEPTED}
    publish(berlin, at(1), rate(**prices))
    closes_exactly(berlin, tenant, ACCEPTED)


def test_a_month_with_a_price_of_before_the_bounds_closes_too(berlin, tenant):
    plan = draft_plan(berlin, at(1), None, rate(own="1"))
    Rate.objects.filter(plan=plan).update(pooled=Decimal(LARGEST), shared=Decimal("99999999999"))
    plan_publish(plan=plan, version=None, now=at(1))
    used(berlin, tenant("a"), None, LARGEST, at(1), at(1, 4))
    seal()
    content = statement_content(pool=berlin, month=month("2027-03", berlin), tenant=tenant("a"))
    month_close(pool=berlin, month=month("2027-03", berlin), now=APRIL_2)
    units = int(LARGEST.replace(".", ""))
    cents, rest = divmod(units * units * MARCH_HOURS * 100, 10**24)
    cents += rest > 10**24 // 2
    line = Posting.objects.get()
    assert Fraction(line.tenant_amount) * 100 == cents
    assert json.loads(content)["totals"]["billed"] == f"{cents // 100}.{cents % 100:02d}"
