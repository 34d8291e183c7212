"""A wrong key, two agents of one cluster, limits changed by hand, and a scheduler that lies."""

import shutil
import time

import pytest

from launcher.processes import stop
from tests.examples import long
from tests.slurm.conftest import UNCHANGED, decided_tasks, eventually, pool_for
from tests.slurm.sampling import Sampler
from tests.slurm.test_loop import posted
from tests.slurm.test_rounds import CAPACITY

SMALL = "--partition=small"


def test_an_agent_with_the_key_of_another_cluster_changes_nothing(operator, service, agent, quiet):
    """The other cluster's part of the decision is 0 here, which would stop every account."""
    pool = pool_for(operator, agent)
    agent.authorize(cluster="hpc")
    quiet.add_accounts("physics")
    quiet.submit("physics", SMALL, count=5)
    agent.run("--once")
    before = quiet.limits()
    assert before == {"physics": "cpu=5,mem=1280M"}
    body = {"name": "k1", "capacity": {"cpu": 8}, "labels": {"cluster": "k8s"}}
    operator.post(f"{pool}/servers/", body)
    servers = operator.pages(f"{pool}/servers/")
    agent.authorize(cluster="k8s")
    told = agent.run("--once", expect=2)
    assert "the key is bound to another cluster than every node here" in told
    assert quiet.limits() == before
    found = operator.pages(f"{pool}/servers/")
    assert [(row["name"], row["cluster"], row["state"]) for row in found] == [
        (row["name"], row["cluster"], row["state"]) for row in servers
    ]
    agents = operator.get(f"{pool}/enforcement/").body["agents"]
    assert [(row["agent"], row["cluster"]) for row in agents] == [("slurm-lab", "hpc")]


@long
def test_two_agents_of_one_cluster_never_give_more_than_there_is(operator, agent, quiet, tmp_path):
    """Both write the same decision. A report of one that is older than the other's is let go."""
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics", "biology")
    agent.run("--once")
    agents = [agent.start("--every", "1s", log=tmp_path / f"{number}.log") for number in (1, 2)]
    try:
        with Sampler(quiet) as sampler:
            for number in range(4):
                for account in ("physics", "biology"):
                    quiet.run("scancel", f"--account={account}")
                quiet.submit("physics", SMALL, count=2 + 3 * number)
                quiet.submit("biology", SMALL, count=9 - 2 * number)
                time.sleep(3)
        wanted = {"physics": 9, "biology": 3}
        eventually(lambda: decided_tasks(operator, pool) == wanted, seconds=30)
        eventually(lambda: quiet.jobs("RUNNING") == wanted, seconds=60)
        assert all(sampler.most[name] <= most for name, most in CAPACITY.items()), sampler.most
        assert [each.poll() for each in agents] == [None, None]
    finally:
        for each in agents:
            stop(each)
    agent.run("--once")
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED


def test_limits_changed_by_hand_are_taken_back(operator, agent, quiet):
    """More, fewer, none, of a parent, and of a resource that the pool does not count."""
    pool_for(operator, agent)
    quiet.add_accounts("physics", "biology", "chemistry", "arts")
    quiet.submit("physics", SMALL, count=3)
    agent.run("--once")
    before = quiet.limits()
    for account, tres in (
        ("physics", "cpu=16"),
        ("biology", "cpu=-1,mem=-1"),
        ("chemistry", "cpu=5,mem=7"),
        ("arts", "node=1"),
    ):
        quiet.run("sacctmgr", "-i", "modify", "account", account, "set", f"GrpTRES={tres}")
    shown = agent.run("--dry-run")
    for text in ("cpu 16 -> 3", "cpu unlimited -> 0", "mem 7 -> 0", "3 to change"):
        assert text in shown
    agent.run("--once")
    # The limit of nodes is the site's.
    assert quiet.limits() == {**before, "arts": "cpu=0,mem=0,node=1"}
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED


LIES = {
    "squeue": "nonsense that is no table of jobs",
    "sacctmgr": "physics||||1|x",
    "scontrol": "NodeName=mem-1 CPUTot=many RealMemory=1 State=IDLE Partitions=big",
}


@pytest.mark.parametrize("program", LIES)
def test_a_scheduler_that_lies_changes_nothing(operator, service, agent, quiet, tmp_path, program):
    """What cannot be read ends the round before anything is sent or changed."""
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics")
    quiet.submit("physics", SMALL, count=3)
    agent.run("--once")
    before = quiet.limits(), operator.pages(f"{pool}/servers/"), decided_tasks(operator, pool)
    (tmp_path / "bin").mkdir()
    for name in ("squeue", "sacctmgr", "scontrol", "sacct"):
        place = tmp_path / "bin" / name
        real = shutil.which(name, path=quiet.environment["PATH"])
        lie = f"echo '{LIES[name]}'; exit 0\n" if name == program else f'exec {real} "$@"\n'
        place.write_text(f"#!/bin/sh\n{lie}")
        place.chmod(0o755)
    agent.configure(url=service.url, slurm=f"bin = {tmp_path / 'bin'}\ncluster = lab")
    told = agent.run("--once", expect=4)
    assert "what Slurm prints cannot be read" in told
    assert (operator.pages(f"{pool}/servers/"), decided_tasks(operator, pool)) == before[1:]
    assert quiet.limits() == before[0]
    agent.configure(url=service.url)
    agent.run("--once")
    assert quiet.limits() == before[0]


# Python imports it before everything else.
CLOCK = """\
import time
real = time.time
time.time = lambda: real() + {offset}
"""


@long
@pytest.mark.parametrize("offset", [-2, 2], ids=["behind", "ahead"])
def test_a_clock_that_differs(operator, agent, quiet, tmp_path, offset):
    """By as much as the check lets pass: limits, slots and usage are those of Slurm's clock."""
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(CLOCK.format(offset=offset))
    agent._environment["PYTHONPATH"] += f":{tmp_path / 'clock'}"
    pool = pool_for(operator, agent, policy={"name": "tda"})
    quiet.add_accounts("physics", "biology")
    agent.run("--once")
    jobs = quiet.submit("physics", SMALL, "--time=5", seconds=8, count=4)
    jobs += quiet.submit("biology", SMALL, "--time=5", seconds=8, count=4)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 4, "biology": 4})
    agent.run("--once")
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED
    state = operator.get(f"{pool}/enforcement/").body
    assert [(row["used"]["cpu"], row["drift"]) for row in state["tenants"]] == [
        ("4", {}),
        ("4", {}),
    ]
    eventually(lambda: not quiet.run("squeue", "--noheader"), seconds=60)
    ran = eventually(lambda: len(ran := quiet.ended(jobs)) == len(jobs) and ran)
    agent.run("--once")
    eventually(lambda: set(posted(operator, agent.pool, jobs)) == ran)
