"""HTTP/1.1 as RFC 9112 has it, byte by byte: whatever could let two peers disagree about where a request
or an answer ends is rejected and the connection closed."""

import os
import re
import resource
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from allocator_service.web.limits import GRACE_SECONDS, SILENT_CLIENT_SECONDS
from launcher.client import Client

HOST = b"Host: localhost\r\n"
SECOND = b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-Request-Id: second\r\n\r\n"
CHUNKS = b"0\r\n\r\n"


def connection(service) -> socket.socket:
    url = urlsplit(service.url)
    return socket.create_connection((str(url.hostname), int(url.port or 0)), timeout=10)


def received(client: socket.socket, seconds: float = 5) -> tuple[bytes, bool]:
    """Everything that the server sends, and whether it then closed the connection."""
    client.settimeout(seconds)
    answer = b""
    try:
        while part := client.recv(65_536):
            answer += part
    except TimeoutError:
        return answer, False
    except ConnectionResetError:
        pass
    return answer, True


def exchanged(service, sent: bytes, seconds: float = 5) -> tuple[bytes, bool]:
    with connection(service) as client:
        client.sendall(sent)
        return received(client, seconds)


@pytest.mark.parametrize(
    "request_head",
    [
        pytest.param(
            b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            id="Content-Length beside Transfer-Encoding",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, chunked\r\n",
            id="chunked twice in one field",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n" * 2,
            id="chunked twice in two fields",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding:\r\n",
            id="an empty Transfer-Encoding",
        ),
        pytest.param(
            b"POST / HTTP/1.0\r\n"
            + HOST
            + b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n",
            id="chunked in HTTP/1.0",
        ),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"X-Folded: a\r\n b\r\n", id="a folded field"),
        pytest.param(b"GET / HTTP/2.0\r\n" + HOST, id="HTTP/2.0"),
        pytest.param(b"GET / HTTP/1.7\r\n" + HOST, id="HTTP/1.7"),
        pytest.param(b"GET /\r\n" + HOST, id="no version"),
        pytest.param(b"GET / HTTP/1.1\r\n", id="no Host"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST * 2, id="two Hosts"),
        pytest.param(
            b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nContent-Length: 3\r\n",
            id="two lengths",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +5\r\n", id="a signed length"
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: " + b"9" * 5000 + b"\r\n",
            id="a length of 5,000 digits",
        ),
        pytest.param(b"GET / HTTP/1.1\r\nHost : localhost\r\n", id="a space before the colon"),
    ],
)
def test_ambiguous_framing_is_rejected_and_the_connection_closed(request_head, service):
    answer, closed = exchanged(service, request_head + b"\r\n" + CHUNKS + SECOND)
    status = answer.split(b"\r\n", 1)[0]
    assert status.split()[1] in {b"400", b"413"}, status
    assert b'"code":"request.' in answer
    assert len(re.findall(rb"HTTP/1\.[01] \d", answer)) == 1
    assert closed


@pytest.fixture(scope="module")
def authorization(service) -> bytes:
    key = service.manage("apikey", "create", "--scope", "operator", "--name", "wire")
    return f"Authorization: Bearer {key}\r\n".encode()


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/pools/", "/api/v1/schema/"])
def test_the_answer_to_head_ends_with_its_header(path, service, authorization):
    head = f"HEAD {path} HTTP/1.1\r\n".encode() + HOST + authorization + b"\r\n"
    answer, _ = exchanged(service, head + SECOND)
    first, _, rest = answer.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 ")
    assert b"Content-Length: 0" not in first
    assert rest.startswith(b"HTTP/1.1 200"), answer
    assert b"X-Request-Id: second" in rest


def test_an_answer_to_head_of_unknown_length_ends_the_connection(service):
    answer, closed = exchanged(service, b"HEAD /none HTTP/1.1\r\n" + HOST + b"\r\n" + SECOND)
    assert answer.startswith(b"HTTP/1.1 404")
    assert answer.endswith(b"\r\n\r\n")
    assert answer.count(b"\r\n\r\n") == 1
    assert closed


@pytest.mark.parametrize("length", [b"", b"Content-Length: 0\r\n"])
def test_an_expectation_without_a_body_is_answered(length, service):
    sent = b"GET /healthz HTTP/1.1\r\n" + HOST + length + b"Expect: 100-continue\r\n\r\n"
    answer, _ = exchanged(service, sent, seconds=2)
    assert answer.startswith(b"HTTP/1.1 200")


