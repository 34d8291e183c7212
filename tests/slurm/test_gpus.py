"""GPUs of several types on a real Slurm, as labels of servers and as resources of the pool."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import long
from tests.slurm.cluster import Cluster, Node, running_cluster
from tests.slurm.conftest import UNCHANGED, eventually, pool_for

NODES = (
    Node("a-1", cpus=6, memory=4096, partition="all", gpus=(("a100", 2),)),
    Node("v-1", cpus=6, memory=4096, partition="all", gpus=(("a100", 1), ("v100", 2))),
    Node("v-2", cpus=6, memory=4096, partition="all", gpus=(("v100", 2),)),
)


@pytest.fixture(scope="module")
def slurm(prefix: Path) -> Iterator[Cluster]:
    """Nodes with GPUs; other tests have a cluster of their own."""
    with running_cluster(prefix, NODES) as running:
        yield running


def limits(slurm):
    return {account: sorted(text.split(",")) for account, text in slurm.limits().items()}


def resources(*names):
    return [{"name": name, "unit": ""} for name in names]


def test_jobs_of_a_type_are_decided_on_the_nodes_that_have_it(operator, agent, quiet):
    pool = pool_for(operator, agent, resources=resources("cpu", "gpu"))
    quiet.add_accounts("physics")
    quiet.submit("physics", "--gres=gpu:v100:2", count=4)
    agent.run("--once")
    labels = {row["name"]: row["labels"]["gres.gpu"] for row in operator.pages(f"{pool}/servers/")}
    assert labels == {"a-1": "a100", "v-1": "a100.v100", "v-2": "v100"}
    (workload,) = [row for row in operator.pages(f"{pool}/workloads/") if row["tasks"]]
    assert workload["name"] == "slurm-lab/any,gres.gpu=a100.v100+v100/cpu=1,gpu=2"
    assert workload["server_selector"] == {"gres.gpu": ["a100.v100", "v100"]}
    # Seven GPUs would be enough for three jobs, those of the type for two.
    assert quiet.limits() == {"physics": "cpu=2,gres/gpu=4"}
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 2})
    agent.run("--once")
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED


@long
def test_types_that_the_pool_counts_have_limits_of_their_own(operator, agent, quiet):
    names = ("cpu", "gpu", "gpu_a100", "gpu_v100")
    pool = pool_for(operator, agent, resources=resources(*names))
    quiet.add_accounts("physics", "biology")
    agent.run("--once")
    capacity = {row["name"]: row["capacity"] for row in operator.pages(f"{pool}/servers/")}
    assert capacity["v-1"] == {"cpu": 6, "gpu": 3, "gpu_a100": 1, "gpu_v100": 2}
    assert limits(quiet)["physics"] == ["cpu=0", "gres/gpu:a100=0", "gres/gpu:v100=0", "gres/gpu=0"]
    quiet.submit("physics", "--gres=gpu:a100:1", count=5)
    quiet.submit("biology", "--gres=gpu:v100:1", count=1)
    agent.run("--once")
    assert limits(quiet) == {
        "biology": ["cpu=1", "gres/gpu:a100=0", "gres/gpu:v100=1", "gres/gpu=1"],
        "physics": ["cpu=3", "gres/gpu:a100=3", "gres/gpu:v100=0", "gres/gpu=3"],
    }
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 3, "biology": 1})
    # Jobs of another type do not start on the limit of the total.
    quiet.run("scancel", "--state=RUNNING", "--account=physics")
    quiet.submit("physics", "--gres=gpu:v100:1", count=1)
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 2, "biology": 1})
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 3, "biology": 1})
    agent.run("--once")
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED
    state = operator.get(f"{pool}/enforcement/").body
    assert [row["drift"] for row in state["tenants"]] == [{}, {}]
