"""A thread in the worker's main process that gives the sign of life, or ends a worker that is deaf."""

import os
import threading
import time
from typing import Any

import redis
import structlog
from celery import Celery
from celery.signals import task_received, task_revoked, worker_ready, worker_shutting_down
from celery.worker import state
from kombu.exceptions import OperationalError as BrokerError

from allocator_service.core.jobs import BACKTESTS
from allocator_service.core.worker import pulse
from allocator_service.settings.environment import Environment

BROKER_ERRORS = (BrokerError, redis.RedisError, OSError)
CHECKS_PER_SILENCE = 10
DEAF_EXIT_CODE = 70

log = structlog.get_logger(__name__)


def messages_waiting(app: Celery, queue_name: str | None = None) -> float:
    """Return the messages that wait in a queue, or inf while Redis does not answer.

    The default is the queue of decisions.
    """
    name = queue_name or app.conf.task_default_queue
    try:
        with app.connection_or_acquire() as broker:
            queue = broker.default_channel.queue_declare(name, passive=False)
            return float(queue.message_count)
    except BROKER_ERRORS:
        return float("inf")


class WorkerWatch:
    """A watch from `worker_ready` on over a worker's intake of messages.

    The worker is deaf when messages have waited for longer than the allowed silence, Redis answers, a
    child is free, and no message was taken. It then ends at once and its supervisor restarts it. Waiting
    for Redis, or for tasks that keep every child busy, is not silence: those end by their own time
    limits.
    """

    def __init__(self, app: Celery, environment: Environment) -> None:
        self._app, self._environment = app, environment
        self._queue = BACKTESTS if environment.process == BACKTESTS else None
        self._taken_at = time.monotonic()
        self._stopped = threading.Event()
        self._pool: Any = None
        # Signals keep weak references.
        self._receivers = (self._take, self._begin, self._stop)
        task_received.connect(self._receivers[0])
        task_revoked.connect(self._receivers[0])
        worker_ready.connect(self._receivers[1])
        worker_shutting_down.connect(self._receivers[2])

    def _take(self, **_: object) -> None:
        self._taken_at = time.monotonic()

    def _begin(self, *, sender: Any, **_: object) -> None:
        self._pool = sender.pool
        self._take()
        threading.Thread(target=self._watch, name="worker-watch", daemon=True).start()

    def _stop(self, **_: object) -> None:
        """Stop the watch of a worker that shuts down.

        It takes no more messages, and may take long to finish those it has.
        """
        self._stopped.set()

    def _watch(self) -> None:
        silence = self._environment.worker_silence_seconds
        while True:
            if self._has_reason():
                self._take()
            if self._stopped.is_set() or time.monotonic() - self._taken_at <= silence:
                pulse.give(self._environment.pulse_file, self._environment.notify_socket)
            else:
                log.critical("worker_takes_no_messages", seconds=silence)
                os._exit(DEAF_EXIT_CODE)
            time.sleep(silence / CHECKS_PER_SILENCE)

    def _has_reason(self) -> bool:
        """Return whether a working worker would take no message now either."""
        if len(state.active_requests) >= self._pool.num_processes:
            return True
        return messages_waiting(self._app, self._queue) in (0, float("inf"))
