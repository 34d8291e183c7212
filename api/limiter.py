"""Rate limits and concurrency limits per key, stored in Redis.

The service works without Redis: while Redis does not answer, nothing is limited. After a failed attempt
the process does not query Redis again for a few seconds.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from allocator_service.core.ids import new_id

# Every request waits for the limiter, and a Redis that hangs must not make the service slow.
TIMEOUT_SECONDS = 0.05
PAUSE_SECONDS = 5.0
EVALUATION_LEASE_SECONDS = 60
CALM = 0.5
CALM_SECONDS = 0.2
UNREPORTED_PART = 20
ADDRESS_RATE, ADDRESS_BURST = 2.0, 20

# Generic cell rate algorithm: `tat` is when the bucket will be empty again. Returns the seconds to wait
# (0: the request may pass) and the fill level of the bucket, 0 to 1. Earlier requests that are reported
# with this one have already passed. Redis' clock is used because all processes share it.
_RATE = """
local interval = tonumber(ARGV[1])
local allowance = interval * tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local passed = math.max(now, tonumber(redis.call('GET', KEYS[1]) or now)) + interval * tonumber(ARGV[3])
local tat = passed + interval
local wait = math.max(0, tat - now - allowance)
if wait > 0 then tat = passed end
if tat > now then
  redis.call('SET', KEYS[1], string.format('%.6f', tat), 'PX', math.ceil((tat - now) * 1000) + 1000)
end
return {tostring(wait), tostring((tat - now) / allowance)}
"""

# A sorted set of tickets by the end of their leases. One script, so that two requests cannot both
# take the last place.
_ENTER = """
local time = redis.call('TIME')
local now = tonumber(time[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""


def redis_client(url: str, timeout_seconds: float) -> redis.Redis:
    """Return a Redis client with a timeout and without retries."""
    return redis.Redis.from_url(
        url,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=timeout_seconds,
        # The library retries by itself, which would multiply the timeout.
        retry=Retry(NoBackoff(), 0),
    )


@dataclass
class _Count:
    """Requests of a key that have passed but are not yet reported.

    After `calm_until` every request is reported at once.
    """

    unreported: int = 0
    calm_until: float = 0.0


class Limiter:
    """Limiter that lets every request pass while Redis does not answer.

    While a key's bucket is less than half full, requests are reported to Redis in batches. Above that,
    each request is reported before it passes. The limit is exact with one process. Each further process
    may let through a twentieth of the burst that the others have not seen yet.
    """

    def __init__(self, url: str) -> None:
        self._client = redis_client(url, TIMEOUT_SECONDS)
        self._paused_until = 0.0
        self._lock = threading.Lock()
        self._counts: dict[UUID, _Count] = {}

    def address_wait_seconds(self, *, address: str, rate: float, burst: int) -> float:
        """Return the seconds that an address must wait before its next request to an open route."""
        answer = self._run(_RATE, f"throttle:address:{address}", [1 / rate, burst, 0])
        return 0.0 if answer is None else float(answer[0])

    def wait_seconds(self, *, key: UUID, rate: float, burst: int) -> float:
        """Return the seconds that a key must wait before its next request, 0 if it may pass."""
        unreported = self._unreported(key, burst)
        if unreported is None:
            return 0.0
        # Earlier requests that this process let through are reported with this one.
        answer = self._run(_RATE, f"throttle:{key}", [1 / rate, burst, unreported])
        if answer is None:
            return 0.0
        wait, full = map(float, answer)
        if full < CALM:
            with self._lock:  # requests that other threads counted meanwhile are kept
                count = self._counts.setdefault(key, _Count())
                count.calm_until = time.monotonic() + CALM_SECONDS
        return wait

    def _unreported(self, key: UUID, burst: int) -> int | None:
        """Return the number of earlier requests to report, None if this one need not be reported yet."""
        with self._lock:
            count = self._counts.get(key)
            if count is None:
                return 0
            # Both bounds: a burst is reported by its number, a quiet key after its time.
            if count.unreported < burst // UNREPORTED_PART and time.monotonic() < count.calm_until:
                count.unreported += 1
                return None
            del self._counts[key]
            return count.unreported

    @contextmanager
    def evaluation(self, *, holder: str) -> Iterator[bool]:
        """Hold one of the holder's evaluation slots and yield whether one was free."""
        # The ticket of a killed process expires with its lease.
        name, ticket = f"evaluations:{holder}", str(new_id())
        at_once = settings.ENVIRONMENT.evaluations_at_once
        arguments = [at_once, EVALUATION_LEASE_SECONDS, ticket]
        admitted = self._run(_ENTER, name, arguments) != 0
        try:
            yield admitted
        finally:
            if admitted:
                self._run("return redis.call('ZREM', KEYS[1], ARGV[1])", name, [ticket])

    def _run(self, script: str, name: str, arguments: Sequence[Any]) -> Any:
        if time.monotonic() < self._paused_until:
            return None
        try:
            return self._client.eval(script, 1, name, *arguments)
        except redis.RedisError:
            with self._lock:
                # Or each request would wait for the timeout as long as Redis is down.
                self._paused_until = time.monotonic() + PAUSE_SECONDS
            return None


@cache
def limiter() -> Limiter:
    """Return the limiter of this process."""
    return Limiter(settings.REDIS_CLIENT_URL)
