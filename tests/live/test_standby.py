"""Reads from a hot standby that lags."""

import random
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.v1.urls import urlpatterns
from launcher.client import Client
from launcher.postgres import APPLICATION_ROLE
from tests.examples import long, numbers
from tests.live.conftest import decision_of
from tests.live.replicas import Replicated, environment_of, replicated
from tests.live.service import LiveService

pytestmark = long

POOL = "/api/v1/pools/fen"
CALLERS = 4
READS_OF_A_CHANGE = 10
READS = len(numbers(10_000))
LAG_SECONDS = 0.4  # at most, drawn anew each time


@pytest.fixture(scope="module")
def pair() -> Iterator[Replicated]:
    with replicated() as servers:
        yield servers


@pytest.fixture(scope="module")
def service(pair, tmp_path_factory, worker_id) -> Iterator[LiveService]:
    """The service, whose web process may read from the standby."""
    environment = environment_of(pair, worker_id)
    environment["READ_DATABASE_URL"] = pair.standby.url(APPLICATION_ROLE)
    live = LiveService(environment, tmp_path_factory.mktemp("standby"))
    try:
        live.manage("migrate", "--verbosity", "0")
        live.launch()
        yield live
    finally:
        live.stop()


@pytest.fixture(scope="module")
def operator(service) -> Client:
    """A key for operators, after a pool has a decision."""
    client: Client = service.client("operator", "standby")
    client.post("/api/v1/tenants/", {"slug": "reed", "name": "Reed"})
    body = {"slug": "fen", "name": "Fen", "resources": [{"name": "cpu"}]}
    client.post("/api/v1/pools/", body | {"policy": {"name": "drfh"}})
    client.post(f"{POOL}/servers/", {"name": "s", "capacity": {"cpu": 640}})
    for number in range(CALLERS):
        workload = {"tenant": "reed", "name": f"w{number}", "demand": {"cpu": 1}, "tasks": 1}
        client.post(f"{POOL}/workloads/", workload)
    decision_of(client, "fen", int(client.get(f"{POOL}/").headers["Pool-Generation"]))
    return client


@pytest.fixture
def lagging(pair) -> Iterator[None]:
    """Let the standby stop and go on, for as long as each time is drawn."""
    enough, drawn = threading.Event(), random.Random(8)

    def lag() -> None:
        while not enough.wait(drawn.uniform(0, LAG_SECONDS)):
            pair.standby.execute("SELECT pg_wal_replay_pause()")
            enough.wait(drawn.uniform(0, LAG_SECONDS))
            pair.standby.execute("SELECT pg_wal_replay_resume()")

    thread = threading.Thread(target=lag)
    thread.start()
    yield
    enough.set()
    thread.join()


def answered_by(operator: Client) -> dict[str, float]:
    """Return how many reads each server has answered."""
    text = operator.request("GET", "/metrics").body
    found = re.findall(r'allocation_standby_reads_total\{server="(\w+)"\} (\S+)', text)
    return {"standby": 0.0, "primary": 0.0} | {server: float(count) for server, count in found}


def test_no_read_is_older_than_the_change_that_it_requires(service, operator, lagging):
    before = answered_by(operator)
    workloads = {row["name"]: row["id"] for row in operator.pages(f"{POOL}/workloads/")}

    def stale(caller: int) -> list[str]:
        name = f"w{caller}"
        path = f"{POOL}/workloads/{workloads[name]}/"
        found, reads, tasks = [], 0, 1
        while reads < READS / CALLERS:
            tasks = tasks % 500 + 1
            generation = operator.patch(path, {"tasks": tasks}).headers["Pool-Generation"]
            for number in range(READS_OF_A_CHANGE):
                headers = {"Pool-Generation": generation}
                at = (path, f"{POOL}/workloads/", f"{POOL}/")[number % 3]
                body = operator.request("GET", at, headers=headers).body
                if number % 3 == 2:
                    is_stale = body["generation"] < int(generation)
                elif number % 3 == 1:
                    (row,) = [row for row in body["results"] if row["name"] == name]
                    is_stale = row["tasks"] != tasks
                else:
                    is_stale = body["tasks"] != tasks
                if is_stale:
                    found.append(f"{at} of generation {generation}")
                reads += 1
        return found

    began = time.monotonic()
    with ThreadPoolExecutor(CALLERS) as threads:
        found = [each for some in threads.map(stale, range(CALLERS)) for each in some]
    after = answered_by(operator)
    counts = {server: int(after[server] - before[server]) for server in after}
    print(f"{sum(counts.values())} reads in {time.monotonic() - began:.0f} s, answered by {counts}")
    assert found == []
    assert sum(counts.values()) >= READS
    assert min(counts.values()) > READS / 50


