"""A PostgreSQL server that dies, and its synchronous standby that takes its place."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
import requests

from launcher.client import Client
from launcher.postgres import OWNER_ROLE
from tests.examples import long
from tests.faults.checker import ledger_wrongs, wrongs
from tests.faults.clients import Reporter, Writer
from tests.live.conftest import decision_of
from tests.live.replicas import Replicated, environment_of, replicated
from tests.live.service import LiveService

pytestmark = long

POOLS = ("ash", "oak")
WRITERS = 3
ACCEPTED = 100  # at least, of each kind, before the server is killed
DECIDED_WITHIN_SECONDS = 30
WHOLE_WITHIN_SECONDS = 30  # what is being sealed and metered is complete
STATEMENT_TIMEOUT_SECONDS = 5  # of a web process: a commit must outlast it


@pytest.fixture(scope="module")
def pair() -> Iterator[Replicated]:
    with replicated() as servers:
        yield servers


@pytest.fixture(scope="module")
def service(pair, tmp_path_factory, worker_id) -> Iterator[LiveService]:
    """The service, whose address names both servers and whose commits wait for the standby."""
    folder = tmp_path_factory.mktemp("failover")
    live = LiveService(environment_of(pair, worker_id), folder)
    try:
        live.manage("migrate", "--verbosity", "0")
        pair.require_standby()
        live.launch()
        yield live
    finally:
        live.stop()


@pytest.fixture(scope="module")
def operator(service) -> Client:
    """A key for operators, after pools with tenants are open."""
    client: Client = service.client("operator", "failover")
    for tenant in [*(f"t{number}" for number in range(WRITERS)), "metered"]:
        client.post("/api/v1/tenants/", {"slug": tenant, "name": tenant})
    for slug in POOLS:
        pool = {
            "slug": slug,
            "name": slug,
            "resources": [{"name": "cpu"}, {"name": "memory"}],
            "policy": {"name": "drfh"},
            "metering": "reported",
            "decision_interval": "PT1S",
        }
        client.post("/api/v1/pools/", pool)
        server = {"name": "s", "capacity": {"cpu": 640, "memory": 640}}
        client.post(f"/api/v1/pools/{slug}/servers/", server)
    return client


def wait_until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_commit_that_the_standby_lacks_is_not_acknowledged(pair, service, operator):
    """A time limit that ended the wait would acknowledge what a failover loses."""
    answered = threading.Event()

    def write() -> None:
        operator.post("/api/v1/tenants/", {"slug": "late", "name": "Late"})
        answered.set()

    pair.freeze_receiver(True)
    try:
        writer = threading.Thread(target=write)
        writer.start()
        assert not answered.wait(STATEMENT_TIMEOUT_SECONDS + 3)
        assert pair.standby.execute("SELECT FROM tenant WHERE slug = 'late'") == []
    finally:
        pair.freeze_receiver(False)
    writer.join(30)
    assert answered.is_set()


def test_a_standby_takes_the_place_of_a_server_that_was_killed(pair, service, operator):
    """Nothing acknowledged is lost, and pools are decided again within 30 s."""
    key = operator._headers["Authorization"].partition(" ")[2]
    work = {"demand": {"cpu": 1, "memory": 1}}
    writers = [
        Writer(service.url, key, pool, f"t{number}", 0.02, work)
        for pool in POOLS
        for number in range(WRITERS)
    ]
    reporters = [Reporter(service.url, key, pool, "metered", 0.1) for pool in POOLS]
    clients = [*writers, *reporters]
    for client in clients:
        client.start()

    def accepted() -> list[int]:
        return [sum(len(each.accepted) for each in group) for group in (writers, reporters)]

    try:
        wait_until(lambda: min(accepted()) >= ACCEPTED, 120, "too few writes were accepted")
        before = accepted()
        pair.primary.kill()
        killed = time.monotonic()
        pair.standby.execute("SELECT pg_promote()")
        promoted = time.monotonic() - killed
        wait_until(lambda: accepted()[0] > before[0] + WRITERS, 60, "nothing is accepted again")
        again = time.monotonic() - killed
        generation = generation_of(operator)
        decision_of(operator, POOLS[0], generation, 60)
        decided = time.monotonic() - killed
        wait_until(lambda: min(accepted()) >= min(before) + ACCEPTED, 120, "few writes afterwards")
    finally:
        for client in clients:
            client.enough.set()
    for client in clients:
        client.join(90)
    print(
        f"{before[0]} workloads and {before[1]} events acknowledged before the kill,"
        f" {accepted()[0]} and {accepted()[1]} at the end; promoted after {promoted:.1f} s,"
        f" writes accepted again after {again:.1f} s, decided after {decided:.1f} s"
    )
    assert [client.refused for client in clients if client.refused] == []
    assert decided < DECIDED_WITHIN_SECONDS
    for pool in POOLS:
        decision_of(operator, pool, generation_of(operator, pool), 60)
    workloads = {
        pool: {id_ for each in writers if each.pool == pool for id_ in each.accepted.values()}
        for pool in POOLS
    }
    events = {each.pool: each.accepted for each in reporters}
    database = pair.url(OWNER_ROLE)
    deadline = time.monotonic() + WHOLE_WITHIN_SECONDS
    while found := wrongs(operator, database, workloads) + ledger_wrongs(database, events, 2):
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    assert "holds" in service.manage("verify")
    assert decisions_in_force(pair) == dict.fromkeys(POOLS, 1)
    assert requests.get(f"{service.url}/readyz", timeout=10).json()["status"] in ("ok", "degraded")


def generation_of(operator: Client, pool: str = POOLS[0]) -> int:
    return int(operator.get(f"/api/v1/pools/{pool}/").headers["Pool-Generation"])


def decisions_in_force(pair: Replicated) -> dict[str, int]:
    """Return how many decisions without an end each pool has."""
    return dict(
        pair.standby.execute(
            "SELECT slug, count(*) FROM run JOIN pool ON pool.id = pool_id"
            " WHERE status = 'succeeded' AND effective_until IS NULL GROUP BY slug"
        )
    )
