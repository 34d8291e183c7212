"""The tree of a run over REST: numbers of each node, and what of it a caller sees."""

from itertools import pairwise

import pytest

from tests import factories
from tests.api.v1.test_conventions import code


def fill(pool):
    """Case A of the groups' page: g1 (weight 3) = a (2, 20 tasks) + b; g2 = c, and an empty group."""
    for slug, parent, weight in (("g1", None, 3), ("g2", None, 1), ("empty", "g1", 1)):
        factories.group(pool, slug, parent, weight=weight)
    tenants = {name: factories.tenant(name) for name in ("ada", "bob", "cleo")}
    factories.server(pool, "big", 100, 100, None)
    factories.member(pool, tenants["ada"], "g1", weight=2)
    factories.member(pool, tenants["bob"], "g1")
    factories.member(pool, tenants["cleo"], "g2")
    for name, tasks in (("ada", 20), ("bob", None), ("cleo", 1000)):
        factories.workload(pool, "w", 1, 1, tenants[name], tasks=tasks)
    return tenants


@pytest.fixture(params=[False, True], ids=["private", "transparent"])
def case(request):
    pool = factories.pool("lab", weights="explicit", transparent=request.param)
    tenants = fill(pool)
    return tenants, f"/api/v1/runs/{factories.decision(pool).pk}/tree/", request.param


def rows(response):
    return response.json()["results"]


@pytest.mark.django_db(transaction=True)
def test_every_node_has_its_part_level_holdings_and_wants(case, operator):
    _, path, _ = case
    found = rows(operator.get(path))
    assert [(row["kind"], row["name"], row["parent"], row["depth"]) for row in found] == [
        ("group", "g1", None, 0), ("group", "empty", "g1", 1), ("member", "ada", "g1", 1),
        ("member", "bob", "g1", 1), ("group", "g2", None, 0), ("member", "cleo", "g2", 1),
    ]  # fmt: skip
    by_name = {row["name"]: row for row in found}
    parts = {"g1": 3 / 4, "empty": 0, "ada": 1 / 2, "bob": 1 / 4, "g2": 1 / 4, "cleo": 1 / 4}
    levels = {"g1": 1 / 4, "ada": 1 / 10, "bob": 11 / 20, "g2": 1 / 4, "cleo": 1 / 4}
    has = {"g1": 75, "empty": 0, "ada": 20, "bob": 55, "g2": 25, "cleo": 25}
    wants = {"g1": None, "empty": 0, "ada": 20, "bob": None, "g2": 1000, "cleo": 1000}
    assert {name: row["part"] for name, row in by_name.items()} == pytest.approx(parts)
    assert by_name["empty"]["level"] is None
    assert {name: by_name[name]["level"] for name in levels} == pytest.approx(levels)
    assert {name: row["has"]["cpu"] for name, row in by_name.items()} == pytest.approx(has)
    for name, amount in wants.items():
        assert by_name[name]["wants"] == {"cpu": amount, "memory": amount}
    assert [by_name[name]["members"] for name in ("g1", "empty", "g2", "ada")] == [2, 0, 1, 1]
    assert [by_name[name]["weight"] for name in ("g1", "ada", "bob")] == [3, 2, 1]


@pytest.mark.django_db(transaction=True)
def test_the_tree_is_listed_in_pages_and_as_csv(case, operator):
    _, path, _ = case
    whole, walked, following = rows(operator.get(path)), [], f"{path}?limit=2"
    while following:
        page = operator.get(following)
        walked += rows(page)
        following = page.json()["next"]
    assert walked == whole
    lines = operator.get(f"{path}?format=csv").content.decode().splitlines()
    assert lines[0] == (
        "kind,name,parent,depth,weight,tier,best_effort,part,level,members,"
        "has.cpu,has.memory,wants.cpu,wants.memory,guaranteed.cpu,guaranteed.memory,"
        "limit,guarantee,lend,own_servers.met,own_servers.limited_by"
    )
    assert lines[2].startswith("group,empty,g1,1,1,0,false,0")
    assert lines[4].startswith("member,bob,g1,1,1,0,false,0.25,0.55")
    assert lines[4].endswith(",,,0.0,0.0,[],[],[],,")


@pytest.mark.django_db(transaction=True)
def test_a_tenant_sees_its_path_or_in_a_transparent_pool_pseudonyms(case):
    tenants, path, transparent = case
    found = rows(factories.client("tenant", tenants["bob"]).get(path))
    own = next(row for row in found if row["name"] == "bob")
    assert own["has"]["cpu"] == pytest.approx(55)
    assert own["level"] == pytest.approx(11 / 20)
    if not transparent:
        above = [row for row in found if row is not own]
        assert [(row["name"], row["weight"]) for row in above] == [("g1", 3)]
        assert {row[field] for row in above for field in ("part", "level", "members")} == {None}
        assert {row[field] for row in above for field in ("has", "wants", "guaranteed")} == {None}
        return
    assert len(found) == 6
    assert {row["name"] for row in found} & {"g1", "g2", "empty", "ada", "bob", "cleo"} == {
        "g1",
        "bob",
    }
    assert sum(row["has"]["cpu"] for row in found if row["kind"] == "member") == pytest.approx(100)
    # Siblings are in the order of the names shown, which says nothing of those behind them.
    for one, other in pairwise([row for row in found if row["parent"] == "g1"]):
        assert (one["kind"], one["name"]) < (other["kind"], other["name"])


