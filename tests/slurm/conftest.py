"""A real Slurm and the whole service beside it; between them the agent, as its own process."""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.client import Client
from launcher.folders import PROJECT
from launcher.processes import Process, start
from tests.debian import SLURM, Unavailable, unpacked
from tests.live.conftest import launched, worker_id  # noqa: F401 - a fixture
from tests.live.service import LiveService
from tests.slurm.cluster import Cluster, Node, running_cluster

# Three nodes of two kinds; every job of the tests fits on any node that is empty.
NODES = (
    Node("mem-1", cpus=4, memory=12288, partition="big"),
    Node("cpu-1", cpus=6, memory=3072, partition="small", features=("fast",)),
    Node("cpu-2", cpus=6, memory=3072, partition="small"),
)
NOTHING = "0 to add, 0 to change, 0 to remove."
UNCHANGED = f"Plan: {NOTHING}"  # the last line of a dry run
RESOURCES = [{"name": "cpu", "unit": "CPU"}, {"name": "memory", "unit": "MiB"}]


@pytest.fixture(scope="package")
def prefix() -> Path:
    try:
        return unpacked(SLURM)
    except Unavailable as reason:
        pytest.skip(f"no Slurm: {reason}")


@pytest.fixture(scope="package")
def slurm(prefix: Path) -> Iterator[Cluster]:
    """The cluster, with all of its nodes idle; its sockets need a short path."""
    with running_cluster(prefix, NODES) as running:
        yield running


@pytest.fixture(scope="package")
def service(
    prefix: Path,
    tmp_path_factory: pytest.TempPathFactory,
    worker_id: str,  # noqa: F811
) -> Iterator[LiveService]:
    with launched("slurm", worker_id, tmp_path_factory.mktemp("service")) as live:
        yield live


@pytest.fixture(scope="package")
def operator(service: LiveService) -> Client:
    return service.client("operator", "slurm-tests")


@pytest.fixture
def quiet(slurm: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster without a job, a limit or a reservation, before a test and after it."""
    slurm.clear()
    yield slurm
    if request.node.stash.get(FAILED, False):
        print(slurm.described())
    slurm.clear()


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test failed, for the fixtures that say then what they know."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


# Names of hosts are encoded by a module that is imported late.
_AS_ANOTHER = """\
import encodings.idna, os, pwd, sys
from allocator_agent.cli import main
user = pwd.getpwnam(sys.argv[1])
os.setgroups([])
os.setgid(user.pw_gid)
os.setuid(user.pw_uid)
sys.exit(main(sys.argv[2:]))
"""


class Agent:
    """The agent's configuration for one pool, and its runs as processes."""

    def __init__(self, folder: Path, cluster: Cluster, service: LiveService, pool: str) -> None:
        self.pool = pool
        self.file = folder / f"{pool}.ini"
        self._service = service
        self._environment = {
            **os.environ,
            **cluster.environment,
            "PYTHONPATH": str(PROJECT / "agent"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.configure(url=service.url)

    def authorize(self, *, cluster: str = "") -> None:
        """Give it the key that the guides give it: of an agent, for its pool or cluster alone."""
        self._environment["ALLOCATOR_KEY"] = self._service.manage(
            *("apikey", "create", "--scope", "agent", "--pool", self.pool),
            *(("--cluster", cluster) if cluster else ()),
            *("--name", f"agent-of-{cluster}-{self.pool}"),
        )

    def configure(self, *, url: str, service: str = "", slurm: str = "", **agent: str) -> None:
        settings = {"name": "slurm-lab", "register_tenants": "yes", "decision_wait": "20", **agent}
        lines = [f"{name} = {value}" for name, value in settings.items()]
        self.file.write_text(
            f"[service]\nurl = {url}\npool = {self.pool}\n{service}\n[agent]\n"
            + "\n".join(lines)
            + f"\n[slurm]\n{slurm}\n"
        )

    def run(self, *options: str, expect: int | None = 0, user: str = "") -> str:
        """What a run says on both its outputs, as the tests' user or another one."""
        command = self.command(*options)
        if user:
            # The interpreter may lie where another user cannot read it, so it starts as the tests' user.
            command = [command[0], "-c", _AS_ANOTHER, user, *command[3:]]
        done = subprocess.run(
            command,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        told = done.stdout + done.stderr
        assert expect is None or done.returncode == expect, (done.returncode, told)
        return told

    def start(self, *options: str, log: Path) -> Process:
        with log.open("ab") as output:
            return start(self.command(*options), env=self._environment, output=output)

    def command(self, *options: str) -> list[str]:
        python = os.environ.get("ALLOCATOR_AGENT_PYTHON", sys.executable)
        return [python, "-m", "allocator_agent", "--config", str(self.file), *options]


@pytest.fixture
def agent(tmp_path: Path, quiet: Cluster, service: LiveService, request: Any) -> Agent:
    """An agent for a pool named after the test, which `pool_for` makes."""
    pool = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
    return Agent(tmp_path, quiet, service, pool)


def pool_for(operator: Client, agent: Agent, **settings: Any) -> str:
    """The agent's pool, with whole tasks put on servers unless the settings say otherwise.

    The agent gets its key, which needs the pool.
    """
    operator.post(
        "/api/v1/pools/",
        {
            "slug": agent.pool,
            "name": agent.pool,
            "resources": RESOURCES,
            "policy": {"name": "drfh", "mode": "indivisible"},
            "weights": "explicit",
            "metering": "reported",
            **settings,
        },
    )
    agent.authorize()
    return f"/api/v1/pools/{agent.pool}"


def decided_tasks(operator: Client, pool: str) -> dict[str, int]:
    """How many tasks the decision in force gives to every tenant that it gives any."""
    tasks: Counter[str] = Counter()
    for (tenant, _), count in decided_by_partition(operator, pool).items():
        tasks[tenant] += count
    return dict(tasks)


def decided_by_partition(operator: Client, pool: str) -> dict[tuple[str, str], int]:
    """The same by tenant and partition, which the agent's names of workloads tell."""
    tasks: Counter[tuple[str, str]] = Counter()
    for row in operator.pages(f"{pool}/allocations/"):
        tasks[row["tenant"], row["workload"]["name"].split("/")[1]] += round(float(row["tasks"]))
    return {key: count for key, count in tasks.items() if count}


def eventually(what: Any, *, seconds: float = 20) -> Any:
    """What a function returns once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {json.dumps(str(what))}"
        time.sleep(0.2)
    return found
