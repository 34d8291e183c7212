"""Guarantees, own servers and loans in the tree of a run, and what of them a caller sees."""

import pytest

from allocator_service.core.quantities import Resource
from tests import factories
from tests.api.v1.test_tree import rows

PATH = "/api/v1/pools/shared"
H100 = {"where": {"gpu": ["h100"]}, "amount": {"gpu": 12}}

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=["divisible", "indivisible"])
def pool(request, operator):
    """A group of two members with 8 H100 each, a third member, and 4 A10 of the pool."""
    pool = factories.pool("shared", resources=[Resource("gpu", "")], mode=request.param)
    tenants = {slug: factories.tenant(slug) for slug in ("a", "b", "c")}
    factories.group(pool, "ml")
    for name, owner, kind, count in (
        ("of-a", "a", "h100", 8), ("of-b", "b", "h100", 8), ("other", None, "a10", 4),
    ):  # fmt: skip
        serve(operator, name, owner, {"gpu": kind}, count)
    for slug in tenants:
        factories.member(pool, tenants[slug], None if slug == "c" else "ml")
        body = {"tenant": slug, "name": slug, "demand": {"gpu": 1}}
        assert operator.post(f"{PATH}/workloads/", body).status_code == 201
    pool.tenants = tenants
    return pool


def serve(operator, name, owner, labels, count):
    server = {"name": name, "capacity": {"gpu": count}, "labels": labels, "contributed_by": owner}
    assert operator.post(f"{PATH}/servers/", server).status_code == 201


def amend(client, path, body):
    answer = client.get(path)
    send = client.put if "/members/" in path else client.patch
    kept = {"weight": 1, "group": answer.json().get("group")} if "/members/" in path else {}
    changed = send(path, {**kept, **body}, If_Match=answer["ETag"])
    assert changed.status_code == 200, changed.content


def tree(client, run):
    return {row["name"]: row for row in rows(client.get(f"/api/v1/runs/{run.pk}/tree/"))}


def test_each_node_has_its_guarantees_and_how_far_they_are_met(pool, operator):
    """12 of 16 H100 for the group, 6 each, and 12 of all 20 for c. Divided, 5/6 are met."""
    amend(operator, f"{PATH}/groups/ml/", {"guarantee": [H100]})
    amend(operator, f"{PATH}/members/c/", {"guarantee": [{"amount": {"gpu": 12}}]})
    run = factories.decision(pool)
    found = tree(operator, run)
    (group,), (member,) = found["ml"]["guarantee"], found["c"]["guarantee"]
    assert found["ml"]["guaranteed"] == {"gpu": 12}
    assert {slug: found[slug]["guaranteed"]["gpu"] for slug in "abc"} == {"a": 6, "b": 6, "c": 12}
    rows = {row.workload.name: row for row in run.allocations.select_related("workload")}
    least = min(rows["a"].floor_met, rows["b"].floor_met)
    assert group["met"] == float(f"{least:.12g}") < 1
    assert member["met"] == float(f"{rows['c'].floor_met:.12g}")
    if pool.policy_mode == "divisible":
        assert group["met"] == pytest.approx(5 / 6)
    assert group["has"]["gpu"] == pytest.approx(rows["a"].tasks + rows["b"].tasks)
    assert member["has"]["gpu"] == pytest.approx(rows["c"].tasks)
    assert (group["where"], group["amount"]) == (H100["where"], H100["amount"])
    for guarantee in (group, member):
        assert guarantee["limited_by"] == (["resource:gpu"] if guarantee["met"] < 1 else [])
    assert found["a"]["guarantee"] == found["a"]["lend"] == []
    assert {found[name]["own_servers"] for name in ("ml", "a", "c")} == {None}


def test_a_guarantee_that_is_met_has_no_reason(pool, operator):
    amend(operator, f"{PATH}/groups/ml/", {"guarantee": [H100]})
    (group,) = tree(operator, factories.decision(pool))["ml"]["guarantee"]
    assert (group["met"], group["limited_by"]) == (1, [])
    assert group["has"]["gpu"] >= 12 - 1e-9


def test_own_servers_and_loans_are_of_members(pool, operator):
    """A lender with one task on 8 GPUs, of which others may have 3."""
    amend(operator, f"{PATH}/", {"own_servers": True})
    amend(operator, f"{PATH}/members/a/", {"lend": [{"amount": {"gpu": 3}}]})
    workload = operator.get(f"{PATH}/workloads/?tenant=a").json()["results"][0]["id"]
    amend(operator, f"{PATH}/workloads/{workload}/", {"tasks": 1})
    found = tree(operator, factories.decision(pool))
    met = {"met": 1, "limited_by": []}
    assert [found[name]["own_servers"] for name in ("a", "b", "c", "ml")] == [met, met, None, None]
    assert {slug: found[slug]["guaranteed"]["gpu"] for slug in "abc"} == {"a": 1, "b": 8, "c": 0}
    (loan,) = found["a"]["lend"]
    assert (loan["amount"], loan["where"]) == ({"gpu": 3}, {})
    assert loan["has"]["gpu"] == pytest.approx(3)
    assert found["b"]["lend"] == found["ml"]["lend"] == []


def test_a_tenant_sees_its_own_and_those_above_without_numbers(pool, operator):
    amend(operator, f"{PATH}/groups/ml/", {"guarantee": [H100]})
    own = [{"where": {"gpu": ["h100"]}, "amount": {"gpu": 8}}]
    amend(operator, f"{PATH}/members/a/", {"guarantee": own, "lend": [{"amount": {"gpu": 8}}]})
    amend(operator, f"{PATH}/members/c/", {"guarantee": [{"amount": {"gpu": 20}}]})
    run = factories.decision(pool)
    whole = tree(operator, run)
    found = tree(factories.client("tenant", pool.tenants["a"]), run)
    assert set(found) == {"ml", "a"}
    assert found["a"] == whole["a"]
    hidden = dict.fromkeys(("has", "met", "limited_by"))
    assert found["ml"]["guarantee"] == [{**H100, **hidden}]
    assert found["ml"]["guaranteed"] is None


def test_in_a_transparent_pool_labels_of_others_have_pseudonyms(pool, operator):
    kinds = [{"where": {"rack": ["c-rack"]}, "amount": {"gpu": 2}}]
    serve(operator, "of-c", "c", {"rack": "c-rack"}, 4)
    amend(operator, f"{PATH}/members/c/", {"guarantee": kinds, "lend": kinds})
    pool.transparent = True
    pool.save()
    run = factories.decision(pool)
    client = factories.client("tenant", pool.tenants["a"])
    found = tree(client, run)
    (other,) = [row for row in found.values() if row["guarantee"]]
    assert other["guarantee"][0]["has"] == {"gpu": other["guarantee"][0]["has"]["gpu"]}
    assert other["guarantee"][0]["met"] == 1
    for path in ("tree", "input", "proof"):
        assert b"c-rack" not in client.get(f"/api/v1/runs/{run.pk}/{path}/").content, path
    owner = factories.client("tenant", pool.tenants["c"])
    assert tree(owner, run)["c"]["guarantee"][0]["where"] == {"rack": ["c-rack"]}


def test_in_a_private_pool_the_guarantees_of_others_change_no_byte(pool, operator):
    """A tenant sees no difference if another is given a guarantee that takes nothing from it."""
    amend(operator, f"{PATH}/groups/ml/", {"guarantee": [H100]})
    client = factories.client("tenant", pool.tenants["a"])

    def seen():
        return client.get(f"/api/v1/runs/{factories.decision(pool).pk}/tree/").content

    before = seen()
    amend(operator, f"{PATH}/members/c/", {"guarantee": [{"amount": {"gpu": 1}}]})
    assert seen() == before
