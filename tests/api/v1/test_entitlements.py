"""Who has mine, over REST: amounts are exact, other tenants are pseudonyms."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests import factories
from tests.api.v1.billing.conftest import plan, published

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/api/v1/pools/lab/entitlements/"


@pytest.fixture
def lending():
    """12 CPUs, 6 for ada and 6 for bob; ada wants 2, bob 9."""
    ada, bob = factories.tenant("ada"), factories.tenant("bob")
    lab = factories.pool("lab")
    factories.server(lab, "s", 12, 12, None)
    factories.workload(lab, "few", 1, 0, ada, tasks=2)
    factories.workload(lab, "many", 1, 0, bob, tasks=9)
    return factories.decision(lab)


def test_an_operator_sees_who_lends_to_whom(lending, operator):
    document = operator.get(PATH).json()
    assert (document["run"], document["generation"]) == (str(lending.pk), lending.generation)
    ada, bob = document["tenants"]
    assert ada == {
        "tenant": "ada",
        "entitled": {"cpu": "6", "memory": "6"},
        "has": {"cpu": "2", "memory": "0"},
        "lent": {"cpu": "3", "memory": "0"},
        "borrowed": {"cpu": "0", "memory": "0"},
        "unused": {"cpu": "1", "memory": "6"},
        "budgets": [],
        "clusters": [],
        "lent_to": [{"tenant": "bob", "resources": {"cpu": "3", "memory": "0"}}],
        "borrowed_from": [],
        "returns": {"when": "at_once", "at": None},
        "cost": None,
    }
    assert bob["borrowed_from"] == [{"tenant": "ada", "resources": {"cpu": "3", "memory": "0"}}]
    assert bob["returns"] is None


@pytest.mark.parametrize("transparent", [False, True])
def test_a_tenant_sees_pseudonyms(lending, transparent):
    lending.pool.transparent = transparent
    lending.pool.save()
    as_ada = factories.client("tenant", lending.pool.memberships.get(tenant__slug="ada").tenant)
    rows = as_ada.get(PATH).json()["tenants"]
    (loan,) = rows[0]["lent_to"]
    assert loan["tenant"].startswith("member-")
    assert loan["resources"] == {"cpu": "3", "memory": "0"}
    assert [row["tenant"] for row in rows] == ["ada", loan["tenant"]][: 1 + transparent]


def test_before_the_first_decision_nobody_has_anything(operator):
    factories.pool("lab")
    answer = operator.get(PATH)
    assert (answer.status_code, answer.json()["code"]) == (404, "decision.none")


def test_a_group_is_the_sum_of_its_children_in_the_decisions_tree(lending, operator):
    lab = lending.pool
    factories.group(lab, "science")
    factories.group(lab, "ml", "science")
    ada, bob = (lab.memberships.get(tenant__slug=slug).tenant for slug in ("ada", "bob"))
    factories.member(lab, ada, "science")
    factories.member(lab, bob, "ml")
    unknown = operator.get(f"{PATH}?group=science")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "group.not_found")
    factories.decision(lab)
    rows = {row["tenant"]: row for row in operator.get(PATH).json()["tenants"]}
    factories.member(lab, bob, None)  # not decided yet
    document = operator.get(f"{PATH}?group=science").json()
    assert document["tenants"] == [rows["ada"]]
    (ml,) = document["groups"]
    amounts = ("entitled", "has", "lent", "borrowed", "unused")
    assert ml == {"group": "ml", "budgets": [], **{name: rows["bob"][name] for name in amounts}}
    assert document["group"]["group"] == "science"
    for name in amounts:
        for resource in ("cpu", "memory"):
            total = sum(float(row[name][resource]) for row in rows.values())
            assert float(document["group"][name][resource]) == total
    assert document["group"]["entitled"] == {"cpu": "12", "memory": "12"}
    assert factories.client("tenant", ada).get(f"{PATH}?group=science").status_code == 404


def test_the_cost_of_an_allocation_is_for_those_who_see_its_statement(lending, operator):
    lab = lending.pool
    factories.group(lab, "science")
    ada = lab.memberships.get(tenant__slug="ada").tenant
    factories.member(lab, ada, "science")
    factories.decision(lab)
    assert [row["cost"] for row in operator.get(PATH).json()["tenants"]] == [None, None]
    priced()
    ada_costs, bob_costs = (row["cost"] for row in operator.get(PATH).json()["tenants"])
    # 2 cores of the pool, all the time
    assert ada_costs == {
        "currency": "EUR",
        "per_hour": "0.20",
        "per_hour_at_most": "0.20",
        "over_30_days": "144.00",
        "over_30_days_at_most": "144.00",
        "unpriced": [],
        "words": "The allocation of ada costs 0.20 EUR per hour at today's prices: 144.00 EUR over 30"
        " days. Credits, upfront prices and fixed costs are not included.",
    }
    assert (bob_costs["per_hour"], bob_costs["over_30_days"]) == ("0.90", "648.00")
    billing = factories.client("billing")
    group = operator.get(f"{PATH}?group=science").json()["tenants"]
    assert [row["cost"] for row in group] == [ada_costs]
    assert [row["cost"] for row in billing.get(PATH).json()["tenants"]] == [ada_costs, bob_costs]
    lab.transparent = True
    lab.save()
    rows = factories.client("tenant", ada).get(PATH).json()["tenants"]
    assert [row["cost"] for row in rows] == [ada_costs, None]
    rows = factories.client("agent", pool="lab").get(PATH).json()["tenants"]
    assert [row["cost"] for row in rows] == [None, None]
    assert rows[0]["has"] == {"cpu": "2", "memory": "0"}


def priced():
    """Publish a price plan of all pools, by which an hour of a core costs 0.10."""
    rates = [{"resource": name, "own": "0.10", "pool": "0.10"} for name in ("cpu", "memory")]
    published(factories.client("operator"), plan("2020-01-01T00:00:00Z", rates=rates))


def test_costs_of_all_tenants_take_the_statements_of_one(lending, operator):
    priced()
    with CaptureQueriesContext(connection) as few:
        operator.get(PATH)
    lab = lending.pool
    for number in range(5):
        factories.workload(lab, f"more-{number}", 1, 0, factories.tenant(f"t{number}"), tasks=1)
    factories.decision(lab)
    with CaptureQueriesContext(connection) as many:
        rows = operator.get(PATH).json()["tenants"]
    assert all(row["cost"] for row in rows)
    assert len(rows) == 7
    assert len(many) <= len(few) + 1, [query["sql"][:90] for query in many]
