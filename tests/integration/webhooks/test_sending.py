"""One request to real receivers: what counts as taken, and what a receiver cannot do to the sender."""

import socket
import ssl
import threading
import time
from ipaddress import ip_network

import pytest

from allocator_service.webhooks import sending
from allocator_service.webhooks.sending import request_send
from tests import receivers
from tests.receivers import CERTIFICATE, Receiver

LOOPBACK = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
BODY = '{"type":"statement.closed","data":{"name":"Gröbner ✓"}}'.encode()


@pytest.fixture
def trusting():
    return ssl.create_default_context(cafile=CERTIFICATE)


def send(url, context=None, allowed=LOOPBACK):
    return request_send(
        url=url,
        headers={"webhook-id": "1"},
        body=BODY,
        allowed=allowed,
        context=context or ssl.create_default_context(),
    )


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_2xx_takes_it(status):
    with Receiver(status) as receiver:
        outcome = send(receiver.url)
    assert (outcome.status, outcome.error) == (status, "")
    (received,) = receiver.received
    assert received.line == "POST /hook HTTP/1.1"
    assert received.body == BODY
    assert received.headers["Host"] == f"localhost:{receiver.port}"
    assert received.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("status", [400, 404, 410, 429, 500, 503])
def test_other_answers_refuse_it(status):
    with Receiver(status) as receiver:
        outcome = send(receiver.url)
    assert (outcome.status, outcome.error) == (status, "status")


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status):
    with Receiver() as other:
        text = f"HTTP/1.1 {status} X\r\nLocation: {other.url}\r\nContent-Length: 0\r\n\r\n"
        with Receiver(text.encode()) as receiver:
            outcome = send(receiver.url)
    assert (outcome.status, outcome.error) == (status, "redirect")
    assert other.connections == 0


@pytest.mark.parametrize(
    "answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x00\xff" * 40_000]
)
def test_what_is_no_answer_is_none(answer):
    with Receiver(answer) as receiver:
        outcome = send(receiver.url)
    assert outcome.status is None
    assert outcome.error in ("answer", "connection")


@pytest.mark.parametrize(
    "answer", [receivers.drips, receivers.silent, receivers.informs_without_end]
)
def test_however_slowly_it_drips_the_time_is_up(answer, monkeypatch):
    monkeypatch.setattr(sending, "TIMEOUT_SECONDS", 1.0)
    with Receiver(answer) as receiver:
        began = time.monotonic()
        outcome = send(receiver.url)
    assert (outcome.status, outcome.error) == (None, "timeout")
    assert 0.9 < time.monotonic() - began < 6
    assert 0.9 < outcome.seconds < 6


@pytest.mark.parametrize("answer", [receivers.huge, receivers.slow_body])
def test_of_a_long_answer_only_the_status_counts(answer):
    with Receiver(answer) as receiver:
        began = time.monotonic()
        outcome = send(receiver.url)
    assert (outcome.status, outcome.error) == (200, "")
    assert time.monotonic() - began < 8


def test_a_head_without_end_is_no_answer():
    with Receiver(receivers.huge_head) as receiver:
        outcome = send(receiver.url)
    assert (outcome.status, outcome.error) == (None, "answer")


def test_nobody_there_is_a_failed_connection():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert send(f"http://localhost:{port}/").error == "connection"


def test_tls_is_checked_against_the_name_of_the_url(trusting):
    with Receiver(tls=True) as receiver:
        assert send(receiver.url, trusting).error == ""
        assert receiver.server_names == ["localhost"]
        assert send(receiver.url).error == "tls"  # nobody vouches for it
        other = receiver.url.replace("localhost", "127.0.0.1")
        assert send(other, trusting).error == "tls"  # a certificate of another name
    assert len(receiver.received) == 1


def test_a_receiver_without_tls_is_not_talked_to_in_clear(trusting, monkeypatch):
    monkeypatch.setattr(sending, "TIMEOUT_SECONDS", 0.5)
    with Receiver() as receiver:
        outcome = send(receiver.url.replace("http:", "https:"), trusting)
    assert outcome.error == "timeout"  # it waits for a request, the sender for a handshake
    assert receiver.received == []


def test_no_byte_goes_to_a_private_address(trusting):
    with Receiver(tls=True) as receiver:
        for host in (
            "localhost",
            "127.0.0.1",
            "[::ffff:127.0.0.1]",
            "0.0.0.0",
            "2130706433",
            "127.1",
        ):
            url = f"https://{host}:{receiver.port}/"
            assert send(url, trusting, allowed=[]).error == "address", host
        assert send(receiver.url, trusting, allowed=[ip_network("10.0.0.0/8")]).error == "address"
    assert receiver.connections == 0


def test_a_name_that_means_another_address_a_moment_later_is_not_asked_again(monkeypatch, trusting):
    """The connection goes to the address that was judged, under the name of the URL."""
    with Receiver(tls=True) as judged, Receiver(tls=True) as other:
        answers = [("127.0.0.1", judged.port), ("127.0.0.1", other.port)]
        real = socket.getaddrinfo

        def getaddrinfo(host, port, *more, **named):
            if host == "receiver.example":
                address, _ = answers.pop(0)
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]
            return real(host, port, *more, **named)

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        outcome = send(f"https://receiver.example:{judged.port}/x", trusting)
    assert outcome.error == ""
    assert judged.server_names == ["receiver.example"]
    assert judged.received[0].headers["Host"] == f"receiver.example:{judged.port}"
    assert len(answers) == 1


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    with Receiver() as proxy, Receiver() as receiver:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert send(receiver.url).error == ""
    assert proxy.connections == 0


def test_many_slow_receivers_are_waited_for_at_the_same_time(monkeypatch):
    monkeypatch.setattr(sending, "TIMEOUT_SECONDS", 1.0)
    with Receiver(receivers.silent) as receiver:
        began = time.monotonic()
        threads = [threading.Thread(target=send, args=(receiver.url,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert time.monotonic() - began < 10  # and not 20 × 1 s
