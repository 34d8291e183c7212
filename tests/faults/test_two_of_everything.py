"""With two of every process, either of a pair may die: the other goes on at once and does nothing twice.

The second of each pair is killed, one after the other, and so is whatever the launcher starts in its
place, until the service runs on the other five alone; then the same with the first.
"""

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from allocator_service.core.worker import pulse
from launcher.client import Answer, Client
from launcher.service import NAMES
from tests.examples import long
from tests.faults.billing import BILLED, TENANTS
from tests.faults.changers import Changer, Follower, Reader
from tests.faults.checker import ledger_wrongs, wrongs
from tests.faults.clients import Reporter
from tests.faults.launched import LaunchedService
from tests.faults.pools import CHANGED, REPORTED, pools_open
from tests.faults.test_storm import ENTRIES_EACH, settled
from tests.faults.whole import (
    changes_wrongs,
    consumer_wrongs,
    decisions_wrongs,
    metering_wrongs,
    seconds_until_decided,
)
from tests.receivers import Receiver, verifies

pytestmark = long

# Backtests wait for their worker, and nobody for them.
PAIRED = [name for name in NAMES if name != "backtests"]
TWO = ",".join(f"{name}=2" for name in PAIRED)
PROBED = "probed"
ROUNDS = (2, 1)
PATIENCE_SECONDS = 40.0
# What beat asks for; four at once are what two beats make of one that was late.
PERIODIC = (
    *("billing.watch", "billing.late", "billing.manifests", "allocation.meter"),
    *("allocation.retention", "enforcement.watch", "enforcement.retention"),
)


@pytest.fixture(scope="module")
def doubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaunchedService]:
    log = tmp_path_factory.mktemp("doubled") / "log"
    allowed = {"WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8,::1/128", "WEB_CONCURRENCY": "1"}
    with LaunchedService(log, "--processes", TWO, **allowed) as service:
        yield service


@pytest.fixture(scope="module")
def operator_key(doubled: LaunchedService) -> str:
    return doubled.manage("apikey", "create", "--scope", "operator", "--name", "doubled")


