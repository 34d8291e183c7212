"""Workers on a second host, which is a network namespace: TCP only, and a cable that can be cut."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from launcher import binaries, folders
from launcher.client import Client
from launcher.postgres import DATABASE, OWNER_ROLE, Postgres
from launcher.processes import Process, start, stop
from launcher.service import components
from tests.examples import long
from tests.live.conftest import decision_of
from tests.live.service import PROJECT, LiveService

NEAR, FAR = "10.213.77.1", "10.213.77.2"
WORKLOADS = 3_000
QUOTA = Path("/sys/fs/cgroup/cpu")
POOLS, SECONDS = 24, 20
FROZEN_SECONDS, AWAKE_SECONDS = 60, 20


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@dataclass(frozen=True)
class Hosts:
    """A service on one host, and a second host for its workers.

    Attributes:
        service: with its database and broker on the first host.
        server: address of the database, and database: its process; far: name of the second host.
    """

    service: LiveService
    server: str
    database: Process
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
        server, broker, database = _servers(stack)
        environment = {
            "DATABASE_URL": server,
            "MIGRATION_DATABASE_URL": server,
            "REDIS_URL": broker,
            "DJANGO_SETTINGS_MODULE": "allocator_service.settings.local",
            "THROTTLE_RATE": "100000",
            "THROTTLE_BURST": "100000",
        }
        live = LiveService(environment, logs)
        stack.callback(live.stop)
        live.manage("migrate", "--verbosity", "0")
        live.launch()
        yield Hosts(live, server, database, name, logs)


def _servers(stack: ExitStack) -> tuple[str, str, Process]:
    """Start PostgreSQL and Redis on the network; return their addresses, and PostgreSQL's process."""
    folder = folders.fresh("hosts")
    stack.callback(folder.remove)
    Postgres(folder).stop()  # has made the cluster
    data = folder.path / "postgres"
    with (data / "pg_hba.conf").open("a") as rules:
        rules.write(f"host all all {NEAR}/30 trust\n")
    ports = [_free_port() for _ in range(2)]
    postgres: list[str | Path] = [
        binaries.postgres_programs(folder) / "postgres",
        "-D",
        data,
        "-k",
        folder.sockets,
    ]
    listening = {"postgres": [*postgres, "-h", NEAR, "-p", str(ports[0])]}
    redis: list[str | Path] = [
        binaries.redis_program(folder),
        "--bind",
        NEAR,
        "--port",
        str(ports[1]),
    ]
    listening["redis"] = [*redis, "--save", "", "--protected-mode", "no"]
    processes = []
    for (name, command), port in zip(listening.items(), ports, strict=True):
        with (folder.logs / f"{name}-network.log").open("ab") as log:
            process = start(command, cwd=Path("/"), account=folder.account, output=log)
        stack.callback(stop, process)
        _wait_for(port, process)
        processes.append(process)
    server = f"postgresql://{OWNER_ROLE}@{NEAR}:{ports[0]}/{DATABASE}"
    return server, f"redis://{NEAR}:{ports[1]}/0", processes[0]


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
def meadow(hosts: Hosts) -> Client:
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


def decided(operator: Client, seconds: float = 120) -> dict[str, Any]:
    """The pool's decision for its present generation."""
    generation = operator.get("/api/v1/pools/meadow/").body["generation"]
    return decision_of(operator, "meadow", generation, seconds)


def changed(operator: Client, size: int) -> None:
    """Change what the pool has, so that it has to decide again."""
    server = {"name": f"more-{size}", "capacity": {"cpu": size, "memory": size}}
    operator.post("/api/v1/pools/meadow/servers/", server)


def wait_until_far_works(hosts: Hosts) -> None:
    """Wait until the second host computes the pool's decision, whose job it has claimed."""
    query = (
        "SELECT count(*) FROM pool_recompute_job JOIN pool ON pool.id = pool_id, pg_stat_activity"
        " WHERE slug = 'meadow' AND token IS NOT NULL AND client_addr = %s"
        " AND state = 'idle in transaction'"
    )
    deadline = time.monotonic() + 60
    with psycopg.connect(hosts.server, autocommit=True) as connection:
        while time.monotonic() < deadline:
            ((count,),) = connection.execute(query, [FAR]).fetchall()
            if count:
                return
    raise AssertionError("no worker of the second host took the job")


@long
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


@long
def test_a_host_that_is_frozen_in_the_middle_of_a_decision(hosts, meadow):
    """Another host decides meanwhile; what the frozen one computed is refused when it goes on."""
    far = hosts.far_worker()
    try:
        if "worker" in hosts.service.processes:
            stop(hosts.service.processes.pop("worker"))
        changed(meadow, 21)
        decided(meadow)
        changed(meadow, 22)
        wait_until_far_works(hosts)
        frozen = freeze(hosts, far)
        hosts.service.start("worker")
        began = time.monotonic()
        decision = decided(meadow)
        print(f"decided {time.monotonic() - began:.1f} s after the host froze")
        time.sleep(max(0, FROZEN_SECONDS - (time.monotonic() - began)))
        before = runs_of(meadow)
        thaw(hosts, frozen)
        time.sleep(AWAKE_SECONDS)  # until what it was computing is complete
        assert runs_of(meadow) == before
        changed(meadow, 23)
        decided(meadow)
        stop(hosts.service.processes.pop("worker"))
        changed(meadow, 24)
        decided(meadow)  # by the host that was frozen
    finally:
        thaw(hosts, [far.pid, *_descendants(far.pid)])
        stop(far)
    published = [run["generation"] for run in runs_of(meadow) if run["status"] == "succeeded"]
    assert published.count(decision["generation"]) == 1
    assert len(published) == len(set(published))


