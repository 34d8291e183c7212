"""The service's own processes: web, worker, beat, relay and sender.

docker-compose.yml runs the same commands; tests/unit/test_compose.py compares the two.
"""

from dataclasses import dataclass
from pathlib import Path

from allocator_service.core.worker import pulse

WEB_OPTIONS = (
    *("--worker-class", "allocator_service.web_worker.BufferedWorker"),
    *("--threads", "4", "--graceful-timeout", "30"),
)
WORKER_OPTIONS = (
    *("--concurrency", "2", "--prefetch-multiplier", "1", "--loglevel", "INFO"),
    *("--without-gossip", "--without-mingle"),  # workers do not need to know of each other
    # Nothing reads heartbeats, and one that is due while Redis is gone keeps a worker from ending.
    "--without-heartbeat",
)
DEFAULT_WEB_WORKERS = "2"


@dataclass(frozen=True)
class Component:
    """One process of the service.

    `name` is also its ALLOCATOR_PROCESS, by which the settings choose time-outs and pools;
    `patience_seconds` is how long it may take to finish what it does when it is stopped;
    `silence_seconds` how old the sign of life in its PULSE_FILE may be, if it gives one.
    """

    name: str
    command: tuple[str, ...]
    patience_seconds: float
    silence_seconds: float | None = None


def components(*, listener: int, data: Path) -> tuple[Component, ...]:
    """The components in the order in which they start; the worker, which stops last, is the last.

    `listener` is the descriptor of a listening socket: it outlives the web process, so that
    callers wait instead of being refused while that starts again. `data` takes beat's schedule.
    """
    celery = ("-m", "celery", "--quiet", "--app", "allocator_service")
    return (
        Component(
            "web",
            (
                *("-m", "gunicorn", "allocator_service.wsgi:application", *WEB_OPTIONS),
                *("--bind", f"fd://{listener}", "--no-control-socket"),
            ),
            patience_seconds=35,
        ),
        Component("relay", ("manage.py", "relay"), patience_seconds=10),
        Component("sender", ("manage.py", "sender"), patience_seconds=15),
        Component(
            "beat",
            (*celery, "beat", "--schedule", str(data / "beat-schedule"), "--loglevel", "INFO"),
            patience_seconds=10,
        ),
        Component(
            "worker",
            (*celery, "worker", *WORKER_OPTIONS),
            patience_seconds=130,
            silence_seconds=pulse.SILENCE_SECONDS,
        ),
    )
