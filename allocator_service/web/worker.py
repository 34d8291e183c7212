"""gunicorn worker process that runs waitress and buffers complete requests.

gunicorn holds the socket, starts the processes and replaces those that end or hang. In each process one
thread of waitress reads and writes all sockets and passes complete requests to the other threads. A
client that sends half a request, or reads its answer slowly, occupies a buffer but no thread. It is
disconnected if it is slower than `limits` allows (docs/adr/0009).
"""

import os
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson
from gunicorn.workers.base import Worker
from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.server import create_server
from waitress.task import ErrorTask, WSGITask

from allocator_service.core.garbage import collect_rarely
from allocator_service.core.headers import EVERYWHERE, NOTHING
from allocator_service.core.ids import new_id
from allocator_service.web import limits
from allocator_service.web.requests import StrictParser, is_unfinished

LOOP_SECONDS = 1.0
SWEEP_SECONDS = 1.0
DRAIN_SECONDS = 0.1
_YEAR_SECONDS = 365 * 86_400
_NEVER = float("inf")


class Refusal(NamedTuple):
    """An error that the web server itself answers."""

    status: int
    code: str
    title: str


_REFUSALS = {
    413: Refusal(413, code="request.too_large", title="The request is too large"),
    431: Refusal(431, code="request.header_too_large", title="The request's header is too large"),
    500: Refusal(500, code="internal", title="Something went wrong on our side"),
}
_UNREADABLE = Refusal(400, code="request.unreadable", title="The request cannot be read")


class ProblemTask(ErrorTask):
    """Answer to a request that waitress rejects, in the application's error format."""

    def execute(self) -> None:
        """Write the answer and close the connection."""
        error, request_id = self.request.error, str(new_id())
        status, code, title = _REFUSALS.get(error.code, _UNREADABLE)
        document = {
            "type": f"urn:problem-type:allocation:{code}",
            "title": title,
            "status": status,
            "detail": title + "." if status == 500 else f"{error.reason}: {error.body}",
            "instance": None,
            "code": code,
            "errors": [],
            "request_id": request_id,
        }
        content = orjson.dumps(document)
        self.status = f"{status} {title}"
        headers = {**EVERYWHERE, "Content-Security-Policy": NOTHING, "X-Request-Id": request_id}
        headers |= {"Content-Type": "application/problem+json", "Cache-Control": "no-store"}
        self.response_headers.extend(headers.items())
        self.set_close_on_finish()
        self.content_length = len(content)
        self.write(content)


class ApplicationTask(WSGITask):
    """Answer of the application."""

    def write(self, data: bytes) -> None:
        """Send a part of the answer.

        An answer to HEAD has no body (RFC 9112, 6.3).
        """
        super().write(b"" if self.request.command == "HEAD" else data)

    def finish(self) -> None:
        """Send the header, if still unsent, and the last chunk of a chunked body."""
        if not self.wrote_header:
            self.write(b"")
        if self.request.command == "HEAD":
            self.chunked_response = False  # the last chunk is part of the body
        super().finish()


class Channel(HTTPChannel):
    """Client connection that measures the pace of its current request and answer."""

    task_class = ApplicationTask
    error_task_class = ProblemTask
    parser_class = StrictParser

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.quiet_since = time.monotonic()
        self.request_since = _NEVER
        self.request_bytes = 0
        self.answer_since = _NEVER
        self.answer_bytes = 0
        self.has_been_served = False

    def received(self, data: bytes) -> bool:
        """Parse a packet and record when its request began."""
        now = self.quiet_since = time.monotonic()
        if not is_unfinished(self.request):
            self.request_since, self.request_bytes = now, 0
        self.request_bytes += len(data)
        taken: bool = super().received(data)
        if not is_unfinished(self.request):
            self.request_since, self.request_bytes = _NEVER, 0
            self.has_been_served = True
        return taken

    def send(self, data: bytes, do_close: bool = True) -> int:
        """Send bytes to the client's socket and return the number sent."""
        sent: int = super().send(data, do_close=do_close)
        if sent:
            self.quiet_since = time.monotonic()
            self.answer_bytes += sent
        return sent

    def is_overdue(self, now: float) -> bool:
        """Return whether the client has been silent for too long or is slower than the allowed pace."""
        if not self.total_outbufs_len:
            self.answer_since, self.answer_bytes = _NEVER, 0
            # After a complete request the delay is the application's, not the client's.
            return not self.requests and (
                now - self.quiet_since > limits.SILENT_CLIENT_SECONDS
                or now - self.request_since > _allowed_seconds(self.request_bytes)
            )
        if self.answer_since == _NEVER:
            self.answer_since, self.answer_bytes = now, 0
        last_progress = max(self.quiet_since, self.answer_since)
        return (
            now - last_progress > limits.SILENT_CLIENT_SECONDS
            or now - self.answer_since > _allowed_seconds(self.answer_bytes)
        )


def _allowed_seconds(size: int) -> float:
    return limits.GRACE_SECONDS + size / limits.SLOWEST_BYTES_PER_SECOND


class Connections:
    """Open connections of a process and the order in which they are evicted."""

    def __init__(self, server: Any) -> None:
        self._channels: dict[int, Channel] = server.active_channels
        self._next_sweep = 0.0

    def sweep(self, now: float) -> None:
        """Close overdue connections and those above the limits of connections and bytes."""
        if len(self._channels) >= limits.CONNECTIONS:
            self._close(self._evictable()[: limits.EVICTED_AT_ONCE])
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP_SECONDS
        self._close([channel for channel in self._channels.values() if channel.is_overdue(now)])
        unfinished = sorted(self._channels.values(), key=lambda channel: -channel.request_bytes)
        excess = sum(channel.request_bytes for channel in unfinished) - limits.UNFINISHED_BYTES
        for channel in unfinished:
            if excess <= 0:
                break
            excess -= channel.request_bytes
            self._close([channel])

    def _evictable(self) -> list[Channel]:
        """Return the connections without a complete request in the order of eviction.

        Half-sent requests come before idle connections, and older ones before newer ones.
        """
        waiting = [channel for channel in self._channels.values() if not channel.requests]
        waiting = [channel for channel in waiting if not channel.total_outbufs_len]
        return sorted(
            waiting,
            key=lambda channel: (
                channel.request_since == _NEVER and channel.has_been_served,
                min(channel.request_since, channel.quiet_since),
            ),
        )

    def _close(self, channels: Iterable[Channel]) -> None:
        for channel in channels:
            # Not `will_close`, which waits for the socket to accept bytes: this client may never read.
            channel.handle_close()


class BufferedWorker(Worker):
    """Web process with the number of request threads given by gunicorn's `--threads`."""

    def run(self) -> None:
        """Serve until gunicorn stops the process, then answer the requests already received."""
        collect_rarely()
        sockets: dict[int, Any] = {}
        server = create_server(
            self.wsgi,
            map=sockets,
            sockets=[each.sock for each in self.sockets],
            threads=self.cfg.threads,
            # `Connections` evicts before this limit is reached, so that no new client has to wait.
            connection_limit=limits.CONNECTIONS + limits.EVICTED_AT_ONCE,
            cleanup_interval=_YEAR_SECONDS,
            max_request_body_size=limits.LARGEST_BODY,
            max_request_header_size=limits.LARGEST_HEADER,
            asyncore_use_poll=True,
            clear_untrusted_proxy_headers=False,  # core.addresses knows which proxies are trusted
            ident=None,
        )
        server.channel_class = Channel
        connections = Connections(server)
        while self.alive and os.getppid() == self.ppid:
            self.notify()
            wasyncore.loop(LOOP_SECONDS, use_poll=True, map=sockets, count=1)
            connections.sweep(time.monotonic())
        self._finish(server, sockets)

    def _finish(self, server: Any, sockets: dict[int, Any]) -> None:
        """Stop accepting connections and answer the requests already received."""
        server.del_channel(sockets)  # the socket itself is gunicorn's
        deadline = time.monotonic() + self.cfg.graceful_timeout
        while time.monotonic() < deadline and any(map(_is_busy, server.active_channels.values())):
            self.notify()
            wasyncore.loop(DRAIN_SECONDS, use_poll=True, map=sockets, count=1)
        server.task_dispatcher.shutdown(timeout=DRAIN_SECONDS)


def _is_busy(channel: Channel) -> bool:
    """Return whether a request is in progress or an answer is not yet fully sent."""
    return bool(channel.connected and (channel.requests or channel.total_outbufs_len))
