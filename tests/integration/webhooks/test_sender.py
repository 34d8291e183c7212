"""The sender at work: slow receivers keep nobody waiting, and a lost database loses nothing."""

import random
import threading
import time
from datetime import timedelta

import pytest
from django.db import connection

from allocator_service.core import outbox
from allocator_service.core.clock import utc_now
from allocator_service.core.notifications import EVENTS_CHANNEL, notify
from allocator_service.webhooks import sender as module
from allocator_service.webhooks import sending
from allocator_service.webhooks.models import Delivery, WebhookQueue
from allocator_service.webhooks.sender import FAST_THREADS, Sender
from allocator_service.webhooks.services import delivery_resend, webhook_test
from tests import receivers
from tests.integration.waiting import IDLE_SECONDS, recorded_waits, until
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
    notify(EVENTS_CHANNEL)
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def waits(monkeypatch):
    """The sender's waits for notifications, which would outlast the test if nothing woke it."""
    monkeypatch.setattr(module, "IDLE_SECONDS", IDLE_SECONDS)
    return recorded_waits(monkeypatch)


def cut_connections():
    """All but this thread's own."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )


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
        until(lambda: len(fast.received) == 3, 60)
        # By then each silent one has been asked, and waits for its second request.
        assert len(silent.received) <= FAST_THREADS * 3
        assert all(verifies(each, hook.secret) for each in fast.received)
        assert fast.ids == [str(each.event_id) for each in hook.deliveries.order_by("sequence")]
        until(lambda: not hook.deliveries.exclude(state="delivered").exists(), 60)


def test_after_its_connection_was_cut_it_settles_what_it_sent(sender):
    def slowly(taken):
        time.sleep(1)
        taken.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with Receiver(slowly) as receiver:
        webhook(address(receiver), now=utc_now())
        happened(now=utc_now())
        sender.start()
        until(lambda: receiver.connections == 1)
        cut_connections()
        until(lambda: Delivery.objects.get().state == "delivered")
        assert len(receiver.received) == 1


def test_events_tests_and_repetitions_are_sent_long_before_the_sender_would_look(sender, waits):
    with Receiver() as receiver:
        hook = webhook(address(receiver), now=utc_now())
        sender.start()
        until(lambda: waits)
        happened(now=utc_now())
        until(lambda: len(receiver.received) == 1)
        until(lambda: len(waits) > 1)
        webhook_test(webhook=hook, now=utc_now())
        until(lambda: len(receiver.received) == 2)
        until(lambda: len(waits) > 2)
        delivery_resend(delivery=hook.deliveries.earliest("created_at"), now=utc_now())
        until(lambda: len(receiver.received) == 3)


def test_an_event_that_is_sealed_during_a_turn_is_sent_in_the_next_one(sender, waits, monkeypatch):
    """After the turn has created deliveries."""
    claim, late = module.deliveries_claim, []

    def claim_later(**more):
        if not late:
            late.append(happened(now=utc_now()))
        return claim(**more)

    with Receiver() as receiver:
        webhook(address(receiver), now=utc_now())
        monkeypatch.setattr(module, "deliveries_claim", claim_later)
        sender.start()
        until(lambda: len(receiver.received) == 1)


def test_a_delivery_is_sent_when_it_is_due_and_not_when_the_sender_would_look(sender, waits):
    with Receiver() as receiver:
        hook = webhook(address(receiver), now=utc_now())
        later = utc_now() + timedelta(seconds=3)
        webhook_test(webhook=hook, now=utc_now())
        WebhookQueue.objects.update(due_at=later)
        sender.start()
        until(lambda: waits)
        assert waits[0] < 4
        until(lambda: len(receiver.received) == 1)
        assert utc_now() >= later


def test_without_notifications_it_looks_by_itself(sender, monkeypatch):
    """As where the relay of the release before seals events."""
    monkeypatch.setattr(outbox, "notify", lambda _channel: None)
    waits = recorded_waits(monkeypatch)
    with Receiver() as receiver:
        webhook(address(receiver), now=utc_now())
        sender.start()
        until(lambda: waits)
        happened(now=utc_now())
        until(lambda: len(receiver.received) == 1)


def test_it_listens_again_after_its_connection_was_cut(sender, waits, monkeypatch):
    monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.1)
    with Receiver() as receiver:
        webhook(address(receiver), now=utc_now())
        sender.start()
        until(lambda: waits)
        cut_connections()
        until(lambda: len(waits) > 1)
        happened(now=utc_now())
        until(lambda: len(receiver.received) == 1)
