"""A migration that needs a table for itself waits for readers without stopping others."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, connection

from allocator_service.core.short_locks import with_short_locks
from tests.integration.conftest import another_session

pytestmark = pytest.mark.django_db(transaction=True)

RENAME = 'ALTER TABLE allocation_short RENAME COLUMN "old" TO "new"'


@pytest.fixture
def table():
    with connection.cursor() as cursor:
        cursor.execute('CREATE TABLE allocation_short ("old" integer)')
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE allocation_short")


def columns():
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM allocation_short")
        return [each.name for each in cursor.description]


def run(statement):
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
    finally:
        connection.close()


def test_readers_go_on_while_a_long_one_is_waited_for(table):
    with another_session() as long, ThreadPoolExecutor(1) as threads:
        long.execute("SELECT * FROM allocation_short")
        migration = threads.submit(run, with_short_locks(RENAME))
        longest = 0.0
        for _ in range(8):
            before = time.monotonic()
            assert columns() == ["old"]
            longest = max(longest, time.monotonic() - before)
            time.sleep(0.3)
        assert not migration.done()
        # Half a second, and what a busy machine adds. It would be that of the long reader otherwise.
        assert longest < 2
        long.commit()
        migration.result(timeout=30)
    assert columns() == ["new"]


def test_it_gives_up_and_changes_nothing(table):
    with another_session() as long:
        long.execute("SELECT * FROM allocation_short")
        with pytest.raises(OperationalError, match="Run migrate again later"):
            run(with_short_locks(RENAME, attempts=2))
        long.commit()
    assert columns() == ["old"]
