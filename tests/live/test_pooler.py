"""Web processes behind a real PgBouncer that pools transactions."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from launcher.client import Client
from launcher.processes import wait_until_ready
from tests.debian import PGBOUNCER, Unavailable, unpacked
from tests.examples import long
from tests.live.conftest import decision_of, launched, servers_of
from tests.live.service import LiveService

pytestmark = long

POOL_SIZE = 2
ENTRIES = 100
MONTH = f"{datetime.now(UTC).replace(day=1) - timedelta(days=1):%Y-%m}"  # the last one
LIMITS = "SET statement_timeout = 5000; SET lock_timeout = 3000"
_CONFIGURATION = """
[databases]
limited = {server} connect_query='{limits}'
unlimited = {server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
"""


class Pooler:
    """A PgBouncer in front of the database `server`."""

    def __init__(self, server: str, folder: Path) -> None:
        try:
            self._root = unpacked(PGBOUNCER)
        except Unavailable as reason:
            pytest.skip(f"no pgbouncer: {reason}")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.server = server
        self._file, self._log = folder / "pgbouncer.ini", folder / "pgbouncer.log"
        place = conninfo_to_dict(server)
        names = [name for name in ("host", "port", "dbname", "user", "password") if place.get(name)]
        named = " ".join(f"{name}={place[name]}" for name in names)
        configuration = _CONFIGURATION.format(
            server=named, limits=LIMITS, port=self._port, size=POOL_SIZE
        )
        # It refuses to run as root, and the socket's folder belongs to the server's account.
        sockets = Path(str(place["host"]))
        owner = sockets.owner() if sockets.is_dir() else "nobody"
        self._file.write_text(configuration + (f"user = {owner}\n" if os.getuid() == 0 else ""))
        self.start()

    def url(self, database: str) -> str:
        return f"postgresql://any@127.0.0.1:{self._port}/{database}"

    def start(self) -> None:
        libraries = self._root / "usr/lib/x86_64-linux-gnu"
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [self._root / "usr/sbin/pgbouncer", self._file],
                env={**os.environ, "LD_LIBRARY_PATH": str(libraries)},
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + 20
        while self._process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return
            time.sleep(0.05)
        self.kill()
        raise AssertionError(f"PgBouncer does not listen: {self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def pooler(tmp_path_factory, worker_id) -> Iterator[Pooler]:
    """A PgBouncer in front of a database of its own, which has no rows."""
    server = servers_of("kept", worker_id)["DATABASE_URL"]
    found = Pooler(server, tmp_path_factory.mktemp("pgbouncer"))
    yield found
    found.kill()


@pytest.fixture(scope="module")
def pooled(pooler, tmp_path_factory, worker_id) -> Iterator[LiveService]:
    """The service, whose web process has two connections to PostgreSQL for all of its requests."""
    url = pooler.url("limited")
    logs = tmp_path_factory.mktemp("pooled")
    with launched("kept", worker_id, logs, WEB_DATABASE_URL=url) as live:
        yield live


@pytest.fixture(scope="module")
def grove(pooled: LiveService) -> Client:
    """A key for operators, after a pool of two tenants has a decision and usage."""
    operator: Client = pooled.client("operator", "pooled")
    for slug in ("oak", "elm"):
        assert operator.post("/api/v1/tenants/", {"slug": slug, "name": slug}).status == 201
    body = {"slug": "grove", "name": "Grove", "resources": [{"name": "cpu", "unit": "core"}]}
    assert (
        operator.post(
            "/api/v1/pools/", body | {"policy": {"name": "drfh"}, "metering": "reported"}
        ).status
        == 201
    )
    operator.post("/api/v1/pools/grove/servers/", {"name": "s1", "capacity": {"cpu": 8}})
    for slug in ("oak", "elm"):
        workload = {"tenant": slug, "name": slug, "demand": {"cpu": 1}, "tasks": 6}
        assert operator.post("/api/v1/pools/grove/workloads/", workload).status == 201
    used = [
        {"source": "meter", "id": str(number), "tenant": "oak", "resources": {"cpu": "1"},
         "start": f"{MONTH}-05T10:00:00Z", "end": f"{MONTH}-05T11:00:00Z"}
        for number in range(ENTRIES)
    ]  # fmt: skip
    assert operator.post("/api/v1/pools/grove/usage/", used).status < 300
    rates = [{"resource": "cpu", "pool": "0.037"}]
    plan = {"pool": "grove", "name": "p", "from": f"{MONTH}-01T00:00:00Z", "rates": rates}
    made = operator.post("/api/v1/price-plans/", plan).body["id"]
    operator.post(f"/api/v1/price-plans/{made}/publish/", {})
    decision_of(operator, "grove", operator.get("/api/v1/pools/grove/").body["generation"])
    return operator


def web_sessions(pooler: Pooler) -> int:
    """How many sessions of PostgreSQL web processes have."""
    with psycopg.connect(pooler.server) as connection:
        ((count,),) = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'allocator-web'"
        ).fetchall()
    return int(count)


def test_many_requests_share_two_connections(pooled, pooler, grove):
    paths = ["/api/v1/pools/grove/decision/", "/api/v1/pools/grove/workloads/", "/readyz"] * 20
    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(lambda path: grove.request("GET", path).status, paths))
        slugs = [{"slug": f"tree-{number}", "name": "Tree"} for number in range(20)]
        written = list(threads.map(lambda body: grove.post("/api/v1/tenants/", body).status, slugs))
    assert set(answers) == {200}
    assert set(written) == {201}
    assert 1 <= web_sessions(pooler) <= POOL_SIZE


def nothing_is_held(pooler: Pooler) -> bool:
    """Whether web processes come to hold no lock and no transaction once they have answered."""
    held = (
        "SELECT count(*) FROM pg_stat_activity AS session LEFT JOIN pg_locks AS held"
        " ON held.pid = session.pid AND locktype = 'advisory'"
        " WHERE application_name = 'allocator-web'"
        " AND (locktype IS NOT NULL OR state = 'idle in transaction')"
    )
    deadline = time.monotonic() + 20
    with psycopg.connect(pooler.server, autocommit=True) as connection:
        while connection.execute(held).fetchall() != [(0,)]:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
    return True


def test_exports_have_sessions_of_their_own_and_leave_no_lock(pooler, pooled, grove):
    path = "/api/v1/ledger-entries/export/?format=csv"
    billing = pooled.client("billing", "reader")
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: billing.request("GET", path), range(32)))
    assert {answer.status for answer in answers} <= {200, 503}  # as many as may be at once
    read = [str(answer.body) for answer in answers if answer.status == 200]
    assert read
    assert {len(body.splitlines()) for body in read} == {ENTRIES + 1}
    assert nothing_is_held(pooler)


def test_a_month_is_closed_and_its_locks_are_let_go(pooler, grove):
    deadline, status = time.monotonic() + 30, 0
    while status != 201 and time.monotonic() < deadline:
        answer = grove.request("POST", "/api/v1/pools/grove/statements/", {"month": MONTH})
        assert answer.status == 201 or answer.body["code"] == "statement.entries_pending", answer
        status = answer.status
    assert status == 201
    assert nothing_is_held(pooler)


def test_requests_wait_for_no_pooler_that_was_killed(pooler, grove):
    path = "/api/v1/pools/grove/decision/"
    pooler.kill()
    try:
        answer = grove.request("GET", path)
        assert answer.status == 503
    finally:
        pooler.start()
    deadline = time.monotonic() + 60
    while grove.request("GET", path).status != 200:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_service_behind_a_pooler_without_time_limits_is_not_ready(pooled, pooler, tmp_path):
    environment = pooled.environment | {"WEB_DATABASE_URL": pooler.url("unlimited")}
    live = LiveService(environment, tmp_path)
    client = Client(live.url)
    try:
        live.start("web")
        wait_until_ready(
            lambda: client.request("GET", "/healthz").status == 200,
            process=live.processes["web"],
            step="start the web process",
            log=tmp_path / "web.log",
            seconds=60,
        )
        answer = client.request("GET", "/readyz")
    finally:
        live.stop()
    assert (answer.status, answer.body["checks"]["database"]) == (503, "failed")
    assert "pooler_without_time_limits" in (tmp_path / "web.log").read_text()
