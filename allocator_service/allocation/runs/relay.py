"""The relay from job rows in PostgreSQL to messages in Redis.

It publishes messages that got lost again. It seals events and ledger entries too and keeps the ledger's
totals, so that this goes on while Redis is down. It claims what is due, commits, then publishes. Losing
a message costs time, never work, and two relays are harmless. While Redis is down the rows wait.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

import psycopg
import structlog
from celery import Task
from django.db import InterfaceError, OperationalError, connection

from allocator_service.allocation.services import heartbeat_record
from allocator_service.celery import app
from allocator_service.core.jobs import JOBS_CHANNEL, jobs_due, registered_jobs
from allocator_service.core.outbox import events_seal
from allocator_service.core.worker.watch import BROKER_ERRORS, messages_waiting
from allocator_service.ledger.amounts.totals import ADDED_AT_ONCE, totals_advance
from allocator_service.ledger.intake.entries import partitions_make_ahead
from allocator_service.ledger.intake.sealing import SEALED_AT_ONCE, entries_seal

POLL_SECONDS = 0.1
RECONCILE_SECONDS = 1.0
HEARTBEAT_SECONDS = 2.0
PARTITIONS_SECONDS = 3600.0
# With as many messages in the queue of decisions, nothing is sent again: copies would only lengthen it.
MAX_QUEUED = 1_000
# As many messages at most wait in a queue of its own: with more, one sweep would precede later jobs.
MAX_AHEAD = 16

_DATABASE_ERRORS = (
    OperationalError,
    InterfaceError,
    psycopg.OperationalError,
    psycopg.InterfaceError,
)

log = structlog.get_logger(__name__)


class Relay:
    """A loop that publishes due jobs until `stop` is called.

    `clock` returns the wall-clock time. `sign` is called at each turn, and while the relay waits for a
    database.
    """

    def __init__(self, *, clock: Callable[[], datetime], sign: Callable[[], None]) -> None:
        self._clock, self._sign = clock, sign
        self._stopped = False
        self._reconcile_due = 0.0
        self._ahead_due = 0.0
        self._heartbeat_due = 0.0
        self._partitions_due = 0.0
        self._totals_wait = False

    def stop(self) -> None:
        """End `run` within a tenth of a second."""
        self._stopped = True

    def run(self) -> None:
        """Publish due jobs every 100 ms and when a change notifies. A lost database is waited for."""
        while not self._stopped:
            try:
                self._listen()
            except _DATABASE_ERRORS as error:
                log.warning("relay_waits_for_database", error=str(error))
                self._sign()
                # Django keeps a lost connection until a request ends, and a loop has no requests.
                connection.close()
                time.sleep(RECONCILE_SECONDS)

    def _listen(self) -> None:
        connection.ensure_connection()
        listener: psycopg.Connection = connection.connection
        listener.execute(f"LISTEN {JOBS_CHANNEL}")
        while not self._stopped:
            self._sign()
            more = self._tick(time.monotonic())
            timeout = 0 if more else POLL_SECONDS
            # The wait is also the pause of the loop: a notification ends it early.
            for notification in listener.notifies(timeout=timeout, stop_after=1):
                if notification.payload:
                    self._ahead_due = 0.0

    def _tick(self, monotonic: float) -> bool:
        """Seal a batch, add it up and publish due jobs. Return whether more waits for the ledger."""
        now = self._clock()
        if monotonic >= self._heartbeat_due:
            heartbeat_record(process="relay", now=now)
            self._heartbeat_due = monotonic + HEARTBEAT_SECONDS
        if monotonic >= self._partitions_due:
            partitions_make_ahead(now=now)
            self._partitions_due = monotonic + PARTITIONS_SECONDS
        events_seal()
        sealed = entries_seal(now=now)
        if sealed or self._totals_wait:
            self._totals_advance()
        # After sealing, which must go on where the broker does not answer.
        self._publish_due(now, again=False)
        if monotonic >= self._reconcile_due:
            self._reconcile_due = monotonic + RECONCILE_SECONDS
            self._totals_advance()
            if messages_waiting(app) < MAX_QUEUED:
                self._publish_due(now, again=True)
        if monotonic >= self._ahead_due:
            self._ahead_due = monotonic + RECONCILE_SECONDS
            self._publish_ahead(now)
        return sealed == SEALED_AT_ONCE or self._totals_wait

    def _publish_due(self, now: datetime, *, again: bool) -> None:
        for kind, task in registered_jobs():
            if not kind.queue:
                self._publish(task, jobs_due(kind, now=now, again=again))

    def _publish_ahead(self, now: datetime) -> None:
        """Publish jobs that have their own queue, few at a time so that all kinds take turns."""
        for kind, task in registered_jobs():
            if not kind.queue:
                continue
            waiting = messages_waiting(app, kind.queue)
            if waiting < MAX_AHEAD:
                limit = MAX_AHEAD - int(waiting)
                self._publish(task, jobs_due(kind, now=now, again=not waiting, limit=limit))

    def _totals_advance(self) -> None:
        self._totals_wait = totals_advance() >= ADDED_AT_ONCE

    def _publish(self, task: Task, jobs: Sequence[int | UUID]) -> None:
        for job in jobs:
            try:
                # Without retries: the row stays due, and sealing must not wait for a broker.
                task.apply_async(args=[job if isinstance(job, int) else str(job)], retry=False)
            except BROKER_ERRORS as error:
                log.warning("relay_cannot_publish", task=task.name, job=str(job), error=str(error))
