"""The thread that numbers events and ledger entries, and adds the entries up."""

import threading
import time
from collections.abc import Callable
from datetime import datetime

import structlog
from django.db import connection

from allocator_service.core.loops import DATABASE_ERRORS, RECONNECT_SECONDS
from allocator_service.core.notifications import PENDING_CHANNEL, Listener
from allocator_service.core.outbox import events_seal
from allocator_service.ledger.amounts.totals import ADDED_AT_ONCE, totals_advance
from allocator_service.ledger.intake.entries import partitions_make_ahead
from allocator_service.ledger.intake.sealing import SEALED_AT_ONCE, entries_seal

# After a turn that sealed something, so that a stream of rows becomes at most ten blocks a second.
PAUSE_SECONDS = 0.1
# Until a turn without a notification: entries wait that were reported, or another sealer held the lock.
IDLE_SECONDS = 1.0
# Totals that another process holds are tried again.
TOTALS_SECONDS = 1.0
PARTITIONS_SECONDS = 3600.0

log = structlog.get_logger(__name__)


class Sealer(threading.Thread):
    """A loop over what is committed, until `stop` is called.

    A notification of PostgreSQL starts a turn, and so does a second without one. Events notify, those of
    decisions among them; entries of usage reports wait for the second. `clock` returns the
    wall-clock time. `turns` counts the turns that have begun, also those in which the loop waits for a
    database. Two sealers are harmless.
    """

    def __init__(self, *, clock: Callable[[], datetime]) -> None:
        super().__init__(name="sealer", daemon=True)
        self._clock = clock
        self._stopping = threading.Event()
        self._listener = Listener(PENDING_CHANNEL)
        self._partitions_due = self._totals_due = 0.0
        self._totals_wait = False
        self.turns = 0

    def stop(self) -> None:
        """End the loop after its turn, and within a second while it waits."""
        self._stopping.set()

    def run(self) -> None:
        """Take turns until stopped, and reconnect to a lost database."""
        while not self._stopping.is_set():
            self.turns += 1
            try:
                self._listener.prepare()
                pause = self._turn(time.monotonic())
                if pause is None:
                    self._listener.wait(IDLE_SECONDS)
                else:
                    self._stopping.wait(pause)
            except DATABASE_ERRORS as error:
                log.warning("sealer_waits_for_database", error=str(error))
                # Django opens another connection at the next statement.
                connection.close()
                self._stopping.wait(RECONNECT_SECONDS)
        connection.close()

    def _turn(self, monotonic: float) -> float | None:
        """Seal a batch and add it up. Return the pause before the next turn, None without new rows."""
        now = self._clock()
        if monotonic >= self._partitions_due:
            partitions_make_ahead(now=now)
            self._partitions_due = monotonic + PARTITIONS_SECONDS
        events = events_seal()
        sealed = entries_seal(now=now)
        if sealed or self._totals_wait or monotonic >= self._totals_due:
            # A full batch means that more entries wait.
            self._totals_wait = totals_advance() >= ADDED_AT_ONCE
            self._totals_due = monotonic + TOTALS_SECONDS
        if sealed == SEALED_AT_ONCE or self._totals_wait:
            return 0.0
        return PAUSE_SECONDS if events or sealed else None
