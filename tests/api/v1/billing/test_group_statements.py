"""Statements of a group: the sum of its members' to the last digit, by the tree at the month's end."""

import csv
import io
import json
from decimal import Decimal

import pyarrow.parquet as pq
import pytest

from allocator_service.billing.statements.groups import TOTALS
from allocator_service.pools.models import GroupTerms, MembershipTerms
from tests import factories
from tests.api.v1.billing.conftest import APRIL, MARCH, POOL, closed
from tests.integration.billing.conftest import at, seal, used
from tests.statements import pdf_text

pytestmark = pytest.mark.django_db

GROUPS = f"{POOL}/groups"


def belongs(pool, slug, *terms):
    membership = pool.memberships.get(tenant__slug=slug)
    MembershipTerms.objects.filter(membership=membership).delete()
    for (group, start), (_, end) in zip(terms, [*terms[1:], (None, None)], strict=True):
        MembershipTerms.objects.create(membership=membership, group=group, start=start, end=end)


@pytest.fixture
def tree(march):
    """physics > optics. In March a is in physics and b in optics."""
    march.physics = factories.group(march, "physics")
    march.optics = factories.group(march, "optics", "physics")
    GroupTerms.objects.update(start=at(1, 1))
    belongs(march, "a", (march.physics, at(1, 1)))
    belongs(march, "b", (march.optics, at(1, 1)))
    return march


def own(caller, *slugs, month=MARCH):
    return [caller.get(f"{POOL}/statements/{month}/{slug}/").json()["totals"] for slug in slugs]


def test_a_group_is_the_sum_of_its_members(tree, operator, billing):
    path = f"{GROUPS}/physics/statements/{MARCH}/"
    open_ = billing.get(path).json()
    assert (open_["state"], open_["closed_at"]) == ("open", None)
    closed(operator)
    document = billing.get(path).json()
    assert document["totals"] == open_["totals"]
    assert document["totals"]["billed"] == "80.04"
    assert (document["state"], document["tree_at"]) == ("closed", document["to"])
    a, b = own(billing, "a", "b")
    for name in TOTALS:
        assert Decimal(document["totals"][name]) == Decimal(a[name]) + Decimal(b[name])
    assert document["groups"] == [{"group": "optics", "tenants": 1, **b}]
    assert document["tenants"] == [
        {"tenant": "a", "group": "physics", **a},
        {"tenant": "b", "group": "optics", **b},
    ]
    inner = billing.get(f"{GROUPS}/optics/statements/{MARCH}/").json()
    assert (inner["totals"], inner["groups"]) == (b, [])


def test_a_closed_statement_of_a_group_stays_when_members_move(tree, operator, billing, clock):
    belongs(tree, "b", (tree.optics, at(1, 1)), (None, at(15)), (tree.optics, at(31)))
    closed(operator)
    path = f"{GROUPS}/optics/statements/{MARCH}/"
    before = billing.get(path).content
    belongs(
        tree, "b", (tree.optics, at(1, 1)), (None, at(15)), (tree.optics, at(31)), (None, at(1, 4))
    )
    assert billing.get(path).content == before
    april = billing.get(f"{GROUPS}/optics/statements/{APRIL}/").json()
    assert (april["state"], april["tenants"]) == ("open", [])
    clock(at(2, 5))
    assert operator.delete(f"{GROUPS}/optics/", If_Match='"v1"').status_code == 204
    assert billing.get(path).content == before
    months = billing.get(f"{GROUPS}/optics/statements/").json()["results"]
    assert [(row["month"], row["state"], row["billed"]) for row in months] == [
        (MARCH, "closed", own(billing, "b")[0]["billed"])
    ]


def test_every_statement_is_in_one_place(tree, operator, billing):
    """One whose membership ended within the month counts where it was last."""
    MembershipTerms.objects.filter(membership__tenant__slug="b").update(end=at(20))
    document = billing.get(f"{GROUPS}/physics/statements/{MARCH}/").json()
    assert [row["tenant"] for row in document["tenants"]] == ["a", "b"]


def test_late_usage_is_on_the_open_statement_of_the_group(tree, operator, billing):
    closed(operator)
    a = tree.memberships.get(tenant__slug="a").tenant
    b = tree.memberships.get(tenant__slug="b").tenant
    used(tree, b, a, 1, at(5), at(6))
    seal()
    document = billing.get(f"{GROUPS}/physics/statements/{APRIL}/").json()
    totals = own(billing, "a", "b", month=APRIL)
    assert any(Decimal(each["billed"]) for each in totals)
    for name in TOTALS:
        assert Decimal(document["totals"][name]) == sum(Decimal(each[name]) for each in totals)
    months = billing.get(f"{GROUPS}/physics/statements/").json()["results"]
    assert [(row["month"], row["state"], row["billed"]) for row in months] == [
        (MARCH, "closed", "80.04"), (APRIL, "open", None),
    ]  # fmt: skip


