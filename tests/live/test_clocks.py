"""Processes whose clocks differ by up to four seconds, as those of hosts without a time service."""

import time
from collections.abc import Iterator

import pytest

from launcher.client import Client
from launcher.processes import wait_until_ready
from tests.examples import long
from tests.faults.checker import ledger_wrongs, wrongs
from tests.faults.clients import Reporter, Writer
from tests.live.conftest import decision_of, servers_of
from tests.live.service import LiveService

# The two workers take turns; each of them is on the other side of the relay or of web.
CLOCKS = (
    ("web", "-2"), ("relay", "+2"), ("sender", "-2"), ("beat", "+2"), ("worker", "+2"),
    ("worker", "-2"),
)  # fmt: skip
POOLS = ("early", "late")
SECONDS = 30


@pytest.fixture(scope="module")
def skewed(tmp_path_factory, worker_id) -> Iterator[LiveService]:
    """A service of two workers, whose processes have the clocks of `CLOCKS`."""
    folder = tmp_path_factory.mktemp("clocks")
    live = LiveService(servers_of("clocked", worker_id), folder)
    environment = live.environment
    try:
        for number, (name, offset) in enumerate(CLOCKS):
            clock = folder / f"clock{offset}"
            clock.write_text(offset)
            live.environment = {**environment, "CLOCK_FILE": str(clock)}
            live.start(name)
            live.processes[f"{name}-{number}"] = live.processes.pop(name)
        live.environment = environment
        wait_until_ready(
            live.ready,
            process=live.processes["web-0"],
            step="start the service",
            log=live.logs / "web.log",
            seconds=90,
        )
        yield live
    finally:
        live.stop()


@pytest.fixture(scope="module")
def operator(skewed) -> Client:
    """A key for operators, after pools are open, one of which counts what is allocated."""
    client: Client = skewed.client("operator", "clocks")
    for tenant in ("one", "two"):
        client.post("/api/v1/tenants/", {"slug": tenant, "name": tenant})
    for slug, metering in zip(POOLS, ("allocation", "reported"), strict=True):
        pool = {
            "slug": slug,
            "name": slug,
            "resources": [{"name": "cpu"}, {"name": "memory"}],
            "policy": {"name": "drfh"},
            "metering": metering,
            "decision_interval": "PT1S",
        }
        client.post("/api/v1/pools/", pool)
        server = {"name": "s", "capacity": {"cpu": 640, "memory": 640}}
        client.post(f"/api/v1/pools/{slug}/servers/", server)
    return client


@long
def test_orders_hold_where_the_clocks_of_hosts_differ(skewed, operator):
    """Decisions of a pool follow each other without a gap, and entries and events have one order."""
    key = operator._headers["Authorization"].partition(" ")[2]
    work = {"demand": {"cpu": 1, "memory": 1}}
    writers = [Writer(skewed.url, key, pool, "one", 0.3, work) for pool in POOLS]
    reporter = Reporter(skewed.url, key, "late", "two", 0.3)
    clients = [*writers, reporter]
    for client in clients:
        client.start()
    time.sleep(SECONDS)
    for client in clients:
        client.enough.set()
    for client in clients:
        client.join(90)
    assert [client.refused for client in clients if client.refused] == []
    for pool in POOLS:
        generation = int(operator.get(f"/api/v1/pools/{pool}/").headers["Pool-Generation"])
        decision_of(operator, pool, generation, 60)
    workloads = {each.pool: each.accepted.values() for each in writers}
    database = skewed.environment["MIGRATION_DATABASE_URL"]
    events = {"late": reporter.accepted}
    found: list[str] = ["not asked yet"]
    deadline = time.monotonic() + 60
    while found and time.monotonic() < deadline:
        found = wrongs(operator, database, workloads) + ledger_wrongs(database, events, 2)
        time.sleep(0.5)
    assert found == []
    runs = {pool: operator.pages(f"/api/v1/pools/{pool}/runs/") for pool in POOLS}
    for made in runs.values():
        assert {run["status"] for run in made} == {"succeeded"}
    print(
        {pool: len(made) for pool, made in runs.items()},
        "decisions",
        len(reporter.accepted),
        "events",
    )
    assert "holds" in skewed.manage("verify")
