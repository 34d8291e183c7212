"""The service's own processes: web, worker, backtests, beat, relay and sender.

docker-compose.yml runs the same commands; tests/unit/test_compose.py compares the two.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from allocator_service.core.worker import pulse

WEB_OPTIONS = (
    *("--worker-class", "allocator_service.web.worker.BufferedWorker"),
    *("--threads", "4", "--graceful-timeout", "30"),
)
_EVERY_WORKER = (
    *("--prefetch-multiplier", "1", "--loglevel", "INFO"),
    *("--without-gossip", "--without-mingle"),  # workers do not need to know of each other
    # Nothing reads heartbeats, and one that is due while Redis is gone keeps a worker from ending.
    "--without-heartbeat",
)
WORKER_OPTIONS = ("--concurrency", "2", *_EVERY_WORKER)
# A queue of its own, one simulation at a time, and a name by which the two are told apart.
BACKTEST_OPTIONS = (
    *("--queues", "backtests", "--concurrency", "1", "--max-tasks-per-child", "100"),
    *_EVERY_WORKER,
)
DEFAULT_WEB_WORKERS = "2"
NAMES = ("web", "relay", "sender", "beat", "backtests", "worker")


@dataclass(frozen=True)
class Component:
    """One process of the service.

    `name` is also its ALLOCATOR_PROCESS, by which the settings choose time-outs and pools;
    `patience_seconds` is how long it may take to finish what it does when it is stopped;
    `silence_seconds` how old the sign of life in its PULSE_FILE may be, if it gives one;
    `number` tells it from others of the same name.
    """

    name: str
    command: tuple[str, ...]
    patience_seconds: float
    silence_seconds: float | None = None
    number: int = 1

    @property
    def label(self) -> str:
        """What it is called among all that run: `web`, `web-2`."""
        return self.name if self.number == 1 else f"{self.name}-{self.number}"


def components(
    *, listener: int, data: Path, counts: Mapping[str, int] | None = None
) -> tuple[Component, ...]:
    """The components in the order in which they start; workers, which stop last, are the last.

    `listener` is the descriptor of a listening socket: it outlives the web processes, which all accept
    from it, so that callers wait instead of being refused while the last one starts again. `data` takes
    beat's schedules. `counts` says of which name there are several.
    """
    return tuple(
        _component(name, number, listener=listener, data=data)
        for name in NAMES
        for number in range(1, (counts or {}).get(name, 1) + 1)
    )


def _component(name: str, number: int, *, listener: int, data: Path) -> Component:
    celery = ("-m", "celery", "--quiet", "--app", "allocator_service")
    command: tuple[str, ...]
    hostname: tuple[str, ...]
    patience_seconds = 10.0
    silence_seconds: float | None = pulse.TURN_SECONDS
    match name:
        case "web":
            command = (
                *("-m", "gunicorn", "allocator_service.wsgi:application", *WEB_OPTIONS),
                *("--bind", f"fd://{listener}", "--no-control-socket"),
            )
            patience_seconds, silence_seconds = 35.0, None
        case "relay" | "sender":
            command = ("manage.py", name)
            patience_seconds = 15.0 if name == "sender" else 10.0
        case "beat":
            schedule = data / ("beat-schedule" if number == 1 else f"beat-schedule-{number}")
            command = (*celery, "beat", "--schedule", str(schedule), "--loglevel", "INFO")
        case "backtests":
            own = "" if number == 1 else f"-{number}"
            command = (*celery, "worker", *BACKTEST_OPTIONS, "--hostname", f"backtests{own}@%h")
            # What it has begun another one begins again.
            patience_seconds, silence_seconds = 30.0, pulse.SILENCE_SECONDS
        case _:
            hostname = () if number == 1 else ("--hostname", f"worker-{number}@%h")
            command = (*celery, "worker", *WORKER_OPTIONS, *hostname)
            patience_seconds, silence_seconds = 130.0, pulse.SILENCE_SECONDS
    return Component(name, command, patience_seconds, silence_seconds, number)
