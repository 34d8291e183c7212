"""A pool's tree as it was at each instant, in the backtest of its history."""

import math
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest

from allocator_service.backtests.trees import tree_between, tree_fields, tree_moments
from allocator_service.pools.group_services import (
    GroupDraft,
    GroupSettings,
    group_retire,
    group_update,
    groups_create,
)
from allocator_service.pools.limits import Limit
from allocator_service.pools.member_services import member_put
from tests.integration.conftest import NOON

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def group(pool, slug, parent=None, weight=1, *, at=0):
    settings = GroupSettings(slug, parent, Decimal(weight))
    (made,) = groups_create(pool=pool, drafts=[GroupDraft(slug, settings)], now=NOON + at * HOUR)
    return made


def member(pool, tenant, slug, *, at, weight=1, tier=0, best_effort=False):
    present = pool.memberships.filter(tenant=tenant, ended_at=None).first()
    member_put(
        pool=pool, tenant=tenant, weight=Decimal(weight), best_effort=best_effort, group=slug,
        tier=tier, version=present.version if present else None, now=NOON + at * HOUR,
    )  # fmt: skip


def fields(pool, tenants, second, hours=10):
    tree = tree_between(pool=pool, start=NOON, end=NOON + hours * HOUR)
    found = tree_fields(tree.numbered(tenants), second, ["cpu", "memory"])
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in found.items()
    }


def test_terms_are_those_of_each_instant(pool, tenant):
    ada, bob = tenant("ada"), tenant("bob")
    physics = group(pool, "physics", weight=3, at=-2)
    group(pool, "optics", at=-2)
    member(pool, ada, "optics", at=-1)
    member(pool, bob, None, at=-1, weight=2)
    optics = pool.groups.get(slug="optics")
    group_update(
        group=optics, settings=GroupSettings("optics", "physics"), version=None, now=NOON + 2 * HOUR
    )
    member(pool, bob, "physics", at=3, tier=1, best_effort=True)
    group_update(
        group=physics, settings=GroupSettings("physics", None, Decimal(5)), version=None,
        now=NOON + 4 * HOUR,
    )  # fmt: skip
    tree = tree_between(pool=pool, start=NOON, end=NOON + 10 * HOUR).numbered(["ada", "bob", "x"])
    assert tree_moments(tree) == [7200.0, 10800.0, 14400.0]
    names = ["ada", "bob", "x"]
    first = fields(pool, names, 0.0)
    # optics, physics by slug
    assert first["group_parent"] == [-1, -1]
    assert first["group_weight"] == [1.0, 3.0]
    assert first["tenant_group"] == [0, -1, -1]
    assert first["weight"] == [1.0, 2.0, 1.0]
    assert fields(pool, names, 7199.0) == first
    assert fields(pool, names, 7200.0)["group_parent"] == [1, -1]
    later = fields(pool, names, 10800.0)
    assert (later["tenant_group"], later["tenant_tier"]) == ([0, 1, -1], [0, 1, 0])
    assert (later["weight"], later["best_effort"]) == ([1.0, 1.0, 1.0], [False, True, False])
    assert fields(pool, names, 1e9)["group_weight"] == [1.0, 5.0]
    # A period that begins later begins with what was in force.
    only = tree_between(pool=pool, start=NOON + 5 * HOUR, end=NOON + 6 * HOUR).numbered(names)
    assert tree_moments(only) == []
    assert tree_fields(only, 0.0, [])["group_weight"].tolist() == [1.0, 5.0]


def test_a_group_counts_from_its_creation_to_its_retirement(pool, tenant):
    ada = tenant("ada")
    outer = group(pool, "outer", weight=4, at=-1)
    member(pool, ada, "outer", at=-1)
    group(pool, "inner", "outer", 2, at=1)
    member(pool, ada, "inner", at=2)
    member(pool, ada, "outer", at=3)
    group_retire(group=pool.groups.get(slug="inner"), version=None, now=NOON + 4 * HOUR)
    group(pool, "inner", weight=7, at=5)  # another one of the same slug
    names = ["ada"]
    assert fields(pool, names, 0.0)["group_parent"] == [-1, -1, -1]
    assert fields(pool, names, 3600.0)["group_weight"] == [2.0, 1.0, 4.0]
    within = fields(pool, names, 7200.0)
    assert (within["tenant_group"], within["group_parent"]) == ([0], [2, -1, -1])
    after = fields(pool, names, 5 * 3600.0)
    assert (after["tenant_group"], after["group_weight"]) == ([2], [1.0, 7.0, 4.0])
    assert outer.slug == "outer"


