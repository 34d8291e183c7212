"""The process that sends webhooks.

One loop claims deliveries and records outcomes, and threads wait for receivers. The threads use no
database connection. Receivers whose last answer took long have threads of their own, so that they
do not delay the others.
"""

import ssl
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime

import structlog
from django.db import connection

from allocator_service.allocation.services import heartbeat_record
from allocator_service.core.loops import DATABASE_ERRORS, RECONNECT_SECONDS
from allocator_service.core.notifications import DELIVERIES_CHANNEL, EVENTS_CHANNEL, Listener
from allocator_service.webhooks.deliveries import (
    RETENTION,
    Claim,
    attempt_record,
    deliveries_claim,
    deliveries_create,
    deliveries_prune,
    next_due,
    queues_wake,
)
from allocator_service.webhooks.sending import Outcome, request_send
from allocator_service.webhooks.targets import Networks

# Of a turn while requests are in flight, or while another sender holds a delivery that is due.
POLL_SECONDS = 0.2
# Of a turn without a notification and without a delivery that becomes due.
IDLE_SECONDS = 1.0
HEARTBEAT_SECONDS = 2.0
HOUSEKEEPING_SECONDS = 60.0
FAST_THREADS, SLOW_THREADS = 24, 24

log = structlog.get_logger(__name__)


class Sender:
    """A loop that sends due deliveries until `stop` is called.

    `clock` returns the wall-clock time and `random` numbers from 0 to 1. `sign` is the sign of
    life: it is called in each turn, also while the database is unavailable.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], datetime],
        random: Callable[[], float],
        secret_key: str,
        allowed: Networks,
        sign: Callable[[], None],
    ) -> None:
        self._clock, self._random, self._sign = clock, random, sign
        self._secret_key, self._allowed = secret_key, allowed
        self._context = ssl.create_default_context()
        self._lanes = {
            slow: ThreadPoolExecutor(threads, thread_name_prefix="slow" if slow else "fast")
            for slow, threads in ((False, FAST_THREADS), (True, SLOW_THREADS))
        }
        self._in_flight: dict[Future[Outcome], tuple[Claim, bool]] = {}
        self._listener = Listener(EVENTS_CHANNEL, DELIVERIES_CHANNEL)
        self._heartbeat_due = self._housekeeping_due = 0.0
        self._stopped = False

    def stop(self) -> None:
        """Stop claiming. `run` returns after the requests in flight, in at most ten seconds."""
        self._stopped = True

    def run(self) -> None:
        """Create, claim and send deliveries until stopped, and reconnect to a lost database."""
        while not self._stopped or self._in_flight:
            self._sign()
            try:
                self.turn(time.monotonic())
            except DATABASE_ERRORS as error:
                log.warning("sender_waits_for_database", error=str(error))
                connection.close()
                time.sleep(RECONNECT_SECONDS)
        for lane in self._lanes.values():
            lane.shutdown()

    def turn(self, monotonic: float) -> None:
        """Record finished requests, send due deliveries, and wait until there is more to do."""
        self._listener.prepare()
        for future in [each for each in self._in_flight if each.done()]:
            claim, _ = self._in_flight[future]
            attempt_record(
                claim=claim, outcome=future.result(), jitter=self._random(), now=self._clock()
            )
            # Only after the commit: if the database was lost, the next turn records the outcome.
            del self._in_flight[future]
        if not self._stopped:
            self._run_housekeeping(monotonic)
            while deliveries_create(now=self._clock()):
                pass
            for slow in (False, True):
                self._send_due(slow)
        if self._in_flight:
            wait(self._in_flight, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
        elif not self._stopped:
            self._listener.wait(self._seconds_until_due())

    def _seconds_until_due(self) -> float:
        """Return the seconds until the next delivery is due, at most those of an idle turn."""
        due = next_due()
        if due is None:
            return IDLE_SECONDS
        # A wait may end slightly before its time, and the delivery would wait for another turn.
        seconds = (due - self._clock()).total_seconds() + 0.001
        return min(seconds if seconds > 0 else POLL_SECONDS, IDLE_SECONDS)

    def _run_housekeeping(self, monotonic: float) -> None:
        now = self._clock()
        if monotonic >= self._heartbeat_due:
            heartbeat_record(process="sender", now=now)
            self._heartbeat_due = monotonic + HEARTBEAT_SECONDS
        if monotonic >= self._housekeeping_due:
            queues_wake(now=now)
            deliveries_prune(before=now - RETENTION)
            self._housekeeping_due = monotonic + HOUSEKEEPING_SECONDS

    def _send_due(self, slow: bool) -> None:
        busy = sum(lane == slow for _, lane in self._in_flight.values())
        free = (SLOW_THREADS if slow else FAST_THREADS) - busy
        if free <= 0:
            return
        claims = deliveries_claim(
            slow=slow, limit=free, secret_key=self._secret_key, now=self._clock()
        )
        for claim in claims:
            self._in_flight[self._lanes[slow].submit(self._send, claim)] = (claim, slow)

    def _send(self, claim: Claim) -> Outcome:
        if not claim.headers:
            return Outcome(None, "secret", 0.0)
        outcome = request_send(
            url=claim.url,
            headers=claim.headers,
            body=claim.body,
            allowed=self._allowed,
            context=self._context,
        )
        log.info(
            "webhook_sent",
            webhook=str(claim.webhook),
            delivery=str(claim.delivery),
            status=outcome.status,
            error=outcome.error,
        )
        return outcome
