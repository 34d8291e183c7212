"""The sender at work: slow receivers keep nobody waiting, and a lost database loses nothing."""

import random
import threading
import time

import pytest
from django.db import connection

from allocator_service.core.clock import utc_now
from allocator_service.webhooks import sending
from allocator_service.webhooks.models import Delivery
from allocator_service.webhooks.sender import FAST_THREADS, Sender
from tests import receivers
from tests.integration.webhooks.conftest import KEY, LOOPBACK, happened, webhook
from tests.receivers import Receiver, verifies

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sender(db):
    """A sender that runs until the test ends."""
    sender = Sender(
        clock=utc_now,
        random=random.Random(1).random,
        secret_key=KEY,
        allowed=LOOPBACK,
        sign=lambda: None,
    )

    def work():
        try:
            sender.run()
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    yield thread
    sender.stop()
    thread.join(30)
    assert not thread.is_alive()


def until(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def address(receiver):
    return receiver.url.replace("localhost", "127.0.0.1")  # the one network that is allowed


def test_more_silent_receivers_than_threads_hold_another_up_for_one_timeout(sender, monkeypatch):
    monkeypatch.setattr(sending, "TIMEOUT_SECONDS", 2.5)
    with Receiver(receivers.silent) as silent, Receiver() as fast:
        for _ in range(FAST_THREADS * 2):
            webhook(address(silent), now=utc_now())
        hook = webhook(address(fast), now=utc_now())
        for _ in range(3):
            happened(now=utc_now())
        sender.start()
        until(lambda: len(fast.received) == 3)
        # By then each silent one has been asked, and waits for its second request.
        assert len(silent.received) <= FAST_THREADS * 3
        assert all(verifies(each, hook.secret) for each in fast.received)
        assert fast.ids == [str(each.event_id) for each in hook.deliveries.order_by("sequence")]
        until(lambda: not hook.deliveries.exclude(state="delivered").exists())


def test_after_its_connection_was_cut_it_settles_what_it_sent(sender):
    def slowly(taken):
        time.sleep(1)
        taken.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with Receiver(slowly) as receiver:
        webhook(address(receiver), now=utc_now())
        happened(now=utc_now())
        sender.start()
        until(lambda: receiver.connections == 1)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND backend_type = 'client backend'"
            )
        until(lambda: Delivery.objects.get().state == "delivered")
        assert len(receiver.received) == 1
