"""Licences of Slurm as resources of the pool, and arrays with a step, on a real Slurm."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import long
from tests.slurm.cluster import Cluster, running_cluster
from tests.slurm.conftest import (
    NODES,
    RESOURCES,
    UNCHANGED,
    decided_tasks,
    eventually,
    pool_for,
)

SMALL = "--partition=small"


@pytest.fixture(scope="module")
def slurm(prefix: Path) -> Iterator[Cluster]:
    """A cluster with licences."""
    with running_cluster(prefix, NODES, licences="matlab:2,ansys:5") as running:
        yield running


def resources(*licences):
    return [*RESOURCES, *({"name": f"license_{name}", "unit": ""} for name in licences)]


def submit(slurm, account, *options, count):
    """Submit jobs that Slurm looks at together, so that none starts before the others exist."""
    slurm.submit(account, *options, "--hold", count=count)
    for job in slurm.run("squeue", "--noheader", "--format=%i", f"--account={account}").split():
        slurm.run("scontrol", "release", job)


def licences_in_use(slurm):
    shown = slurm.run("scontrol", "--oneliner", "show", "licenses")
    return dict(re.findall(r"LicenseName=(\S+) Total=\d+ Used=(\d+)", shown))


def test_licences_that_the_pool_does_not_have_are_named(operator, agent, quiet):
    """The decision gives CPUs to both jobs; Slurm starts the one that its licences are enough for."""
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics")
    note = "licences that are not resources of the pool: ansys, matlab"
    assert note in agent.run("check")
    submit(quiet, "physics", SMALL, "--licenses=matlab:2", count=2)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 1}, seconds=60)
    # The other one waits for its licences: until they are free it is no demand.
    assert "2 jobs ask for licences that are not counted: matlab" in agent.run("--dry-run")
    agent.run("--once")
    (report,) = operator.get(f"{pool}/enforcement/").body["agents"]
    assert report["problems"] == []
    assert decided_tasks(operator, pool) == {"physics": 1}
    quiet.run("scancel", "--state=RUNNING")
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 1}, seconds=60)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"name": "drfh", "mode": "indivisible"}, id="drfh"),
        pytest.param({"name": "drf", "mode": "indivisible"}, id="drf", marks=long),
    ],
)
def test_licences_are_divided_among_accounts(operator, agent, quiet, policy):
    """Five licences, of which both accounts want all: one has two jobs, the other one."""
    pool = pool_for(operator, agent, resources=resources("ansys", "matlab"), policy=policy)
    quiet.add_accounts("physics", "biology")
    assert "the cluster has ansys, matlab as licences" in agent.run("check")
    agent.run("--once")  # without limits jobs would start as they come
    submit(quiet, "physics", SMALL, "--licenses=ansys:2", count=4)
    submit(quiet, "biology", SMALL, "--licenses=ansys:1", count=6)
    agent.run("--once")
    # Each licence of a job of physics costs two of the share: two of five against three of five.
    assert decided_tasks(operator, pool) == {"physics": 1, "biology": 3}
    limits = {
        account: dict(item.split("=") for item in text.split(","))
        for account, text in quiet.limits().items()
    }
    assert {account: of["license/ansys"] for account, of in limits.items()} == {
        "physics": "2",
        "biology": "3",
    }
    assert {of["license/matlab"] for of in limits.values()} == {"0"}
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 1, "biology": 3}, seconds=60)
    assert licences_in_use(quiet) == {"ansys": "5", "matlab": "0"}
    agent.run("--once")
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED
    (report,) = operator.get(f"{pool}/enforcement/").body["agents"]
    assert report["problems"] == []
    rows = {row["tenant"]: row for row in operator.get(f"{pool}/enforcement/").body["tenants"]}
    assert rows["physics"]["used"]["license_ansys"] == "2"
    # One account alone has all of them.
    quiet.run("scancel", "--account=biology")
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 2}, seconds=60)


@long
def test_a_job_of_several_nodes_has_licences_once(operator, agent, quiet):
    pool = pool_for(operator, agent, resources=resources("matlab"))
    quiet.add_accounts("physics")
    quiet.submit("physics", SMALL, "--nodes=2", "--licenses=matlab:2", count=2)
    agent.run("--once")
    assert decided_tasks(operator, pool) == {"physics": 1}
    assert quiet.limits()["physics"] == "cpu=2,license/matlab=2,mem=512M"
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 1}, seconds=60)
    agent.run("--once")
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED


@long
def test_parts_that_start_together_have_their_licences_together(operator, agent, quiet):
    pool = pool_for(operator, agent, resources=resources("ansys"))
    quiet.add_accounts("physics")
    part = (SMALL, "--mem=256", "--licenses=ansys:1", "--account=physics")
    quiet.run(
        *("sbatch", "--output=/dev/null", "--chdir=/", *part),
        *(":", *part, "--wrap=sleep 3600"),
    )
    agent.run("--once")
    assert decided_tasks(operator, pool) == {"physics": 1}
    assert quiet.limits()["physics"] == "cpu=2,license/ansys=2,mem=512M"
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 2}, seconds=60)


@long
def test_a_job_starts_whose_licence_left_slurm_for_a_moment(operator, agent, quiet):
    """Slurm drops the text of its licences, and limits it by its TRES as before."""
    pool = pool_for(operator, agent, resources=resources("ansys", "matlab"))
    quiet.add_accounts("physics")
    agent.run("--once")
    quiet.submit("physics", SMALL, "--licenses=matlab:1")
    whole = (quiet.state / "slurm.conf").read_text()
    for text in (re.sub(r"(?m)^Licenses=.*$", "Licenses=ansys:5", whole), whole):
        quiet.configure_with(text)
        quiet.run("scontrol", "reconfigure")
    eventually(lambda: licences_in_use(quiet).keys() == {"ansys", "matlab"})
    assert quiet.run("squeue", "--noheader", "--Format=licenses").strip() == "(null)"
    agent.run("--once")
    assert decided_tasks(operator, pool) == {"physics": 1}
    assert "license/matlab=1" in quiet.limits()["physics"]
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 1}, seconds=60)


@long
def test_limits_of_partitions_name_no_licences(operator, service, agent, quiet):
    """With a limit of 0 licences in its partition no job with licences would start."""
    pool_for(operator, agent, resources=resources("matlab"))
    agent.configure(url=service.url, slurm="classes = yes")
    quiet.add_accounts("physics")
    agent.run("--once")
    quiet.submit("physics", SMALL, "--licenses=matlab:1", count=3)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 2}, seconds=60)
    agent.run("--once")
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED
    agent.configure(url=service.url)
    agent.run("--once")
    shown = quiet.run("sacctmgr", "-nP", "show", "association", "format=partition,grptres")
    rows = [line.split("|") for line in shown.splitlines()]
    assert {limits for partition, limits in rows if partition} == {""}


@long
def test_licences_that_the_policy_cannot_divide_are_a_problem(operator, agent, quiet):
    policy = {"name": "drfh", "mode": "divisible"}
    pool_for(operator, agent, resources=resources("matlab"), policy=policy)
    quiet.add_accounts("physics")
    quiet.submit("physics", SMALL, "--licenses=matlab:1")
    for command in ("check", "--once"):
        assert "no job gets license_matlab" in agent.run(command, expect=1)


def test_no_task_of_an_array_with_a_step_is_lost(operator, agent, quiet):
    """Slurm 22.05 prints 66 of 67 with `squeue --array`."""
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics")
    agent.run("--once")
    quiet.submit("physics", SMALL, "--array=1-199:3")
    agent.run("--once")
    wanted = [row["tasks"] for row in operator.pages(f"{pool}/workloads/") if row["tasks"]]
    assert wanted == [67]
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 12})
    agent.run("--once")
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED
