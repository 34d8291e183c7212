"""Imports of the outputs of a real Slurm, and the workloads that the agent sends of the same jobs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, Node, running_cluster
from tests.slurm.conftest import RESOURCES, pool_for

NODES = (
    *(Node(f"n{number}", cpus=4, memory=4096, partition="all") for number in range(1, 5)),
    Node("g1", cpus=4, memory=4096, partition="gpu", gpus=(("a100", 2), ("v100", 2))),
    Node("g2", cpus=4, memory=4096, partition="gpu", gpus=(("a100", 2),)),
)
COMPARED = ("tenant", "demand", "pieces", "per_server", "together", "tasks", "server_selector")


@pytest.fixture(scope="module")
def slurm(prefix: Path) -> Iterator[Cluster]:
    """Nodes with and without GPUs of two types; other tests have a cluster of their own."""
    with running_cluster(
        prefix, NODES, switches={"s1": ("n1", "n2", "g1"), "s2": ("n3", "n4", "g2")}
    ) as running:
        yield running


def submit(cluster):
    """Submit jobs of each kind, some of which run."""
    cluster.add_accounts("mpi", "stream", "big_lab")
    cluster.submit("mpi", "--nodes=2", "--ntasks-per-node=2")
    cluster.submit("stream", "--array=1-30%20")
    cluster.submit("stream", "--array=1-3,7,90-95", "--partition=gpu", "--gres=gpu:a100:1")
    cluster.submit("stream", "--partition=all,gpu", "--gres=gpu:1")
    cluster.submit("mpi", "--nodes=3", "--exclusive", count=2)
    cluster.submit("mpi", "--nodes=3-5", "--exclusive")
    cluster.submit("mpi", "--ntasks=6")
    cluster.submit("mpi", "--array=1-5", "--nodes=4", "--ntasks-per-node=3")
    cluster.submit("big_lab", "--gpus=v100:2", "--partition=gpu")
    cluster.submit("big_lab", "--begin=now+3600")
    cluster.submit("big_lab", "--begin=now+300")
    (held,) = cluster.submit("big_lab", "--hold")
    cluster.submit("big_lab", f"--dependency=afterok:{held}")
    head = ("--account=mpi", "--output=/dev/null", "--chdir=/", "--mem=256", "--nodes=1")
    workers = ("--nodes=2", "--ntasks-per-node=4", "--mem=512", "--wrap=sleep 3600")
    cluster.run("sbatch", *head, ":", *workers)
    cluster.settled()


def test_an_import_of_squeue_gives_the_workloads_that_the_agent_sends(
    operator, agent, quiet, service, tmp_path
):
    submit(quiet)
    resources = [*RESOURCES, {"name": "gpu", "unit": ""}]
    fed = pool_for(operator, agent, resources=resources)
    agent.run("--once")
    imported = f"{agent.pool}-imported"
    operator.post(
        "/api/v1/pools/",
        {
            "slug": imported,
            "name": imported,
            "resources": resources,
            "policy": {"name": "drfh", "mode": "indivisible"},
            "weights": "explicit",
            "metering": "reported",
        },
    )
    commands = (("squeue", "--json"), ("sinfo", "--json"), ("scontrol", "show", "topology"))
    file = tmp_path / "cluster.txt"
    file.write_text("".join(quiet.run(*command) for command in commands))
    for kind in ("nodes", "workloads"):
        command = (f"import_{kind}", imported, str(file), "--format", "slurm")
        shown = service.manage(*command, *(["--register-tenants"] if kind == "workloads" else []))
        assert ", 0 refused" in shown
        assert "0 added, 0 changed" in service.manage(*command)

    def found(pool):
        rows = operator.get(f"{pool}/workloads/?limit=100").body["results"]
        compared = [{name: row[name] for name in COMPARED} for row in rows if row["tasks"]]
        return sorted(compared, key=str)

    def places(pool):
        rows = operator.get(f"{pool}/servers/?limit=100").body["results"]
        names = ("partition", "switch", "gres.gpu")
        return {
            row["name"]: (row["capacity"], [row["labels"].get(name) for name in names])
            for row in rows
        }

    sent = found(fed)
    assert len(sent) == 11
    assert sum(bool(each["pieces"]) for each in sent) == 6
    assert found(f"/api/v1/pools/{imported}") == sent
    assert places(f"/api/v1/pools/{imported}") == places(fed)