@pytest.mark.django_db(transaction=True)
def test_in_a_private_pool_what_others_of_the_group_do_changes_no_byte():
    """Two worlds: the neighbour wants other tasks, and gets them."""
    pool = factories.pool("lab", weights="explicit")
    tenants = fill(pool)
    bob = factories.client("tenant", tenants["cleo"])

    def seen():
        return bob.get(f"/api/v1/runs/{factories.decision(pool).pk}/tree/").content

    before = seen()
    factories.workload(pool, "more", 1, 2, tenants["ada"])
    factories.group(pool, "inner", "g1")
    factories.member(pool, tenants["ada"], "inner")
    assert seen() == before


@pytest.mark.django_db(transaction=True)
def test_whole_tasks_and_shares_of_a_flat_pool_are_in_the_tree(world, operator):
    run = factories.decision(world.lab)
    found = rows(operator.get(f"/api/v1/runs/{run.pk}/tree/"))
    assert [(row["kind"], row["name"], row["part"]) for row in found] == [
        ("member", "ada", 0.5),
        ("member", "bob", 0.5),
    ]
    assert [row["level"] for row in found] == pytest.approx([5 / 7, 5 / 7])


def proposition_4(tree, mode):
    """DRFH's Proposition 4, in groups or flat; decided by tasks over those alone."""
    pool = factories.pool(
        "lab", weights="explicit", policy="drfh", mode=mode, options={"share": "alone"}
    )
    tenants = {name: factories.tenant(name) for name in ("ada", "bob")}
    factories.server(pool, "small", 1, 2, None)
    factories.server(pool, "large", 4, 3, None)
    if tree:
        factories.group(pool, "g")
        factories.member(pool, tenants["ada"], "g")
    factories.workload(pool, "w", 1, 1, tenants["ada"])
    factories.workload(pool, "w", 3, 2, tenants["bob"])
    return factories.decision(pool)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("tree", [False, True], ids=["flat", "groups"])
@pytest.mark.parametrize(
    ("mode", "tasks", "levels"),
    [("divisible", (24 / 11, 10 / 11), (6 / 11, 6 / 11)), ("indivisible", (2, 1), (1 / 2, 1))],
)
def test_levels_of_tasks_over_those_alone(tree, mode, tasks, levels, operator):
    """Dominant shares of the divisible answer are 24/55 and 6/11."""
    run = proposition_4(tree, mode)
    found = {row["name"]: row for row in rows(operator.get(f"/api/v1/runs/{run.pk}/tree/"))}
    assert [found[name]["level"] for name in ("ada", "bob")] == pytest.approx(levels)
    if tree:
        assert found["g"]["level"] == pytest.approx(levels[0])
    decided = rows(operator.get(f"/api/v1/runs/{run.pk}/allocations/"))
    assert [row["tasks"] for row in decided] == pytest.approx(tasks)
    assert operator.post(f"/api/v1/runs/{run.pk}/verify/").json()["valid"] is True
    explained = operator.get(f"/api/v1/runs/{run.pk}/explanation/ada/").json()
    assert explained["weighted_share"] == pytest.approx(levels[0])
    assert explained["share"] == pytest.approx(tasks[0] / 5)
    alone = f"{100 * levels[0]:.4g} %"
    assert f", {alone} of what it would run alone, at weight 1" in explained["sentence"]
    assert all(each["tasks_after"] > tasks[0] for each in explained["counterfactuals"])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("policy", ["lt-drf", "lt-af", "h-mrf"])
def test_levels_under_a_long_term_policy_are_of_one_scale(policy, operator):
    """A group of one member of the group's weight has that member's level."""
    pool = factories.pool("lab", weights="explicit", policy=policy)
    fill(pool)
    found = {
        row["name"]: row
        for row in rows(operator.get(f"/api/v1/runs/{factories.decision(pool).pk}/tree/"))
    }
    assert found["g2"]["has"] == found["cleo"]["has"]
    assert found["g2"]["level"] == pytest.approx(found["cleo"]["level"])


@pytest.mark.django_db(transaction=True)
def test_a_run_without_a_decision_has_no_tree(world, operator):
    queued = operator.post("/api/v1/pools/lab/runs/", {}).json()["id"]
    assert code(operator.get(f"/api/v1/runs/{queued}/tree/")) == (409, "run.not_succeeded")
