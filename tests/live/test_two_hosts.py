"""Workers on a second host, which is a network namespace: TCP only, and a cable that can be cut."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from launcher import binaries, folders
from launcher.client import Client
from launcher.postgres import DATABASE, OWNER_ROLE, Postgres
from launcher.processes import Process, start, stop
from launcher.service import components
from tests.live.conftest import decision_of
from tests.live.service import PROJECT, LiveService

NEAR, FAR = "10.213.77.1", "10.213.77.2"
WORKLOADS = 3_000


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@dataclass(frozen=True)
class Hosts:
    """A service on one host, and a second host for its workers.

    Attributes:
        service: with its database and broker on the first host.
        server: address of the database; far: name of the second host.
    """

    service: LiveService
    server: str
    far: str
    logs: Path

    def far_worker(self) -> Process:
        """Start a worker on the second host."""
        component = {each.name: each for each in components(listener=0, data=self.logs)}["worker"]
        with (self.logs / "far.log").open("ab") as log:
            return start(
                ["ip", "netns", "exec", self.far, sys.executable, *component.command],
                env={**self.service.environment, "ALLOCATOR_PROCESS": "worker"},
                cwd=PROJECT,
                output=log,
            )

    def cable(self, state: str) -> None:
        """Cut the cable to the second host (`down`), or mend it (`up`)."""
        ip("link", "set", f"{self.far}-0", state)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory) -> Iterator[Hosts]:
    """A service whose database and broker listen on a network of two hosts."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and iproute2 to make a second host: apt-get install iproute2")
    logs, name = tmp_path_factory.mktemp("hosts"), f"far{os.getpid()}"[:12]
    with ExitStack() as stack:
        try:
            ip("netns", "add", name)
        except subprocess.CalledProcessError as refusal:
            pytest.skip(f"no network namespaces here: {refusal.stderr.decode().strip()}")
        stack.callback(ip, "netns", "delete", name)
        ip("link", "add", f"{name}-0", "type", "veth", "peer", "name", f"{name}-1")
        ip("link", "set", f"{name}-1", "netns", name)
        ip("address", "add", f"{NEAR}/30", "dev", f"{name}-0")
        ip("link", "set", f"{name}-0", "up")
        ip("-n", name, "address", "add", f"{FAR}/30", "dev", f"{name}-1")
        ip("-n", name, "link", "set", f"{name}-1", "up")
        server, broker = _servers(stack)
        environment = {
            "DATABASE_URL": server,
            "MIGRATION_DATABASE_URL": server,
            "REDIS_URL": broker,
            "DJANGO_SETTINGS_MODULE": "allocator_service.settings.local",
        }
        live = LiveService(environment, logs)
        stack.callback(live.stop)
        live.manage("migrate", "--verbosity", "0")
        live.launch()
        yield Hosts(live, server, name, logs)


def _servers(stack: ExitStack) -> tuple[str, str]:
    """Start PostgreSQL and Redis on the network, and return their addresses."""
    folder = folders.fresh("hosts")
    stack.callback(folder.remove)
    Postgres(folder).stop()  # has made the cluster
    data = folder.path / "postgres"
    with (data / "pg_hba.conf").open("a") as rules:
        rules.write(f"host all all {NEAR}/30 trust\n")
    ports = [_free_port() for _ in range(2)]
    postgres = [binaries.postgres_programs(folder) / "postgres", "-D", data, "-k", folder.sockets]
    listening = {"postgres": [*postgres, "-h", NEAR, "-p", str(ports[0])]}
    redis = [binaries.redis_program(folder), "--bind", NEAR, "--port", str(ports[1])]
    listening["redis"] = [*redis, "--save", "", "--protected-mode", "no"]
    for (name, command), port in zip(listening.items(), ports, strict=True):
        with (folder.logs / f"{name}-network.log").open("ab") as log:
            process = start(command, cwd=Path("/"), account=folder.account, output=log)
        stack.callback(stop, process)
        _wait_for(port, process)
    return f"postgresql://{OWNER_ROLE}@{NEAR}:{ports[0]}/{DATABASE}", f"redis://{NEAR}:{ports[1]}/0"


def _free_port() -> int:
    with socket.create_server((NEAR, 0)) as free:
        return int(free.getsockname()[1])


def _wait_for(port: int, process: Process) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((NEAR, port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the server does not listen")


@pytest.fixture(scope="module")
def meadow(hosts) -> Client:
    """A key for operators, after a pool whose decision takes long enough to be met in the middle."""
    operator = hosts.service.client("operator", "hosts")
    operator.post("/api/v1/tenants/", {"slug": "cow", "name": "Cow"})
    resources = [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}]
    pool = {"slug": "meadow", "name": "Meadow", "resources": resources, "policy": {"name": "drfh"}}
    operator.post("/api/v1/pools/", pool)
    servers = [
        {"name": f"s{number}", "capacity": {"cpu": 64 + number, "memory": 256 - number}}
        for number in range(40)
    ]
    operator.post("/api/v1/pools/meadow/servers/", servers)
    workloads = [
        {"tenant": "cow", "name": f"w{number}", "tasks": 5,
         "demand": {"cpu": 1 + number % 7, "memory": 1 + number % 11}}
        for number in range(WORKLOADS)
    ]  # fmt: skip
    for first in range(0, WORKLOADS, 500):
        operator.post("/api/v1/pools/meadow/workloads/", workloads[first : first + 500])
    decided(operator)
    return operator


def decided(operator: Client, seconds: float = 120) -> dict:
    """The pool's decision for its present generation."""
    generation = operator.get("/api/v1/pools/meadow/").body["generation"]
    return decision_of(operator, "meadow", generation, seconds)


def changed(operator: Client, size: int) -> None:
    """Change what the pool has, so that it has to decide again."""
    server = {"name": f"more-{size}", "capacity": {"cpu": size, "memory": size}}
    operator.post("/api/v1/pools/meadow/servers/", server)


def wait_until_far_works(hosts: Hosts) -> None:
    """Wait until a session of the second host holds the lock of a job."""
    query = (
        "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)"
        " WHERE locktype = 'advisory' AND granted AND client_addr = %s"
    )
    deadline = time.monotonic() + 60
    with psycopg.connect(hosts.server, autocommit=True) as connection:
        while time.monotonic() < deadline:
            ((count,),) = connection.execute(query, [FAR]).fetchall()
            if count:
                return
    raise AssertionError("no worker of the second host took the job")


@pytest.mark.long
def test_a_host_that_vanishes_in_the_middle_of_a_decision(hosts, meadow):
    """Another host decides, and what the lost one publishes when it comes back is refused."""
    far = hosts.far_worker()
    try:
        stop(hosts.service.processes.pop("worker"))
        changed(meadow, 1)
        decided(meadow)  # by the second host alone
        changed(meadow, 2)
        wait_until_far_works(hosts)
        hosts.cable("down")
        hosts.service.start("worker")
        began = time.monotonic()
        decision = decided(meadow)
        print(f"decided {time.monotonic() - began:.1f} s after the host vanished")
        hosts.cable("up")
        changed(meadow, 3)
        last = decided(meadow)
        stop(hosts.service.processes.pop("worker"))
        changed(meadow, 4)
        decided(meadow)  # the second host is back
    finally:
        hosts.cable("up")
        stop(far)
    found = meadow.pages("/api/v1/pools/meadow/runs/")
    published = [run["generation"] for run in found if run["status"] == "succeeded"]
    assert published.count(decision["generation"]) == 1
    assert published.count(last["generation"]) == 1
    assert len(published) == len(set(published))
