"""Groups of a pool over REST: the tree, its members, and what a tenant sees of it."""

import pytest

from allocator_service.allocation.what_if.simulations import simulation_run
from allocator_service.core.clock import utc_now
from allocator_service.pools.models import Group, GroupTerms, MembershipTerms, Pool
from tests import factories
from tests.api.v1.test_conventions import code

GROUPS = "/api/v1/pools/lab/groups/"
MEMBERS = "/api/v1/pools/lab/members/"


def slugs(response):
    return [row["slug"] for row in response.json()["results"]]


@pytest.fixture
def tree(world):
    """science > ml, bio; ada is in ml and bob in bio."""
    world.groups = {
        slug: factories.group(world.lab, slug, parent)
        for slug, parent in (("science", None), ("ml", "science"), ("bio", "science"))
    }
    factories.member(world.lab, world.ada, "ml")
    factories.member(world.lab, world.bob, "bio")
    return world


def test_an_operator_creates_a_group(operator):
    factories.pool("lab")
    made = operator.post(GROUPS, {"slug": "ml", "name": "Learning", "weight": 2.5, "tier": -1})
    assert made.status_code == 201
    assert made["Location"] == f"{GROUPS}ml/"
    assert made["ETag"] == '"v1"'
    assert made["Pool-Generation"] == "2"
    document = made.json()
    assert {**document, "terms_since": "", "created_at": ""} == {
        "pool": "lab", "slug": "ml", "name": "Learning", "parent": None, "weight": 2.5, "tier": -1,
        "guarantee": [], "limit": [], "own_servers": None, "terms_since": "", "version": 1,
        "created_at": "",
    }  # fmt: skip
    shown = operator.get(f"{GROUPS}ml/")
    assert (shown.json(), shown["ETag"]) == (document, '"v1"')


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, (422, "field.required")),
        ([], (422, "bulk.empty")),
        ({"slug": "No", "name": "x"}, (422, "slug.syntax")),
        ({"slug": "a", "name": "x", "parent": "none"}, (422, "group.unknown")),
        ({"slug": "a", "name": "x", "parent": "a"}, (422, "group.cycle")),
        ({"slug": "a", "name": "x", "weight": 0}, (422, "weight.not_positive")),
        ({"slug": "a", "name": "x", "weight": 1e-13}, (422, "weight.not_positive")),
        ({"slug": "a", "name": "x", "weight": 10**39}, (422, "weight.not_positive")),
        ({"slug": "a", "name": "x", "weight": "1"}, (422, "field.type")),
        ({"slug": "a", "name": "x", "tier": 10**6 + 1}, (422, "tier.out_of_range")),
        ({"slug": "a", "name": "x", "tier": 1.5}, (422, "field.type")),
        ({"slug": "a", "name": "x", "floor": []}, (400, "field.unknown")),
        ([{"slug": f"g{n}", "name": "x"} for n in range(10_001)], (422, "group.too_many")),
        ([{"slug": f"g{n}", "name": "x", "parent": f"g{n - 1}" if n else None} for n in range(9)],
         (422, "group.too_deep")),
        ([{"slug": "a", "name": "x", "parent": "b"}, {"slug": "b", "name": "x", "parent": "a"}],
         (422, "group.cycle")),
        ([{"slug": "a", "name": "x"}, {"slug": "a", "name": "y"}], (409, "group.exists")),
    ],
)  # fmt: skip
def test_a_bad_group_is_refused_and_not_made(body, expected, operator):
    factories.pool("lab")
    assert code(operator.post(GROUPS, body)) == expected
    assert not Group.objects.exists()
    assert Pool.objects.get().generation == 1


