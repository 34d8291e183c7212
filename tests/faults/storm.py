"""A storm: seeded faults in the service's processes and servers while clients change pools."""

import math
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import redis
import requests

from launcher.servers import Servers
from tests.live.service import LiveService

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

    def __init__(self, url: str, key: str, pool: str, tenant: str, pause: float) -> None:
        super().__init__(f"{url}/api/v1/pools/{pool}/usage/?non_members=accept", key, pause)
        self._tenant = tenant
        self._begin = datetime.now(UTC) - timedelta(hours=12)
        self.pool = pool
        self.accepted: set[str] = set()

    def post_next(self, number: int) -> None:
        first = number * (self.EVENTS - 1)
        events = [self._event(first + offset) for offset in range(self.EVENTS)]
        if self.post("", events, 200) is not None:
            self.accepted |= {event["id"] for event in events}

    def _event(self, number: int) -> dict[str, Any]:
        start = self._begin + timedelta(seconds=3 * number)
        return {
            "source": "storm",
            "id": f"{self._tenant}/{number}",
            "tenant": self._tenant,
            "resources": {"cpu": "0.125", "memory": number % 5 + 1},
            "start": start.isoformat(),
            "end": (start + timedelta(seconds=5)).isoformat(),
        }


class Storm:
    """Faults, chosen by a seed, in a running service. Every fault is undone before the next.

    `kinds` are those that may happen, all unless given.
    """

    def __init__(
        self, service: LiveService, servers: Servers, seed: int, kinds: Sequence[str] = ()
    ) -> None:
        self._service, self._servers = service, servers
        self._chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        faults = {
            "kill worker": lambda: self._kill_process("worker"),
            "kill worker's child": self._kill_child,
            "kill web": lambda: self._kill_process("web"),
            "kill relay": lambda: self._kill_process("relay"),
            "kill beat": lambda: self._kill_process("beat"),
            "kill Redis": self._kill_redis,
            "freeze Redis": self._freeze_redis,
            "flush Redis": self._flush_redis,
            "end database connections": self._end_connections,
        }
        self._faults = {kind: faults[kind] for kind in kinds or faults}

    def rage(self, seconds: float) -> None:
        """One fault after the other, a second apart, each kind at least once if time allows."""
        deadline = time.monotonic() + seconds
        kinds: list[str] = []
        while time.monotonic() < deadline:
            if not kinds:
                kinds = self._chance.sample(sorted(self._faults), len(self._faults))
            kind = kinds.pop()
            self._faults[kind]()
            self.done[kind] += 1
            time.sleep(0.5 + self._chance.random())

    def _kill_process(self, name: str) -> None:
        process = self._service.processes[name]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(self._chance.random())
        self._service.start(name)

    def _kill_child(self) -> None:
        parent = self._service.processes["worker"].pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        if children:
            os.kill(int(self._chance.choice(children)), signal.SIGKILL)

    def _kill_redis(self) -> None:
        assert self._servers.redis is not None
        self._servers.redis.process.kill()
        self._servers.redis.process.wait()
        time.sleep(self._chance.random() * 2)
        self._servers.redis.restart()

    def _freeze_redis(self) -> None:
        assert self._servers.redis is not None
        process = self._servers.redis.process
        process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        process.send_signal(signal.SIGCONT)

    def _flush_redis(self) -> None:
        url = self._servers.environment["REDIS_URL"]
        path = url.removeprefix("redis+socket://").partition("?")[0]
        redis.Redis(unix_socket_path=path, socket_timeout=5).flushall()

    def _end_connections(self) -> None:
        url = self._servers.environment["MIGRATION_DATABASE_URL"]
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND backend_type = 'client backend'"
            )
