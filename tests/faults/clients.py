"""Clients that post during a storm, and know what was accepted of it."""

import math
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import requests

RETRY_SECONDS = 0.3
PATIENCE_SECONDS = 60.0


class Client(threading.Thread):
    """Posts one request after the other; each is repeated until it is accepted."""

    def __init__(self, url: str, key: str, pause: float) -> None:
        super().__init__(daemon=True)
        self._url, self._pause = url, pause
        self._headers = {"Authorization": f"Bearer {key}"}
        self.refused: list[str] = []
        self.unanswered: set[str] = set()
        self.attempts = 0
        self.enough = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.enough.is_set():
            self.post_next(number)
            number += 1
            time.sleep(self._pause)

    def post_next(self, number: int) -> None:
        """Have the request of this number accepted."""
        raise NotImplementedError

    def post(
        self, name: str, body: object, accepted: int | set[int], url: str = ""
    ) -> requests.Response | None:
        """Repeat a request, under a key of that name if any, until the answer is `accepted`.

        Patience ends some time after the storm, not during it: a busy machine may need as long to
        start the web process as passes until its next kill. A request that is given up then is
        unanswered: it may have been accepted or not.
        """
        headers = {**self._headers, **({"Idempotency-Key": name} if name else {})}
        deadline = math.inf
        while time.monotonic() < deadline:
            if deadline == math.inf and self.enough.is_set():
                deadline = time.monotonic() + PATIENCE_SECONDS
            self.attempts += 1
            try:
                answer = requests.post(url or self._url, json=body, headers=headers, timeout=10)
            except requests.RequestException:
                time.sleep(RETRY_SECONDS)
                continue
            if answer.status_code in (accepted if isinstance(accepted, set) else {accepted}):
                return answer
            if answer.status_code < 500 and answer.status_code not in (409, 429):
                self.refused.append(f"{answer.status_code} {answer.text[:300]}")
                return None
            time.sleep(RETRY_SECONDS)
        self.refused.append(f"{name}: not accepted within {PATIENCE_SECONDS:.0f} s of calm")
        self.unanswered.add(name)
        return None


class Writer(Client):
    """Submits workloads of a tenant; `work` is what they want."""

    def __init__(
        self, url: str, key: str, pool: str, tenant: str, pause: float, work: dict[str, Any]
    ) -> None:
        super().__init__(f"{url}/api/v1/pools/{pool}/workloads/", key, pause)
        self._tenant = tenant
        self._work = work
        self.pool = pool
        self.accepted: dict[str, str] = {}

    def post_next(self, number: int) -> None:
        name = f"{self._tenant}-{number:04d}"
        body = {"tenant": self._tenant, "name": name, **self._work}
        answer = self.post(name, body, 201)
        if answer is not None:
            self.accepted[name] = answer.json()["id"]


class Reporter(Client):
    """Reports usage in batches that overlap: the last event of each is the first of the next.

    Without idempotency keys, so that only the events' identities tell a repeat.
    """

    EVENTS = 20
    PAST = timedelta(hours=12)

    def __init__(
        self, url: str, key: str, pool: str, tenant: str, pause: float, *, seconds: float = 60.0
    ) -> None:
        """`seconds` is for how long it reports: the events get as close as the past has room for."""
        super().__init__(f"{url}/api/v1/pools/{pool}/usage/?non_members=accept", key, pause)
        self._tenant = tenant
        self._begin = datetime.now(UTC) - self.PAST
        self._spacing = min(timedelta(seconds=3), 0.9 * self.PAST / (self.EVENTS / pause * seconds))
        self.pool = pool
        self.accepted: set[str] = set()

    def post_next(self, number: int) -> None:
        first = number * (self.EVENTS - 1)
        events = [self._event(first + offset) for offset in range(self.EVENTS)]
        if self.post("", events, 200) is not None:
            self.accepted |= {event["id"] for event in events}

    def _event(self, number: int) -> dict[str, Any]:
        start = self._begin + number * self._spacing
        return {
            "source": "storm",
            "id": f"{self._tenant}/{number}",
            "tenant": self._tenant,
            "resources": {"cpu": "0.125", "memory": number % 5 + 1},
            "start": start.isoformat(),
            "end": (start + timedelta(seconds=5)).isoformat(),
        }
