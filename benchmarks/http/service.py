"""This service on the same PostgreSQL, with its processes, a key and a pool."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from launcher.client import Client
from launcher.folders import PROJECT
from launcher.processes import Process, start, stop, wait_until_ready
from launcher.service import components

POOL = "/api/v1/pools/bench"
TENANTS = 20
# The load of the benchmark is one key's; what a key may send is not what is measured.
UNTHROTTLED = {"THROTTLE_RATE": "100000", "THROTTLE_BURST": "1000000"}


class Service:
    """The running service with ``workers`` web processes, and all the others."""

    def __init__(self, workers: int) -> None:
        self._environment = {**os.environ, **UNTHROTTLED, "WEB_CONCURRENCY": str(workers)}
        self._manage("migrate", "--verbosity", "0")
        self.key = self._manage("apikey", "create", "--scope", "operator", "--name", "bench")
        # The system chooses a free port, which stays taken until the web process has it.
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(listener.getsockname()[1])
        self.client = Client(f"http://127.0.0.1:{self.port}", self.key)
        self._folder = Path(tempfile.mkdtemp(prefix="allocator-bench-"))
        self._processes: dict[str, Process] = {}
        self._components = {
            component.name: component
            for component in components(listener=listener.fileno(), data=self._folder)
        }
        for name in self._components:
            self._processes[name] = self._start(name, [listener.fileno()])
        # The web process has its own copy.
        listener.close()
        wait_until_ready(
            self._ready,
            process=self._processes["web"],
            step="start the service",
            log=self._folder / "web.log",
            seconds=120,
        )

    def _start(self, name: str, pass_fds: Sequence[int] = ()) -> Process:
        with (self._folder / f"{name}.log").open("ab") as log:
            return start(
                [sys.executable, *self._components[name].command],
                env={**self._environment, "ALLOCATOR_PROCESS": name},
                cwd=PROJECT,
                output=log,
                pass_fds=pass_fds,
            )

    @contextmanager
    def another(self, name: str) -> Iterator[None]:
        """Run one more process of a kind during the block."""
        process = self._start(name)
        try:
            yield
        finally:
            stop(process, patience_seconds=20)

    def fill(self, servers: int) -> str:
        """Create the pool with servers, tenants and workloads, and return the id of a server."""
        policy = {"name": "drfh", "mode": "divisible"}
        resources = [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}]
        self.client.post(
            "/api/v1/pools/",
            {"slug": "bench", "name": "Bench", "resources": resources, "policy": policy},
        )
        for number in range(TENANTS):
            self.client.post(
                "/api/v1/tenants/", {"slug": f"group-{number}", "name": f"Group {number}"}
            )
        self.client.post(
            f"{POOL}/servers/",
            [
                {
                    "name": f"server-{number:04d}",
                    "capacity": {"cpu": 32, "memory": 128 + number % 4},
                    "contributed_by": f"group-{number % TENANTS}",
                }
                for number in range(servers)
            ],
        )
        self.client.post(
            f"{POOL}/workloads/",
            [
                {
                    "tenant": f"group-{number}",
                    "name": "batch",
                    "demand": {"cpu": 1 + number % 3, "memory": 2 + number % 5},
                }
                for number in range(TENANTS)
            ],
        )
        first: str = self.client.get(f"{POOL}/servers/?limit=1").body["results"][0]["id"]
        return first

    def web_memory_mib(self) -> float:
        """Return the sum of the peak memory of the web processes."""
        master = self._processes["web"].pid
        workers = Path(f"/proc/{master}/task/{master}/children").read_text().split()
        peaks = 0.0
        for pid in (master, *workers):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
            peaks += int(peak) / 1024
        return peaks

    @property
    def pids(self) -> list[int]:
        """Return the ids of the started processes, without those of their children."""
        return [process.pid for process in self._processes.values()]

    def stop(self) -> None:
        """Stop every process."""
        for process in self._processes.values():
            stop(process, patience_seconds=20)

    def _ready(self) -> bool:
        try:
            answer = self.client.request("GET", "/readyz")
        except OSError:
            return False
        states = {state for name, state in answer.body["checks"].items() if name != "backtests"}
        return answer.status == 200 and states == {"ok"}

    def _manage(self, *arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            env={**self._environment, "ALLOCATOR_PROCESS": "manage"},
            cwd=PROJECT,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.strip()