def test_many_groups_are_created_at_once_as_json_or_csv_and_once_per_key(operator):
    factories.pool("lab")
    sent = [{"slug": "vision", "name": "Vision", "parent": "ml"}, {"slug": "ml", "name": "ML"}]
    for _ in range(2):
        made = operator.post(GROUPS, sent, Idempotency_Key="once")
        assert made.json() == {"created": 2, "first": "vision", "last": "ml"}
    csv = b"slug,name,parent,weight,tier\nspeech,Speech,ml,2.5,-1\nbio,Biology,,,\n"
    made = operator.send("POST", GROUPS, csv, content_type="text/csv")
    assert made.json() == {"created": 2, "first": "speech", "last": "bio"}
    speech = operator.get(f"{GROUPS}speech/").json()
    assert (speech["parent"], speech["weight"], speech["tier"]) == ("ml", 2.5, -1)
    again = operator.send("POST", GROUPS, csv, content_type="text/csv")
    assert code(again) == (409, "group.exists")
    assert again.json()["errors"][0]["detail"].startswith("Row 1: ")
    bad = operator.send("POST", GROUPS, b"slug,name,weight\nx,X,two\n", content_type="text/csv")
    assert code(bad) == (422, "field.type")


def test_groups_are_listed_in_pages_and_by_parent(tree, operator):
    assert slugs(operator.get(GROUPS)) == ["bio", "ml", "science"]
    assert slugs(operator.get(f"{GROUPS}?parent=science")) == ["bio", "ml"]
    walked, path = [], f"{GROUPS}?limit=2"
    while path:
        page = operator.get(path)
        walked += slugs(page)
        path = page.json()["next"]
    assert walked == ["bio", "ml", "science"]
    rows = operator.get(f"{GROUPS}?format=csv").content.decode().splitlines()
    assert rows[0] == (
        "pool,slug,name,parent,weight,tier,guarantee,limit,own_servers,terms_since,version,created_at"
    )
    assert rows[1].startswith("lab,bio,Bio,science,1,0,")
    assert [row["tenant"] for row in operator.get(f"{MEMBERS}?group=ml").json()["results"]] == [
        "ada"
    ]


def test_a_patch_changes_and_moves_a_group(tree, operator):
    path = f"{GROUPS}ml/"
    assert code(operator.patch(path, {"weight": 2})) == (428, "version.required")
    assert code(operator.patch(path, {"weight": 2}, If_Match='"v9"')) == (412, "version.stale")
    fixed = operator.patch(path, {"slug": "ai"}, If_Match='"v1"')
    assert code(fixed) == (422, "field.immutable")
    loop = operator.patch(f"{GROUPS}science/", {"parent": "ml"}, If_Match='"v1"')
    assert code(loop) == (422, "group.cycle")
    assert loop.json()["errors"][0]["pointer"] == "/parent"
    assert GroupTerms.objects.count() == 3
    changed = operator.patch(path, {"weight": 2, "name": "Learning"}, If_Match='"v1"')
    assert (changed.status_code, changed["ETag"]) == (200, '"v2"')
    tree.lab.refresh_from_db()
    assert changed["Pool-Generation"] == str(tree.lab.generation)
    moved = operator.patch(path, {"parent": None}, If_Match='"v2"').json()
    assert (moved["name"], moved["parent"], moved["weight"]) == ("Learning", None, 2)
    history = operator.get(f"{path}history/").json()["results"]
    assert [(row["parent"], row["weight"], row["end"] is None) for row in history] == [
        ("science", 1, False), ("science", 2, False), (None, 2, True),
    ]  # fmt: skip
    assert history[0]["end"] == history[1]["start"]


def test_only_an_empty_group_is_retired_and_its_history_stays(tree, operator):
    path = f"{GROUPS}ml/"
    assert code(operator.delete(path)) == (428, "version.required")
    for each in (path, f"{GROUPS}science/"):
        refused = operator.delete(each, If_Match='"v1"')
        assert code(refused) == (409, "group.not_empty")
    factories.member(tree.lab, tree.ada, None)
    answer = operator.delete(path, If_Match='"v1"')
    tree.lab.refresh_from_db()
    assert (answer.status_code, answer["Pool-Generation"]) == (204, str(tree.lab.generation))
    assert code(operator.get(path)) == (404, "group.not_found")
    (row,) = operator.get(f"{path}history/").json()["results"]
    assert row["end"] is not None
    assert operator.post(GROUPS, {"slug": "ml", "name": "Again"}).status_code == 201
    assert len(operator.get(f"{path}history/").json()["results"]) == 2


