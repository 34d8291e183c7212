"""The whole service as its users meet it: web, relay, beat and worker processes, over HTTP.

It has a database and a Redis database of its own, so it runs beside tests that roll back theirs.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from launcher.client import Client
from tests.live.service import LiveService

# Services that may run side by side on one of the tests' workers, each with a database of Redis there.
NAMES = ("live", "clocked", "hooked", "slurm")
_APART = 3  # so that up to six workers have them within the sixteen that there are


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[LiveService]:
    """The service, up and ready."""
    with launched("live", worker_id, tmp_path_factory.mktemp("service")) as live:
        yield live


@contextmanager
def launched(name: str, worker_id: str, logs: Path, **variables: str) -> Iterator[LiveService]:
    """A service of that name, up and ready, with `variables` in its environment."""
    database = f"{name}_{worker_id}"
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {database}")
    number = NAMES.index(name) * _APART + 1
    if worker_id != "master":
        number += int(worker_id.removeprefix("gw"))
    environment = {
        "DATABASE_URL": _renamed(os.environ["DATABASE_URL"], database),
        "MIGRATION_DATABASE_URL": _renamed(os.environ["MIGRATION_DATABASE_URL"], database),
        "REDIS_URL": os.environ["REDIS_URL"].replace("virtual_host=0", f"virtual_host={number}"),
        "DJANGO_SETTINGS_MODULE": "allocator_service.settings.local",
        "THROTTLE_RATE": "100000",
        "THROTTLE_BURST": "100000",
        **variables,
    }
    live = LiveService(environment, logs)
    try:
        live.launch()
        yield live
    finally:
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