def test_every_format_has_the_tenants(tree, operator, billing):
    closed(operator)
    path = f"{GROUPS}/physics/statements/{MARCH}/"
    tenants = billing.get(path).json()["tenants"]
    rows = [json.loads(row) for row in billing.get(f"{path}?format=ndjson").content.splitlines()]
    assert rows == tenants
    rows = list(csv.DictReader(io.StringIO(billing.get(f"{path}?format=csv").content.decode())))
    assert rows == tenants
    table = pq.read_table(io.BytesIO(billing.get(f"{path}?format=parquet").content))
    assert sum(table["billed"].to_pylist()) == Decimal("80.04")
    paper = pdf_text(billing.get(f"{path}?format=pdf").content)
    for row in tenants:
        names = f"{row['tenant']} {row['group']}"
        assert f"{names} {row['charges']} {row['credits']} {row['billed']}" in paper
    assert "Billed 80.04 EUR" in paper
    page = billing.get(f"{path}?format=html")
    assert "default-src 'none'" in page["Content-Security-Policy"]
    for text in ("Physics", "80.04", "Optics", "Europe/Berlin"):
        assert text in page.content.decode()


def test_the_billing_report_of_a_group(tree, operator, billing):
    path = f"{POOL}/reports/billing/?from=2027-03-05T00:00:00Z&to=2027-03-06T00:00:00Z"
    for _ in range(2):
        report = billing.get(f"{path}&group=physics").json()
        whole = billing.get(path).json()
        assert report["ties"] == whole["ties"]
        assert report["accounts"] == whole["accounts"]
        totals = own(billing, "a", "b")
        for name in ("charges", "credits", "billed"):
            assert Decimal(report["group"][name]) == sum(Decimal(each[name]) for each in totals)
        (optics,) = report["groups"]
        inner = billing.get(f"{path}&group=optics").json()
        assert inner["group"] == optics
        assert [tie["tenant"] for tie in inner["ties"]] == ["b"]
        if operator.get(f"{POOL}/months/{MARCH}/").json()["state"] == "open":
            closed(operator)


def test_tenants_see_no_statement_of_a_group(tree, operator):
    as_a = factories.client("tenant", tree.memberships.get(tenant__slug="a").tenant)
    for part in ("", f"{MARCH}/"):
        answers = [as_a.get(f"{GROUPS}/{slug}/statements/{part}") for slug in ("physics", "none")]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert [answer.json()["code"] for answer in answers] == ["group.not_found"] * 2


def test_no_statement_of_a_month_without_prices(tree, billing):
    answer = billing.get(f"{GROUPS}/physics/statements/2026-01/")
    assert (answer.status_code, answer.json()["code"]) == (404, "statement.not_found")
    unknown = billing.get(f"{GROUPS}/none/statements/{MARCH}/")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "group.not_found")


def test_a_key_of_a_group_sees_statements_of_months_that_ended_below_it(tree, operator, billing):
    belongs(tree, "b", (tree.optics, at(1, 1)), (None, at(1, 4)))  # left with the end of March
    closed(operator)
    manager = factories.client("group", group=tree.optics)
    rows = manager.get(f"{POOL}/statements/").json()["results"]
    assert [(row["month"], row["tenant"]) for row in rows] == [(MARCH, "b")]
    own = manager.get(f"{POOL}/statements/{MARCH}/b/")
    as_b = factories.client("tenant", tree.memberships.get(tenant__slug="b").tenant)
    assert own.json() == as_b.get(f"{POOL}/statements/{MARCH}/b/").json()
    for path in (f"statements/{APRIL}/b/", f"statements/{MARCH}/a/"):
        answer = manager.get(f"{POOL}/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "statement.not_found")
    department = manager.get(f"{GROUPS}/optics/statements/{MARCH}/").json()
    assert department == billing.get(f"{GROUPS}/optics/statements/{MARCH}/").json()
    above = manager.get(f"{GROUPS}/physics/statements/{MARCH}/")
    assert (above.status_code, above.json()["code"]) == (404, "group.not_found")
    report = manager.get(f"{POOL}/reports/billing/?from=2027-03-05T00:00:00Z").json()
    assert {tie["tenant"] for tie in report["ties"]} == {"b"}
    assert {str(tie["month"]) for tie in report["ties"]} == {MARCH}


def test_a_group_that_came_later_brings_no_earlier_statement(tree, operator):
    GroupTerms.objects.filter(group=tree.optics).delete()
    GroupTerms.objects.create(group=tree.optics, start=at(1, 1), end=at(1, 4))
    GroupTerms.objects.create(group=tree.optics, parent=tree.physics, start=at(1, 4))
    closed(operator)
    manager = factories.client("group", group=tree.physics)
    answer = manager.get(f"{GROUPS}/optics/statements/{MARCH}/")
    assert (answer.status_code, answer.json()["code"]) == (404, "group.not_found")
    months = manager.get(f"{GROUPS}/optics/statements/").json()["results"]
    assert [row["month"] for row in months] == [APRIL]
    assert operator.get(f"{GROUPS}/optics/statements/{MARCH}/").status_code == 200