def test_a_member_is_put_into_a_group(tree, operator):
    path = f"{MEMBERS}ada/"
    present = operator.get(path)
    assert (present.json()["group"], present.json()["tier"]) == ("ml", 0)
    bad = operator.put(path, {"group": "none"}, If_Match=present["ETag"])
    assert (code(bad), bad.json()["errors"][0]["pointer"]) == ((422, "group.unknown"), "/group")
    tier = operator.put(path, {"tier": 10**7}, If_Match=present["ETag"])
    assert code(tier) == (422, "tier.out_of_range")
    put = operator.put(path, {"group": "bio", "tier": 2}, If_Match=present["ETag"]).json()
    assert (put["group"], put["tier"], put["weight"]) == ("bio", 2, 1)
    terms = MembershipTerms.objects.filter(membership__tenant=tree.ada).order_by("start")
    assert [(row.group and row.group.slug, row.tier) for row in terms] == [
        (None, 0), ("ml", 0), ("bio", 2),
    ]  # fmt: skip


def test_a_policy_without_groups_refuses_them_and_a_pool_with_groups_refuses_it(world, operator):
    factories.pool("flat", policy="asset")
    refused = operator.post("/api/v1/pools/flat/groups/", {"slug": "ml", "name": "ML"})
    assert code(refused) == (422, "policy.no_groups")
    assert "these do: drf, drfh, h-mrf, lt-af, lt-drf." in refused.json()["detail"]
    member = operator.put("/api/v1/pools/flat/members/ada/", {"tier": 1})
    assert code(member) == (422, "policy.no_groups")
    factories.group(world.lab, "ml")
    tag = operator.get("/api/v1/pools/lab/")["ETag"]
    changed = operator.patch("/api/v1/pools/lab/", {"policy": {"name": "asset"}}, If_Match=tag)
    assert code(changed) == (422, "policy.no_groups")
    assert changed.json()["errors"][0]["pointer"] == "/policy/name"


@pytest.mark.parametrize("transparent", [False, True])
def test_a_tenant_sees_its_own_path_and_no_other_group(tree, operator, transparent):
    Pool.objects.filter(pk=tree.lab.pk).update(transparent=transparent)
    assert slugs(tree.as_ada.get(GROUPS)) == ["ml", "science"]
    assert slugs(tree.as_ada.get(f"{GROUPS}?parent=science")) == ["ml"]
    for path in ("", "history/"):
        assert tree.as_ada.get(f"{GROUPS}science/{path}").status_code == 200
        hidden = tree.as_ada.get(f"{GROUPS}bio/{path}").json()
        unknown = tree.as_ada.get(f"{GROUPS}nix/{path}").json()
        assert {**hidden, "request_id": "", "instance": ""} == {
            **unknown, "request_id": "", "instance": "",
        }  # fmt: skip
        assert hidden["code"] == "group.not_found"
    rows = tree.as_ada.get(MEMBERS).json()["results"]
    assert [row["group"] for row in rows if row["tenant"] == "ada"] == ["ml"]
    others = [row["group"] for row in rows if row["tenant"] != "ada"]
    assert len(others) == transparent
    assert all(name.startswith("group-") for name in others)
    for name in others:
        found = tree.as_ada.get(f"{MEMBERS}?group={name}").json()["results"]
        assert [row["group"] for row in found] == [name]
    operator.patch(f"{GROUPS}ml/", {"parent": "bio"}, If_Match='"v1"')
    operator.patch(f"{GROUPS}ml/", {"parent": "science"}, If_Match='"v2"')
    history = tree.as_ada.get(f"{GROUPS}ml/history/").json()["results"]
    parents = [row["parent"] for row in history]
    assert parents[0] == parents[2] == "science"
    assert parents[1].startswith("group-")
    assert tree.as_eve.get(GROUPS).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_an_input_names_the_caller_s_groups_and_replays_to_the_same_tasks(tree):
    Pool.objects.filter(pk=tree.lab.pk).update(transparent=True)
    run = factories.decision(tree.lab)
    path = f"/api/v1/runs/{run.pk}/"
    document = tree.as_ada.get(f"{path}input/").json()
    names = [row["name"] for row in document["groups"]]
    assert names[:2] == ["science", "ml"]
    assert names[2].startswith("group-")
    assert {row["group"] for row in document["tenants"]} == {"ml", names[2]}
    assert {row["parent"] for row in document["groups"]} == {None, "science"}
    replayed = tree.as_ada.post("/api/v1/evaluations/", document).json()["allocations"]
    stored = tree.as_ada.get(f"{path}allocations/").json()["results"]
    assert [row["tasks"] for row in replayed] == [row["tasks"] for row in stored]
    assert tree.as_ada.post(f"{path}verify/").json()["valid"] is True


