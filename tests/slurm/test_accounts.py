"""Accounts below accounts, and limits that were written under another configuration."""

from tests.slurm.conftest import UNCHANGED, decided_by_partition, eventually, pool_for

SMALL = ("--partition=small",)


def below(cluster, parent, *children):
    """Add accounts below an account."""
    cluster.run("sacctmgr", "-i", "add", "account", ",".join(children), f"parent={parent}")
    cluster.run("sacctmgr", "-i", "add", "user", cluster.user, f"account={','.join(children)}")


def class_limits(cluster):
    """GrpTRES by account and partition, where there is any."""
    rows = cluster.run("sacctmgr", "-nP", "show", "association", "format=account,partition,grptres")
    found = (line.split("|") for line in rows.splitlines())
    return {(account, part): tres for account, part, tres in found if part and tres}


def test_children_of_an_account_run_and_the_account_is_no_member(operator, agent, quiet):
    pool = pool_for(operator, agent)
    quiet.add_accounts("faculty")
    below(quiet, "faculty", "physics", "biology")
    agent.run("--once")
    members = [row["tenant"] for row in operator.pages(f"{pool}/members/")]
    assert sorted(members) == ["biology", "physics"]
    quiet.submit("physics", *SMALL, count=3)
    quiet.submit("biology", *SMALL, count=2)
    agent.run("--once")
    assert quiet.limits()["faculty"] == ""
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 3, "biology": 2})


def test_a_limit_on_an_account_that_gets_children_is_removed(operator, agent, quiet):
    pool = pool_for(operator, agent)
    quiet.add_accounts("faculty")
    agent.run("--once")
    assert quiet.limits() == {"faculty": "cpu=0,mem=0"}
    below(quiet, "faculty", "physics", "biology")
    quiet.submit("physics", *SMALL, count=3)
    quiet.submit("biology", *SMALL, count=2)
    shown = agent.run("--once", expect=1)  # it says that a parent is still a member
    for text in ("~ account faculty", "cpu 0 -> unlimited", "it has accounts below it"):
        assert text in shown
    assert quiet.limits()["faculty"] == ""
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 3, "biology": 2})
    state = operator.get(f"{pool}/enforcement/").body
    problems = {row["tenant"]: row["problems"] for row in state["tenants"]}
    assert problems["faculty"] == [
        "account faculty has accounts below it: it is not limited; end its membership of the pool"
    ]
    assert UNCHANGED in agent.run("--dry-run", expect=1)


def test_jobs_queued_before_classes_come_under_their_limits(operator, service, agent, quiet):
    """They keep the association of their submission: 7 ran where 4 were decided."""
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics", "biology")
    agent.run("--once")
    for account in ("physics", "biology"):
        for partition in ("big", "small"):
            quiet.submit(account, f"--partition={partition}", count=8)
    agent.configure(url=service.url, slurm="classes = yes")
    agent.run("--once")
    decided = decided_by_partition(operator, pool)
    quiet.settled(seconds=12)
    assert ran(quiet) == decided
    agent.configure(url=service.url)
    assert class_limits(quiet) != {}
    shown = agent.run("--once")
    assert "limits by partition are off" in shown
    assert class_limits(quiet) == {}
    assert UNCHANGED in agent.run("--dry-run")
    quiet.settled(seconds=12)
    assert sum(ran(quiet).values()) == sum(decided.values())


def ran(cluster):
    """Running jobs by account and partition."""
    counts = {}
    for line in cluster.run("squeue", "--noheader", "--states=R", "--format=%a|%P").splitlines():
        key = tuple(line.split("|"))
        counts[key] = counts.get(key, 0) + 1
    return counts
