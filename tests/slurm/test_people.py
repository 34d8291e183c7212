"""Users of accounts as members, on a real Slurm with a tree of accounts."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from allocator_agent.slurm.reading import read_reservations
from tests.examples import long
from tests.slurm.cluster import Cluster, running_cluster
from tests.slurm.conftest import NODES, NOTHING, UNCHANGED, decided_tasks, eventually, pool_for
from tests.slurm.test_groups import groups, member
from tests.slurm.test_reservations import coming

USERS = "users = yes"
ANYWHERE = ("--partition=big,small",)
PEOPLE = ("ada", "bob", "Cy.d", "dora", "eve[1-2]")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root submits jobs of others")


@pytest.fixture(scope="module")
def slurm(prefix: Path) -> Iterator[Cluster]:
    """A cluster with users of its own."""
    with running_cluster(prefix, NODES, people=[name.lower() for name in PEOPLE]) as running:
        yield running


def add(cluster, account, *users):
    for user in users:
        cluster.run("sacctmgr", "-i", "add", "user", user, f"account={account}")


def submit(cluster, account, user, *options, count):
    cluster.submit(account, f"--uid={user}", *ANYWHERE, *options, count=count)


def limits(cluster):
    """CPUs by account and user, for associations in all partitions that have a limit."""
    told = cluster.run(
        "sacctmgr", "-nP", "show", "association", "format=account,user,partition,grptres"
    )
    rows = (line.split("|") for line in told.splitlines() if line.count("|") == 3)
    return {
        (account, user): int(tres.partition("cpu=")[2].split(",")[0])
        for account, user, partition, tres in rows
        if tres and not partition
    }


def running(cluster):
    told = cluster.run("squeue", "--noheader", "--states=RUNNING", "--format=%a|%u")
    return dict(Counter(tuple(line.split("|")) for line in told.splitlines()))


@pytest.fixture
def laboratories(operator, service, agent, quiet):
    """science > physics: ada, bob, cy.d; science > biology: ada, dora. Accounts and groups."""
    pool = pool_for(operator, agent)
    agent.configure(url=service.url, slurm=USERS, register_tenants="no")
    quiet.run("sacctmgr", "-i", "add", "account", "science")
    quiet.run("sacctmgr", "-i", "add", "account", "physics,biology", "parent=science")
    add(quiet, "physics", "ada", "bob", "Cy.d")
    add(quiet, "biology", "ada", "dora")
    groups(
        operator,
        pool,
        ("science", {}),
        ("physics", {"parent": "science", "weight": 3}),
        ("biology", {"parent": "science"}),
    )
    return pool


def members(operator, pool):
    return {row["tenant"]: row["group"] for row in operator.pages(f"{pool}/members/")}


def test_users_get_what_the_tree_says(operator, laboratories, agent, quiet):
    check = agent.run("check")
    assert (
        "5 become members in the first round: biology--ada, biology--dora, physics--ada,"
        " physics--bob, physics--cy-d" in check
    )
    assert "accounts of groups, limited to the sum below them: biology, physics, science" in check
    assert "  + member physics--cy-d" in agent.run("--dry-run")
    assert members(operator, laboratories) == {}
    agent.run("--once")
    assert members(operator, laboratories) == {
        "physics--ada": "physics", "physics--bob": "physics", "physics--cy-d": "physics",
        "biology--ada": "biology", "biology--dora": "biology",
    }  # fmt: skip
    member(operator, laboratories, "physics--bob", group="physics", weight=2)
    for account, users in (("physics", ("ada", "bob", "cy.d")), ("biology", ("ada", "dora"))):
        for user in users:
            submit(quiet, account, user, count=10)
    agent.run("--once")
    # 16 CPUs: 3 to 1 between the accounts, then 1 to 2 to 1 and 1 to 1 among their users.
    decided = decided_tasks(operator, laboratories)
    assert decided == {
        "physics--ada": 3, "physics--bob": 6, "physics--cy-d": 3, "biology--ada": 2,
        "biology--dora": 2,
    }  # fmt: skip
    eventually(
        lambda: running(quiet)
        == {
            ("physics", "ada"): 3, ("physics", "bob"): 6, ("physics", "cy.d"): 3,
            ("biology", "ada"): 2, ("biology", "dora"): 2,
        }
    )  # fmt: skip
    assert limits(quiet) == {
        **running(quiet),
        ("physics", ""): 12,
        ("biology", ""): 4,
        ("science", ""): 16,
    }
    agent.run("--once")
    state = operator.get(f"{laboratories}/enforcement/").body
    assert {row["tenant"]: (row["used"]["cpu"], row["drift"]) for row in state["tenants"]} == {
        tenant: (str(tasks), {}) for tenant, tasks in decided.items()
    }
    assert agent.run("--dry-run").splitlines()[-2:] == [f"To the service: {NOTHING}", UNCHANGED]


@long
def test_limits_in_partitions_are_of_users_too(operator, service, laboratories, agent, quiet):
    agent.configure(url=service.url, slurm=f"{USERS}\nclasses = yes", register_tenants="no")
    agent.run("--once")
    quiet.submit("physics", "--uid=ada", "--partition=big", count=9)
    quiet.submit("physics", "--uid=bob", "--partition=small", count=3)
    agent.run("--once")
    eventually(lambda: running(quiet) == {("physics", "ada"): 4, ("physics", "bob"): 3})
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED
    # Limits of the user in the account and in a partition are written apart.
    told = quiet.run(
        "sacctmgr", "-nP", "show", "association", "user=ada", "account=physics",
        "format=partition,grptres",
    )  # fmt: skip
    assert sorted(told.splitlines()) == ["big|cpu=4,mem=1G", "small|cpu=0,mem=0", "|cpu=4,mem=1G"]


def test_names_that_slurm_or_the_service_would_misread_are_refused(
    operator, laboratories, agent, quiet
):
    """Slurm keeps `|` and expands `[1-2]`; the service takes no `$`."""
    add(quiet, "physics", "a|b", "x$", "b_ob", "b.ob")
    told = agent.run("--once", expect=1)
    assert '1 users or accounts have "|" in their names and are left out' in told
    assert "other accounts have the same tenants: map physics/b_ob" in told
    assert "physics--x$" in told
    assert "physics--b-ob" in members(operator, laboratories)
    assert not any("$" in name for name in members(operator, laboratories))
    agent.file.write_text(agent.file.read_text() + "[users]\nphysics/b_ob = physics--bob-2\n"
                          "physics/x$ = physics--x\n")  # fmt: skip
    # The name with | stays a problem.
    told = agent.run("--once", expect=1)
    assert told.count("WARNING") == 1
    assert {"physics--bob-2", "physics--x"} <= members(operator, laboratories).keys()
    # All of them have a limit now.
    named = {user for account, user in limits(quiet) if account == "physics" and user}
    assert named == {"ada", "bob", "cy.d", "x$", "b_ob", "b.ob"}


def test_accounts_that_are_no_groups_are_named(operator, laboratories, agent, quiet):
    quiet.run("sacctmgr", "-i", "add", "account", "arts")
    add(quiet, "arts", "ada")
    told = agent.run("check", expect=1)
    assert "accounts whose users cannot be members, because they are not groups: arts" in told
    told = agent.run("--once", expect=1)
    assert (
        "1 users have no limit, because their accounts are not groups of the pool: arts;"
        " import the accounts as groups" in told
    )
    groups(operator, laboratories, ("arts", {}))
    agent.run("--once")
    assert members(operator, laboratories)["arts--ada"] == "arts"


@long
def test_turned_off_and_on_again(operator, service, laboratories, agent, quiet):
    """What the agent no longer manages is removed in Slurm, and the plan says so."""
    agent.run("--once")
    assert limits(quiet)["physics", "ada"] == 0
    agent.configure(url=service.url, register_tenants="no")
    told = agent.run("--once", expect=None)
    assert "limits of users are off" in told
    assert not any(user for _, user in limits(quiet))
    agent.configure(url=service.url, slurm=USERS, register_tenants="no")
    agent.run("--once")
    assert limits(quiet)["physics", "ada"] == 0


def test_slots_are_of_users_alone(operator, service, agent, quiet):
    """A reservation names the account and the user: others of the account cannot use it."""
    pool = pool_for(operator, agent)
    agent.configure(url=service.url, slurm=USERS, register_tenants="no")
    quiet.run("sacctmgr", "-i", "add", "account", "physics")
    add(quiet, "physics", "ada", "bob")
    groups(operator, pool, ("physics", {}))
    agent.run("--once")
    quiet.run(
        "scontrol", "create", "reservation", f"ReservationName=allocator-{agent.pool}-0123456789ab",
        "StartTime=now", "Duration=60", "Accounts=physics", "Users=ada", "CoreCnt=2",
        "PartitionName=small", "Flags=IGNORE_JOBS",
    )  # fmt: skip
    (slot,) = read_reservations(quiet.run("scontrol", "show", "reservation"))
    assert slot.account == "physics|ada"
    name = f"--reservation={slot.name}"
    submit(quiet, "physics", "ada", name, "--hold", count=1)
    with pytest.raises(AssertionError, match="Access denied to requested reservation"):
        submit(quiet, "physics", "bob", name, "--hold", count=1)


@long
def test_slots_of_users_are_kept_and_used_while_demand_changes(operator, service, agent, quiet):
    """As those of accounts in tests/slurm/test_reservations.py."""
    pool = pool_for(operator, agent, policy={"name": "tda"})
    agent.configure(url=service.url, slurm=USERS, register_tenants="no")
    quiet.run("sacctmgr", "-i", "add", "account", "physics")
    add(quiet, "physics", "ada", "bob")
    # A pool that divides time has no groups, in which users become members by themselves.
    for slug in ("physics--ada", "physics--bob"):
        answer = operator.request("POST", "/api/v1/tenants/", {"slug": slug, "name": slug})
        assert answer.status in (201, 409)  # all pools of the tests have one service
        assert operator.request("PUT", f"{pool}/members/{slug}/", {}).status < 400
    agent.run("--once")  # jobs that come before the first limit start outside of slots
    for user in ("ada", "bob"):
        quiet.submit("physics", f"--uid={user}", "--partition=small", "--time=5", count=4)
    agent.run("--once")
    eventually(lambda: running(quiet) == {("physics", "ada"): 4, ("physics", "bob"): 4})
    first = slots(quiet)
    assert {row[0] for row in first.values()} == {"physics|ada", "physics|bob"}

    # One user asks for more, also elsewhere; the other one's reservation is kept.
    quiet.submit("physics", "--uid=ada", "--partition=small", "--time=5", count=4)
    quiet.submit("physics", "--uid=ada", "--partition=big", "--time=5", count=4)
    agent.run("--once")
    eventually(lambda: running(quiet) == {("physics", "ada"): 12, ("physics", "bob"): 4})
    second = slots(quiet)
    coming_ones = coming(quiet)
    in_force = {row for name, row in second.items() if name not in coming_ones}
    assert in_force == {
        ("physics|bob", "small", 4), ("physics|ada", "small", 8), ("physics|ada", "big", 4),
    }  # fmt: skip
    kept = {name for name, row in first.items() if row[0] == "physics|bob"}
    assert {name: second.get(name) for name in kept} == {name: first[name] for name in kept}
    # Jobs run in the slots of their user. Those of a slot that grew go on outside of the new one.
    told = quiet.run("squeue", "--noheader", "--states=RUNNING", "--format=%a\t%u\t%v")
    rows = {tuple(line.split("\t")) for line in told.splitlines()}
    assert {(place, user) for place, user, name in rows if name == "(null)"} == {("physics", "ada")}
    inside = {(f"{account}|{user}", name) for account, user, name in rows if name != "(null)"}
    assert {place for place, _ in inside} == {"physics|ada", "physics|bob"}
    assert all(second[name][0] == place for place, name in inside)

    agent.run("--once")
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED
    assert slots(quiet) == second
    state = operator.get(f"{pool}/enforcement/").body
    assert [row["drift"] for row in state["tenants"]] == [{}, {}]


def slots(cluster):
    """Return the place, partition and cores of each reservation."""
    rows = read_reservations(cluster.run("scontrol", "show", "reservation"))
    return {row.name: (row.account, row.partition, row.cores) for row in rows}


@long
def test_usage_of_a_user_who_has_left_is_counted(operator, laboratories, agent, quiet):
    agent.run("--once")
    (job,) = quiet.submit("physics", "--uid=bob", "--partition=small", seconds=1, count=1)
    agent.run("--once")
    eventually(lambda: running(quiet))
    eventually(lambda: quiet.ended([job]))
    quiet.run("sacctmgr", "-i", "delete", "user", "bob", "account=physics")

    def counted_for():
        # A round posts the usage of jobs that sacct knows whole, or the next one does.
        agent.run("--once")
        entries = operator.pages(f"/api/v1/ledger-entries/?pool={agent.pool}&kind=usage")
        # Slurm still knows the jobs of earlier tests.
        return {row["tenant"] for row in entries if row["event_id"].startswith(f"{job}@")}

    assert eventually(counted_for, seconds=60) == {"physics--bob"}
    state = operator.get(f"{laboratories}/enforcement/").body["tenants"]
    absent = {row["tenant"] for row in state if row["absent_since"]}
    assert absent == {"physics--bob"}
