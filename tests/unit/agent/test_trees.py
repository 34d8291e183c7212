"""Limits of parent accounts in Slurm: they never stop an account below, and go when groups go."""

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator_agent.slurm.trees import plan_groups
from tests.examples import examples
from tests.unit.agent.shown import shown
from tests.unit.agent.test_planning import job, row

RESOURCES = ("cpu", "mem")


def member(tenant, group, **limits):
    return {"kind": "account", "tenant": tenant, "group": group, "fairshare": 1, "limits": limits}


def group(slug, parent=None, fairshare=1, **limits):
    return {
        "kind": "group",
        "group": slug,
        "parent": parent,
        "fairshare": fairshare,
        "limits": limits,
    }


def removed(slug):
    return {"kind": "removed", "group": slug, "limits": {"cpu": -1, "mem": -1}}


OBJECTS = [
    group("science", cpu=10, mem=100),
    group("labs", "science", fairshare=3000, cpu=7, mem=70),
    member("a", "labs", cpu=3, mem=30),
    member("b", "labs", cpu=4, mem=40),
    member("c", "science", cpu=3, mem=30),
]
TREE = {"science": "root", "labs": "science", "a": "labs", "b": "labs", "c": "science"}


def plan(objects=OBJECTS, rows=None, jobs=(), tree=TREE):
    """Plan for accounts named as their slugs."""
    rows = [row(name) for name in tree] if rows is None else rows
    leaves = {name: name for name in tree if name not in tree.values()}
    return plan_groups(objects, rows, jobs, leaves, {name: name for name in tree}, tree)


def after(planned):
    return {change.key[0]: change.after for change in planned.limits}


def test_parents_get_the_sums_and_the_weights_of_the_tree():
    planned = plan()
    assert after(planned) == {"science": {"cpu": 10, "mem": 100}, "labs": {"cpu": 7, "mem": 70}}
    assert {change.key[0]: change.fairshare for change in planned.limits} == {
        "science": ("1", "1"), "labs": ("1", "3000"),
    }  # fmt: skip
    assert (planned.removals, planned.problems) == ([], {})
    rows = [row("science", cpu=10, mem=100), row("labs", fairshare="3000", cpu=7, mem=70)]
    assert plan(rows=[*rows, row("a"), row("b"), row("c")]).limits == []


def test_jobs_above_a_lowered_limit_take_no_room_from_their_siblings():
    jobs = [
        job(number, account="a", memory=10) for number in range(5)
    ]  # 5 CPUs where 3 are decided
    assert after(plan(jobs=jobs)) == {
        "science": {"cpu": 12, "mem": 120},
        "labs": {"cpu": 9, "mem": 90},
    }


def test_jobs_of_a_parent_itself_take_no_room_from_its_children():
    assert after(plan(jobs=[job(1, account="labs", cpu=2, memory=10)]))["labs"] == {
        "cpu": 9, "mem": 80,
    }  # fmt: skip


def test_a_parent_has_no_limit_where_something_below_has_none():
    tree = {**TREE, "guests": "labs"}
    rows = [row(name) for name in TREE] + [row("guests", cpu=2)]
    rows[1] = row("labs", cpu=1, mem=1)
    planned = plan(rows=rows, tree=tree)
    assert after(planned) == {"science": {"cpu": 12}, "labs": {"cpu": 9}}
    assert shown(*planned.removals) == [
        "~ account labs",
        "mem 1 -> unlimited",
        "an account below it has no limit",
    ]


def test_accounts_between_groups_count_by_their_own_limit_or_what_is_below():
    tree = {"science": "root", "floor": "science", "labs": "floor", "a": "labs", "b": "labs"}
    rows = [row(name) for name in tree]
    assert after(plan(rows=rows, tree=tree))["science"] == {"cpu": 10, "mem": 100}
    rows[1] = row("floor", cpu=50, mem=500)
    planned = plan(rows=rows, tree=tree)
    assert after(planned)["science"] == {"cpu": 50, "mem": 500}
    assert "c" not in planned.problems  # it has no account


@pytest.mark.parametrize("objects", [[*OBJECTS[:1], *OBJECTS[2:]], OBJECTS])
def test_a_group_that_is_removed_is_freed_once(objects):
    objects = [
        *(each for each in objects if each.get("group") != "old"),
        removed("old"),
        removed("new"),
    ]
    tree = {**TREE, "old": "root", "x": "old", "new": "root", "kept": "root"}
    full = {"cpu": 4, "mem": 40}
    rows = [row(name, **full) for name in tree if name != "new"] + [row("new", cpu=4)]
    planned = plan(objects, rows, tree=tree)
    assert shown(*planned.removals) == [
        "~ account old",
        "cpu 4 -> unlimited",
        "mem 40 -> unlimited",
        "the pool has no such group any more",
    ]
    assert not {"old", "new", "kept"} & after(planned).keys()


