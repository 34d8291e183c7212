"""The ledger while many write: a consumer misses nothing, and no event is posted twice."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from threading import Barrier

import pytest
from django.db import connection, transaction

from allocator_service.core.errors import Unacceptable
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.entries import partitions_make_ahead
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.intake.usage import UsageEvent, usage_record
from allocator_service.ledger.models import Entry, Identity, Seal
from allocator_service.ledger.selectors import BEGINNING, Place, entries_after
from allocator_service.pools.services import pool_create
from tests.integration.conftest import NOON, settings

pytestmark = pytest.mark.django_db(transaction=True)

WRITERS, BATCHES, EVENTS = 6, 30, 3


@pytest.fixture
def batch(db):
    return pool_create(slug="batch", settings=settings(metering="reported"), now=NOON)


def events(owner, *names):
    start = NOON - timedelta(hours=1)
    return [UsageEvent("meter", name, owner, None, [Decimal(1)], start, NOON) for name in names]


def write(pool, owner, number):
    """Transactions of different lengths: what begins first often commits last."""
    chance = random.Random(number)
    try:
        for step in range(BATCHES):
            with transaction.atomic():
                names = [f"{number}-{step}-{item}" for item in range(EVENTS)]
                usage_record(pool=pool, events=events(owner, *names), now=NOON, members_only=False)
                time.sleep(chance.random() * 0.01)
    finally:
        connection.close()


def test_a_consumer_by_cursor_sees_every_entry_once(batch, tenant):
    owner = tenant("u1")
    usage_record(
        pool=batch, events=events(owner, "first"), now=NOON, members_only=False
    )  # makes the partition
    total = WRITERS * BATCHES * EVENTS + 1
    consumers = {limit: [] for limit in (1, 7, 1000)}

    def read():
        entries_seal(now=NOON)
        for limit, seen in consumers.items():
            place = Place(seen[-1]["sequence"], seen[-1]["pool_id"]) if seen else BEGINNING
            seen += entries_after(place, caller=None, limit=limit)

    with ThreadPoolExecutor(WRITERS) as threads:
        writers = [threads.submit(write, batch, owner, number) for number in range(WRITERS)]
        while not all(writer.done() for writer in writers):
            read()
        for writer in writers:
            writer.result()
    while any(len(seen) < total for seen in consumers.values()):
        read()
    for seen in consumers.values():
        assert [row["sequence"] for row in seen] == list(range(1, total + 1))
        assert len({row["id"] for row in seen}) == total
    assert [check.name for check in ledger_verify(now=NOON) if not check.holds] == []


def test_the_same_events_from_many_at_once_are_posted_once(batch, tenant):
    owner = tenant("u1")
    usage_record(pool=batch, events=events(owner, "first"), now=NOON, members_only=False)
    together = Barrier(8)

    def post(number):
        order = [f"e{item}" for item in range(40)]
        random.Random(number).shuffle(order)
        together.wait()
        try:
            return usage_record(
                pool=batch, events=events(owner, *order), now=NOON, members_only=False
            ).accepted
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(post, range(8))) == 40
    assert Entry.objects.count() == Identity.objects.count() == 41


@contextmanager
def open_transaction(pool, owner, name):
    """An event is posted, and its transaction is open until the block ends."""
    posted, may_end = Barrier(2), Barrier(2)

    def post():
        try:
            with transaction.atomic():
                usage_record(pool=pool, events=events(owner, name), now=NOON, members_only=False)
                posted.wait()
                may_end.wait()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        posting = threads.submit(post)
        posted.wait()
        try:
            yield
        finally:
            may_end.wait()
            posting.result()


def test_sealing_does_not_wait_for_an_open_transaction(batch, tenant):
    """What one idle transaction holds back is its own entries, and they come later."""
    owner = tenant("u1")
    usage_record(pool=batch, events=events(owner, "first"), now=NOON, members_only=False)
    with open_transaction(batch, owner, "late"):
        usage_record(pool=batch, events=events(owner, "quick"), now=NOON, members_only=False)
        assert entries_seal(now=NOON) == 2
    assert entries_seal(now=NOON) == 1
    last = Seal.objects.order_by("-sequence").first()
    assert Entry.objects.get(pk=last.entry_id).event_id == "late"


def while_another_is_at_it(work, post):
    """What `work` says in a second process, after `post`, while a first one has not committed it."""

    def second():
        try:
            post()
            with connection.cursor() as cursor:
                cursor.execute("SET statement_timeout = '5s'")
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        assert work() > 0
        return threads.submit(second).result()


def test_a_sealer_does_nothing_while_another_one_is_at_it(batch, tenant):
    owner = tenant("u1")
    usage_record(pool=batch, events=events(owner, "first"), now=NOON, members_only=False)

    def post():
        usage_record(pool=batch, events=events(owner, "quick"), now=NOON, members_only=False)

    assert while_another_is_at_it(lambda: entries_seal(now=NOON), post) == 0
    assert entries_seal(now=NOON) == 1
    assert [check for check in ledger_verify(now=NOON) if not check.holds] == []


def test_entries_are_not_added_up_while_another_one_is_at_it(batch, tenant):
    owner = tenant("u1")
    for name in ("first", "second"):
        totals_advance()
        usage_record(pool=batch, events=events(owner, name), now=NOON, members_only=False)
        entries_seal(now=NOON)
    assert while_another_is_at_it(totals_advance, lambda: None) == 0
    assert totals_advance() == 0
    assert [check for check in ledger_verify(now=NOON) if not check.holds] == []


def test_corrections_of_one_entry_come_one_after_the_other(batch, tenant):
    owner = tenant("u1")
    usage_record(pool=batch, events=events(owner, "first"), now=NOON, members_only=False)
    entry = Entry.objects.get()

    def correct():
        try:
            return entry_correct(entry=entry, quantity=Decimal(3), reason="counted", now=NOON)
        except Unacceptable as error:
            return error.code
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            entry_correct(entry=entry, quantity=Decimal(3), reason="counted", now=NOON)
            other = threads.submit(correct)
            with pytest.raises(TimeoutError):
                other.result(timeout=0.5)
        assert other.result() == "correction.nothing"
    assert sum(Entry.objects.values_list("quantity", flat=True)) == 3


def test_a_consumer_that_pages_by_id_misses_what_commits_late(batch, tenant):
    """The control of the test above: the same entries, and the order that a consumer would guess."""
    owner = tenant("u1")
    usage_record(
        pool=batch, events=events(owner, "first"), now=NOON, members_only=False
    )  # makes the partition
    naive, sealed = [], []

    def read():
        after = naive[-1].pk if naive else "00000000-0000-0000-0000-000000000000"
        naive.extend(Entry.objects.filter(pk__gt=after).order_by("pk"))
        entries_seal(now=NOON)
        place = Place(sealed[-1]["sequence"], batch.pk) if sealed else BEGINNING
        sealed.extend(entries_after(place, caller=None, limit=10))

    with open_transaction(batch, owner, "late"):
        time.sleep(0.01)  # ids are in the order of their milliseconds
        usage_record(pool=batch, events=events(owner, "quick"), now=NOON, members_only=False)
        read()
    read()
    assert [entry.event_id for entry in naive] == ["first", "quick"]
    assert [row["event_id"] for row in sealed] == ["first", "quick", "late"]


def drop_month(name):
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS ledger_entry_{name}")


def test_the_first_reports_of_a_month_are_all_taken_though_they_come_at_once(batch, tenant):
    owner = tenant("u1")
    barrier = Barrier(8)
    starts = [datetime(2019, month, 10, tzinfo=UTC) for month in (3, 4)]
    for start in starts:
        drop_month(f"{start:%Y%m}")

    def report(number):
        """Two months in one transaction, as metering does: what it holds, another one may want."""
        barrier.wait()
        try:
            with transaction.atomic():
                for start in starts:
                    event = UsageEvent(
                        "meter", f"{number}-{start:%m}", owner, None, [Decimal(1)], start,
                        start + timedelta(hours=1),
                    )  # fmt: skip
                    usage_record(pool=batch, events=[event], now=NOON, members_only=False)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(report, range(8)))
    assert Entry.objects.filter(start__in=starts).count() == 16


def test_the_months_to_come_have_their_partitions_ahead(batch):
    for name in ("203112", "203201", "203202"):
        drop_month(name)
    partitions_make_ahead(now=datetime(2031, 12, 31, 23, 59, tzinfo=UTC))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT to_regclass('ledger_entry_' || name) IS NOT NULL"
            " FROM unnest(ARRAY['203112', '203201', '203202', '203203']) AS name"
        )
        assert [row[0] for row in cursor.fetchall()] == [True, True, True, False]
