"""Money of others: a tenant sees its own statements, and others by pseudonyms only."""

from decimal import Decimal

import pytest

from allocator_service.billing.budgets import BudgetDraft, BudgetSettings, budget_create
from allocator_service.billing.credit_notes import credit_note_create
from allocator_service.billing.plans.services import CommitmentDraft
from allocator_service.billing.statements.closing import month_close
from allocator_service.core.quantities import Resource
from allocator_service.pools.member_services import members_admit
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import ApiKey
from tests import factories
from tests.api.v1.billing.conftest import APRIL, MARCH, POOL
from tests.integration.billing.conftest import APRIL_2, at, month, publish, rate, seal, used
from tests.statements import pdf_text

pytestmark = pytest.mark.django_db

OTHER = "/api/v1/pools/elsewhere"


@pytest.fixture
def keys(lab, clock):
    """March of two tenants in one pool, closed; a third one is billed in a pool of its own."""
    a, b = (member.tenant for member in lab.memberships.order_by("id"))
    special = rate(shared="0.5", of_owner=b)
    commitment = CommitmentDraft(b, "cpu", Decimal(1), Decimal(1), at(1), at(1, 4))
    publish(
        lab, at(1), rate(own="0.01", shared="0.04", pooled="1"), special, commitments=[commitment]
    )
    used(lab, a, b, 3, at(15), at(20))
    used(lab, b, b, 4, at(1), at(1, 4))
    eve = factories.tenant("eve")
    elsewhere = factories.pool(
        "elsewhere", timezone="Europe/Berlin", resources=[Resource("cpu", "core")]
    )
    members_admit(pool=elsewhere, tenants=[eve], now=at(1, 1))
    publish(elsewhere, at(1), rate(own="1"))
    used(elsewhere, eve, eve, 1, at(2), at(3))
    seal()
    for pool in (lab, elsewhere):
        month_close(pool=pool, month=month(MARCH, pool), now=APRIL_2)
    clock(at(2, 4))
    found = {tenant.slug: factories.client("tenant", tenant) for tenant in (a, b, eve)}
    ApiKey.objects.update(expires_at=at(1, year=2030))
    return found


def test_a_tenant_sees_its_own_statements_and_no_others(keys, lab):
    rows = keys["a"].get(f"{POOL}/statements/").json()["results"]
    assert {row["tenant"] for row in rows} == {"a"}
    mine = keys["a"].get(f"{POOL}/statements/{MARCH}/a/").json()
    assert mine["lines"][0]["server_owner"].startswith("member-")
    assert "sequence" not in mine
    theirs = keys["b"].get(f"{POOL}/statements/{MARCH}/b/").json()
    credits_ = [line for line in theirs["lines"] if line["role"] == "credit"]
    assert credits_[0]["user"].startswith("member-")
    answers = [
        keys["a"].get(f"{POOL}/{path}").content.replace(path.encode(), b"")
        for path in (
            f"statements/{MARCH}/b/",
            f"statements/{MARCH}/nobody/",
            f"months/{MARCH}/",
            f"months/{MARCH}/manifest/",
        )
    ]
    assert {answer[: answer.index(b'"instance"')] for answer in answers} == {
        answers[0][: answers[0].index(b'"instance"')]
    }
    assert b'"code":"statement.not_found"' in answers[0]


@pytest.mark.parametrize("transparent", [False, True])
def test_no_name_of_another_tenant_is_in_any_answer_about_money(keys, lab, transparent):
    lab.transparent = transparent
    lab.save()
    b = lab.memberships.get(tenant__slug="b").tenant
    b.slug = "bobtext"
    b.save()
    credit_note_create(pool=lab, tenant=b, amount=Decimal(1), reason="bobtext", now=APRIL_2)
    settings = BudgetSettings(Decimal(1), [1])
    budget_create(pool=lab, draft=BudgetDraft(b, "", settings), now=APRIL_2)
    period = "from=2027-03-01T00:00:00Z&to=2027-04-01T00:00:00Z"
    paths = [
        f"{POOL}/statements/",
        f"{POOL}/statements/{APRIL}/a/",
        f"{POOL}/statements/{APRIL}/a/?format=html",
        f"{POOL}/statements/{APRIL}/a/?format=csv",
        f"{POOL}/credit-notes/",
        f"{POOL}/budgets/",
        f"{POOL}/service-units/",
        f"{POOL}/reports/billing/?{period}",
        f"{POOL}/reports/billing/?{period}&format=csv",
        f"{POOL}/reports/billing/?{period}&format=svg",
        "/api/v1/price-plans/",
    ]
    for path in paths:
        answer = keys["a"].get(path)
        assert answer.status_code == 200, (path, answer.content)
        assert b"bobtext" not in answer.content, path
    for month_name in (MARCH, APRIL):
        paper = keys["a"].get(f"{POOL}/statements/{month_name}/a/?format=pdf")
        assert "bobtext" not in pdf_text(paper.content)
    assert keys["a"].get(f"{POOL}/reratings/").status_code == 403
    (plan,) = keys["a"].get("/api/v1/price-plans/").json()["results"]
    assert plan["commitments"] == []
    assert plan["rates"][1]["owner"].startswith("member-")
    for name in ("bobtext", "nobody"):
        asked = keys["a"].get(f"{POOL}/reports/billing/?{period}&tenant={name}")
        assert (asked.status_code, asked.json()["code"]) == (404, "tenant.not_found")


def test_what_happens_elsewhere_changes_no_byte(keys, lab):
    def seen():
        paths = ("statements/", f"statements/{MARCH}/a/", f"statements/{APRIL}/a/", "credit-notes/")
        return [keys["a"].get(f"{POOL}/{path}").content for path in paths] + [
            keys["a"].get("/api/v1/price-plans/").content
        ]

    before = seen()
    elsewhere = Pool.objects.get(slug="elsewhere")
    eve = elsewhere.memberships.get().tenant
    used(elsewhere, eve, eve, 9, at(2), at(3))
    publish(elsewhere, at(1, 4), rate(own="5"))
    credit_note_create(pool=elsewhere, tenant=eve, amount=Decimal(1), reason="x", now=APRIL_2)
    seal()
    assert seen() == before
    assert keys["a"].get(f"{OTHER}/statements/").json()["code"] == "pool.not_found"
    assert keys["a"].get(f"{OTHER}/statements/{MARCH}/eve/").json()["code"] == "pool.not_found"
