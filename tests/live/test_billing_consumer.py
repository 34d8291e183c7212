"""docs/examples/billing_consumer.py, killed at random while everybody writes and months are closed."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import orjson
import psycopg
import pytest

from launcher.client import Client
from tests.examples import thorough

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "billing_consumer.py"
KILLS = 25 if thorough() else 12
LIMIT = 7
POOL = "consumed"
ONE_TRANSACTION = """        with db:  # one transaction: the entries, and where to go on
            db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", entries)
            db.execute("INSERT OR REPLACE INTO cursor VALUES (1, ?)", [page["next_cursor"]])
"""
# The control: it saves its cursor by itself, and dies before it saves the entries.
KILLED_BETWEEN_TWO = """        with db:
            db.execute("INSERT OR REPLACE INTO cursor VALUES (1, ?)", [page["next_cursor"]])
        __import__("os").kill(__import__("os").getpid(), 9)
"""


class Writer(threading.Thread):
    """Reports usage of the two months before this one, and corrects some of it, until told to stop."""

    def __init__(self, client, tenant, months):
        super().__init__(daemon=True)
        self._client, self._tenant, self._months = client, tenant, months
        self.enough = threading.Event()
        self.posted, self.wrong = 0, []

    def run(self):
        chance, number = random.Random(self._tenant), 0
        while not self.enough.is_set():
            events = []
            for _ in range(10):
                start = chance.choice(self._months) + timedelta(seconds=chance.randrange(2_400_000))
                event = {
                    "source": "meter",
                    "id": f"{self._tenant}/{number}",
                    "tenant": self._tenant,
                    "resources": {"cpu": str(Decimal(chance.randrange(1, 9999)) / 1000)},
                    "start": start.isoformat(),
                    "end": (start + timedelta(seconds=chance.randrange(1, 3600))).isoformat(),
                }
                events.append(event)
                number += 1
            path = f"/api/v1/pools/{POOL}/usage/?non_members=accept"
            answer = self._client.request("POST", path, events)
            if answer.status != 200:
                self.wrong.append(answer)
            self.posted += len(events)
            time.sleep(0.1)


def consumer(service, text, file, key, log, *, limit):
    return subprocess.Popen(
        [sys.executable, "-c", text, str(file), "--follow", "--limit", str(limit)],
        env={**os.environ, "URL": service.url, "BILLING": key},
        stdout=log,
        stderr=subprocess.STDOUT,
    )


def sums_of(rows):
    found = defaultdict(Decimal)
    for *key, amount in rows:
        found[tuple(key)] += Decimal(amount)
    return dict(found)


def service_sums(service):
    with psycopg.connect(service.environment["DATABASE_URL"]) as connection:
        return sums_of(
            connection.execute(
                "SELECT p.slug, t.slug, e.resource, e.kind, sum(e.amount) FROM ledger_entry e"
                " JOIN pool p ON p.id = e.pool_id JOIN tenant t ON t.id = e.tenant_id"
                " WHERE p.slug = %s GROUP BY 1, 2, 3, 4",  # other pools go on metering
                [POOL],
            ).fetchall()
        )


def consumer_sums(file):
    with sqlite3.connect(file) as db:
        return sums_of(
            db.execute(
                "SELECT pool, tenant, resource, kind, amount FROM entries WHERE pool = ?", [POOL]
            )
        )


@pytest.fixture
def months(service, operator):
    """The first instants of the two months before this one, in a pool with prices."""
    this = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    last = (this - timedelta(days=1)).replace(day=1)
    before = (last - timedelta(days=1)).replace(day=1)
    operator.post("/api/v1/pools/", {
        "slug": POOL, "name": "Consumed", "policy": {"name": "drf"}, "metering": "reported",
        "resources": [{"name": "cpu", "unit": "core"}],
    })  # fmt: skip
    for number in range(4):
        operator.post("/api/v1/tenants/", {"slug": f"eater-{number}", "name": "Eater"})
    rates = [{"resource": "cpu", "pool": "0.037"}]
    plan = {"pool": POOL, "name": "p", "from": before.isoformat(), "rates": rates}
    made = operator.post("/api/v1/price-plans/", plan).body
    operator.post(f"/api/v1/price-plans/{made['id']}/publish/", {})
    return [before, last]


def close(operator, month):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        body = {"month": f"{month:%Y-%m}"}
        answer = operator.request("POST", f"/api/v1/pools/{POOL}/statements/", body)
        if answer.status in (200, 201):
            return
        assert answer.body["code"] == "statement.entries_pending", answer
        time.sleep(0.05)
    raise AssertionError("the month was not closed")


def kill_at_random(service, text, file, key, log, times, chance):
    """Start a consumer and kill it, over and over; returns how often it was killed alive."""
    killed = 0
    for _ in range(times):
        process = consumer(service, text, file, key, log, limit=LIMIT)
        time.sleep(chance.uniform(0.25, 0.85))
        killed += process.poll() is None
        process.kill()
        process.wait()
    return killed


def test_killed_at_random_it_ends_with_exactly_the_services_sums(
    service, operator, months, tmp_path, capsys
):
    key = service.manage("apikey", "create", "--scope", "billing", "--name", "consumer")
    text, chance = EXAMPLE.read_text(), random.Random(20261122)
    assert text.count(ONE_TRANSACTION) == 1
    control = text.replace(ONE_TRANSACTION, KILLED_BETWEEN_TWO)
    writers = [Writer(operator, f"eater-{number}", months) for number in range(4)]
    for writer in writers:
        writer.start()
    file, other = tmp_path / "billing.sqlite", tmp_path / "control.sqlite"
    with (tmp_path / "log").open("wb") as log:
        killed = kill_at_random(service, text, file, key, log, KILLS // 2, chance)
        close(operator, months[0])
        killed += kill_at_random(service, text, file, key, log, KILLS - KILLS // 2, chance)
        close(operator, months[1])
        dying = consumer(service, control, other, key, log, limit=LIMIT)
        assert dying.wait(timeout=60) == -signal.SIGKILL
        for writer in writers:
            writer.enough.set()
        for writer in writers:
            writer.join()
        processes = {
            file: consumer(service, text, file, key, log, limit=200),
            other: consumer(service, text, other, key, log, limit=200),
        }
        expected = service_sums(service)
        try:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and not all(
                done(each, len(months)) for each in processes
            ):
                time.sleep(0.5)
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
    assert [writer.wrong for writer in writers if writer.wrong] == []
    assert (service_sums(service), consumer_sums(file)) == (expected, expected)
    statements = compared(service, key, file, months)
    assert killed >= 0.8 * KILLS
    with sqlite3.connect(file) as db, sqlite3.connect(other) as lossy:
        rows, kept = (
            each.execute("SELECT count(*) FROM entries").fetchone()[0] for each in (db, lossy)
        )
    assert 0 < rows - kept <= LIMIT, "the control has to lose the page that it died with"
    with capsys.disabled():
        print(
            f"\nkilled {killed} times; {rows} entries, {statements} statements, sums as the"
            f" service's; the control lost {rows - kept} entries"
        )


def done(file, months):
    """Whether nothing came for a while, and the closed months are there."""
    with sqlite3.connect(file) as db:
        (count,) = db.execute("SELECT count(*) FROM entries").fetchone()
        (there,) = db.execute("SELECT count(*) FROM months WHERE pool = ?", [POOL]).fetchone()
    settled = getattr(done, "before", {}).get(file) == count
    done.before = {**getattr(done, "before", {}), file: count}
    time.sleep(1)
    return settled and there == months


def compared(service, key, file, months):
    """Every stored statement is byte for byte what the service answers; returns how many."""
    billing = Client(service.url, key)
    with sqlite3.connect(file) as db:
        rows = db.execute(
            "SELECT month, tenant, billed, document FROM statements WHERE pool = ?", [POOL]
        ).fetchall()
    assert {month for month, *_ in rows} == {f"{month:%Y-%m}" for month in months}
    for month, tenant, billed, document in rows:
        shown = billing.get(f"/api/v1/pools/{POOL}/statements/{month}/{tenant}/").body
        assert shown["totals"]["billed"] == billed
        assert orjson.loads(document) == shown
    return len(rows)
