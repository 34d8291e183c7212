"""A reader that follows the feed misses nothing and sees nothing twice while writers run."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from threading import Event as Flag

import pytest
from django.db import connection, transaction

from allocator_service.core.errors import Gone
from allocator_service.core.models import Event, EventSeal
from allocator_service.core.outbox import event_record, events_after, events_prune, events_seal
from tests.integration.conftest import NOON

pytestmark = pytest.mark.django_db(transaction=True)

WRITERS, EVENTS_EACH = 6, 40


def write(number: int) -> None:
    """Transactions of different lengths: what begins first often commits last."""
    chance = random.Random(number)
    try:
        for step in range(EVENTS_EACH):
            with transaction.atomic():
                event_record(kind="test", payload={"of": number, "step": step}, now=NOON)
                time.sleep(chance.random() * 0.01)
    finally:
        connection.close()


def while_writing(step):
    """Call `step` until the writers are done, and once more."""
    with ThreadPoolExecutor(WRITERS) as threads:
        writers = [threads.submit(write, number) for number in range(WRITERS)]
        while not all(writer.done() for writer in writers):
            step()
    step()


def everything(limit):
    seen, cursor = [], None
    while page := events_after(cursor, tenant=None, pools=[], limit=limit):
        seen += page
        cursor = page[-1].pk
    return seen


def test_a_feed_read_while_writers_run_is_whole():
    sealed = []

    def read():
        events_seal()
        sealed.extend(
            events_after(sealed[-1].pk if sealed else None, tenant=None, pools=[], limit=1000)
        )

    while_writing(read)
    total = WRITERS * EVENTS_EACH
    assert len({event.pk for event in sealed}) == len(sealed) == total
    assert list(EventSeal.objects.values_list("sequence", flat=True)) == list(range(1, total + 1))
    for number in range(WRITERS):
        steps = [event.payload["step"] for event in sealed if event.payload["of"] == number]
        assert steps == list(range(EVENTS_EACH))  # each writer's commits in their order


def test_a_reader_that_pages_by_id_misses_what_commits_late():
    """The control: one transaction is open while a later event commits and is read."""
    recorded, may_end = Barrier(2), Barrier(2)
    naive, sealed = [], []

    def record_late():
        try:
            with transaction.atomic():
                event_record(kind="late", payload={}, now=NOON)
                recorded.wait()
                may_end.wait()
        finally:
            connection.close()

    def read():
        after = naive[-1].pk if naive else "00000000-0000-0000-0000-000000000000"
        naive.extend(Event.objects.filter(pk__gt=after).order_by("pk"))
        events_seal()
        cursor = sealed[-1].pk if sealed else None
        sealed.extend(events_after(cursor, tenant=None, pools=[], limit=10))

    with ThreadPoolExecutor(1) as threads:
        recording = threads.submit(record_late)
        recorded.wait()
        time.sleep(0.01)  # ids are in the order of their milliseconds
        event_record(kind="quick", payload={}, now=NOON)
        read()
        may_end.wait()
        recording.result()
    read()
    assert [event.kind for event in naive] == ["quick"]
    assert [event.kind for event in sealed] == ["quick", "late"]


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_pages_of_any_size_give_the_same_events(limit):
    for step in range(20):
        event_record(kind="test", payload={"step": step}, now=NOON)
    assert events_seal() == 20
    assert [event.payload["step"] for event in everything(limit)] == list(range(20))


def test_two_sealers_number_each_event_once():
    for _ in range(50):
        event_record(kind="test", payload={}, now=NOON)
    start = Flag()

    def seal(_):
        start.wait()
        try:
            return sum(events_seal() for _ in range(20))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        counts = threads.map(seal, range(4))
        start.set()
        assert sum(counts) == 50
    assert list(EventSeal.objects.values_list("sequence", flat=True)) == list(range(1, 51))


def test_a_sealer_does_nothing_while_another_one_is_at_it():
    """What it would number next follows a number that it cannot see yet."""
    event_record(kind="test", payload={}, now=NOON)

    def record_and_seal() -> int:
        try:
            event_record(kind="test", payload={}, now=NOON)
            with connection.cursor() as cursor:
                cursor.execute("SET statement_timeout = '5s'")
            return events_seal()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread, transaction.atomic():
        assert events_seal() == 1
        assert thread.submit(record_and_seal).result() == 0
    assert events_seal() == 1
    assert list(EventSeal.objects.values_list("sequence", flat=True)) == [1, 2]


def test_a_tenant_sees_its_own_events_and_those_of_its_pools():
    event_record(kind="a", payload={}, now=NOON, pool="lab", tenant="ada")
    event_record(kind="b", payload={}, now=NOON, pool="lab", tenant="bob")
    event_record(kind="c", payload={}, now=NOON, pool="lab")
    event_record(kind="d", payload={}, now=NOON, pool="other")
    events_seal()
    seen = events_after(None, tenant="ada", pools=["lab"], limit=10)
    assert [event.kind for event in seen] == ["a", "c"]


def test_pruning_keeps_the_numbers_going_and_an_old_cursor_says_so():
    old = event_record(kind="old", payload={}, now=NOON - timedelta(days=100))
    event_record(kind="last", payload={}, now=NOON - timedelta(days=99))
    events_seal()
    events_prune(before=NOON - timedelta(days=90))
    with pytest.raises(Gone) as gone:
        events_after(old.pk, tenant=None, pools=[], limit=10)
    assert gone.value.code == "cursor.expired"
    event_record(kind="new", payload={}, now=NOON)
    events_seal()
    assert list(EventSeal.objects.values_list("sequence", flat=True)) == [2, 3]
