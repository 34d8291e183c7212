"""Jobs whose nodes are on one switch, on a real Slurm that knows the tree of its switches."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import long
from tests.slurm.cluster import Cluster, running_cluster
from tests.slurm.conftest import UNCHANGED, decided_tasks, eventually
from tests.slurm.test_gangs import NODES, crowded, reservations, rounds_until_held, state

SWITCHES = {"leaf-1": ("n1", "n3"), "leaf-2": ("n2", "n4")}
GANG = ("--nodes=2", "--ntasks-per-node=3", "--nice=1000000")


@pytest.fixture(scope="module")
def slurm(prefix: Path) -> Iterator[Cluster]:
    """Four equal nodes below two switches. The first two nodes are on different ones."""
    with running_cluster(prefix, NODES, switches=SWITCHES) as running:
        yield running


def gangs_of(operator, pool):
    rows = operator.get(f"{pool}/workloads/?limit=100").body["results"]
    return {row["name"]: row["together"] for row in rows if row["pieces"]}


def test_a_job_of_one_switch_is_placed_held_for_and_started_on_one(operator, agent, quiet):
    pool = crowded(operator, agent, quiet, lengths=[600])
    servers = operator.get(f"{pool}/servers/?limit=100").body["results"]
    switch = {row["name"]: row["labels"]["switch"] for row in servers}
    assert switch == {node: name for name, nodes in SWITCHES.items() for node in nodes}

    (gang,) = quiet.submit("mpi", *GANG, "--switches=1", seconds=60)
    agent.run("--once")
    assert decided_tasks(operator, pool)["mpi"] == 1
    (name,) = gangs_of(operator, pool)
    assert gangs_of(operator, pool) == {name: "switch"}
    assert name.endswith("2 x cpu=3,memory=256Mi in one switch")
    rounds_until_held(agent, quiet, gang)
    rows = operator.get(f"{pool}/enforcement/").body["tenants"]
    (held,) = [each["servers"] for row in rows for each in row["holds"]]
    assert tuple(held) in SWITCHES.values()

    quiet.run("scancel", "--account=stream", "--state=RUNNING")
    eventually(lambda: state(quiet, gang)[0] == "R", seconds=60)
    started = quiet.run("squeue", "--noheader", f"--jobs={gang}", "--format=%N").strip()
    assert quiet.run("scontrol", "show", "hostnames", started).split() == held
    agent.run("--once")
    assert reservations(quiet).strip() == "No reservations in the system"
    assert UNCHANGED in agent.run("--dry-run")


@long
def test_other_numbers_of_switches_are_gangs_on_any_nodes(operator, agent, quiet):
    pool = crowded(operator, agent, quiet, lengths=[600])
    quiet.submit("mpi", *GANG, "--switches=2", seconds=60)
    agent.run("--once")
    assert list(gangs_of(operator, pool).values()) == [""]
