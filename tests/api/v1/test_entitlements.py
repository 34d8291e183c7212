"""Who has mine, over REST: amounts are exact, other tenants are pseudonyms."""

import pytest

from tests import factories

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
