"""gunicorn's worker process with waitress inside: requests are buffered before a thread works on one.

gunicorn holds the socket, starts the processes and replaces those that end or hang. In each, one
thread of waitress reads and writes all sockets and hands whole requests to the others, so that a client
that sends half a request, or reads its answer slowly, costs a buffer and no thread (docs/adr/0009).
"""

import os
import time
from typing import Any, NamedTuple

import orjson
from gunicorn.workers.base import Worker
from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.server import create_server
from waitress.task import ErrorTask

from allocator_service.core.headers import EVERYWHERE, NOTHING
from allocator_service.core.ids import new_id

# A bulk body is at most 32 MiB; the application says so itself, with the limit of the route.
LARGEST_BODY = 64 * 1024 * 1024
LARGEST_HEADER = 64 * 1024
# Below 1,024 descriptors, the usual limit of a process, with room for the database and files.
CONNECTIONS = 900
SILENT_CLIENT_SECONDS = 30
LOOP_SECONDS = 1.0
DRAIN_SECONDS = 0.1


class Refusal(NamedTuple):
    """What the web server itself answers."""

    status: int
    code: str
    title: str


_REFUSALS = {
    413: Refusal(413, code="request.too_large", title="The request is too large"),
    431: Refusal(431, code="request.header_too_large", title="The request's header is too large"),
    500: Refusal(500, code="internal", title="Something went wrong on our side"),
}
_UNREADABLE = Refusal(400, code="request.unreadable", title="The request cannot be read")


class ProblemTask(ErrorTask):  # type: ignore[misc] # untyped
    """What waitress refuses itself, as the application writes its refusals."""

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


class Channel(HTTPChannel):  # type: ignore[misc] # untyped
    """A client's connection."""

    error_task_class = ProblemTask


class BufferedWorker(Worker):  # type: ignore[misc] # untyped
    """One web process: as many threads as gunicorn's `--threads` says work on requests."""

    def run(self) -> None:
        """Serve until gunicorn says to stop, then finish the requests that are here."""
        sockets: dict[int, Any] = {}
        server = create_server(
            self.wsgi,
            map=sockets,
            sockets=[each.sock for each in self.sockets],
            threads=self.cfg.threads,
            connection_limit=CONNECTIONS,
            channel_timeout=SILENT_CLIENT_SECONDS,
            max_request_body_size=LARGEST_BODY,
            max_request_header_size=LARGEST_HEADER,
            asyncore_use_poll=True,
            clear_untrusted_proxy_headers=False,  # core.addresses knows whom to trust
            ident=None,
        )
        server.channel_class = Channel
        while self.alive and os.getppid() == self.ppid:
            self.notify()
            wasyncore.loop(LOOP_SECONDS, use_poll=True, map=sockets, count=1)
        self._finish(server, sockets)

    def _finish(self, server: Any, sockets: dict[int, Any]) -> None:
        """Take no more connections, and let those be answered that have a request here."""
        server.del_channel(sockets)  # the socket itself is gunicorn's
        deadline = time.monotonic() + self.cfg.graceful_timeout
        while time.monotonic() < deadline and any(map(_is_busy, server.active_channels.values())):
            self.notify()
            wasyncore.loop(DRAIN_SECONDS, use_poll=True, map=sockets, count=1)
        server.task_dispatcher.shutdown(timeout=DRAIN_SECONDS)


def _is_busy(channel: HTTPChannel) -> bool:
    """Whether a request is worked on or an answer is on its way."""
    return bool(channel.connected and (channel.requests or channel.total_outbufs_len))
