"""The faults of a storm. Each is over when it returns: the launcher mends the rest by itself."""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis

from tests.faults.launched import LaunchedService

FROZEN_WORKER_SECONDS = 40.0  # the launcher ends a worker that has been silent for 30
FILLED_SECONDS = 3.0
ADVANCE_SECONDS, BACK_SECONDS = 90.0, 45.0


LONG = ("freeze worker", "freeze Redis for long", "freeze a worker's child")


@dataclass(frozen=True)
class Fault:
    """One that hit, and from when to when the service was without it not whole (monotonic)."""

    kind: str
    begin: float
    end: float


class Storm:
    """Faults in a launched service, chosen by a seed; each kind as often as the others.

    `hits` are those that found what they were after. `untried` says of kinds why they cannot be tried,
    `turned` by how many seconds the service's clock differs from the machine's.
    """

    def __init__(
        self,
        service: LaunchedService,
        seed: int,
        kinds: Sequence[str] = (),
        without: Sequence[str] = (),
    ) -> None:
        self._service = service
        self._chance = random.Random(seed)
        self._seconds: list[subprocess.Popen[bytes]] = []
        self.hits: list[Fault] = []
        self.untried: dict[str, str] = {}
        faults: dict[str, Callable[[], bool]] = {
            "kill the launcher": self._kill_launcher,
            "kill PostgreSQL": lambda: self._kill_server("postgres"),
            "kill all while PostgreSQL is away": self._kill_all_with_postgres,
            "end database connections": self._end_connections,
            "freeze PostgreSQL": lambda: self._freeze(self._service.servers_of("postgres"), 3.0),
            "kill Redis": lambda: self._kill_server("redis"),
            "freeze Redis": lambda: self._freeze(self._service.servers_of("redis"), 3.0),
            "freeze Redis for long": lambda: self._freeze(self._service.servers_of("redis"), 10.0),
            "flush Redis": self._flush_redis,
            "fill the disk": self._fill_disk,
            "kill web": lambda: self._kill(self._service.pid("web")),
            "kill a web process": lambda: self._kill_child("web"),
            "kill relay": lambda: self._kill(self._service.pid("relay")),
            "kill beat": lambda: self._kill(self._service.pid("beat")),
            "kill sender": lambda: self._kill(self._service.pid("sender")),
            "kill worker": lambda: self._kill(self._service.pid("worker")),
            "kill a worker's child": lambda: self._kill_child("worker"),
            "freeze a worker's child": lambda: self._freeze(
                self._service.children("worker")[:1], 8.0
            ),
            "freeze worker": self._freeze_worker,
            "a second relay": lambda: self._second("manage.py", "relay"),
            "a second beat": lambda: self._second(*_CELERY, "beat", "--schedule", self._schedule()),
            "a second worker": lambda: self._second(*_CELERY, "worker", "--concurrency", "1"),
            "the clock steps forward": lambda: self._turn_clock(ADVANCE_SECONDS),
            "the clock steps back": lambda: self._turn_clock(-BACK_SECONDS),
        }
        if not service.has_own_disk:
            self.untried["fill the disk"] = "a small disk can only be mounted by root"
        self.kinds = {
            kind: faults[kind] for kind in kinds or faults if kind not in {*self.untried, *without}
        }
        self.turned = self._furthest = 0.0

    @property
    def done(self) -> Counter[str]:
        """How often each kind has hit."""
        return Counter(fault.kind for fault in self.hits)

    def rage(self, seconds: float) -> None:
        """One fault after the other, a moment apart, until so many seconds are over."""
        try:
            self._rage(seconds)
        finally:
            self.calm()

    def _rage(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        waiting: list[str] = []
        while time.monotonic() < deadline:
            if not waiting:
                waiting = self._chance.sample(sorted(self.kinds), len(self.kinds))
            kind = waiting.pop()
            begin = time.monotonic()
            if self.kinds[kind]():
                self.hits.append(Fault(kind, begin, time.monotonic()))
            time.sleep(0.5 + self._chance.random())
        # A pool's time stands still until a clock that was set back has caught up.
        self._turn_clock(self._furthest - self.turned)

    def calm(self) -> None:
        """End what the storm itself started."""
        for process in self._seconds:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._seconds.clear()

    def _kill_launcher(self) -> bool:
        self._service.kill_launcher()
        self.calm()  # what was beside it would find its servers gone for good
        self._service.start()
        return True

    def _kill_all_with_postgres(self) -> bool:
        """Whatever starts again finds no database at first."""
        hit = self._kill_server("postgres")
        for name in ("web", "relay", "worker"):
            hit &= self._kill(self._service.pid(name))
        return hit

    def _kill(self, pid: int | None) -> bool:
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
            return True
        return False

    def _kill_child(self, name: str) -> bool:
        children = self._service.children(name)
        if not children:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._chance.choice(children), signal.SIGKILL)
            return True
        return False

    def _kill_server(self, name: str) -> bool:
        pids = self._service.servers_of(name)
        if name == "postgres":
            pids = {pid for pid in pids if _parent(pid) not in pids}  # the postmaster
        return self._signal(pids, signal.SIGKILL)

    def _signal(self, pids: Iterable[int], number: signal.Signals) -> bool:
        hit = False
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
                hit = True
        return hit

    def _freeze(self, pids: Iterable[int], seconds: float) -> bool:
        frozen = list(pids)
        hit = self._signal(frozen, signal.SIGSTOP)
        if hit:
            time.sleep(seconds)
            self._signal(frozen, signal.SIGCONT)
        return hit

    def _freeze_worker(self) -> bool:
        """With its locks, its connections and what its children compute."""
        worker = self._service.pid("worker")
        return worker is not None and self._freeze(
            [worker, *self._service.children("worker")], FROZEN_WORKER_SECONDS
        )

    def _flush_redis(self) -> bool:
        path = (
            str(self._service.state["REDIS_URL"]).removeprefix("redis+socket://").partition("?")[0]
        )
        with contextlib.suppress(redis.RedisError):
            redis.Redis(unix_socket_path=path, socket_timeout=5).flushall()
            return True
        return False

    def _end_connections(self) -> bool:
        with contextlib.suppress(psycopg.Error):
            with psycopg.connect(self._service.database(), autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    " AND backend_type = 'client backend'"
                )
            return True
        return False

    def _fill_disk(self) -> bool:
        ballast = self._service.home / "ballast"
        try:
            with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1024**2))
            time.sleep(FILLED_SECONDS)
        finally:
            ballast.unlink()
        return True

    def _second(self, *command: str) -> bool:
        self._seconds.append(self._service.second(*command))
        while len(self._seconds) > 2:
            oldest = self._seconds.pop(0)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(oldest.pid, signal.SIGKILL)
            oldest.wait()
        return True

    def _schedule(self) -> str:
        return str(self._service.clock.parent / "second-beat")

    def _turn_clock(self, seconds: float) -> bool:
        self.turned += seconds
        self._furthest = max(self._furthest, self.turned)
        self._service.turn_clock(self.turned)
        return True


_CELERY = ("-m", "celery", "--quiet", "--app", "allocator_service")


def _parent(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None