@pytest.fixture
def paused(pair) -> Iterator[None]:
    """A standby that stays as it is."""
    pair.standby.execute("SELECT pg_wal_replay_pause()")
    yield
    pair.standby.execute("SELECT pg_wal_replay_resume()")


def test_what_the_standby_lacks_is_read_from_the_primary(service, operator, paused):
    path = f"{POOL}/workloads/"
    body = {"tenant": "reed", "name": "new", "demand": {"cpu": 1}}
    made = operator.post(path, body)
    generation = made.headers["Pool-Generation"]
    newer = service.client("operator", "newer")

    def names(client: Client, **headers: str) -> set[str]:
        answer = client.request("GET", path, headers=headers)
        return {row["name"] for row in answer.body["results"]}

    old = {"Pool-Generation": "0"}
    assert "new" in names(operator, **{"Pool-Generation": generation})
    assert "new" not in names(operator, **old)
    assert "new" in names(operator)  # as ever
    assert "new" in names(operator, **{"Pool-Generation": "-1"})
    one = f"{path}{made.body['id']}/"
    assert operator.request("GET", one, headers=old).status == 200  # 404 on the standby
    assert "new" in names(newer, **old)  # the standby does not know the key


def routes_of_a_pool() -> list[str]:
    """Return the routes below a pool that are read and name nothing else."""
    found = []
    for pattern in urlpatterns:
        below = str(pattern.pattern).removeprefix("pools/<str:pool>/")
        if (
            below != str(pattern.pattern)
            and "<" not in below
            and hasattr(pattern.callback.view_class, "get")
        ):
            found.append(below)
    return found


def test_every_route_of_a_pool_is_read_from_the_standby(operator):
    """A route that writes or locks would be asked twice each time."""
    routes = {}
    for route in routes_of_a_pool():
        path, before = f"{POOL}/{route}", answered_by(operator)["standby"]
        status = operator.request("GET", path, headers={"Pool-Generation": "0"}).status
        is_answered = answered_by(operator)["standby"] == before + 1
        assert status == operator.request("GET", path).status
        assert status < 500
        assert is_answered == (status == 200), (route, status)
        routes[route] = status
    print(routes)
    assert list(routes.values()).count(200) > len(routes) / 2


def test_a_route_that_is_not_below_a_pool_is_asked_once(operator):
    before = answered_by(operator)
    for path in ("/api/v1/tenants/", "/api/v1/pools/", "/my/", "/admin/", "/nothing/"):
        operator.request("GET", path, headers={"Pool-Generation": "0"})
    assert answered_by(operator) == before


def test_reads_go_on_without_the_standby(pair, service, operator):
    headers = {"Pool-Generation": "0"}
    pair.standby.stop()
    began = time.monotonic()
    for _ in range(20):
        assert operator.request("GET", f"{POOL}/", headers=headers).status == 200
    assert time.monotonic() - began < 5  # only the first one waits for it
    pair.standby.start()
    deadline, before = time.monotonic() + 60, answered_by(operator)["standby"]
    while answered_by(operator)["standby"] == before:
        assert time.monotonic() < deadline
        operator.request("GET", f"{POOL}/", headers=headers)
        time.sleep(0.2)