@long
def test_a_worker_that_is_stopped_while_its_host_goes_on(hosts, meadow):
    """Its host keeps its lock for it, so that it publishes its decision itself, once."""
    far = hosts.far_worker()
    try:
        if "worker" in hosts.service.processes:
            stop(hosts.service.processes.pop("worker"))
        changed(meadow, 31)
        decided(meadow)
        changed(meadow, 32)
        wait_until_far_works(hosts)
        stopped = [far.pid, *_descendants(far.pid)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        hosts.service.start("worker")
        before = [run["status"] for run in runs_of(meadow)]
        time.sleep(FROZEN_SECONDS)
        assert [run["status"] for run in runs_of(meadow)] == before
        thaw(hosts, stopped)
        decision = decided(meadow)
    finally:
        thaw(hosts, [far.pid, *_descendants(far.pid)])
        stop(far)
    published = [run["generation"] for run in runs_of(meadow) if run["status"] == "succeeded"]
    assert published.count(decision["generation"]) == 1
    assert len(published) == len(set(published))


def freeze(hosts: Hosts, worker: Process) -> list[int]:
    """Freeze the processes and the link of the second host, as of a machine that is paused."""
    pids = [worker.pid, *_descendants(worker.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    hosts.cable("down")
    return pids


def thaw(hosts: Hosts, pids: list[int]) -> None:
    hosts.cable("up")
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def runs_of(operator: Client) -> list[dict[str, Any]]:
    return operator.pages("/api/v1/pools/meadow/runs/")


@contextmanager
def quarter_of_a_core(worker: Process) -> Iterator[None]:
    """Let a worker and its children have a quarter of a core."""
    group = QUOTA / f"allocator-{worker.pid}"
    group.mkdir()
    try:
        (group / "cpu.cfs_quota_us").write_text("25000")
        for each in [worker.pid, *_descendants(worker.pid)]:
            (group / "cgroup.procs").write_text(str(each))
        yield
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (QUOTA / "cgroup.procs").write_text(pid)
        group.rmdir()


def _descendants(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [each for child in map(int, found) for each in (child, *_descendants(child))]


def processor_seconds(process: Process) -> float:
    """Processor time of a process and its children, those that have ended included."""
    ticks = 0
    for pid in [process.pid, *_descendants(process.pid)]:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15] if pid == process.pid else fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def decisions(hosts: Hosts) -> int:
    """How many decisions there are."""
    with psycopg.connect(hosts.server) as connection:
        ((count,),) = connection.execute(
            "SELECT count(*) FROM run WHERE status = 'succeeded'"
        ).fetchall()
    return int(count)


def rate_of_decisions(hosts: Hosts, operator: Client) -> tuple[float, float]:
    """Decisions per second, and the database's processor seconds of one, while all pools change."""
    ends = time.monotonic() + SECONDS

    def change(number: int) -> None:
        sizes = 0
        while time.monotonic() < ends:
            sizes += 1
            path = f"/api/v1/pools/add-{number}/workloads/"
            (workload,) = operator.get(path).body["results"]
            operator.patch(f"{path}{workload['id']}/", {"tasks": 1 + sizes % 60})
            time.sleep(0.2)

    before, used, began = decisions(hosts), processor_seconds(hosts.database), time.monotonic()
    with ThreadPoolExecutor(POOLS) as threads:
        list(threads.map(change, range(POOLS)))
    made = decisions(hosts) - before
    return made / (time.monotonic() - began), (processor_seconds(hosts.database) - used) / max(
        made, 1
    )


@long
def test_workers_of_a_second_host_add_up(hosts, meadow):
    """Decisions per second of 1, 2 and 4 workers, each with a quarter of a core."""
    if not os.access(QUOTA / "cgroup.procs", os.W_OK):
        pytest.skip("needs the first version of cgroups to limit processors")
    body = {"resources": [{"name": "cpu", "unit": "core"}], "policy": {"name": "drfh"}}
    for number in range(POOLS):
        path = f"/api/v1/pools/add-{number}/"
        meadow.post("/api/v1/pools/", body | {"slug": f"add-{number}", "name": "Adding"})
        meadow.post(f"{path}servers/", {"name": "s", "capacity": {"cpu": 64}})
        workload = {"tenant": "cow", "name": "w", "demand": {"cpu": 1}, "tasks": 1}
        meadow.post(f"{path}workloads/", workload)
    if "worker" in hosts.service.processes:
        stop(hosts.service.processes.pop("worker"))
    rates = {}
    for count in (1, 2, 4):
        with ExitStack() as stack:
            workers = [hosts.far_worker() for _ in range(count)]
            for worker in workers:
                stack.callback(stop, worker)
            changed(meadow, 10 + count)
            decided(meadow)
            time.sleep(10)  # until all have loaded what they need
            for worker in workers:
                stack.enter_context(quarter_of_a_core(worker))
            rates[count], database = rate_of_decisions(hosts, meadow)
        print(
            f"{count} workers: {rates[count]:.1f} decisions/s, {database:.4f} s of the database each"
        )
    assert rates[1] < rates[2] < rates[4]
