"""New accounts and users that start no job before a round has limited them, on a real Slurm."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import long
from tests.slurm.cluster import Cluster, running_cluster
from tests.slurm.conftest import NODES, UNCHANGED, eventually, pool_for
from tests.slurm.test_groups import groups
from tests.slurm.test_people import add, running, submit

CLOSED = "closed = yes\nopen = guests, teaching"
PARTITIONS = "--partition=big,small"
OF_AGENT = 1_999_999_999
PEOPLE = ("ada", "bob", "dora")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root submits jobs of others")


@pytest.fixture(scope="module")
def slurm(prefix: Path) -> Iterator[Cluster]:
    """A cluster with users of its own, where the tests can submit their jobs."""
    people = PEOPLE if os.geteuid() == 0 else ()
    with running_cluster(prefix, NODES, people=people) as cluster:
        yield cluster


def reopen(cluster):
    """Remove what the root account passes on, which stays after a test that failed."""
    for kind, where in (("account", ("name=root",)), ("user", ("account=root",))):
        where = ("where", *where, "set", "MaxJobs=-1")
        cluster.run("sacctmgr", "-i", "modify", kind, *where, check=False)


@pytest.fixture
def site(operator, service, agent, quiet):
    """Accounts of the pool, and two that are not: one is named, the other below it."""
    pool = pool_for(operator, agent)
    agent.configure(url=service.url, slurm=CLOSED, register_tenants="no")
    quiet.add_accounts("physics", "guests", "biology", "teaching")
    quiet.run("sacctmgr", "-i", "add", "account", "course", "parent=teaching")
    quiet.run("sacctmgr", "-i", "add", "user", quiet.user, "account=course")
    # A limit of the site that no round may touch.
    quiet.run("sacctmgr", "-i", "modify", "account", "biology", "set", "MaxJobs=2")
    for tenant in ("physics", "biology"):
        answer = operator.request("POST", "/api/v1/tenants/", {"slug": tenant, "name": tenant})
        assert answer.status in (201, 409)  # all pools of the tests have one service
        assert operator.request("PUT", f"{pool}/members/{tenant}/", {}).status < 400
    yield pool
    reopen(quiet)


def own(cluster):
    """MaxJobs of every association that has one of its own."""
    told = cluster.run(
        "sacctmgr", "-nP", "show", "association", "WOPInfo", "format=account,user,maxjobs"
    )
    rows = (line.split("|") for line in told.splitlines())
    return {(account, user): int(most) for account, user, most in rows if most}


def states(cluster):
    """The states of the jobs of every account, with the reasons why they wait."""
    told = cluster.run("squeue", "--noheader", "--format=%a|%t|%r")
    rows = sorted(tuple(line.split("|")) for line in told.splitlines())
    return {account: (state, reason if state == "PD" else "") for account, state, reason in rows}


def members(operator, pool):
    return {row["tenant"] for row in operator.pages(f"{pool}/members/")}


def test_a_new_account_starts_nothing_before_the_next_round(site, agent, quiet, service, operator):
    before = own(quiet)
    assert before == {("biology", ""): 2}
    check = agent.run("check")
    assert (
        "new accounts start no job before a round has limited them:"
        " a round sets MaxJobs of 5 accounts and users" in check
    )
    plan = agent.run("--dry-run")
    assert "  ~ account root\n      maxjobs unlimited -> 0" in plan
    assert "  ~ account guests\n      maxjobs inherited -> 1999999999" in plan
    assert own(quiet) == before  # neither has changed anything
    agent.run("--once")
    of_agent = 1_999_999_999
    closed = {
        ("root", ""): 0, ("root", quiet.user): of_agent, ("physics", ""): of_agent,
        ("guests", ""): of_agent, ("teaching", ""): of_agent, ("biology", ""): 2,
    }  # fmt: skip
    assert own(quiet) == closed
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED

    # Between two rounds: accounts that are not of the pool start jobs as before, a new one none.
    quiet.add_accounts("new")
    for account in ("guests", "course", "new"):
        quiet.submit(account, PARTITIONS)
    eventually(lambda: states(quiet)["course"] == states(quiet)["guests"] == ("R", ""))
    quiet.settled()
    assert states(quiet)["new"] == ("PD", "AssocMaxJobsLimit")

    # A round without it as a member leaves it closed and reports it.
    told = agent.run("--once", expect=1)
    assert "closed, because they are neither members of the pool nor in [slurm] open: new" in told
    assert "accounts with jobs that are not members: new" in told  # without those in open
    assert "nor in [slurm] open: new" in agent.run("check")
    quiet.settled()
    assert states(quiet)["new"] == ("PD", "AssocMaxJobsLimit")

    # The next round with it limits it and lets it start.
    agent.configure(url=service.url, slurm=CLOSED, register_tenants="yes")
    assert "1 become members in the first round: new\n" in agent.run("check")
    agent.run("--once")
    assert own(quiet) == {**closed, ("new", ""): of_agent}
    limits = quiet.limits()
    assert limits["new"].startswith("cpu=1")
    # Accounts in open, and those below them, are no members of the pool.
    assert [limits[account] for account in ("guests", "teaching", "course")] == ["", "", ""]
    assert members(operator, site) == {"physics", "biology", "new"}
    eventually(lambda: states(quiet)["new"] == ("R", ""))


@long
def test_turned_off_it_leaves_what_it_found(site, agent, quiet, service):
    agent.run("--once")
    assert own(quiet)["root", ""] == 0
    quiet.add_accounts("later")
    quiet.submit("later", PARTITIONS)
    agent.configure(url=service.url, register_tenants="no")
    assert "[slurm] closed is off: a round sets MaxJobs of 5 accounts and users" in agent.run(
        "check"
    )
    # The jobs of `later` are a problem, as it is no member.
    plan = agent.run("--dry-run", expect=1)
    assert "  ~ account root\n      maxjobs 0 -> unlimited" in plan
    agent.run("--once", expect=1)
    assert own(quiet) == {("biology", ""): 2}
    eventually(lambda: states(quiet)["later"] == ("R", ""))
    assert agent.run("--dry-run", expect=1).splitlines()[-1] == UNCHANGED


@long
def test_a_limit_of_the_site_on_the_root_account_stays(site, agent, quiet):
    quiet.run("sacctmgr", "-i", "modify", "account", "root", "set", "MaxJobs=50")
    problem = "account root has MaxJobs=50 of the site: new accounts are not closed"
    assert f"missing  {problem}" in agent.run("check", expect=1)
    assert problem in agent.run("--once", expect=1)
    assert own(quiet) == {("root", ""): 50, ("biology", ""): 2}


def in_partitions(cluster):
    """MaxJobs of every association of a user in a partition."""
    told = cluster.run(
        "sacctmgr", "-nP", "show", "association", "WOPInfo", "format=account,user,partition,maxjobs"
    )
    rows = (line.split("|") for line in told.splitlines())
    return {(account, user, where): most for account, user, where, most in rows if where}


def of_users(cluster):
    """The states of the jobs of every user, with the reasons why they wait."""
    told = cluster.run("squeue", "--noheader", "--format=%u|%t|%r")
    rows = sorted(tuple(line.split("|")) for line in told.splitlines())
    return {user: (state, reason if state == "PD" else "") for user, state, reason in rows}


@pytest.fixture
def laboratory(operator, service, agent, quiet):
    """Ada and bob in the account physics, which is a group, and an account that is not of the pool."""
    pool = pool_for(operator, agent)
    quiet.run("sacctmgr", "-i", "add", "account", "physics")
    add(quiet, "physics", "ada", "bob")
    quiet.add_accounts("guests", "teaching")
    groups(operator, pool, ("physics", {}))
    yield pool
    reopen(quiet)


@needs_root
@pytest.mark.parametrize(
    "classes",
    [
        pytest.param("", id="accounts"),
        pytest.param("classes = yes\n", id="partitions", marks=long),
    ],
)
def test_a_new_user_starts_nothing_yet(laboratory, agent, quiet, service, classes):
    closed = f"users = yes\n{classes}{CLOSED}"
    agent.configure(url=service.url, slurm=closed, register_tenants="no")
    for user in ("ada", "bob"):
        quiet.submit("physics", f"--uid={user}", "--partition=small", count=2)
    plan = agent.run("--dry-run")
    assert "  ~ account root\n      maxjobs unlimited -> 0" in plan
    agent.run("--once")
    eventually(lambda: running(quiet) == {("physics", "ada"): 2, ("physics", "bob"): 2})
    inherited = {
        ("root", ""): 0, ("root", quiet.user): OF_AGENT, ("guests", ""): OF_AGENT,
        ("teaching", ""): OF_AGENT,
    }  # fmt: skip
    people = {("physics", user): OF_AGENT for user in ("ada", "bob")}
    assert own(quiet) == {**inherited, **people}
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED

    # Between two rounds: a user without a limit, in an account whose other users go on.
    add(quiet, "physics", "dora")
    quiet.submit("physics", "--uid=dora", "--partition=big")
    quiet.submit("guests", PARTITIONS)
    eventually(lambda: of_users(quiet).get(quiet.user) == ("R", ""))
    quiet.settled()
    assert of_users(quiet)["dora"] == ("PD", "AssocMaxJobsLimit")
    assert {user: state for user, (state, _) in of_users(quiet).items()} == {
        "ada": "R", "bob": "R", "dora": "PD", quiet.user: "R",
    }  # fmt: skip

    # The round that makes it a member limits it and lets it start.
    agent.run("--once")
    eventually(lambda: of_users(quiet)["dora"] == ("R", ""))
    assert own(quiet) == {**inherited, **people, ("physics", "dora"): OF_AGENT}
    if classes:
        # Jobs are of the user in a partition, which inherits from the account that is closed.
        found = in_partitions(quiet)
        assert found["physics", "dora", "big"] == str(OF_AGENT)
        assert set(found.values()) == {str(OF_AGENT)}
    agent.run("--once")
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED

    # Turned off, nothing of the agent stays. Accounts that are no groups are a problem again.
    switches = f"users = yes\n{classes}"
    agent.configure(url=service.url, slurm=switches, register_tenants="no")
    agent.run("--once", expect=1)
    assert own(quiet) == {}
    assert not any(in_partitions(quiet).values())


@long
@needs_root
def test_users_of_an_open_account_go_on_and_those_of_a_new_one_do_not(
    laboratory, agent, quiet, service, operator
):
    agent.configure(url=service.url, slurm=f"users = yes\n{CLOSED}", register_tenants="no")
    agent.run("--once")
    quiet.run("sacctmgr", "-i", "add", "account", "arts")
    add(quiet, "guests", "bob")
    add(quiet, "arts", "dora")
    submit(quiet, "guests", "bob", count=1)
    submit(quiet, "arts", "dora", count=1)
    eventually(lambda: of_users(quiet)["bob"] == ("R", ""))
    quiet.settled()
    assert of_users(quiet)["dora"] == ("PD", "AssocMaxJobsLimit")
    # Users of an account that is not a group cannot be members, and stay closed.
    told = agent.run("--once", expect=1)
    assert "closed, because they are neither members of the pool nor in [slurm] open: arts" in told
    quiet.settled()
    assert of_users(quiet)["dora"] == ("PD", "AssocMaxJobsLimit")
    # Those of an account in open are none, not even below a group.
    groups(operator, laboratory, ("arts", {}), ("guests", {}))
    agent.run("--once")
    eventually(lambda: of_users(quiet)["dora"] == ("R", ""))
    assert members(operator, laboratory) >= {"physics--ada", "arts--dora"}
    assert "guests--bob" not in members(operator, laboratory)


@long
def test_limits_by_partition_leave_a_new_account_closed(site, agent, quiet, service):
    slurm = f"classes = yes\n{CLOSED}"
    agent.configure(url=service.url, slurm=slurm, register_tenants="no")
    agent.run("--once")  # jobs that come before the first limit start at any time
    quiet.submit("physics", "--partition=small", count=2)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 2})
    # Those of a user in a partition inherit from the account, which is open.
    assert in_partitions(quiet)["physics", quiet.user, "small"] == ""
    assert own(quiet)["physics", ""] == OF_AGENT
    quiet.add_accounts("new")
    for account in ("guests", "new"):
        quiet.submit(account, "--partition=big")
    eventually(lambda: states(quiet)["guests"] == ("R", ""))
    quiet.settled()
    assert states(quiet)["new"] == ("PD", "AssocMaxJobsLimit")
    agent.configure(url=service.url, slurm=slurm, register_tenants="yes")
    agent.run("--once")
    eventually(lambda: states(quiet)["new"] == ("R", ""))
    agent.run("--once")
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED
