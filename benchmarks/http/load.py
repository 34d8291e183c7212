"""A load generator for requests over persistent connections, written and read as bytes."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

HEAD_END = b"\r\n\r\n"


@dataclass
class Outcome:
    """Responses to a load, with the ``seconds`` of each and the count of each status."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    length: float = 0.0

    @property
    def rate(self) -> float:
        """Responses per second."""
        return len(self.seconds) / self.length

    def percentile(self, percent: float) -> float:
        """Return a percentile of the seconds."""
        return float(np.percentile(self.seconds, percent))


class Connection:
    """A persistent connection to ``host:port``, which is opened again if the server closed it."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None

    def send(self, request: bytes) -> tuple[int, bytes]:
        """Send a request, and return its status and body. Raises `OSError` without a response."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=30)
            # Nagle's algorithm would hold back the end of a request of more than one packet.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(request)
        received = b""
        while HEAD_END not in received:
            received += self._more()
        head, _, body = received.partition(HEAD_END)
        lines = head.split(b"\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in lines[1:])
        length = int(headers.get(b"content-length", b"0"))
        while len(body) < length:
            body += self._more()
        if headers.get(b"connection") == b"close":
            self.close()
        return int(lines[0].split()[1]), body

    def close(self) -> None:
        """Close the connection. The next request opens it again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _more(self) -> bytes:
        assert self._socket is not None
        part = self._socket.recv(1 << 16)
        if not part:
            self.close()
            raise ConnectionError("the server closed the connection in the middle of an answer")
        return part


def request_bytes(
    method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
) -> bytes:
    """Return the bytes of an HTTP/1.1 request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + HEAD_END + (body or b"")


def closed_loop(port: int, request: bytes, *, connections: int, seconds: float) -> Outcome:
    """Send a request over each connection again and again, without a pause after the response."""

    def work(connection: Connection, outcome: Outcome) -> None:
        end = time.perf_counter() + seconds
        while (begin := time.perf_counter()) < end:
            status, _ = connection.send(request)
            outcome.seconds.append(time.perf_counter() - begin)
            outcome.statuses[status] += 1

    return _together(port, connections, work)


def open_loop(
    port: int, make: Callable[[int], bytes], *, rate: float, connections: int, seconds: float
) -> Outcome:
    """Send requests at fixed instants, also if earlier ones have no response yet.

    If every connection is busy, a request waits. Its time counts from its instant.
    """
    turn = iter(range(int(rate * seconds)))
    lock = threading.Lock()
    # By then all threads have begun.
    start = time.perf_counter() + 0.1

    def work(connection: Connection, outcome: Outcome) -> None:
        while True:
            with lock:
                number = next(turn, None)
            if number is None:
                return
            due = start + number / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            status, _ = connection.send(make(number))
            # From its instant, or a server that hangs would slow down its own load (coordinated
            # omission).
            outcome.seconds.append(time.perf_counter() - due)
            outcome.statuses[status] += 1

    return _together(port, connections, work)


def _together(port: int, connections: int, work: Callable[[Connection, Outcome], None]) -> Outcome:
    outcomes = [Outcome() for _ in range(connections)]
    failures: list[Exception] = []

    def run(outcome: Outcome) -> None:
        connection = Connection("127.0.0.1", port)
        try:
            work(connection, outcome)
        except (OSError, ValueError) as failure:
            failures.append(failure)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[outcome]) for outcome in outcomes]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return _merge(outcomes, time.perf_counter() - begin)


def _merge(outcomes: Sequence[Outcome], length: float) -> Outcome:
    merged = Outcome(length=length)
    for outcome in outcomes:
        merged.seconds += outcome.seconds
        merged.statuses += outcome.statuses
    return merged
