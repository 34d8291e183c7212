"""Jobs of several nodes beside an endless stream of small jobs, on a real Slurm with four nodes."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import long
from tests.slurm.cluster import Cluster, Node, running_cluster
from tests.slurm.conftest import UNCHANGED, decided_tasks, eventually, pool_for

NODES = tuple(Node(f"n{number}", cpus=4, memory=4096, partition="all") for number in range(1, 5))
# Half of each node, behind all other jobs: a site that prefers small jobs.
GANG = ("--nodes=4", "--ntasks-per-node=2", "--nice=1000000")
LONGEST_SECONDS = 9
# Slurm looks for jobs to start every second, and needs some to end one, on a busy machine.
SLURM_SECONDS = 20


@pytest.fixture(scope="module")
def slurm(prefix: Path) -> Iterator[Cluster]:
    """Four equal nodes; other tests have a cluster of their own."""
    with running_cluster(prefix, NODES) as running:
        yield running


def crowded(operator, agent, cluster, *, lengths=(5, 6, 7, 8, LONGEST_SECONDS)):
    """A pool whose cluster is full of small jobs, of which more wait than can end in a test.

    They are of unequal length, so that no two nodes are ever free at once by chance.
    """
    pool = pool_for(operator, agent)
    cluster.add_accounts("mpi", "stream")
    for seconds in lengths:
        cluster.submit("stream", "--array=1-200", seconds=seconds)
    agent.run("--once")
    eventually(lambda: cluster.jobs("RUNNING") == {"stream": 16})
    return pool


def state(cluster, job):
    told = cluster.run("squeue", "--noheader", f"--jobs={job}", "--format=%t|%r|%v|%N", check=False)
    return told.strip().split("|")


def rounds_until_held(agent, cluster, job):
    """Rounds until the nodes of a job are held; Slurm has to look at the job before."""
    shown = []

    def held():
        shown[:] = agent.run("--once"), state(cluster, job), reservations(cluster)
        return f"_hold_{job} " in shown[2]

    try:
        eventually(held, seconds=90)
    except AssertionError as error:
        raise AssertionError(f"{error}: {shown}") from error


def reservations(cluster):
    return cluster.run("scontrol", "--oneliner", "show", "reservation", check=False)


def reported_holds(operator, pool):
    rows = operator.get(f"{pool}/enforcement/").body["tenants"]
    return [each for row in rows for each in row["holds"]]


def test_a_gang_starts_within_two_rounds_and_the_longest_job(operator, agent, quiet):
    pool = crowded(operator, agent, quiet)
    (gang,) = quiet.submit("mpi", *GANG, seconds=60)
    shown = agent.run("--once")
    assert decided_tasks(operator, pool) == {"mpi": 1, "stream": 8}
    # Slurm looks at the job under its limit; rounds are further apart than that.
    eventually(lambda: state(quiet, gang)[1] in ("Resources", "Priority"), seconds=60)
    shown += agent.run("--once")
    began = time.monotonic()
    for text in ("account mpi", "cores 2 of n1, 2 of n2, 2 of n3, 2 of n4", f"held for job {gang}"):
        assert f"      {text}\n" in shown
    (held,) = reported_holds(operator, pool)
    assert (held["jobs"], held["servers"]) == ([str(gang)], ["n1", "n2", "n3", "n4"])

    eventually(
        lambda: state(quiet, gang)[0] == "R",
        seconds=LONGEST_SECONDS + SLURM_SECONDS - (time.monotonic() - began),
    )
    eventually(lambda: quiet.jobs("RUNNING") == {"mpi": 1, "stream": 8})
    shown = agent.run("--once")
    assert f"      job {gang} runs\n" in shown
    assert reservations(quiet).strip() == "No reservations in the system"
    assert state(quiet, gang)[0] == "R"
    assert UNCHANGED in agent.run("--dry-run")


@long
def test_guaranteed_gangs_take_the_whole_cluster(operator, agent, quiet):
    """Mpi shares the cluster with the stream, until all of its CPUs are guaranteed to it."""
    pool = crowded(operator, agent, quiet)
    # Longer than the wait: on a slow machine the first would end before the second starts.
    gangs = quiet.submit("mpi", "--nodes=2", "--ntasks-per-node=4", seconds=240, count=2)
    agent.run("--once")
    assert decided_tasks(operator, pool) == {"mpi": 1, "stream": 8}
    member = f"{pool}/members/mpi/"
    tag = {"If-Match": operator.get(member).headers["ETag"]}
    guarantee = [{"amount": {"cpu": 16}}]
    body = {"weight": 1, "guarantee": guarantee}
    assert operator.request("PUT", member, body, headers=tag).body["guarantee"]

    def both_run():
        agent.run("--once")
        return [state(quiet, job)[0] for job in gangs] == ["R", "R"]

    eventually(both_run, seconds=180)
    assert decided_tasks(operator, pool) == {"mpi": 2}
    assert quiet.jobs("RUNNING") == {"mpi": 2}


@long
def test_without_holding_it_does_not_start(operator, agent, quiet, service):
    """The control: limits alone leave half of the CPUs free, on the wrong nodes."""
    agent.configure(url=service.url, slurm="hold = no")
    pool = crowded(operator, agent, quiet)
    (gang,) = quiet.submit("mpi", *GANG, seconds=60)
    for _ in range(2):
        agent.run("--once")
    assert decided_tasks(operator, pool) == {"mpi": 1, "stream": 8}
    deadline = time.monotonic() + LONGEST_SECONDS + SLURM_SECONDS
    while time.monotonic() < deadline:
        assert state(quiet, gang)[0] == "PD"
        time.sleep(1)
        agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"stream": 8})
    assert reservations(quiet).strip() == "No reservations in the system"


def test_what_is_held_ends_with_the_job_and_survives_the_agent(operator, agent, quiet):
    """A job is cancelled, put back by hand, and held by its owner; and a part of a round is lost."""
    pool = crowded(operator, agent, quiet, lengths=[600])
    first, second = quiet.submit("mpi", *GANG, seconds=60, count=2)
    rounds_until_held(agent, quiet, first)
    (held,) = reported_holds(operator, pool)
    assert held["beside"] == [{"tenant": "stream", "jobs": 16}]
    assert f"allocator-{agent.pool}_hold_{first}" in reservations(quiet)
    assert f"_hold_{second}" not in reservations(quiet)  # one is decided

    # As after a kill between the two commands: the reservation is there, and the job not in it.
    quiet.run("scontrol", "update", f"JobId={first}", "ReservationName=")
    agent.run("--once")
    assert state(quiet, first)[2] == f"allocator-{agent.pool}_hold_{first}"

    # Held by its owner it is no demand, and Slurm deletes no reservation that a job names.
    quiet.run("scontrol", "hold", str(first))
    agent.run("--once")
    assert f"_hold_{first}" not in reservations(quiet)
    rounds_until_held(agent, quiet, second)
    quiet.run("scancel", str(second))
    agent.run("--once")
    assert reservations(quiet).strip() == "No reservations in the system"


@long
def test_a_heterogeneous_job_is_held_for_as_one(operator, agent, quiet):
    pool = crowded(operator, agent, quiet, lengths=[600])
    parts = ("--nodes=1", "--ntasks=3", "--mem=256", "--nice=1000000")
    rest = ("--nodes=2", "--ntasks-per-node=2", "--mem=256", "--nice=1000000")
    told = quiet.run(
        *("sbatch", "--parsable", "--account=mpi", "--output=/dev/null", "--chdir=/", *parts),
        *(":", *rest, "--account=mpi", "--wrap=sleep 60"),
    )
    job = int(told)
    agent.run("--once")
    assert decided_tasks(operator, pool) == {"mpi": 1, "stream": 9}
    rounds_until_held(agent, quiet, job)
    assert [state(quiet, f"{job}+{part}")[2] for part in (0, 1)] == [
        f"allocator-{agent.pool}_hold_{job}"
    ] * 2
    quiet.run("scancel", "--account=stream", "--state=RUNNING")
    eventually(lambda: quiet.jobs("RUNNING").get("mpi") == 2, seconds=60)
    agent.run("--once")
    assert reservations(quiet).strip() == "No reservations in the system"
    assert UNCHANGED in agent.run("--dry-run")


def test_a_node_that_drains_is_no_more_held(operator, agent, quiet):
    pool = crowded(operator, agent, quiet, lengths=[600])
    (gang,) = quiet.submit("mpi", "--nodes=2", "--ntasks-per-node=3", "--nice=1000000", seconds=60)
    rounds_until_held(agent, quiet, gang)

    (before,) = [each["servers"] for each in reported_holds(operator, pool)]
    quiet.run("scontrol", "update", f"NodeName={before[0]}", "State=DRAIN", "Reason=test")
    try:
        agent.run("--once")  # ends the hold
        rounds_until_held(agent, quiet, gang)
        (after,) = [each["servers"] for each in reported_holds(operator, pool)]
        assert len(after) == 2
        assert before[0] not in after
        quiet.run("scancel", "--account=stream", "--state=RUNNING")
        eventually(lambda: state(quiet, gang)[0] == "R", seconds=60)
    finally:
        quiet.run("scontrol", "update", f"NodeName={before[0]}", "State=RESUME")


@long
def test_what_is_held_moves_to_nodes_that_become_free(operator, agent, quiet):
    """Jobs on the nodes of the decision run for an hour, and those on the two others end first."""
    pool = crowded(operator, agent, quiet, lengths=[3600])
    (gang,) = quiet.submit("mpi", "--nodes=2", "--ntasks-per-node=4", seconds=60)
    rounds_until_held(agent, quiet, gang)
    assert decided_tasks(operator, pool) == {"mpi": 1, "stream": 8}
    ((held, *_),) = [[each["servers"] for each in reported_holds(operator, pool)]]
    others = {node.name for node in NODES} - set(held)
    shown = quiet.run("squeue", "--noheader", "--states=RUNNING", "--format=%i %N")
    ending = [job for job, node in map(str.split, shown.splitlines()) if node in others]
    assert len(ending) == 8
    quiet.run("scancel", *ending)
    eventually(lambda: quiet.jobs("RUNNING") == {"stream": 8})
    shown = agent.run("--once")
    assert f"other nodes have room for job {gang}" in shown
    eventually(lambda: state(quiet, gang)[0] == "R")
    agent.run("--once")
    assert reservations(quiet).strip() == "No reservations in the system"
    assert quiet.jobs("RUNNING") == {"mpi": 1, "stream": 8}


@long
def test_each_node_is_a_task_where_gangs_are_off(operator, agent, quiet, service):
    agent.configure(url=service.url, gangs="no")
    pool = pool_for(operator, agent)
    quiet.add_accounts("mpi")
    quiet.submit("mpi", "--nodes=2", seconds=60)
    agent.run("--once")
    assert decided_tasks(operator, pool) == {"mpi": 2}
    agent.configure(url=service.url)
    agent.run("--once")
    assert decided_tasks(operator, pool) == {"mpi": 1}