def test_an_expectation_with_a_body_is_met(service):
    with connection(service) as client:
        client.sendall(
            b"POST /api/v1/evaluations/ HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
            b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        )
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"{}")
        assert client.recv(65_536).startswith(b"HTTP/1.1 4")


def test_a_body_that_is_too_large_is_rejected_although_it_is_announced(service):
    """It was answered 100, and 413 once the client had sent 64 MiB."""
    head = b"POST /api/v1/evaluations/ HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\n"
    answer, closed = exchanged(service, head + b"Content-Length: 99999999\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413"), answer
    assert closed


def test_a_request_target_that_is_not_a_uri_is_rejected(service):
    """The connection was closed without an answer, with a traceback in the log."""
    answer, closed = exchanged(service, b"GET http://[::1 HTTP/1.1\r\n" + HOST + b"\r\n")
    assert answer.split(b"\r\n", 1)[0].split()[1] == b"400", answer
    assert closed


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(b"a" * 8_192, id="the length of a chunk"),
        pytest.param(b"0\r\n" + b"X: a\r\n" * 2_000, id="trailers"),
    ],
)
def test_the_lines_of_a_chunked_body_are_bounded(endless, service):
    """They were kept and joined anew for each packet: time grew with the square of their length."""
    head = b"POST /api/v1/evaluations/ HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    answer, closed = exchanged(service, head + endless)
    assert answer.startswith(b"HTTP/1.1 400")
    assert closed


def seconds_until_cut_off(service, start: bytes) -> float:
    """Send ten bytes a second after `start`; return when the server closes the connection."""
    with connection(service) as client:
        client.sendall(start)
        client.settimeout(0.1)
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < 3 * GRACE_SECONDS:
            try:
                client.sendall(b"G")
                if not client.recv(65_536):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        return elapsed


def test_clients_that_drip_are_cut_off(service):
    body = b"POST /api/v1/evaluations/ HTTP/1.1\r\n" + HOST + b"Content-Length: 100000\r\n\r\n"
    with ThreadPoolExecutor() as threads:
        header = threads.submit(seconds_until_cut_off, service, b"")
        assert seconds_until_cut_off(service, body) < 2 * GRACE_SECONDS
        assert header.result() < 2 * GRACE_SECONDS


def test_more_half_sent_requests_than_a_process_has_room_for_hold_up_no_other(service):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4_096:
        pytest.skip(f"needs 4,096 open files, and {hard} are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4_096), hard))
    try:
        with ExitStack() as stack:
            began = time.monotonic()
            for _ in range(1_900):
                client = stack.enter_context(connection(service))
                client.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-")
            for _ in range(5):
                assert Client(service.url).request("GET", "/healthz").status == 200
            elapsed = time.monotonic() - began
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    # A request that is held up waits at least until the first half-sent one is cut off for its pace.
    assert elapsed < GRACE_SECONDS


STREAMING = """
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return (b"a" * 65_536 for _ in range(2_000)) if environ["PATH_INFO"] == "/large" else [b"small"]
"""


def test_a_client_that_does_not_read_its_answer_gives_the_thread_back(tmp_path):
    """The only thread waits for the client when the answer is larger than what is buffered."""
    (tmp_path / "streaming.py").write_text(STREAMING)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "streaming:application", "--threads", "1",
             "--worker-class", "allocator_service.web.worker.BufferedWorker",
             "--bind", f"fd://{listener.fileno()}", "--no-control-socket"],
            env={**os.environ, "PYTHONPATH": f"{tmp_path}:{Path.cwd()}"},
            pass_fds=[listener.fileno()],
        )  # fmt: skip
        address = listener.getsockname()
        try:
            with (
                socket.create_connection(address) as deaf,
                socket.create_connection(address) as next_,
            ):
                deaf.sendall(b"GET /large HTTP/1.1\r\n" + HOST + b"\r\n")
                time.sleep(0.5)
                next_.sendall(b"GET /small HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
                answer, closed = received(next_, SILENT_CLIENT_SECONDS * 2)
        finally:
            process.terminate()
            process.wait(30)
    assert closed
    assert answer.endswith(b"small")
