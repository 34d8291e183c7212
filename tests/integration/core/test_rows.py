"""What every request reads first: planned once per connection, not once per request."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allocator_service.core.rows import only_row

pytestmark = pytest.mark.django_db

STATEMENT = "SELECT %(text)s::text || '-' || %(number)s::int, 'kept once'"
KEPT = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %s"


def kept() -> int:
    with connection.cursor() as cursor:
        cursor.execute(KEPT, ["%kept once%"])
        row = cursor.fetchone()
    assert row is not None
    return int(row[0])


def test_the_server_keeps_the_plan_of_a_statement_that_is_asked_again() -> None:
    before = kept()
    for number in range(20):
        text = f"o'clock %s {number}"
        row = only_row(STATEMENT, {"text": text, "number": number})
        assert row == (f"{text}-{number}", "kept once")
    assert before == 0
    assert kept() == 1


def test_such_a_statement_is_counted_like_every_other() -> None:
    with CaptureQueriesContext(connection) as queries:
        only_row(STATEMENT, {"text": "a", "number": 1})
    assert len(queries) == 1
    assert queries[0]["sql"] == "SELECT $1::text || '-' || $2::int, 'kept once'"


def test_no_row_is_none() -> None:
    assert only_row("SELECT %s WHERE false", ["x"]) is None
