"""Statements on tables that are nearly always empty, planned by the statistics of an empty table.

They are taken while every row has been deleted, and its pages are still there. A plan that is good for
one row, such as a nested loop over a subquery, then reads the square of a backlog.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection, transaction

from allocator_service.allocation.what_if.simulations import SIMULATION_JOBS
from allocator_service.core.jobs import jobs_due
from allocator_service.core.models import Event, EventSeal, PendingEvent
from allocator_service.core.outbox import events_seal
from allocator_service.ledger.amounts.decayed import decayed_amounts
from allocator_service.ledger.amounts.rate_changes import amounts_between
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.audit.running_sums import RunningSums
from allocator_service.ledger.intake.entries import partitions_make
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.models import Seal, TotalsCursor
from allocator_service.ledger.selectors import BEGINNING, entries_after
from allocator_service.ledger.windows import known_entries
from allocator_service.pools.models import Pool, RecomputeJob
from allocator_service.pools.recompute import DECISION_JOBS
from allocator_service.pools.services import pool_create
from allocator_service.pools.windows import Past
from allocator_service.tenants.services import tenant_create
from allocator_service.webhooks.deliveries import deliveries_create
from allocator_service.webhooks.models import Delivery, Webhook
from tests.integration.conftest import NOON, settings
from tests.integration.ledger.conftest import HOUR, report, usage

BACKLOG = 3_000
# Rows read for each row of the backlog, in all tables: plans that are linear read fewer than 20.
READS_PER_ROW = 60


@pytest.fixture(scope="module", autouse=True)
def _statistics_are_forgotten(django_db_setup, django_db_blocker):
    """Remove the statistics, which are not rolled back, before other tests."""
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        # Empty pages are returned, so that the next rows are counted by the size of the table.
        cursor.execute("VACUUM")
    connection.close()


def rows_read_by(statement: Callable[[], object]) -> int:
    """How many rows of tables a statement reads, by sequential scans and through indexes."""
    query = "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables"
    return counted(query, statement)


def pages_read_by(statement: Callable[[], object]) -> int:
    """The number of pages of tables and indexes that a statement reads."""
    query = """
    SELECT sum(pg_stat_get_xact_blocks_fetched(oid)) FROM pg_class WHERE relkind IN ('r', 'i')
    """
    return counted(query, statement)


def counted(query: str, statement: Callable[[], object]) -> int:
    """The amount by which a statement raises the result of a query."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        (before,) = cursor.fetchone()
        statement()
        cursor.execute(query)
        (after,) = cursor.fetchone()
    return int(after - before)


def analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def events(count: int) -> None:
    made = Event.objects.bulk_create(
        Event(kind="decision.published", pool="lab", payload={}, occurred_at=NOON)
        for _ in range(count)
    )
    PendingEvent.objects.bulk_create(PendingEvent(event=event) for event in made)


@pytest.mark.django_db
def test_events_are_sealed_and_delivered():
    webhook = Webhook.objects.create(
        url="https://example.org/", events=[], since=0, created_at=NOON
    )
    events(BACKLOG)
    events_seal()
    deliveries_create(now=NOON)
    analyze()
    events(BACKLOG)
    assert rows_read_by(events_seal) < READS_PER_ROW * BACKLOG
    assert EventSeal.objects.count() == 2 * BACKLOG
    assert not PendingEvent.objects.exists()
    assert rows_read_by(lambda: deliveries_create(now=NOON)) < READS_PER_ROW * BACKLOG
    assert Delivery.objects.filter(webhook=webhook).exists()


@pytest.mark.django_db
def test_entries_are_sealed_and_added_up():
    pool = pool_create(slug="batch", settings=settings(metering="reported"), now=NOON)
    tenant = tenant_create(slug="metered", name="Metered", now=NOON)
    report(pool, *(usage(tenant, f"first {number}", 1, 1) for number in range(BACKLOG // 2)))
    entries_seal(now=NOON)
    totals_advance()
    analyze()
    report(pool, *(usage(tenant, f"later {number}", 1, 1) for number in range(BACKLOG // 2)))
    assert rows_read_by(lambda: entries_seal(now=NOON)) < READS_PER_ROW * BACKLOG
    assert rows_read_by(totals_advance) < READS_PER_ROW * BACKLOG
    assert Seal.objects.count() == 2 * BACKLOG
    assert TotalsCursor.objects.get().through == 2 * BACKLOG


@pytest.fixture
def waiting(db: None) -> Pool:
    """A pool with a backlog of entries, in a month that had only dead pages when it was analyzed."""
    pool = pool_create(slug="batch", settings=settings(metering="reported"), now=NOON)
    tenant = tenant_create(slug="metered", name="Metered", now=NOON)

    def report_backlog(prefix: str) -> None:
        numbers = range(BACKLOG // 2)
        report(pool, *(usage(tenant, f"{prefix} {number}", 1, 1) for number in numbers))

    partitions_make([NOON.date().replace(day=1)])
    with transaction.atomic():
        report_backlog("lost")
        entries_seal(now=NOON)
        transaction.set_rollback(True)
    analyze()
    report_backlog("later")
    return pool


def test_entries_of_a_month_of_dead_pages_are_sealed_by_their_ids(waiting):
    """All have one start. By an index of starts, each lookup would read all of them."""
    assert pages_read_by(lambda: entries_seal(now=NOON)) < READS_PER_ROW * BACKLOG
    assert Seal.objects.count() == BACKLOG
    assert rows_read_by(totals_advance) < READS_PER_ROW * BACKLOG
    assert TotalsCursor.objects.get().through == BACKLOG


def used(pool: Pool) -> list[object]:
    return list(amounts_between(pool=pool, edges=[NOON], unsealed=True).before())


def used_lately(pool: Pool) -> object:
    return decayed_amounts(pool, NOON, HOUR.total_seconds())


def audited(pool: Pool) -> object:
    return RunningSums(pool.pk).at(Past(None, NOON), known_entries(pool))


def listed(pool: Pool) -> object:
    return entries_after(BEGINNING, caller=None, limit=BACKLOG, pool=pool.slug)


READERS = [known_entries, used, used_lately, audited, listed]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("sealed", [False, True])
def test_entries_of_a_month_of_dead_pages_are_read_by_their_ids(waiting, read, sealed):
    if sealed:
        entries_seal(now=NOON)
    assert rows_read_by(lambda: read(waiting)) < READS_PER_ROW * BACKLOG


@pytest.mark.django_db
def test_jobs_that_are_due_are_claimed_up_to_the_limit():
    for number in range(BACKLOG // 10):
        pool_create(slug=f"lab-{number}", settings=settings(), now=NOON)
    due = RecomputeJob.objects.all()
    fields = list(due)
    due.delete()
    analyze()
    RecomputeJob.objects.bulk_create(fields)
    later = NOON + timedelta(minutes=1)
    claimed = []
    read = rows_read_by(
        lambda: claimed.extend(jobs_due(DECISION_JOBS, now=later, again=False, limit=100))
    )
    assert len(claimed) == 100
    assert read < READS_PER_ROW * BACKLOG // 10
    assert rows_read_by(lambda: jobs_due(SIMULATION_JOBS, now=later, again=True)) < READS_PER_ROW
