"""The processes of the service, which are web, worker, backtests, beat, relay and sender.

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
# A queue of its own, one simulation at a time, and a name that distinguishes the two.
BACKTEST_OPTIONS = (
    *("--queues", "backtests", "--concurrency", "1", "--max-tasks-per-child", "100"),
    *_EVERY_WORKER,
)
DEFAULT_WEB_WORKERS = "2"
NAMES = ("web", "relay", "sender", "beat", "backtests", "worker")


@dataclass(frozen=True)
class Component:
    """One process of the service.

    Attributes:
        name: Value of its ALLOCATOR_PROCESS, by which the settings choose time-outs and pools.
        command: Arguments of the Python interpreter.
        patience_seconds: Time to finish its current work when it is stopped.
        silence_seconds: Greatest age of the sign of life in its PULSE_FILE, or None without one.
        number: Number among the processes with this name, from 1.
    """

    name: str
    command: tuple[str, ...]
    patience_seconds: float
    silence_seconds: float | None = None
    number: int = 1

    @property
    def label(self) -> str:
        """Unique name among the running processes, such as `web` or `web-2`."""
        return self.name if self.number == 1 else f"{self.name}-{self.number}"


def components(
    *, listener: int, data: Path, counts: Mapping[str, int] | None = None
) -> tuple[Component, ...]:
    """Return the components in the order of their start. Workers stop last and are the last.

    Args:
        listener: Descriptor of a listening socket from which all web processes accept. It outlives them,
            so that clients wait instead of being refused while the only web process starts again.
        data: Folder for the schedules of beat.
        counts: Number of processes by name, by default one.
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
            # Another worker runs an interrupted simulation again from its start.
            patience_seconds, silence_seconds = 30.0, pulse.SILENCE_SECONDS
        case _:
            hostname = () if number == 1 else ("--hostname", f"worker-{number}@%h")
            command = (*celery, "worker", *WORKER_OPTIONS, *hostname)
            patience_seconds, silence_seconds = 130.0, pulse.SILENCE_SECONDS
    return Component(name, command, patience_seconds, silence_seconds, number)
