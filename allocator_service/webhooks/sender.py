"""The process that sends webhooks: a loop that claims and settles, and threads that wait for receivers.

Threads touch no database. Receivers that answered late have threads of their own, so that they keep
nobody waiting; decisions are other processes' work.
"""

import ssl
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime

import psycopg
import structlog
from django.db import InterfaceError, OperationalError, connection

from allocator_service.allocation.services import heartbeat_record
from allocator_service.webhooks.deliveries import (
    RETENTION,
    Claim,
    deliveries_claim,
    deliveries_make,
    deliveries_prune,
    delivery_settle,
    queues_wake,
)
from allocator_service.webhooks.sending import Outcome, request_send
from allocator_service.webhooks.targets import Networks

POLL_SECONDS = 0.2
HEARTBEAT_SECONDS = 2.0
HOUSEKEEPING_SECONDS = 60.0
FAST_THREADS, SLOW_THREADS = 24, 24
_DATABASE_ERRORS = (
    OperationalError,
    InterfaceError,
    psycopg.OperationalError,
    psycopg.InterfaceError,
)

log = structlog.get_logger(__name__)


class Sender:
    """Sends what is due until `stop` is called, then ends with the requests that are under way.

    `clock` tells the wall-clock time, `random` gives numbers from 0 to 1; `sign` is called at each
    turn, and while a database is waited for.
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
        self._under_way: dict[Future[Outcome], tuple[Claim, bool]] = {}
        self._heartbeat_due = self._housekeeping_due = 0.0
        self._stopped = False

    def stop(self) -> None:
        """End `run` when what is under way has ended, which takes ten seconds at the most."""
        self._stopped = True

    def run(self) -> None:
        """Make, claim, send and settle; wait for a lost database."""
        while not self._stopped or self._under_way:
            self._sign()
            try:
                self.turn(time.monotonic())
            except _DATABASE_ERRORS as error:
                log.warning("sender_waits_for_database", error=str(error))
                connection.close()
                time.sleep(1.0)
        for lane in self._lanes.values():
            lane.shutdown()

    def turn(self, monotonic: float) -> None:
        """Settle what has ended, send what is due, and wait for a moment."""
        for future in [each for each in self._under_way if each.done()]:
            claim, _ = self._under_way[future]
            delivery_settle(
                claim=claim, outcome=future.result(), jitter=self._random(), now=self._clock()
            )
            del self._under_way[future]  # only now: what the database did not take is settled again
        if not self._stopped:
            self._keep_house(monotonic)
            while deliveries_make(now=self._clock()):
                pass
            for slow in (False, True):
                self._send_due(slow)
        if self._under_way:
            wait(self._under_way, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
        else:
            time.sleep(POLL_SECONDS)

    def _keep_house(self, monotonic: float) -> None:
        now = self._clock()
        if monotonic >= self._heartbeat_due:
            heartbeat_record(process="sender", now=now)
            self._heartbeat_due = monotonic + HEARTBEAT_SECONDS
        if monotonic >= self._housekeeping_due:
            queues_wake(now=now)
            deliveries_prune(before=now - RETENTION)
            self._housekeeping_due = monotonic + HOUSEKEEPING_SECONDS

    def _send_due(self, slow: bool) -> None:
        taken = sum(lane == slow for _, lane in self._under_way.values())
        free = (SLOW_THREADS if slow else FAST_THREADS) - taken
        if free <= 0:
            return
        claims = deliveries_claim(
            slow=slow, limit=free, secret_key=self._secret_key, now=self._clock()
        )
        for claim in claims:
            self._under_way[self._lanes[slow].submit(self._sent, claim)] = (claim, slow)

    def _sent(self, claim: Claim) -> Outcome:
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
