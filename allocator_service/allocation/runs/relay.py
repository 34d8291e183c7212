"""The relay from job rows in PostgreSQL to messages in Redis.

It claims what is due, commits, then publishes, and publishes again what got lost. Losing a message costs
time, never work, and two relays are harmless. While Redis is down the rows wait.

Its process also seals events and ledger entries, in a thread: no decision waits while the use of a large
pool is added up, and sealing goes on while Redis is down.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import structlog
from celery import Task
from django.db import connection

from allocator_service.allocation.services import heartbeat_record
from allocator_service.celery import app
from allocator_service.core.jobs import JOBS_CHANNEL, JobKind, jobs_due, next_due, open_jobs
from allocator_service.core.loops import DATABASE_ERRORS, RECONNECT_SECONDS
from allocator_service.core.worker.watch import BROKER_ERRORS, messages_waiting
from allocator_service.ledger.intake.sealer import Sealer

# Until the relay looks again for a job that is due and was not sent: its row is locked, or others fill
# the batch.
RETRY_SECONDS = 0.1
RECONCILE_SECONDS = 1.0
HEARTBEAT_SECONDS = 2.0
# With as many messages in the queue of decisions, nothing is sent again: copies would only lengthen it.
MAX_QUEUED = 1_000
# As many messages at most wait in a queue of its own: with more, one sweep would precede later jobs.
MAX_AHEAD = 16

Jobs = Sequence[tuple[JobKind[Any], Task]]

log = structlog.get_logger(__name__)


class Relay:
    """A loop that publishes due jobs until `stop` is called, with the sealer beside it.

    `clock` returns the wall-clock time. `sign` is called while both take turns, also those in which they
    wait for a database.
    """

    def __init__(self, *, clock: Callable[[], datetime], sign: Callable[[], None]) -> None:
        self._clock, self._sign = clock, sign
        self._sealer, self._turns_seen = Sealer(clock=clock), 0
        self._stopped = False
        self._reconcile_due = 0.0
        self._ahead_due = 0.0
        self._heartbeat_due = 0.0

    def stop(self) -> None:
        """End `run` within a second, and after the sealer's turn."""
        self._stopped = True

    def run(self) -> None:
        """Publish jobs at the instants at which they are due.

        A lost database is waited for.
        """
        self._sealer.start()
        while not self._stopped:
            try:
                self._listen()
            except DATABASE_ERRORS as error:
                log.warning("relay_waits_for_database", error=str(error))
                self._give_sign()
                # Django keeps a lost connection until a request ends, and a loop has no requests.
                connection.close()
                time.sleep(RECONNECT_SECONDS)
        self._sealer.stop()
        self._sealer.join()

    def _listen(self) -> None:
        connection.ensure_connection()
        listener: psycopg.Connection = connection.connection
        listener.execute(f"LISTEN {JOBS_CHANNEL}")
        while not self._stopped:
            self._give_sign()
            # Building the statements of all kinds would be most of what an idle relay does.
            jobs = open_jobs()
            self._tick(time.monotonic(), jobs)
            # The wait is also the pause of the loop: a notification of a new job ends it early.
            pause = self._seconds_until_due(jobs)
            for notification in listener.notifies(timeout=pause, stop_after=1):
                if notification.payload:
                    self._ahead_due = 0.0

    def _seconds_until_due(self, jobs: Jobs) -> float:
        """Return the seconds until the next job is due, at most those of a turn."""
        now = self._clock()
        waits = [RECONCILE_SECONDS]
        for instant in (next_due(kind) for kind, _ in jobs):
            if instant is not None:
                seconds = (instant - now).total_seconds()
                # A wait may end slightly before its time, and the job would wait for another turn.
                waits.append(seconds + 0.001 if seconds > 0 else RETRY_SECONDS)
        return min(waits)

    def _give_sign(self) -> None:
        """Give the sign of life unless the sealer has hung since the last one.

        Raises `RuntimeError` if it has ended, for the supervisor to start both again.
        """
        if not self._sealer.is_alive():
            raise RuntimeError("The sealer has ended; the cause is above.")
        if self._sealer.turns != self._turns_seen:
            self._turns_seen = self._sealer.turns
            self._sign()

    def _tick(self, monotonic: float, jobs: Jobs) -> None:
        now = self._clock()
        if monotonic >= self._heartbeat_due:
            heartbeat_record(process="relay", now=now)
            self._heartbeat_due = monotonic + HEARTBEAT_SECONDS
        self._publish_due(jobs, now, again=False)
        if jobs and monotonic >= self._reconcile_due:
            self._reconcile_due = monotonic + RECONCILE_SECONDS
            # Do not publish again into a long queue: its messages are late, not lost.
            if messages_waiting(app) < MAX_QUEUED:
                self._publish_due(jobs, now, again=True)
        if monotonic >= self._ahead_due:
            self._ahead_due = monotonic + RECONCILE_SECONDS
            self._publish_ahead(jobs, now)

    def _publish_due(self, jobs: Jobs, now: datetime, *, again: bool) -> None:
        for kind, task in jobs:
            if not kind.queue:
                self._publish(task, jobs_due(kind, now=now, again=again))

    def _publish_ahead(self, jobs: Jobs, now: datetime) -> None:
        """Publish jobs that have their own queue, few at a time so that all kinds take turns."""
        for kind, task in jobs:
            if not kind.queue:
                continue
            waiting = messages_waiting(app, kind.queue)
            if waiting < MAX_AHEAD:
                limit = MAX_AHEAD - int(waiting)
                self._publish(task, jobs_due(kind, now=now, again=not waiting, limit=limit))

    def _publish(self, task: Task, ids: Sequence[int | UUID]) -> None:
        for job in ids:
            try:
                # Without retries: the row stays due.
                task.apply_async(args=[job if isinstance(job, int) else str(job)], retry=False)
            except BROKER_ERRORS as error:
                log.warning("relay_cannot_publish", task=task.name, job=str(job), error=str(error))
