"""Simulations on real workers: a slow one is computed once, a dead worker's is taken over.

The service's worker has two children, so that a message that is sent again reaches the idle one.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from allocator_service.core.locks import Lock, lock_key
from launcher.client import Client
from policies import problem_from_document, solve
from tests.examples import long
from tests.live.service import LiveService
from tests.live.test_main_job import opened, registered

SERVERS, RESOURCES = 20, ["cpu", "memory"]
CAPACITY = 18_000_000
# Longer than the relay waits before it sends a message again, for the second time as well.
SECONDS = 12
PATIENCE_SECONDS = 120.0
CALIBRATION_TASKS = 200_000


def until(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := holds():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {PATIENCE_SECONDS:.0f} s: {what}")


@pytest.fixture(scope="module")
def tasks_per_second() -> float:
    """How many tasks MRFS places in a second here: its time is linear in their number."""
    document = {
        "resources": [{"name": name} for name in RESOURCES],
        "servers": [
            {"name": f"s{n}", "capacity": dict.fromkeys(RESOURCES, CAPACITY + n)}
            for n in range(SERVERS)
        ],
        "tenants": [{"name": "slow-u"}],
        "workloads": [
            {"tenant": "slow-u", "name": "w", "demand": {"cpu": 1, "memory": 2},
             "tasks": CALIBRATION_TASKS}
        ],
        "policy": {"name": "mrfs", "mode": "indivisible"},
    }  # fmt: skip
    parsed = problem_from_document(document)
    seconds = []
    for _ in range(3):  # the first one loads the kernels
        begun = time.perf_counter()
        solve(parsed.problem, parsed.policy, mode=parsed.mode)
        seconds.append(time.perf_counter() - begun)
    return CALIBRATION_TASKS / min(seconds)


@pytest.fixture(scope="module")
def pool(operator: Client) -> str:
    registered(operator, "slow-u")
    path: str = opened(operator, "slow", weights="explicit")
    operator.post(
        f"{path}/servers/",
        [
            {"name": f"s{n}", "capacity": dict.fromkeys(RESOURCES, CAPACITY + n)}
            for n in range(SERVERS)
        ],
    )
    few = {"tenant": "slow-u", "name": "few", "demand": {"cpu": 1, "memory": 2}, "tasks": 1}
    operator.post(f"{path}/workloads/", few)
    return path


@pytest.fixture
def database(service: LiveService) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(service.environment["MIGRATION_DATABASE_URL"], autocommit=True) as found:
        yield found


@pytest.fixture
def slow(operator: Client, pool: str, tasks_per_second: float) -> Callable[[float], str]:
    """Asks for a simulation that takes so many seconds; returns its path."""

    def request(seconds: float) -> str:
        submitted = {
            "tenant": "slow-u", "name": "many", "demand": {"cpu": 1, "memory": 2},
            "tasks": int(seconds * tasks_per_second),
        }  # fmt: skip
        changes = {
            "policy": {"name": "mrfs", "mode": "indivisible"},
            "workloads": {"submit": [submitted]},
        }
        return str(operator.post(f"{pool}/simulations/", changes).headers["Location"])

    return request


def row(database: psycopg.Connection[Any], path: str) -> tuple[str, int, Any]:
    """Status, attempts and end of a simulation."""
    found: tuple[str, int, Any] | None = database.execute(
        "SELECT status, attempts, finished_at FROM simulation WHERE id = %s", [path.split("/")[-2]]
    ).fetchone()
    assert found is not None
    return found


def ended(operator: Client, path: str) -> dict[str, Any]:
    def finished() -> dict[str, Any] | None:
        body: dict[str, Any] = operator.get(path).body
        return body if body["status"] != "pending" else None

    found: dict[str, Any] = until(finished, "the simulation ends")
    return found


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def busy_child(service: LiveService) -> int:
    """The worker's child that computes, by the time that it has used of a processor."""

    def used(pid: int) -> int:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])

    def busy() -> int | None:
        pids = children(service.processes["worker"].pid)
        before = {pid: used(pid) for pid in pids}
        time.sleep(0.5)
        most = max(pids, key=lambda pid: used(pid) - before[pid])
        return most if used(most) - before[most] >= 10 else None

    found: int = until(busy, "a child computes")
    return found


@pytest.fixture
def stopped(
    service: LiveService, slow: Callable[[float], str], database: psycopg.Connection[Any]
) -> Iterator[tuple[str, int]]:
    """A simulation and the child that computes it, stopped in the middle."""
    # How long a simulation takes was measured perhaps beside much else: one that ended before its
    # child was found is followed by one of twice its length.
    for factor in (1, 2, 4, 8):
        path = slow(SECONDS / 3 * factor)
        child = busy_child(service)
        os.kill(child, signal.SIGSTOP)
        try:
            time.sleep(0.1)  # a COMMIT that was sent is carried out
            if row(database, path)[:2] == ("pending", 1):
                yield path, child
                return
        finally:
            with suppress(ProcessLookupError):  # the test has killed it
                os.kill(child, signal.SIGCONT)
    raise AssertionError("each simulation ended before its child was found")


@pytest.mark.parametrize("seconds", [SECONDS, pytest.param(35, marks=long)])
def test_a_slow_simulation_is_computed_once(
    operator: Client,
    slow: Callable[[float], str],
    database: psycopg.Connection[Any],
    seconds: float,
) -> None:
    # The size is chosen by how long a small one took, perhaps beside much else: the control is the time.
    for factor in (1, 2, 4):
        begun = time.monotonic()
        path = slow(seconds * factor)
        found = ended(operator, path)
        assert (found["status"], found["error"]) == ("succeeded", None)
        took = time.monotonic() - begun
        if took > seconds / 2:
            break
    assert took > seconds / 2
    first = row(database, path)
    assert first[:2] == ("succeeded", 1)
    time.sleep(seconds / 4)
    assert row(database, path) == first


def test_the_simulation_of_a_killed_worker_is_taken_over(
    operator: Client, stopped: tuple[str, int], database: psycopg.Connection[Any]
) -> None:
    path, killed = stopped
    os.kill(killed, signal.SIGKILL)
    assert ended(operator, path)["status"] == "succeeded"
    assert row(database, path)[:2] == ("succeeded", 2)


def test_a_frozen_worker_that_wakes_publishes_nothing(
    service: LiveService,
    operator: Client,
    stopped: tuple[str, int],
    database: psycopg.Connection[Any],
) -> None:
    """Its connection is cut meanwhile, as by a firewall, and another worker takes over."""
    path, frozen = stopped
    key = lock_key(Lock.SIMULATION, path.split("/")[-2])
    cut = database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        " AND (classid::bigint << 32) | objid::bigint = %s",
        [key],
    ).fetchall()
    assert cut == [(True,)]
    assert ended(operator, path)["status"] == "succeeded"
    by_the_other = row(database, path)
    assert by_the_other[:2] == ("succeeded", 2)
    os.kill(frozen, signal.SIGCONT)
    log = service.logs / "worker.log"
    until(lambda: "claim_lost" in log.read_text(), "the frozen worker finds that its claim is lost")
    assert row(database, path) == by_the_other
