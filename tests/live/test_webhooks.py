"""The session of docs/guides/webhooks.md is run as it stands; and the sender is killed at its work."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tests.guides import blocks_of
from tests.receivers import Receiver, verifies

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "webhooks.md"


@pytest.fixture(scope="module")
def hooked(service, operator):
    """The service, with who asks it."""
    service.operator = operator
    return service


def until(holds, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = holds()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s")


def happens(hooked, pool, number):
    """Decisions are published: one for each of so many changes, waited for."""
    for _ in range(number):
        before = len(feed(hooked, pool))
        server = {"name": f"server-{before}", "capacity": {"cpu": 1}}
        hooked.operator.post(f"/api/v1/pools/{pool}/servers/", server)
        until(lambda before=before: len(feed(hooked, pool)) > before)


def lab(hooked, slug):
    pool = {"slug": slug, "name": slug, "resources": [{"name": "cpu", "unit": "core"}]}
    hooked.operator.post("/api/v1/pools/", {**pool, "policy": {"name": "drf"}})


def feed(hooked, pool):
    rows = hooked.operator.pages("/api/v1/events/?limit=1000")
    return [row["id"] for row in rows if row["pool"] == pool]


def test_the_session_of_the_guide_ends_with_a_verified_event(hooked, tmp_path):
    receiver_text = re.search(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)[1]
    blocks = [block.text for block in blocks_of(GUIDE.read_text())]
    assert len(blocks) == 3
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    lines = blocks[0].replace("http://localhost:8000", hooked.url)
    lines = lines.replace("https://hooks.example.org", f"http://localhost:{port}")
    key = hooked.manage("apikey", "create", "--scope", "operator", "--name", "guide")

    def run(text):
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            env={**hooked.environment, "KEY": key},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    secret = run(lines).splitlines()[-1]
    assert secret.startswith("whsec_")
    with (tmp_path / "receiver.log").open("wb") as log:
        receiver = subprocess.Popen(
            [sys.executable, "-c", receiver_text],
            env={**os.environ, "WEBHOOK_SECRET": secret, "PORT": str(port)},
            stdout=log,
            stderr=subprocess.DEVNULL,
        )
    try:
        setup = lines.partition("api $URL/webhooks/ -d")[0]
        again = f"{setup}\nWEBHOOK=$(field '[\"id\"]' < webhook.json)\n"
        assert run(again + blocks[1]).splitlines()[-1] == "delivered"
        lab(hooked, "guided")
        happens(hooked, "guided", 1)
        told = until(lambda: "decision.published" in (tmp_path / "receiver.log").read_text())
        assert told
        rotated = run(again + blocks[2]).strip()
        assert rotated.startswith("whsec_")
        assert rotated != secret
    finally:
        receiver.kill()
        receiver.wait()


def test_events_arrive_over_tls_signed_in_order_and_once_though_the_receiver_fails(hooked):
    with Receiver(500, 503, 302, 204, tls=True) as receiver:
        lab(hooked, "labour")
        made = hooked.operator.post(
            "/api/v1/webhooks/", {"url": receiver.url, "pool": "labour"}
        ).body
        happens(hooked, "labour", 3)
        taken = until(lambda: set(receiver.ids) >= set(feed(hooked, "labour")) and receiver.ids, 60)
        assert len(feed(hooked, "labour")) >= 3
        assert all(verifies(each, made["secret"]) for each in receiver.received)
        assert len(taken) <= len(set(taken)) + 3  # those that were refused came again


def test_the_sender_is_killed_over_and_over_and_loses_nothing(hooked):
    """Kill -9 in the middle of requests: every event arrives, with its id, verified."""

    def slowly(connection):
        time.sleep(0.4)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    lab(hooked, "killed")
    with Receiver(slowly) as receiver:
        made = hooked.operator.post(
            "/api/v1/webhooks/", {"url": receiver.url, "pool": "killed"}
        ).body
        for _ in range(3):
            before = receiver.connections
            happens(hooked, "killed", 2)
            # It is waiting for an answer: the receiver takes longer than the next event.
            until(lambda before=before: receiver.connections > before)
            sender = hooked.processes["sender"]
            os.kill(sender.pid, signal.SIGKILL)
            sender.wait()
            forget_leases(hooked)
            hooked.start("sender")
        until(lambda: set(receiver.ids) >= set(feed(hooked, "killed")), 60)
        path = f"/api/v1/webhooks/{made['id']}/deliveries/?limit=1000"
        until(lambda: {row["state"] for row in hooked.operator.pages(path)} == {"delivered"})
        rows = hooked.operator.pages(path)
        assert {row["event"] for row in rows} == set(feed(hooked, "killed"))
        assert all(verifies(each, made["secret"]) for each in receiver.received)
        assert len(receiver.ids) > len(set(receiver.ids)) >= 6, "what was under way came twice"


def forget_leases(hooked):
    """Let 45 seconds pass for the claims of the dead."""
    with psycopg.connect(hooked.environment["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("UPDATE webhook_queue SET claimed_until = now() - interval '1 s'")
