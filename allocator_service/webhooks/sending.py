"""One request: to an address that was judged, within ten seconds in all, and never on to elsewhere."""

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
    Target,
    Unreachable,
    addresses_of,
    target_read,
)

TIMEOUT_SECONDS = 10.0
CONNECT_SECONDS = 5.0
# Of an answer only the status counts; this much of it is read so that the receiver may end its sentence.
READ_BYTES = 16 * 1024
READ_SECONDS = 1.0
USER_AGENT = "allocator-webhooks/1"


@dataclass(frozen=True)
class Outcome:
    """What came of an attempt: the status of the answer, or why there is none.

    `error` is empty for an answer of 2xx, and else one of: `status`, `redirect`, `address` (the host
    has no public address), `connection`, `tls`, `timeout`, `answer` (not HTTP), `secret`.
    """

    status: int | None
    error: str
    seconds: float


class _Reading(io.RawIOBase):
    """A socket that is read until an instant, however slowly it drips."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        self._connection.settimeout(_left(self._deadline))
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
    """POST a body; raises nothing that the receiver can cause."""
    began = time.monotonic()
    status, error = None, ""
    try:
        status = _posted(url, headers, body, allowed, context, began + TIMEOUT_SECONDS)
    except (Unreachable, Unacceptable):
        error = "address"
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
    return Outcome(status, error, time.monotonic() - began)


def _posted(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    allowed: Networks,
    context: ssl.SSLContext,
    deadline: float,
) -> int:
    target = target_read(url, allowed=allowed)
    addresses = addresses_of(target, allowed=allowed)
    with _connected(target, addresses, deadline) as plain:
        plain.settimeout(_left(deadline))
        if target.scheme == "http":
            return _answered(plain, target, headers, body, deadline)
        with context.wrap_socket(plain, server_hostname=target.host) as secured:
            return _answered(secured, target, headers, body, deadline)


def _connected(target: Target, addresses: list[Address], deadline: float) -> socket.socket:
    """A connection to the first address that answers. Raises the last one's `OSError`."""
    failed: OSError = TimeoutError()
    for address in addresses:
        try:
            return socket.create_connection(
                (str(address), target.port), timeout=min(_left(deadline), CONNECT_SECONDS)
            )
        except OSError as error:
            failed = error
    raise failed


def _answered(
    connection: socket.socket,
    target: Target,
    headers: Mapping[str, str],
    body: bytes,
    deadline: float,
) -> int:
    """The status of the answer to the request."""
    own = {
        "Host": target.authority,
        "User-Agent": USER_AGENT,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **headers,
    }
    lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in own.items())]
    head = "\r\n".join([*lines, "", ""]).encode("ascii")
    connection.settimeout(_left(deadline))
    connection.sendall(head + body)
    response = HTTPResponse(_Reading(connection, deadline), method="POST")  # type: ignore[arg-type]
    response.begin()
    _read_some(connection, min(deadline, time.monotonic() + READ_SECONDS))
    return response.status


def _read_some(connection: socket.socket, until: float) -> None:
    """Read on for a moment: who writes to a closed connection sees an error."""
    size = 0
    try:
        while size < READ_BYTES:
            connection.settimeout(_left(until))
            piece = connection.recv(READ_BYTES)
            if not piece:
                return
            size += len(piece)
    except (OSError, TimeoutError):
        return


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