def until(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := holds():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {PATIENCE_SECONDS:.0f} s: {what}")


class Reaper(threading.Thread):
    """Kills processes by their labels, and whatever starts in their place before it can do anything.

    (A launcher that is frozen would not do: it reads what the processes write, and they would wait.)
    """

    def __init__(self, service: LaunchedService) -> None:
        super().__init__(daemon=True)
        self._service, self._dead, self._enough = service, set[str](), threading.Event()
        self.killed: Counter[str] = Counter()

    def __enter__(self) -> "Reaper":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self.join()

    def kill(self, label: str) -> None:
        before = self.killed[label]
        self._dead.add(label)
        until(lambda: self.killed[label] > before, f"{label} is dead")

    def run(self) -> None:
        last: dict[str, int] = {}
        while not self._enough.wait(0.02):
            for label in tuple(self._dead):
                pid = self._service.pid(label)
                if pid is not None and pid != last.get(label):
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
                    last[label] = pid
                    self.killed[label] += 1


def labels(number: int) -> list[str]:
    """One of each pair; beat first, because it takes longest to show that the other one works."""
    names = sorted(PAIRED, key=lambda name: name != "beat")
    return [name if number == 1 else f"{name}-{number}" for name in names]


def signs_of_life(service: LaunchedService) -> dict[str, float | None]:
    """How old the sign of each process is that gives one."""
    return {
        label: pulse.age_seconds(service.data / f"{label}-pulse")
        for number in (1, 2)
        for label in labels(number)
        if not label.startswith("web")
    }


def has_beaten(database: str, since: datetime) -> bool:
    """Whether a worker has done since then what beat asks for every ten seconds."""
    query = "SELECT FROM process_heartbeat WHERE process = 'worker' AND seen_at > %s"
    with psycopg.connect(database) as connection:
        return connection.execute(query, [since]).fetchone() is not None


class Probe:
    """A change of a pool that nobody else changes, from its request to the webhook that tells of it."""

    def __init__(self, client: Client, receiver: Receiver, database: str) -> None:
        self._client, self._receiver, self._database = client, receiver, database
        self._number = 0
        client.post("/api/v1/pools/", {
            "slug": PROBED, "name": PROBED, "policy": {"name": "drf"}, "weights": "explicit",
            "resources": [{"name": "cpu"}],
        })  # fmt: skip
        client.post(f"/api/v1/pools/{PROBED}/servers/", {"name": "one", "capacity": {"cpu": 64}})
        client.post("/api/v1/tenants/", {"slug": PROBED, "name": PROBED})
        self.webhook = client.post("/api/v1/webhooks/", {"url": receiver.url, "pool": PROBED}).body

    def arrives(self) -> float:
        """In how many seconds a change is accepted, decided, told of, and read."""
        begin = time.monotonic()
        self._number += 1
        body = {"tenant": PROBED, "name": f"probe-{self._number}", "demand": {"cpu": 1}, "tasks": 1}
        once = {"Idempotency-Key": str(body["name"])}
        made = self._retried("POST", f"/api/v1/pools/{PROBED}/workloads/", body, once)
        assert made.status == 201, made
        generation = int(made.headers["Pool-Generation"])
        until(lambda: max(self.told(), default=0) >= generation, f"the webhook of {generation}")
        took = time.monotonic() - begin
        # A sender that dies before it has noted the receiver's answer keeps its claim for 45 s.
        until(self._is_settled, "what was sent is noted as delivered")
        decision = self._retried("GET", f"/api/v1/pools/{PROBED}/decision/")
        assert decision.body["generation"] >= generation
        return took

    def _is_settled(self) -> bool:
        query = (
            "SELECT FROM webhook_queue WHERE webhook_id = %s AND due_at IS NULL AND token IS NULL"
        )
        with psycopg.connect(self._database) as connection:
            return connection.execute(query, [self.webhook["id"]]).fetchone() is not None

    def told(self) -> set[int]:
        """The generations of which the receiver was told that they are decided."""
        return {
            each.document["data"]["payload"]["generation"]
            for each in list(self._receiver.received)
            if each.document["type"] == "decision.published"
        }

    def _retried(self, *request: Any) -> Answer:
        """What a client does whose connection is reset: it asks again, once."""
        try:
            return self._client.request(*request)
        except OSError:
            return self._client.request(*request)


def test_either_of_every_pair_may_die_and_the_other_goes_on_at_once(
    doubled: LaunchedService, operator_key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key, url = operator_key, doubled.url
    client = Client(url, key)
    pools_open(client)
    client.post(f"/api/v1/pools/{BILLED}/budgets/", {
        "tenant": TENANTS[0], "resource": "cpu", "amount": "0.001", "thresholds": [50, 100],
    })  # fmt: skip
    changers = [Changer(url, key, pool, number, 0.2) for number, pool in enumerate(CHANGED)]
    reporters = [Reporter(url, key, REPORTED, f"{REPORTED}-{n}", pause=0.5) for n in (1, 2)]
    follower, reader = Follower(url, key), Reader(url, key, CHANGED[0], tries=2)
    assert seconds_until_decided(client, CHANGED, PATIENCE_SECONDS) < PATIENCE_SECONDS
    took: dict[str, float] = {}
    with Receiver() as probed, Receiver() as receiver:
        probe = Probe(client, probed, doubled.database())
        webhook = client.post("/api/v1/webhooks/", {"url": receiver.url}).body
        earlier = set(events(client))
        busy: list[Changer | Reporter] = [*changers, *reporters]
        for thread in (*busy, follower, reader):
            thread.start()
        took["before"] = probe.arrives()
        report_this_month(client)
        for number in ROUNDS:
            until(lambda: None not in signs_of_life(doubled).values(), "signs of life")
            with Reaper(doubled) as reaper:
                since = datetime.now(UTC) + timedelta(seconds=2)  # beat dies first
                for label in labels(number):
                    reaper.kill(label)
                    took[label] = probe.arrives()
                ask_four_times(doubled)
                until(partial(has_beaten, doubled.database(), since), "the other beat")
                assert set(reaper.killed) == set(labels(number))
        for each in (*busy, reader):
            each.enough.set()
        for each in (*busy, reader):
            each.join()
        decided_after = seconds_until_decided(client, CHANGED, PATIENCE_SECONDS)
        follower.enough.set()
        follower.join()
        database = doubled.database()
        forget_leases(database)
        until(lambda: set(receiver.ids) >= set(events(client)) - earlier, "every event received")
        assert all(verifies(each, webhook["secret"]) for each in receiver.received)
        deliveries = {receiver.url: Counter(receiver.ids), probed.url: Counter(probed.ids)}

    made = {
        changer.pool: [
            path.split("/")[-2] for path in changer.accepted.objects if "/workloads/" in path
        ]
        for changer in changers
    }
    reported: set[str] = set().union(*(each.accepted for each in reporters))
    found = settled(lambda: wrongs(client, database, made))
    found += settled(lambda: ledger_wrongs(database, {REPORTED: reported}, ENTRIES_EACH))
    found += settled(
        lambda: [w for each in changers for w in changes_wrongs(client, each.accepted)]
    )
    found += settled(lambda: decisions_wrongs(client, CHANGED))
    found += settled(lambda: metering_wrongs(database))
    found += settled(lambda: consumer_wrongs(database, follower))
    budgets = [row for row in all_events(client) if row["kind"] == "budget.reached"]
    unread = [read for read in reader.reads if not read.answered]
    again = {url: sum(times.values()) - len(times) for url, times in deliveries.items()}
    with capsys.disabled():
        told = ", ".join(f"{label} {seconds:.1f} s" for label, seconds in took.items())
        print(f"\na change told of, after the death of: {told}")
        print(
            f"{sum(each.changes for each in changers)} changes, {len(reported)} events,"
            f" {len(reader.reads)} reads, the longest {max(r.seconds for r in reader.reads):.1f} s;"
            f" {sum(map(len, deliveries.values()))} deliveries, {sum(again.values())} sent again;"
            f" all decided {decided_after:.1f} s after the last change; wrong: {len(found)}"
        )
        print(*found, sep="\n")
    assert found == []
    assert unread == []
    assert [each.refused for each in reporters if each.refused] == []
    assert sorted(row["payload"]["threshold"] for row in budgets) == [50, 100]
    # Only what a sender that was killed had under way may come again, and it comes with its id.
    assert all(times <= 3 for counted in deliveries.values() for times in counted.values())
    assert sum(again.values()) <= 2 * 2 * len(deliveries)
    assert decided_after < PATIENCE_SECONDS
    assert "holds" in doubled.manage("verify")


def report_this_month(client: Client) -> None:
    """Use of this month, of which the budget is reached at once."""
    now = datetime.now(UTC)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    client.post(f"/api/v1/pools/{BILLED}/usage/?non_members=accept", [{
        "source": "budget", "id": "1", "tenant": TENANTS[0], "resources": {"cpu": 1, "memory": 1},
        "start": begin.isoformat(), "end": now.isoformat(),
    }])  # fmt: skip


def ask_four_times(service: LaunchedService) -> None:
    """Everything that beat asks for, four times at once, as messages of beats that went on together."""
    text = (
        "import allocator_service.celery as celery\n"
        f"for name in {PERIODIC!r} * 4: celery.app.send_task(name)"
    )
    assert service.second("-c", text).wait(60) == 0


def forget_leases(database: str) -> None:
    """What killed senders had claimed is due now, and not in 45 s."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE webhook_queue SET claimed_until = now() - interval '1 s'")


def all_events(client: Client) -> list[dict[str, Any]]:
    return client.pages("/api/v1/events/?limit=1000")


def events(client: Client) -> list[str]:
    return [row["id"] for row in all_events(client)]
