"""The tree on a tenant's pages: what is shown of it, within bounds, and where links lead."""

import re
from decimal import Decimal

import pytest

from allocator_service.allocation.branches import NODES_SHOWN, SIBLINGS_SHOWN, branches
from allocator_service.allocation.trees import GROUP, MEMBER, Tree, TreeNode
from allocator_service.core.clock import utc_now
from allocator_service.pools.group_services import GroupSettings, group_update
from tests import factories
from tests.api.v1.test_tree import fill
from tests.pages.browser import browser_of
from tests.pages.test_pages import LAB, words

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=[False, True], ids=["private", "transparent"])
def case(request):
    """The pool of tests/api/v1/test_tree.py as bob sees it."""
    pool = factories.pool("lab", weights="explicit", transparent=request.param)
    tenants = fill(pool)
    factories.decision(pool)
    return pool, browser_of(factories.client("tenant", tenants["bob"])), request.param


def test_the_pools_page_draws_the_tree_and_links_to_groups(case):
    _, bob, transparent = case
    page = bob.text(LAB)
    text = words(page)
    assert "You belong to g1. Each level of the tree is divided by weights." in text
    assert '<a href="/my/pools/lab/groups/g1/">g1</a>' in page
    assert "bob you weight 1 part 25 % level 0.55 cpu 55 cores wants no limit" in text
    if transparent:
        assert (
            "g1 2 members weight 3 part 75 % level 0.25 cpu 75 cores wants no limit"
            " memory 75 GiB wants no limit Open g1" in text
        )
        assert re.search(r"member-\w{12} weight 2 part 50 % level 0.1 cpu 20 cores wants 20", text)
        assert re.search(r"group-\w{12} 1 member weight 1 part 25 %", text)
        assert page.count('<details open><summary><span class="tree-name">') == 2
    else:
        assert "g1 weight 3 Open g1 bob you" in text
        assert "What others have is not shown in this pool." in text
        tree = text.partition("You belong to g1")[2].partition("Your workloads")[0]
        assert "member-" not in tree
        assert "group-" not in tree


def test_a_groups_page_has_its_path_children_numbers_and_history(case):
    pool, bob, transparent = case
    factories.group(pool, "campus")
    g1 = pool.groups.get(slug="g1")
    changed = GroupSettings("Group One", "campus", Decimal(2))
    group_update(group=g1, settings=changed, version=None, now=utc_now())
    factories.decision(pool)
    page = bob.text(f"{LAB}groups/g1/")
    text = words(page)
    assert text.startswith("My pools › Lab › campus › Group One Group One g1")
    assert '<a href="/my/pools/lab/groups/campus/">campus</a>' in page
    assert "You belong to it" in text
    assert "bob you weight 1" in text
    history = text.partition("Its terms over time")[2]
    assert re.search(r"in force campus 2 0 .+ the pool itself 3 0 Back to Lab", history)
    assert f'href="{LAB}"' in page
    assert ("Allocated" in text) == transparent
    assert ("Neither are the sums of groups." in text) != transparent
    assert "g1" in words(bob.text(f"{LAB}groups/campus/"))
    assert f'<a href="{LAB}groups/campus/">campus</a>' in bob.text(f"{LAB}why/")


def test_in_a_transparent_pool_other_groups_open_by_their_pseudonyms(case):
    _, bob, transparent = case
    if not transparent:
        return
    path = re.findall(f'href="({LAB}groups/group-\\w+/)"', bob.text(LAB))
    texts = [words(bob.text(each)) for each in dict.fromkeys(path)]
    assert len(texts) == 2
    assert any("Part of the pool 25 %" in text for text in texts)
    assert any("No group or member belongs to it" in text for text in texts)
    for text in texts:
        assert "Its terms over time" not in text
        assert "You belong to it" not in text
    assert bob.get(f"{LAB}groups/g2/").status_code == 404


def test_a_group_that_is_not_decided_yet_says_so(case):
    pool, bob, _ = case
    factories.group(pool, "new", "g1")
    factories.member(pool, pool.memberships.get(tenant__slug="bob").tenant, "new")
    assert "It is not in the decision in force yet." in words(bob.text(f"{LAB}groups/new/"))
    assert bob.get(f"{LAB}groups/nowhere/").status_code == 404


