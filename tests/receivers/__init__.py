"""Receivers of webhooks for tests: real servers on loopback that answer as they are told.

`server.pem` is a self-signed certificate of receiver.example and localhost with its key, valid for a
hundred years and trusted by nobody but these tests.
"""

import base64
import hashlib
import hmac
import json
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PEM = Path(__file__).parent / "server.pem"
CERTIFICATE = Path(__file__).parent / "certificate.pem"


@dataclass
class Received:
    line: str
    headers: dict[str, str]
    body: bytes
    at: float = field(default_factory=time.time)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def document(self) -> Any:
        return json.loads(self.body)


def verifies(received: Received, secret: str) -> bool:
    """Whether one of the signatures is of this secret: from standardwebhooks.com's text."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    stamp = received.headers["webhook-timestamp"]
    signed = f"{received.id}.{stamp}.{received.body.decode('utf-8')}".encode()
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = received.headers["webhook-signature"].split(" ")
    fresh = abs(time.time() - int(stamp)) < 300
    return fresh and any(hmac.compare_digest(each, f"v1,{expected}") for each in given)


class Receiver:
    """A server on loopback. `answers` are given one after the other, the last of them from then on.

    An answer is a status, bytes that are sent as they are, or a function of the connection.
    """

    def __init__(self, *answers: Any, tls: bool = False, host: str = "127.0.0.1") -> None:
        self.answers = list(answers) or [204]
        self.received: list[Received] = []
        self.connections = 0
        self._context: ssl.SSLContext | None = None
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(PEM)
            self.server_names: list[str | None] = []
            self._context.sni_callback = lambda _s, name, _c: self.server_names.append(name)
        self._listener = socket.create_server((host, 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> "Receiver":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # it would accept one more
        self._listener.close()

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://localhost:{self.port}/hook"

    @property
    def ids(self) -> list[str]:
        return [each.id for each in self.received]

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, plain: socket.socket) -> None:
        try:
            connection = (
                self._context.wrap_socket(plain, server_side=True) if self._context else plain
            )
            with connection:
                head, _, body = self._read_head(connection)
                line, *lines = head.decode("ascii").split("\r\n")
                headers = dict(each.split(": ", 1) for each in lines)
                while len(body) < int(headers["Content-Length"]):
                    body += connection.recv(65536)
                with self._lock:
                    self.received.append(Received(line, headers, body))
                    answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if callable(answer):
                    answer(connection)
                elif isinstance(answer, bytes):
                    connection.sendall(answer)
                else:
                    text = f"HTTP/1.1 {answer} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    connection.sendall(text.encode())
        except OSError:
            return

    @staticmethod
    def _read_head(connection: socket.socket) -> tuple[bytes, bytes, bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                raise OSError("closed")
            data += piece
        return data.partition(b"\r\n\r\n")


def drips(connection: socket.socket) -> None:
    """A head of a byte in a second, without end."""
    for byte in b"HTTP/1.1 200 OK\r\n" + b"X-Slow: " + b"a" * 300:
        connection.sendall(bytes([byte]))
        time.sleep(0.3)


def silent(connection: socket.socket) -> None:
    time.sleep(30)


def huge(connection: socket.socket) -> None:
    """200 and a body without end."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65536)


def huge_head(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-Header: " + b"x" * 60000 + b"\r\n")


def informs_without_end(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.05)


def slow_body(connection: socket.socket) -> None:
    """200 at once, then a body that drips."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(100):
        connection.sendall(b"x")
        time.sleep(0.3)