@pytest.mark.django_db(transaction=True)
def test_an_entitlement_is_what_the_tree_divides(tree, operator):
    """science = ml of weight 3 and bio: 3/4 and 1/4 of the 14 of each resource."""
    tag = operator.get(f"{GROUPS}ml/")["ETag"]
    operator.patch(f"{GROUPS}ml/", {"weight": 3}, If_Match=tag)
    factories.decision(tree.lab)
    rows = operator.get("/api/v1/pools/lab/entitlements/").json()["tenants"]
    entitled = {row["tenant"]: float(row["entitled"]["cpu"]) for row in rows}
    assert entitled == pytest.approx({"ada": 10.5, "bob": 3.5})


@pytest.mark.django_db(transaction=True)
def test_an_explanation_names_the_groups_of_the_decision(tree):
    run = factories.decision(tree.lab)
    factories.member(tree.lab, tree.ada, None)
    explained = tree.as_ada.get(f"/api/v1/runs/{run.pk}/explanation/ada/")
    assert (explained.status_code, explained.json()["groups"]) == (200, ["ml", "science"])
    now = factories.decision(tree.lab)
    assert tree.as_ada.get(f"/api/v1/runs/{now.pk}/explanation/ada/").json()["groups"] == []


@pytest.mark.django_db(transaction=True)
def test_a_simulation_changes_weights_of_groups_and_moves_members(tree, operator):
    def simulated(changes):
        asked = operator.post("/api/v1/pools/lab/simulations/", changes)
        assert asked.status_code == 202, asked.json()
        simulation_run(simulation_id=asked.json()["id"], clock=utc_now)
        return operator.get(asked["Location"]).json()

    weighted = simulated({"groups": [{"group": "ml", "weight": 3}]})
    assert weighted["status"] == "succeeded", weighted["error"]
    shares = {
        row["tenant"]: (row["before"]["share"], row["after"]["share"])
        for row in weighted["result"]["tenants"]
    }
    assert shares["ada"][0] == pytest.approx(shares["bob"][0])
    assert shares["ada"][1] == pytest.approx(3 * shares["bob"][1], rel=1e-6)
    moved = simulated({"members": [{"tenant": "ada", "group": None, "tier": 1}]})
    assert moved["changes"] == {"members": [{"tenant": "ada", "group": None, "tier": 1}]}
    after = {row["tenant"]: row["after"]["share"] for row in moved["result"]["tenants"]}
    assert after["bob"] > 2 * after["ada"]
    unknown = simulated({"groups": [{"group": "none", "weight": 3}]})
    assert (unknown["status"], unknown["error"]["code"]) == ("failed", "group.unknown")
    loop = simulated({"groups": [{"group": "science", "parent": "ml"}]})
    assert (loop["status"], loop["error"]["code"]) == ("failed", "group.cycle")
    asset = simulated({"policy": {"name": "asset"}})
    assert (asset["status"], asset["error"]["code"]) == ("failed", "policy.no_groups")
    tenant = tree.as_ada.post(
        "/api/v1/pools/lab/simulations/", {"groups": [{"group": "ml", "weight": 9}]}
    )
    assert code(tenant) == (422, "simulation.scope")


@pytest.mark.django_db(transaction=True)
def test_a_simulation_leaves_the_tasks_that_it_does_not_name(world, operator):
    limited = factories.workload(world.lab, "limited", 1, 1, world.ada, tasks=2)
    asked = operator.post(
        "/api/v1/pools/lab/simulations/",
        {"workloads": {"change": [{"id": str(limited.pk), "priority": 3}]}},
    )
    assert asked.json()["changes"]["workloads"]["change"] == [
        {"id": str(limited.pk), "priority": 3}
    ]