def test_a_private_groups_page_is_the_same_whatever_the_others_do():
    pool = factories.pool("lab", weights="explicit")
    tenants = fill(pool)
    factories.decision(pool)
    cleo = browser_of(factories.client("tenant", tenants["cleo"]))
    before = cleo.text(f"{LAB}groups/g2/")
    factories.workload(pool, "more", 1, 2, tenants["ada"])
    factories.group(pool, "inner", "g1")
    factories.member(pool, tenants["bob"], "inner")
    factories.decision(pool)
    assert cleo.text(f"{LAB}groups/g2/") == before


def test_a_flat_pool_has_no_section_of_groups(world):
    factories.decision(world.lab)
    assert "<h2>Groups</h2>" not in browser_of(world.as_ada).text(LAB)


def large(groups, members):
    """A tree of two levels of groups, with members spread over the lower one."""
    nodes = []
    for top in range(groups // 10):
        nodes.append(node(GROUP, f"g{top:04d}", None))
        for inner in range(9):
            name = f"g{top:04d}-{inner}"
            nodes.append(node(GROUP, name, f"g{top:04d}"))
            each = members // (groups // 10 * 9)
            nodes += [node(MEMBER, f"{name}-m{n:05d}", name) for n in range(each)]
    nodes += [node(MEMBER, f"free-{n}", None) for n in range(500)]
    return Tree([], nodes)


def node(kind, name, parent):
    return TreeNode(kind, name, parent, 0, 1.0, 0, best_effort=False, has=[], wants=[])


def shown_of(branches):
    for branch in branches:
        yield branch
        yield from shown_of(branch.below)


def test_a_large_tree_is_cut_says_by_how_much_and_keeps_the_readers_path():
    tree = large(500, 10_000)
    own = tree.path_to(MEMBER, "g0013-4-m00021")
    found = branches(tree, link=lambda _: "", own=own)
    drawn = list(shown_of(found.shown))
    assert len(drawn) <= NODES_SHOWN
    names = [branch.node.name for branch in drawn]
    assert [each for each in own if each.name not in names] == []
    assert len(found.shown) == SIBLINGS_SHOWN
    assert (found.more_groups, found.more_members) == (30, 500)
    counted = len(drawn) + found.more_groups + found.more_members
    counted += sum(branch.more_groups + branch.more_members for branch in drawn)
    # What is below a group that is left out is not counted again.
    children = {name: sum(n.parent == name for n in tree.nodes) for name in names}
    assert counted == 550 + sum(children.values())


def test_the_readers_own_node_is_shown_beside_any_number_of_siblings():
    tree = Tree([], [node(MEMBER, f"m{n:04d}", None) for n in range(1000)])
    found = branches(tree, link=lambda _: "", own=tree.path_to(MEMBER, "m0777"))
    assert [branch.node.name for branch in found.shown if branch.own] == ["m0777"]
    assert (len(found.shown), found.more_members) == (SIBLINGS_SHOWN, 980)


def test_a_large_tree_is_folded_except_along_the_readers_path():
    tree = large(50, 450)
    found = branches(tree, link=lambda _: "", own=tree.path_to(MEMBER, "g0001-4-m00003"))
    unfolded = [branch.node.name for branch in shown_of(found.shown) if branch.unfolded]
    assert unfolded == ["g0001", "g0001-4", "g0001-4-m00003"]
    small = Tree([], [node(GROUP, "g", None), node(MEMBER, "m", "g")])
    assert branches(small, link=lambda _: "").shown[0].unfolded


def test_children_of_a_large_group_are_shown_in_pages():
    tree = Tree([], [node(GROUP, "g", None), *(node(MEMBER, f"m{n:03d}", "g") for n in range(250))])
    seen, start = [], 1
    while start is not None:
        found = branches(tree, link=lambda _: "", parent="g", start=start, children=100)
        seen += [branch.node.name for branch in found.shown]
        assert (found.first, found.total) == (len(seen) - len(found.shown) + 1, 250)
        start = found.after
    assert seen == [f"m{n:03d}" for n in range(250)]
    assert branches(tree, link=lambda _: "", parent="g", start=10**6).first == 250
