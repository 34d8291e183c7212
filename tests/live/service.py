"""The service's processes, started and stopped by tests: all but the one that computes backtests."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from launcher.client import Client
from launcher.processes import Process, start, stop, wait_until_ready
from launcher.service import components

PROJECT = Path(__file__).parents[2]


class LiveService:
    """The running processes, and what tests do with them."""

    def __init__(self, environment: dict[str, str], logs: Path, project: Path = PROJECT) -> None:
        """`project` holds the sources that run: this tree, or another release's."""
        self._project = project
        self.environment = {**os.environ, **environment}
        self.logs = logs
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._components = {
            component.name: component
            for component in components(listener=self._listener.fileno(), data=logs)
        }
        self.processes: dict[str, Process] = {}

    def start(self, *names: str) -> None:
        for name in names:
            with (self.logs / f"{name}.log").open("ab") as log:
                self.processes[name] = start(
                    [sys.executable, *self._components[name].command],
                    env={**self.environment, "ALLOCATOR_PROCESS": name, "WEB_CONCURRENCY": "1"},
                    cwd=self._project,
                    output=log,
                    pass_fds=[self._listener.fileno()],
                )

    def stop(self) -> None:
        for process in self.processes.values():
            stop(process, patience_seconds=10)
        self._listener.close()

    def manage(self, *arguments: str) -> str:
        """Run a management command; returns its standard output."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            env={**self.environment, "ALLOCATOR_PROCESS": "manage"},
            cwd=self._project,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.strip()

    def client(self, scope: str, name: str, *options: str) -> Client:
        return Client(
            self.url, self.manage("apikey", "create", "--scope", scope, "--name", name, *options)
        )

    def ready(self) -> bool:
        """Whether all but who computes backtests, whom few tests need, are at work."""
        answer = Client(self.url).request("GET", "/readyz")
        states = {state for name, state in answer.body["checks"].items() if name != "backtests"}
        return answer.status == 200 and states == {"ok"}

    def launch(self) -> None:
        """Start every process on a migrated database, and wait until all of them are at work."""
        self.start("web", "relay", "sender", "worker", "beat")
        wait_until_ready(
            self.ready,
            process=self.processes["web"],
            step="start the service",
            log=self.logs / "web.log",
            seconds=60,
        )
