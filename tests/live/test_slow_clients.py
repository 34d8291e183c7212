"""Clients that send half a request, or nothing, cost nobody anything."""

import socket
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from launcher.client import Client

HALF_SENT = 200
HALVES = {
    "nothing": b"",
    "half a header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-",
    "half a body": b"POST /api/v1/evaluations/ HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
    "half a chunk": b"POST /api/v1/evaluations/ HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
}


def connection(service) -> socket.socket:
    url = urlsplit(service.url)
    return socket.create_connection((str(url.hostname), int(url.port or 0)), timeout=10)


@pytest.mark.parametrize("half", HALVES)
def test_half_sent_requests_hold_up_nobody(half, service):
    with ExitStack() as stack:
        for _ in range(HALF_SENT):
            stack.enter_context(connection(service)).sendall(HALVES[half])
        time.sleep(0.5)
        slowest = 0.0
        for _ in range(5):
            began = time.perf_counter()
            assert Client(service.url).request("GET", "/healthz").status == 200
            slowest = max(slowest, time.perf_counter() - began)
        assert slowest < 1


def answer_to(service, sent: bytes) -> tuple[str, str]:
    """Head and body of the answer to raw bytes."""
    with connection(service) as client:
        client.sendall(sent)
        received = b""
        while part := client.recv(65_536):
            received += part
    head, _, body = received.decode().partition("\r\n\r\n")
    return head, body


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"GET\r\n\r\n", "400", "request.unreadable"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nBad Header: x\r\n\r\n", "400", "request.unreadable"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "400",
         "request.unreadable"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: ".ljust(65_536, b"a"), "431",
         "request.header_too_large"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n", "413",
         "request.too_large"),
    ],
)  # fmt: skip
def test_what_the_web_server_refuses_is_a_problem_with_the_headers_of_every_answer(
    sent, status, code, service
):
    head, body = answer_to(service, sent)
    assert head.split()[1] == status
    assert f'"code":"{code}"' in body
    for header in (
        "Content-Type: application/problem+json",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        "Content-Security-Policy: default-src 'none'",
        "X-Request-Id: ",
    ):
        assert header in head
    assert "Server:" not in head
