"""Accounts that are closed until a round has limited them."""

import pytest

from allocator_agent.slurm.closed import OPEN, ROOT, JobsChange, Tree, plan_closed
from allocator_agent.slurm.reading import Association, read_associations


def row(account, user="", partition="", most=None):
    return Association(account, user, partition, {}, "1", max_jobs=most)


def member(*tenants):
    return [{"kind": "account", "tenant": tenant} for tenant in tenants]


def plan(rows, objects=(), *, closed=True, opened=(), parents=None, places=None, **more):
    accounts = {each.account for each in rows if not each.user} - {"root"}
    parents = dict.fromkeys(accounts, "root") | (parents or {})
    leaves = accounts - set(parents.values()) if places is None else places
    tree = Tree(
        rows, parents, leaves, {place.replace("|", "--"): place for place in leaves}, **more
    )
    changes, problems = plan_closed(objects, tree, closed=closed, opened=opened)
    return [(*change.key, change.before, change.after) for change in changes], problems


SITE = [row("root"), row("root", "op"), row("a"), row("a", "ann"), row("b"), row("guests")]


def test_members_and_named_accounts_are_opened_before_the_root_account_is_closed():
    changes, problems = plan(SITE, member("a", "b"), opened=["guests"])
    assert changes == [
        ("root", "op", "", None, OPEN),
        ("a", "", "", None, OPEN),
        ("b", "", "", None, OPEN),
        ("guests", "", "", None, OPEN),
        (*ROOT, None, 0),
    ]
    assert problems == []


def test_a_second_round_changes_nothing_and_a_new_account_stays_closed_until_it_has_a_limit():
    rows = [
        row("root", most=0), row("root", "op", most=OPEN), row("a", most=OPEN), row("a", "ann"),
        row("new"), row("new", "bob"),
    ]  # fmt: skip
    changes, problems = plan(rows, member("a"))
    assert changes == []
    assert problems == [
        "closed, because they are neither members of the pool nor in [slurm] open: new"
    ]
    assert plan(rows, member("a", "new")) == ([("new", "", "", None, OPEN)], [])


def test_values_of_the_site_stay():
    rows = [row("root"), row("a", most=7), row("b", most=0), row("b", "ann", most=3)]
    changes, problems = plan(rows, member("a"))
    assert (changes, problems) == ([(*ROOT, None, 0)], [])


@pytest.mark.parametrize("most", [1, 100])
def test_a_limit_of_the_site_on_the_root_account_is_not_replaced(most):
    changes, problems = plan([row("root", most=most), row("a")], member("a"))
    assert changes == []
    assert problems == [f"account root has MaxJobs={most} of the site: new accounts are not closed"]


def test_a_former_member_is_closed_again():
    rows = [row("root", most=0), row("a", most=OPEN)]
    changes, problems = plan(rows)
    assert changes == [("a", "", "", OPEN, None)]
    assert "open: a" in problems[0]


def test_without_the_option_everything_of_the_agent_is_removed_and_the_root_account_first():
    rows = [row("root", most=0), row("a", most=OPEN), row("b", most=4), row("a", "ann", "p", OPEN)]
    assert plan(rows, member("a"), closed=False) == (
        [(*ROOT, 0, None), ("a", "", "", OPEN, None), ("a", "ann", "p", OPEN, None)],
        [],
    )


def test_a_closed_root_account_of_the_site_itself_stays():
    assert plan([row("root", most=0), row("a", most=4)], closed=False) == ([], [])


def test_users_of_a_group_account_go_on_and_accounts_below_it_are_closed():
    rows = [row("root"), row("science"), row("science", "ann"), row("a"), row("new")]
    parents = {"a": "science", "new": "science"}
    changes, problems = plan(rows, member("a"), parents=parents, groups={"science"})
    assert changes == [
        ("science", "ann", "", None, OPEN), ("a", "", "", None, OPEN), (*ROOT, None, 0),
    ]  # fmt: skip
    assert "open: new" in problems[0]


def test_what_is_below_a_named_account_is_open():
    rows = [row("root"), row("guests"), row("a"), row("b", "ann"), row("b")]
    changes, problems = plan(rows, opened=["guests"], parents={"a": "guests", "b": "a"})
    assert changes == [("guests", "", "", None, OPEN), (*ROOT, None, 0)]
    assert problems == []


def test_a_name_that_slurm_does_not_have_is_reported():
    _, problems = plan([row("root")], opened=["gests"])
    assert problems == ["[slurm] open names accounts that Slurm does not have: gests"]


def test_users_as_members_are_opened_one_by_one_in_partitions_too():
    rows = [row("root"), row("a"), row("a", "ann"), row("a", "ann", "big"), row("a", "bob")]
    changes, problems = plan(
        *(rows, member("a--ann")),
        parents={"a|ann": "a", "a|bob": "a"},
        places=["a|ann", "a|bob"],
        groups={"a"},
        made=[("a", "ann", "small")],
        users=True,
    )
    assert changes == [
        ("a", "ann", "", None, OPEN), ("a", "ann", "big", None, OPEN),
        ("a", "ann", "small", None, OPEN), (*ROOT, None, 0),
    ]  # fmt: skip
    assert "open: a/bob" in problems[0]


def test_what_becomes_a_member_in_this_round_is_closed_without_a_problem():
    """A dry run registers nothing, and the decision may come after the round."""
    rows = [row("root", most=0), row("a"), row("b")]
    changes, problems = plan(rows, joining={"a"})
    assert changes == []
    assert problems == [
        "closed, because they are neither members of the pool nor in [slurm] open: b"
    ]


def test_users_of_a_group_stay_closed_while_none_of_them_is_a_member():
    """The service may refuse the first registration."""
    rows = [row("root"), row("a"), row("a", "ann"), row("a", "ann", "big")]
    changes, problems = plan(
        rows, parents={"a|ann": "a"}, places=["a|ann"], groups={"a"}, users=True
    )
    assert changes == [(*ROOT, None, 0)]
    assert "open: a/ann" in problems[0]


def test_names_that_slurm_takes_for_others_are_left_out():
    rows = [row("root"), row("eve[1-2]"), row("root", "op,er")]
    changes, _ = plan(rows, member("eve[1-2]"))
    assert changes == [(*ROOT, None, 0)]


def test_a_plan_shows_what_is_inherited():
    shown = [
        JobsChange(ROOT, None, 0).shown("account root"),
        JobsChange(("a", "", ""), 5, None).shown("account a"),
    ]
    assert [line for change in shown for line in change.lines()] == [
        "  ~ account root", "      maxjobs unlimited -> 0",
        "  ~ account a", "      maxjobs 5 -> inherited",
    ]  # fmt: skip


def test_max_jobs_are_read():
    text = f"root||||1|1||0\na|ann|||1|2||\nb||||1|3|cpu=5|{OPEN}\n"
    assert [each.max_jobs for each in read_associations(text)] == [0, None, OPEN]
