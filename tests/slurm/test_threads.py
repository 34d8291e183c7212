"""Cores of several CPUs on a real Slurm: limits are CPUs, reservations of slots are cores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import long
from tests.slurm.cluster import Cluster, running_cluster
from tests.slurm.conftest import NODES, UNCHANGED, eventually, pool_for
from tests.slurm.test_reservations import coming, reserved

# Slurm gives whole cores, so that jobs ask for them.
CORE = ("--partition=small", "--time=5", "--cpus-per-task=2")


@pytest.fixture(scope="module")
def slurm(prefix: Path) -> Iterator[Cluster]:
    """A cluster whose cores have two threads."""
    with running_cluster(prefix, NODES, threads=2) as running:
        yield running


@long
def test_slots_reserve_the_cores_of_their_cpus(operator, agent, quiet):
    """12 CPUs of the partition are 6 cores; 12 cores would be refused."""
    pool = pool_for(operator, agent, policy={"name": "tda"})
    quiet.add_accounts("physics", "biology")
    quiet.submit("physics", *CORE, count=4)
    quiet.submit("biology", *CORE, count=2)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 4, "biology": 2}, seconds=30)
    in_force = {row for name, row in reserved(quiet).items() if name not in coming(quiet)}
    assert in_force == {("physics", "small", 4), ("biology", "small", 2)}
    agent.run("--once")
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED
    state = operator.get(f"{pool}/enforcement/").body
    used = {row["tenant"]: row["used"]["cpu"] for row in state["tenants"]}
    assert used == {"physics": "8", "biology": "4"}