def test_a_group_whose_accounts_have_left_is_freed():
    tree = {**TREE, "a": "science", "b": "science"}
    rows = [row(name, cpu=1, mem=1) for name in tree]
    planned = plan(rows=rows, tree=tree)
    assert shown(*planned.removals) == [
        "~ account labs",
        "cpu 1 -> unlimited",
        "mem 1 -> unlimited",
        "it has no accounts below it",
    ]
    assert planned.problems == {
        name: [
            f"account {name} is below science in Slurm, and below labs in the pool: move it in one of"
            f" them (sacctmgr modify account {name} set parent=labs)"
        ]
        for name in ("a", "b")
    }


def test_an_account_in_another_group_than_its_member_is_a_problem():
    objects = [*OBJECTS[:2], member("a", None, cpu=3, mem=30), *OBJECTS[3:]]
    assert plan(objects).problems == {
        "a": [
            "account a is below labs in Slurm, and below the pool itself in the pool: move it in one of"
            " them (sacctmgr modify account a set parent=root)"
        ]
    }


def test_groups_without_accounts_are_no_problem():
    flat = {"a": "root", "b": "root", "c": "root"}
    assert plan(tree=flat).problems == {}
    assert plan(tree=flat).limits == []


def test_a_member_with_the_account_of_a_group_is_a_problem():
    planned = plan([*OBJECTS, member("labs", None, cpu=0, mem=0)])
    assert planned.problems == {
        "labs": ["account labs is that of a group: end its membership of the pool"]
    }


def test_a_name_that_sacctmgr_would_take_for_another_is_refused():
    tree = {"a'b": "root", "a": "a'b"}
    planned = plan([group("a'b", cpu=1, mem=1), member("a", "a'b", cpu=1, mem=1)], tree=tree)
    assert planned.limits == []
    assert planned.problems == {"": ['sacctmgr cannot write the account "a\'b" of a group']}


@given(st.integers(0, 2**32))
@examples(200)
def test_no_parent_ever_stops_a_child(seed):
    """Whatever the two trees, running jobs and other accounts: each leaf can run what is decided."""
    draw = random.Random(seed)
    accounts = [f"n{index}" for index in range(draw.randint(2, 9))]
    tree = {name: draw.choice(["root", *accounts[:index]]) for index, name in enumerate(accounts)}
    leaves = [name for name in accounts if name not in tree.values()]
    parents = [name for name in accounts if name in tree.values()]
    objects = [group(name, cpu=draw.randint(0, 5), mem=draw.randint(0, 5))
               for name in parents if draw.random() < 0.7]  # fmt: skip
    objects += [member(name, None, cpu=draw.randint(0, 5), mem=draw.randint(0, 5))
                for name in leaves if draw.random() < 0.7]  # fmt: skip
    rows = [
        row(name, **{each: draw.randint(0, 9) for each in RESOURCES if draw.random() < 0.5})
        for name in accounts
        if name not in parents or any(item.get("group") == name for item in objects)
    ]
    rows += [row(name) for name in accounts if name not in {each.account for each in rows}]
    jobs = [job(number, account=draw.choice(accounts), cpu=draw.randint(1, 3), memory=1)
            for number in range(draw.randint(0, 6))]  # fmt: skip
    planned = plan(objects, rows, jobs, tree)
    limits = {each.account: dict(each.limits) for each in rows}
    for removal in planned.removals:
        for name in removal.before:
            del limits[removal.key[0]][name]
    for change in planned.limits:
        limits[change.key[0]].update(change.after)
    members = {item["tenant"]: item["limits"] for item in objects if item["kind"] == "account"}
    for name in {"cpu": "cpu", "mem": "memory"}:
        amount = {each: Fraction(0) for each in accounts}
        for each in leaves:
            own = members.get(each, limits[each])
            amount[each] = Fraction(own[name]) if name in own else Fraction(10**6)
        for each in reversed(accounts):  # children come after their parents
            held = sum(units(item, name) for item in jobs if item.account == each)
            if each in leaves:
                amount[each] = max(amount[each], held)
            else:
                amount[each] += held
                assert name not in limits[each] or limits[each][name] >= amount[each], (each, name)
            if tree[each] != "root":
                amount[tree[each]] += amount[each]


def units(item, name):
    return item.total["cpu"] if name == "cpu" else item.total["memory"] / 2**20
