"""Accounts below accounts, and limits that were written under another configuration."""

import pytest

from tests.examples import long
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


@long
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


# An scontrol that does something before jobs get another account, and then runs the real one.
BEFORE = """\
#!/bin/sh
case "$*" in *Account=*) {before} ;; esac
exec {folder}/scontrol "$@"
"""
# Makes room for the jobs and waits until they run.
STARTS = """\
{folder}/scancel --account=biology --state=RUNNING
until [ "$({folder}/squeue -h --account=physics --states=R | wc -l)" -ge 2 ]; do sleep 0.1; done"""
CANCELS = """{folder}/scancel --account=physics --state=PENDING"""


def interrupted(cluster, folder, before):
    """Make a folder of Slurm's commands, of which scontrol is one that does something before."""
    real = cluster.prefix / "usr/bin"
    folder.mkdir()
    for command in real.glob("s*"):
        (folder / command.name).symlink_to(command)
    (folder / "scontrol").unlink()
    script = BEFORE.format(before=before.format(folder=real), folder=real)
    (folder / "scontrol").write_text(script)
    (folder / "scontrol").chmod(0o755)
    return folder


@pytest.fixture
def crowded(operator, agent, quiet):
    """Two jobs of physics that wait for room, under the limits of their account."""
    pool_for(operator, agent)
    quiet.add_accounts("physics", "biology")
    quiet.submit("biology", *SMALL, count=12)
    eventually(lambda: quiet.jobs("RUNNING") == {"biology": 12})
    quiet.submit("physics", *SMALL, count=2)
    agent.run("--once")
    assert quiet.limits()["physics"].startswith("cpu=2")
    return quiet


@long
@pytest.mark.parametrize(("before", "left"), [(STARTS, 2), (CANCELS, 0)], ids=["start", "end"])
def test_jobs_gone_in_a_round_are_fine(crowded, service, agent, tmp_path, before, left):
    folder = interrupted(crowded, tmp_path / "bin", before)
    agent.configure(url=service.url, slurm=f"classes = yes\nbin = {folder}")
    shown = agent.run("--once")
    assert "jobs that started or ended during the round keep what they have:" in shown
    assert crowded.jobs("RUNNING").get("physics", 0) == left
    agent.run("--once")
    assert UNCHANGED in agent.run("--dry-run")


def test_jobs_that_stay_are_a_problem(crowded, service, agent, tmp_path):
    folder = interrupted(crowded, tmp_path / "bin", "echo not this one >&2; exit 1")
    agent.configure(url=service.url, slurm=f"classes = yes\nbin = {folder}")
    assert "scontrol update failed with: not this one" in agent.run("--once", expect=1)
    agent.configure(url=service.url, slurm="classes = yes")
    agent.run("--once")
    assert UNCHANGED in agent.run("--dry-run")


def ran(cluster):
    """Running jobs by account and partition."""
    counts = {}
    for line in cluster.run("squeue", "--noheader", "--states=R", "--format=%a|%P").splitlines():
        key = tuple(line.split("|"))
        counts[key] = counts.get(key, 0) + 1
    return counts
