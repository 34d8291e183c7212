"""Months are closed while a storm rages over those who report, late, and those who correct."""

import random
import threading
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import psycopg
import requests

from tests.faults.clients import PATIENCE_SECONDS, RETRY_SECONDS, Client, Reporter

BILLED = "storm-billed"
TENANTS = ("billed-1", "billed-2")
MONTHS = 10


def months_before(now: datetime, count: int) -> list[datetime]:
    """The first instants of that many months before the present one, oldest first."""
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    found: list[datetime] = []
    for _ in range(count):
        first = (first - timedelta(days=1)).replace(day=1)
        found.insert(0, first)
    return found


def first_usage(months: list[datetime]) -> list[dict[str, Any]]:
    """An event of each tenant in each month, so that all of them have a statement."""
    return [
        {
            "source": "first",
            "id": f"{tenant}/{month:%Y-%m}",
            "tenant": tenant,
            "resources": {"cpu": 1, "memory": "0.5"},
            "start": month.isoformat(),
            "end": (month + timedelta(hours=1)).isoformat(),
        }
        for tenant in TENANTS
        for month in months
    ]


class LateReporter(Reporter):
    """Reports usage of all the months, in no order: what lies in closed ones is late."""

    EVENTS = 5

    def __init__(self, url: str, key: str, tenant: str, months: list[datetime]) -> None:
        super().__init__(url, key, BILLED, tenant, pause=0.25)
        self._begin = months[0]
        self._seconds = int((months[-1] - months[0]).total_seconds()) + 27 * 86_400

    def _event(self, number: int) -> dict[str, Any]:
        event = super()._event(number)
        start = self._begin + timedelta(seconds=number * 7_919_000_003 % self._seconds)
        return event | {
            "start": start.isoformat(),
            "end": (start + timedelta(seconds=1 + number % 50_000)).isoformat(),
        }


class Corrector(Client):
    """Corrects entries at random, each under a key of its own."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(f"{url}/api/v1/ledger-entries/", key, pause=0.5)
        self._chance = random.Random(7)
        self.corrected = 0

    def post_next(self, number: int) -> None:
        entries = self.listed(f"{self._url}?pool={BILLED}&kind=usage&limit=1000")
        if entries:
            entry = self._chance.choice(entries)["id"]
            body = {"quantity": f"{number + 10}.5", "reason": "storm"}
            answer = self.post(f"correct-{number}", body, 201, f"{self._url}{entry}/corrections/")
            self.corrected += answer is not None

    def listed(self, url: str) -> list[dict[str, Any]]:
        try:
            answer = requests.get(url, headers=self._headers, timeout=10)
            found: list[dict[str, Any]] = answer.json()["results"] if answer.ok else []
        except requests.RequestException:
            return []
        return found


class Closer(Client):
    """Closes one month after the other, twice at once, and keeps what it is answered."""

    def __init__(self, url: str, key: str, months: list[datetime], pause: float) -> None:
        super().__init__(f"{url}/api/v1/pools/{BILLED}/statements/", key, pause)
        self._months = [f"{month:%Y-%m}" for month in months]
        self.closed: list[str] = []
        self.seen: dict[str, bytes] = {}

    def post_next(self, number: int) -> None:
        if number >= len(self._months):
            self.enough.wait(1)
            return
        month, answers = self._months[number], []

        def close() -> None:
            answers.append(self.post("", {"month": month}, {200, 201}))

        twin = threading.Thread(target=close)
        twin.start()
        close()
        twin.join()
        if contents := {answer.content for answer in answers if answer is not None}:
            self.closed.append(month)
            if len(contents) != 1:
                self.refused.append(f"{month}: two who closed it got two answers")
            self.seen |= {path: self.content(path) for path in self._paths(month)}

    def _paths(self, month: str) -> list[str]:
        return [f"{month}/{tenant}/{query}" for tenant in TENANTS for query in ("", "?format=csv")]

    def content(self, path: str) -> bytes:
        """What a statement's route answers, asked for until it is there."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                answer = requests.get(self._url + path, headers=self._headers, timeout=10)
                if answer.status_code in (200, 404):
                    return answer.content if answer.ok else b"404"
            except requests.RequestException:
                pass
            time.sleep(RETRY_SECONDS)
        return b"no answer"


_CHECKS = {
    "postings do not balance": """
        SELECT count(*) FROM billing_posting
        WHERE tenant_amount + owner_amount + fee_amount + pool_amount <> 0""",
    "statements are not the sum of their lines": """
        SELECT count(*) FROM billing_statement s JOIN billing_closing c ON c.id = s.closing_id
        WHERE s.billed <> COALESCE((
            SELECT sum(p.tenant_amount) FROM billing_posting p WHERE p.pool_id = c.pool_id
               AND p.month = c.month AND p.tenant_id = s.tenant_id), 0)""",
    "late entries are on two lines": """
        SELECT count(*) FROM (
            SELECT FROM billing_posting, unnest(entries) AS late
            GROUP BY late, service_month, plan_id, start HAVING count(*) > 1) AS doubled""",
    # Of all entries that were numbered by the last closing, those of a month's time, and its lines.
    "sums of lines are not those of entries": """
        WITH last AS (SELECT pool_id, max(sequence) AS sequence FROM billing_closing GROUP BY 1),
        used AS (
            SELECT c.pool_id, c.month, e.tenant_id, e.resource, sum(e.quantity * extract(
                       epoch FROM least(e."end", c."end") - greatest(e.start, c.start))) AS amount
            FROM billing_closing c JOIN last USING (pool_id)
            JOIN ledger_entry e ON e.pool_id = c.pool_id AND e.start < c."end" AND e."end" > c.start
            JOIN ledger_seal s ON s.entry_id = e.id AND s.sequence <= last.sequence
            WHERE e.kind IN ('usage', 'correction') GROUP BY 1, 2, 3, 4),
        billed AS (
            SELECT pool_id, service_month AS month, tenant_id, resource, sum(amount) AS amount
            FROM billing_posting WHERE kind IN ('usage', 'adjustment') GROUP BY 1, 2, 3, 4)
        SELECT count(*) FROM used FULL JOIN billed USING (pool_id, month, tenant_id, resource)
        WHERE used.amount IS DISTINCT FROM billed.amount""",
}


def billing_wrongs(database: str, seen: Mapping[str, bytes], now: Mapping[str, bytes]) -> list[str]:
    """What is not as promised of closed months: `seen` are their bytes then, `now` those of now."""
    found = [f"{path}: closed bytes changed" for path in seen if now.get(path) != seen[path]]
    with psycopg.connect(database) as connection:
        for what, query in _CHECKS.items():
            (count,) = connection.execute(query).fetchone() or (0,)
            if count:
                found.append(f"{count} {what}")
    return found


def late_entries(database: str) -> int:
    """Return how many late entries lines name as their causes."""
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "SELECT COALESCE(sum(cardinality(entries)), 0) FROM billing_posting"
        ).fetchone()
    return int(row[0]) if row else 0