def test_limits_are_those_of_each_instant(pool, tenant):
    ada = tenant("ada")
    physics = group(pool, "physics", at=-2)
    member(pool, ada, "physics", at=-1)
    dated = Limit({"cpu": Decimal("2.5")}, {"room": "cellar"}, NOON + 1 * HOUR, NOON + 3 * HOUR)
    for at, limits in ((-1, [dated]), (2, [dated, Limit({"memory": Decimal(4)})]), (4, [])):
        settings = GroupSettings("physics", None, limit=limits)
        group_update(group=physics, settings=settings, version=None, now=NOON + at * HOUR)
    present = pool.memberships.get(tenant=ada)
    member_put(
        pool=pool, tenant=ada, weight=Decimal(1), best_effort=False, group="physics",
        version=present.version, limit=[Limit({"cpu": Decimal(1)})], now=NOON + 5 * HOUR,
    )  # fmt: skip
    of_cpu, of_memory = (2.5, math.inf), (math.inf, 4.0)
    expected = {
        0: [], 1: [("group", of_cpu)], 2: [("group", of_cpu), ("group", of_memory)],
        3: [("group", of_memory)], 4: [], 5: [("tenant", (1.0, math.inf))],
    }  # fmt: skip
    for hour, limits in expected.items():
        found = fields(pool, ["x", "ada"], hour * 3600.0)["limits"]
        assert [(each.scope, tuple(each.amount)) for each in found] == limits, hour
        assert {each.node for each in found} <= ({1} if hour == 5 else {0})
    (first, *_) = fields(pool, ["ada"], 3600.0)["limits"]
    assert first.where == {"room": ("cellar",)}
    tree = tree_between(pool=pool, start=NOON, end=NOON + 10 * HOUR).numbered(["ada"])
    assert tree_moments(tree) == [hour * 3600.0 for hour in (1, 2, 3, 4, 5)]


def test_a_scenario_of_an_earlier_version_has_no_limits():
    tree = {"groups": [[[0.0, -1, 1.0, 0]]], "members": [[[0.0, 1.0, False, 0, 0]]]}
    assert tree_fields(tree, 0.0, ["cpu"])["limits"] == ()


def test_a_pool_without_groups_has_no_tree(pool, tenant):
    member(pool, tenant("ada"), None, at=-1)
    group(pool, "empty", at=-1)
    assert tree_between(pool=pool, start=NOON, end=NOON + HOUR) is None
    member(pool, tenant("bob"), None, at=2, tier=1)
    assert tree_between(pool=pool, start=NOON, end=NOON + HOUR) is None
    assert tree_between(pool=pool, start=NOON, end=NOON + 3 * HOUR) is not None


def test_guarantees_own_servers_and_loans_are_those_of_each_instant(pool, tenant):
    ada = tenant("ada")
    group(pool, "outer", at=-2)
    group(pool, "inner", "outer", at=-2)
    member(pool, ada, "inner", at=-1)
    inner, terms = pool.groups.get(slug="inner"), pool.memberships.get(tenant=ada).terms.get()
    row = {"where": {"room": "cellar"}, "amount": {"cpu": "2"}}
    dates = {"from": (NOON + HOUR).isoformat(), "to": (NOON + 3 * HOUR).isoformat()}
    of_inner = inner.terms.get(end=None)
    of_inner.guarantee = [{**row, **dates}]
    of_inner.save()
    terms.guarantee, terms.lend = (
        [row],
        [{"where": {}, "amount": {"memory": "4"}, "to": dates["to"]}],
    )
    terms.save()
    expected = {0: ["tenant"], 1: ["group", "tenant"], 2: ["group", "tenant"], 3: ["tenant"]}
    for hour, scopes in expected.items():
        found = fields(pool, ["x", "ada"], hour * 3600.0)
        assert [each.scope for each in found["guarantees"]] == scopes, hour
        assert found["guarantees"][-1].node == 1
        assert found["guarantees"][-1].where == {"room": ("cellar",)}
        assert found["guarantees"][-1].amount.tolist() == [2.0, math.inf]
        lent = [(each.scope, each.node, each.amount.tolist()) for each in found["limits"]]
        assert lent == ([("lend", 1, [math.inf, 4.0])] if hour < 3 else [])
        assert (found["own_servers"], found["count_guaranteed"]) == ([False, False], True)


@pytest.mark.parametrize(
    ("of_pool", "outer", "inner", "of_member", "expected"),
    [
        (False, "inherit", "inherit", "inherit", False),
        (True, "inherit", "inherit", "inherit", True),
        (True, "no", "inherit", "inherit", False),
        (False, "yes", "inherit", "inherit", True),
        (False, "yes", "no", "inherit", False),
        (False, "no", "no", "yes", True),
        (True, "yes", "yes", "no", False),
    ],
)
def test_own_servers_are_the_setting_of_the_nearest_node(
    pool, tenant, of_pool, outer, inner, of_member, expected
):
    ada = tenant("ada")
    group(pool, "outer", at=-2)
    group(pool, "inner", "outer", at=-2)
    member(pool, ada, "inner", at=-1)
    pool.own_servers, pool.count = of_pool, "above"
    pool.save()
    for slug, setting in (("outer", outer), ("inner", inner)):
        pool.groups.get(slug=slug).terms.update(own_servers=setting)
    pool.memberships.get(tenant=ada).terms.update(own_servers=of_member)
    found = fields(pool, ["ada", "x"], 0.0)
    # A stranger belongs to the pool itself.
    assert found["own_servers"] == [expected, of_pool]
    assert not found["count_guaranteed"]


def test_a_flat_pool_with_own_servers_has_a_tree(pool, tenant):
    member(pool, tenant("ada"), None, at=-1)
    assert tree_between(pool=pool, start=NOON, end=NOON + HOUR) is None
    pool.own_servers = True
    pool.save()
    assert fields(pool, ["ada"], 0.0)["own_servers"] == [True]


def test_a_scenario_of_an_earlier_version_has_no_guarantees():
    tree = {"groups": [[[0.0, -1, 1.0, 0, []]]], "members": [[[0.0, 1.0, False, 0, 0, []]]]}
    found = tree_fields(tree, 0.0, ["cpu"])
    assert (found["guarantees"], found["own_servers"].tolist()) == ((), [False])
    assert found["count_guaranteed"]
