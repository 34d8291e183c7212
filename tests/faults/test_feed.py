"""Consumers of the ledger follow it over HTTP while it is written and its processes are killed."""

import threading
import time
from typing import Any

import psycopg
import pytest
import requests

from launcher.client import Client
from tests.examples import long
from tests.faults.clients import PATIENCE_SECONDS, RETRY_SECONDS, Reporter
from tests.faults.kinds import Storm
from tests.faults.launched import LaunchedService

SECONDS_BETWEEN, WEB_KILLS = 7.0, 2
PAGES = (1, 7, 1000)
POOL = "feed"
ENTRIES_EACH = 2


class Meter(Reporter):
    """Small batches, so that a consumer of one entry at a time keeps up."""

    EVENTS = 3


class Consumer(threading.Thread):
    """Follows the feed in pages of one size; what was not answered is asked for again."""

    def __init__(self, url: str, key: str, limit: int) -> None:
        super().__init__(daemon=True)
        self.limit = limit
        self.entries: list[dict[str, Any]] = []
        self.pages = self.repeated = 0
        self.enough = threading.Event()
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {key}"
        self._url = f"{url}/api/v1/ledger-entries/"

    def run(self) -> None:
        cursor = None
        while True:
            last = self.enough.is_set()  # before the page: what is sealed by then is in a page
            page = self._page(cursor)
            if page is None:
                continue
            self.pages += 1
            self.entries += page["results"]
            cursor = page["next_cursor"] or cursor
            if not page["results"]:
                if last:
                    return
                time.sleep(0.05)

    def _page(self, cursor: str | None) -> Any:
        parameters = {"limit": str(self.limit), **({"after": cursor} if cursor else {})}
        try:
            answer = self._session.get(self._url, params=parameters, timeout=10)
            if answer.status_code == 200:
                return answer.json()
        except requests.RequestException:
            pass
        self.repeated += 1
        time.sleep(RETRY_SECONDS)
        return None


def sealed(database: str) -> tuple[list[str], int]:
    """The ids of entries by their numbers, and how many entries have none yet."""
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT entry_id::text FROM ledger_seal ORDER BY sequence")
        ids = [id_ for (id_,) in rows.fetchall()]
        waiting = connection.execute("SELECT count(*) FROM ledger_pending").fetchone()
    return ids, waiting[0] if waiting else 0


@long
def test_consumers_miss_nothing_and_see_nothing_twice_while_processes_are_killed(
    launched: LaunchedService, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pages of one entry, of seven and of a thousand, at once.

    The control, a consumer that pages by id, is in tests/concurrency/test_ledger.py.
    """
    operator = Client(launched.url, key)
    operator.post("/api/v1/pools/", {
        "slug": POOL, "name": "Feed", "policy": {"name": "drf"}, "metering": "reported",
        "resources": [{"name": "cpu"}, {"name": "memory"}],
    })  # fmt: skip
    tenants = [f"{POOL}-{number}" for number in range(3)]
    for slug in tenants:
        operator.post("/api/v1/tenants/", {"slug": slug, "name": slug})
    meters = [Meter(launched.url, key, POOL, slug, pause=0.1) for slug in tenants]
    consumers = [Consumer(launched.url, key, limit) for limit in PAGES]
    for each in (*meters, *consumers):
        each.start()
    storm = Storm(launched, 1, ("kill relay", "kill worker", "end database connections"))
    web = Storm(launched, 2, ("kill web",))
    for _ in range(WEB_KILLS):
        storm.rage(SECONDS_BETWEEN)
        web.rage(0.1)  # one
    storm.rage(SECONDS_BETWEEN)
    for meter in meters:
        meter.enough.set()
    for meter in meters:
        meter.join()
    database = launched.database()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sealed(database)[1] and time.monotonic() < deadline:
        time.sleep(0.1)
    for consumer in consumers:
        consumer.enough.set()
    for consumer in consumers:
        consumer.join(PATIENCE_SECONDS)
    ids, waiting = sealed(database)
    events = set().union(*(meter.accepted for meter in meters))
    with capsys.disabled():
        print(f"\nfaults: {dict(storm.done + web.done)}; {len(ids)} entries in all")
        for consumer in consumers:
            print(
                f"pages of {consumer.limit}: {len(consumer.entries)} entries in {consumer.pages}"
                f" pages, {consumer.repeated} asked for again"
            )
    assert waiting == 0
    assert [meter.refused for meter in meters if meter.refused] == []
    mine = [entry for entry in consumers[-1].entries if entry["pool"] == POOL]
    assert len(mine) == ENTRIES_EACH * len(events) >= 100
    for consumer in consumers:
        assert [entry["id"] for entry in consumer.entries] == ids
        assert [entry["sequence"] for entry in consumer.entries] == list(range(1, len(ids) + 1))
