"""Users of accounts as the places of tenants."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from allocator_agent.configuration import Configuration, SlurmOptions
from allocator_agent.model import Observation, Rendering
from allocator_agent.slurm.planning import plan_limits, plan_minutes, plan_user_removals
from allocator_agent.slurm.reading import (
    Association,
    Partition,
    read_associations,
    unreadable_rows,
)
from allocator_agent.slurm.scheduler import Slurm
from allocator_agent.slurm.writing import modifications
from tests.unit.agent.shown import shown
from tests.unit.agent.test_holds import NODES, gang
from tests.unit.agent.test_holds import job as gang_job
from tests.unit.agent.test_planning import account, changes, job, of_class, refused_name, row

CONFIGURATION = Configuration(
    url="", pool="lab", key="", name="lab", scheduler="slurm", slurm=SlurmOptions(users=True),
    accounts={"Dept.X": "x-dept"}, users={"physics/alice": "alice"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("place", "tenant"),
    [
        ("physics|alice", "alice"),
        ("physics|Bob.b_c", "physics--bob-b-c"),
        ("Dept.X|alice", "x-dept--alice"),
        ("physics", "physics"),
    ],
)
def test_a_user_is_a_tenant_of_its_own_in_each_account(place, tenant):
    assert CONFIGURATION.tenant_of(place) == tenant


def test_different_users_of_one_tenant_are_found():
    places = ["a|b_c", "a|b.c", "a--b|c"]
    assert CONFIGURATION.by_tenant(places) == {"a--b-c": "a|b.c", "a--b--c": "a--b|c"}
    assert replace(CONFIGURATION, slurm=SlurmOptions()).registers_tenants is False
    assert CONFIGURATION.registers_tenants is True


class Silent:
    """Slurm's commands, which print nothing."""

    def run(self, *words):
        return ""


def planned(objects, rows, jobs=(), *, classes=False):
    names = {"ann": "a|ann", "bob": "a|bob"}
    return plan_limits(objects, rows, jobs, names, classes=classes)


def test_limits_of_users_are_planned_beside_those_of_partitions():
    rows = [row("a"), row("a", "ann", cpu=2, mem=1), row("a", "bob"), row("a", "ann", "big", cpu=9)]
    objects = [account("ann", cpu=4, mem=1), of_class("ann", "big", cpu=3)]
    found, problems = planned(objects, rows, classes=True)
    assert shown(*found) == [
        "~ user ann of account a", "cpu 2 -> 4",
        "~ user ann of account a in partition big", "cpu 9 -> 3",
    ]  # fmt: skip
    assert problems == {}


def test_a_class_of_a_user_is_not_handed_out_to_others():
    rows = [row("a"), row("a", "ann"), row("a", "bob")]
    objects = [of_class("ann", "big", cpu=3), of_class("bob", "big", cpu=1)]
    jobs = [job(1, account="a|bob", user="bob", partition="big")]
    found, _ = planned(objects, rows, jobs, classes=True)
    assert {change.key: change.after for change in found} == {
        ("a", "ann", "big"): {"cpu": 3},
        ("a", "bob", "big"): {"cpu": 1},
    }


@pytest.mark.parametrize("name", ["u[1-2]", "a,b", "a b", "a:b", "a'b", "a=b", "-b"])
def test_names_of_users_that_sacctmgr_would_take_for_others_are_refused(name):
    rows = [row("a"), row("a", name)]
    told = plan_limits([account("t", cpu=4)], rows, [], {"t": f"a|{name}"}, classes=False)
    text = f"a/{name}"
    assert told == ([], {"t": [refused_name(text)]})
    assert changes([account(name, cpu=4)], [row(name)])[0] == []


@pytest.mark.parametrize(("user", "made"), [("al", 2), ("al,bob", 0), ("-al", 0)])
def test_reservations_and_holds_name_no_other_user(user, made):
    """`Users=al,bob` gives a slot to bob, and a sign means all but the user."""
    slot = {
        "kind": "reservation", "tenant": "mpi", "name": "allocator-lab-1", "partition": "all",
        "start": "2026-11-22T14:00:00Z", "end": "2026-11-22T14:01:00Z", "cores": 2,
    }  # fmt: skip
    slurm = Slurm(replace(CONFIGURATION, users={f"a/{user}": "mpi"}), Silent())
    slurm._associations = [row("a"), row("a", user)]
    place = f"a|{user}"
    jobs = [gang_job(1, place, user=user)]
    slurm._partitions = {"all": Partition(("all",), 4, 16, frozenset(each.name for each in NODES))}
    objects = [account("mpi", cpu=4), slot, gang()]
    plan = slurm.plan(
        Rendering("", 1, [{"tenant": "mpi"}], objects),
        Observation(NODES, jobs, frozenset({place}), parents=frozenset({"a"})),
        datetime(2026, 11, 22, 13, 59, 30, tzinfo=UTC),
    )
    assert len(plan.reservations) + len(plan.holds.made) == made
    assert ("mpi" in plan.problems) == (not made)


def test_users_of_an_account_that_get_the_same_are_set_together():
    rows = [row("a", "ann"), row("a", "bob"), row("b", "bob")]
    names = {"ann": "a|ann", "bob": "a|bob", "b-bob": "b|bob"}
    objects = [account(tenant, cpu=4) for tenant in names]
    found, _ = plan_limits(objects, rows, [], names, classes=False)
    # Without `partition=` Slurm would take the associations in partitions, too.
    assert modifications([(change, change.after) for change in found]) == [
        (("user", "where", "user=ann,bob", "account=a", "partition="), ("GrpTRES=cpu=4",)),
        (("user", "where", "user=bob", "account=b", "partition="), ("GrpTRES=cpu=4",)),
    ]


def test_limits_of_users_are_removed_where_these_were_members():
    rows = [
        row("a", "ann", cpu=2, mem=1), row("a", "ann", "big", cpu=2, mem=1), row("a", "bob", cpu=2),
        row("a", "eve", cpu=2, mem=1),
    ]  # fmt: skip
    objects = [account("ann", cpu=0, mem=0), account("bob", cpu=0, mem=0)]
    removals = plan_user_removals(objects, rows, {"ann": "a|ann", "bob": "a|bob", "eve": "a|eve"})
    # A limit of fewer resources is the site's, and eve was no member.
    assert [removal.key for removal in removals] == [("a", "ann", "")]


def test_minutes_are_those_of_the_user():
    item = {**account("ann", cpu=0), "minutes": {"cpu": 60}}
    rows = [row("a"), Association("a", "ann", "", {}, "1", minutes={"cpu": 5})]
    (change,) = plan_minutes([item], rows, {"ann": "a|ann"})
    assert shown(change) == ["~ user ann of account a", "cpu minutes 5 -> 60"]


def test_rows_whose_names_have_the_separator_are_left_out():
    text = "a||||1|1||\na|x|y|||1|2||\na|bob|||1|3||\n"
    assert [each.user for each in read_associations(text)] == ["", "bob"]
    assert unreadable_rows(text) == 1
