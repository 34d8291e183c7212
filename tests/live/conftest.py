"""The whole service as its users meet it: web, relay, beat and worker processes, over HTTP.

It has a database and a Redis database of its own, so it runs beside tests that roll back theirs.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from launcher.client import Client
from launcher.processes import Process, start, stop, wait_until_ready
from launcher.service import components

PROJECT = Path(__file__).parents[2]


class LiveService:
    """The running processes, and what tests do with them."""

    def __init__(self, environment: dict[str, str], logs: Path) -> None:
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
                    cwd=PROJECT,
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
            cwd=PROJECT,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.strip()

    def client(self, scope: str, name: str, *options: str) -> Client:
        return Client(
            self.url, self.manage("apikey", "create", "--scope", scope, "--name", name, *options)
        )

    def ready(self) -> bool:
        answer = Client(self.url).request("GET", "/readyz")
        return answer.status == 200 and set(answer.body["checks"].values()) == {"ok"}


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[LiveService]:
    """The service, up and ready."""
    name = f"live_{worker_id}"
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    number = 1 + int(worker_id.removeprefix("gw") or 0) if worker_id != "master" else 1
    environment = {
        "DATABASE_URL": _renamed(os.environ["DATABASE_URL"], name),
        "MIGRATION_DATABASE_URL": _renamed(os.environ["MIGRATION_DATABASE_URL"], name),
        "REDIS_URL": os.environ["REDIS_URL"].replace("virtual_host=0", f"virtual_host={number}"),
        "DJANGO_SETTINGS_MODULE": "allocator_service.settings.local",
        "THROTTLE_RATE": "100000",
        "THROTTLE_BURST": "100000",
    }
    logs = tmp_path_factory.mktemp("service")
    live = LiveService(environment, logs)
    live.manage("migrate", "--verbosity", "0")
    live.start("web", "relay", "worker", "beat")
    wait_until_ready(
        live.ready,
        process=live.processes["web"],
        step="start the service",
        log=logs / "web.log",
        seconds=60,
    )
    yield live
    live.stop()


def _renamed(url: str, database: str) -> str:
    return url.rpartition("/")[0] + "/" + database


@pytest.fixture(scope="session")
def worker_id(request: pytest.FixtureRequest) -> str:
    """`gw0`, ... under pytest-xdist, `master` without it."""
    return str(getattr(request.config, "workerinput", {}).get("workerid", "master"))


@pytest.fixture(scope="session")
def operator(service: LiveService) -> Client:
    return service.client("operator", "tests")


@pytest.fixture
def decided(operator: Client) -> Callable[[str, int], dict[str, Any]]:
    """Wait until the decision in force in a pool includes a generation; return the decision."""

    def wait(pool: str, generation: int, seconds: float = 30) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            answer = operator.request("GET", f"/api/v1/pools/{pool}/decision/")
            if answer.status == 200 and answer.body["generation"] >= generation:
                found: dict[str, Any] = answer.body
                return found
            time.sleep(0.02)
        raise AssertionError(f"no decision for generation {generation} of {pool}: {answer}")

    return wait
