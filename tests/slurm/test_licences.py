"""Licences of Slurm, which no decision knows, and arrays with a step, on a real Slurm."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, running_cluster
from tests.slurm.conftest import NODES, UNCHANGED, decided_tasks, eventually, pool_for

SMALL = "--partition=small"


@pytest.fixture(scope="module")
def slurm(prefix: Path) -> Iterator[Cluster]:
    """A cluster with licences."""
    with running_cluster(prefix, NODES, licences="matlab:2,ansys:5") as running:
        yield running


def test_jobs_with_licences_are_counted_without_them_and_named(operator, agent, quiet):
    """The decision gives CPUs to both jobs; Slurm starts the one that its licences are enough for."""
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics")
    note = "licences are not resources of the pool (ansys, matlab)"
    assert note in agent.run("check")
    quiet.submit("physics", SMALL, "--licenses=matlab:2", "--hold", count=2)
    for job in quiet.run("squeue", "--noheader", "--format=%i").split():
        quiet.run("scontrol", "release", job)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 1}, seconds=60)
    told = agent.run("--dry-run")
    text = (
        "1 jobs ask for licences (matlab), which the decision does not know: they are counted without"
        " them"
    )
    # The other one waits for its licences: until they are free it is no demand.
    assert text in told
    agent.run("--once")
    (report,) = operator.get(f"{pool}/enforcement/").body["agents"]
    assert report["problems"] == []
    assert decided_tasks(operator, pool) == {"physics": 1}
    quiet.run("scancel", "--state=RUNNING")
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 1}, seconds=60)


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
