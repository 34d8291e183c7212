"""One request to a receiver, to a checked address, within ten seconds and without redirects."""

import io
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse

from allocator_service.core.errors import Unacceptable
from allocator_service.webhooks.targets import (
    Address,
    Networks,
    NoUsableAddress,
    Target,
    resolve,
    target_parse,
)

TIMEOUT_SECONDS = 10.0
CONNECT_SECONDS = 5.0
# Only the status of an answer counts. A little of its body is read all the same: a receiver that
# writes to a closed connection reports an error on its side.
READ_BYTES = 16 * 1024
READ_SECONDS = 1.0
USER_AGENT = "allocator-webhooks/1"


@dataclass(frozen=True)
class Outcome:
    """The status of an attempt's answer, or the error in its place.

    `error` is empty for an answer of 2xx. Otherwise it is one of `status`, `redirect`, `address`
    (the host has no public address), `connection`, `tls`, `timeout`, `answer` (not HTTP) and
    `secret`.
    """

    status: int | None
    error: str
    seconds: float


class _DeadlineReader(io.RawIOBase):
    """A socket whose reads end at a deadline, also if single bytes arrive within each timeout."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        self._connection.settimeout(_remaining(self._deadline))
        return self._connection.recv_into(buffer)

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - http.client asks for "rb"
        return io.BufferedReader(self)


def request_send(
    *,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    allowed: Networks,
    context: ssl.SSLContext,
) -> Outcome:
    """POST a body and return the outcome. Nothing that a receiver does raises an error."""
    started = time.monotonic()
    status, error = None, ""
    try:
        status = _post(url, headers, body, allowed, context, started + TIMEOUT_SECONDS)
    except (NoUsableAddress, Unacceptable):
        error = "address"
    # In this order: timeouts and errors of TLS are errors of the operating system, too.
    except TimeoutError:
        error = "timeout"
    except ssl.SSLError:
        error = "tls"
    except OSError:
        error = "connection"
    except HTTPException:
        error = "answer"
    if status is not None and not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        error = "redirect" if status < HTTPStatus.BAD_REQUEST else "status"
    return Outcome(status, error, time.monotonic() - started)


def _post(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    allowed: Networks,
    context: ssl.SSLContext,
    deadline: float,
) -> int:
    # The URL is checked again: networks that were allowed when the webhook was created may no
    # longer be.
    target = target_parse(url, allowed=allowed)
    addresses = resolve(target, allowed=allowed)
    with _connect(target, addresses, deadline) as plain:
        plain.settimeout(_remaining(deadline))
        if target.scheme == "http":
            return _exchange(plain, target, headers, body, deadline)
        with context.wrap_socket(plain, server_hostname=target.host) as secured:
            return _exchange(secured, target, headers, body, deadline)


def _connect(target: Target, addresses: list[Address], deadline: float) -> socket.socket:
    """Connect to the first address that accepts. Raises the `OSError` of the last one."""
    failed: OSError = TimeoutError()
    for address in addresses:
        # The address is passed, not the name: connecting by name would resolve it again.
        try:
            return socket.create_connection(
                (str(address), target.port), timeout=min(_remaining(deadline), CONNECT_SECONDS)
            )
        except OSError as error:
            failed = error
    raise failed


def _exchange(
    connection: socket.socket,
    target: Target,
    headers: Mapping[str, str],
    body: bytes,
    deadline: float,
) -> int:
    """Send the request and return the status of the answer."""
    own = {
        "Host": target.authority,
        "User-Agent": USER_AGENT,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        # The next attempt resolves the name and checks its addresses again.
        "Connection": "close",
        **headers,
    }
    lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in own.items())]
    head = "\r\n".join([*lines, "", ""]).encode("ascii")
    connection.settimeout(_remaining(deadline))
    connection.sendall(head + body)
    response = HTTPResponse(_DeadlineReader(connection, deadline), method="POST")  # type: ignore[arg-type]
    response.begin()
    _drain(connection, min(deadline, time.monotonic() + READ_SECONDS))
    return response.status


def _drain(connection: socket.socket, until: float) -> None:
    """Read and discard the start of an answer's body."""
    size = 0
    try:
        while size < READ_BYTES:
            connection.settimeout(_remaining(until))
            chunk = connection.recv(READ_BYTES)
            if not chunk:
                return
            size += len(chunk)
    # The status is read, and nothing else of the answer counts.
    except (OSError, TimeoutError):
        return


def _remaining(deadline: float) -> float:
    """Return the seconds until a deadline. Raises `TimeoutError` if it has passed."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds
