"""The sealer waits for rows, and seals them as soon as they are committed."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from allocator_service.core.clock import utc_now
from allocator_service.core.models import PendingEvent
from allocator_service.core.notifications import EVENTS_CHANNEL, PENDING_CHANNEL, notify
from allocator_service.core.outbox import event_record
from allocator_service.ledger.intake import sealer as module
from allocator_service.ledger.intake.sealer import Sealer
from allocator_service.ledger.models import Seal
from tests.integration.conftest import NOON, another_session
from tests.integration.ledger.conftest import report, usage
from tests.integration.waiting import IDLE_SECONDS, recorded_waits, until
from tests.superuser import unprotected

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def waits(monkeypatch):
    """The sealer's waits for notifications, each of which would outlast the test."""
    monkeypatch.setattr(module, "IDLE_SECONDS", IDLE_SECONDS)
    return recorded_waits(monkeypatch)


@pytest.fixture
def sealer(db):
    """A sealer that a test starts, and that takes turns until the test ends."""
    sealer = Sealer(clock=utc_now)
    yield sealer
    sealer.stop()
    notify(PENDING_CHANNEL)
    sealer.join(30)
    assert not sealer.is_alive()


def recorded():
    return event_record(kind="decision.published", payload={}, now=NOON)


def sealed():
    return not PendingEvent.objects.exists()


def test_an_event_notifies_once_and_an_entry_never(reported, world):
    """Transactions that notify commit one after the other, and entries are many."""
    with another_session(autocommit=True) as session:
        session.execute(f"LISTEN {PENDING_CHANNEL}")
        report(reported, usage(world.ada, "first", 1, 1))
        assert list(session.notifies(timeout=0.2)) == []
        recorded()
        assert len(list(session.notifies(timeout=10, stop_after=1))) == 1


def test_events_are_sealed_long_before_the_sealer_would_look(waits, sealer):
    sealer.start()
    for number in range(3):
        until(lambda number=number: len(waits) > number)
        recorded()
        until(sealed)
    assert set(waits) == {IDLE_SECONDS}


def test_a_decision_s_entries_are_sealed_with_its_event(waits, sealer, reported, world):
    sealer.start()
    until(lambda: waits)
    report(reported, usage(world.ada, "first", 1, 1))
    recorded()
    until(lambda: Seal.objects.count() == 2)


def test_a_commit_during_a_turn_is_sealed_in_the_next_one(waits, sealer, monkeypatch):
    """After the turn has looked for events."""
    late = []

    def record():
        try:
            return recorded()
        finally:
            connection.close()

    def entries_seal(*, now):
        if not late:
            with ThreadPoolExecutor(1) as thread:
                late.append(thread.submit(record).result())
        return 0

    monkeypatch.setattr(module, "entries_seal", entries_seal)
    sealer.start()
    until(lambda: late and sealed())


def test_a_stream_of_commits_is_sealed_in_few_batches(waits, sealer, monkeypatch):
    pause = 1.0
    monkeypatch.setattr(module, "PAUSE_SECONDS", pause)
    sealer.start()
    until(lambda: waits)
    begin = time.monotonic()
    for _ in range(2):
        recorded()
        until(sealed)
    assert time.monotonic() - begin >= pause


def test_without_a_notification_it_looks_by_itself_and_it_ends_by_itself(
    sealer, monkeypatch, reported, world
):
    waits = recorded_waits(monkeypatch)
    with unprotected("core_event_pending"):  # without the trigger
        sealer.start()
        until(lambda: waits)
        recorded()
        report(reported, usage(world.ada, "first", 1, 1))
        until(lambda: sealed() and Seal.objects.count() == 2)
        until(lambda: len(waits) > 2)
        sealer.stop()
        sealer.join(30)
        assert not sealer.is_alive()


def test_it_listens_again_after_its_connection_was_cut(waits, sealer, monkeypatch):
    monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.1)
    sealer.start()
    until(lambda: waits)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
    until(lambda: len(waits) > 1)
    recorded()
    until(sealed)


def test_readers_of_events_are_notified_of_sealed_ones_alone(sealer, waits):
    with another_session(autocommit=True) as session:
        session.execute(f"LISTEN {EVENTS_CHANNEL}")
        sealer.start()
        until(lambda: waits)
        assert list(session.notifies(timeout=0.2)) == []
        recorded()
        assert len(list(session.notifies(timeout=10, stop_after=1))) == 1
