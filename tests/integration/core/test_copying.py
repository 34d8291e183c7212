"""Rows written by COPY, beside the same rows written by psycopg's parameters."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.db import DataError, connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from allocator_service.core.copying import copy_rows
from allocator_service.ledger.models import Kind

pytestmark = pytest.mark.django_db(transaction=True)

COLUMNS = {
    "number": "bigint", "real": "float8", "exact": "numeric", "key": "uuid", "words": "text",
    "day": "date", "at": "timestamptz", "flag": "boolean", "document": "jsonb",
    "numbers": "numeric[]", "reals": "float8[]", "keys": "uuid[]", "texts": "text[]",
    "content": "bytea",
}  # fmt: skip
# fmt: off
ODD = ["", "\\", "\\N", "\\.", "\t", "\n", "\r", "\b\f\v", "a,b", '"', "{}", "NULL", "größe \N{SNOWMAN}"]
# fmt: on
texts = st.sampled_from(ODD) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8
)
exact = st.decimals(-(10**20), 10**20, allow_nan=False, allow_infinity=False, places=12)
reals = st.floats()
zones = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))])
times = st.datetimes(datetime(1000, 1, 1), datetime(9000, 1, 1), timezones=zones)  # noqa: DTZ001
numbers = st.lists(st.none() | exact, max_size=3) | st.lists(st.none() | st.integers(-9, 9))
rows = st.tuples(
    st.integers(1 - 2**63, 2**63 - 1), reals, exact, st.uuids(), texts,
    st.dates(date(1, 1, 1), date(9999, 12, 31)), times, st.booleans(),
    st.dictionaries(texts, st.integers(-9, 9), max_size=2), numbers,
    st.lists(reals, max_size=3), st.lists(st.none() | st.uuids(), max_size=3),
    st.lists(st.none() | texts, max_size=3), st.binary(max_size=4),
)  # fmt: skip


@pytest.fixture
def written():
    """Return a function that writes rows both ways and returns what each has stored."""
    with connection.cursor() as cursor:
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        cursor.execute(f"CREATE TABLE copied ({columns})")

    def both(*rows):
        model = SimpleNamespace(_meta=SimpleNamespace(db_table="copied"))
        values = ", ".join(f"%s::{kind}" for kind in COLUMNS.values())
        stored = []
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE copied")
            copy_rows(model, list(COLUMNS), rows)
            cursor.execute("SELECT copied::text FROM copied")
            stored.append(cursor.fetchall())
            cursor.execute("TRUNCATE copied")
            for row in rows:
                cursor.execute(f"INSERT INTO copied VALUES ({values})", row)
            cursor.execute("SELECT copied::text FROM copied")
            stored.append(cursor.fetchall())
        return stored

    yield both
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE copied")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(rows, max_size=4), st.data())
def test_any_values_are_stored_as_psycopg_stores_them(written, drawn, data):
    asked = []
    document = list(COLUMNS).index("document")
    for values in drawn:
        row = [*values[:document], Jsonb(values[document]), *values[document + 1 :]]
        lacking = data.draw(st.sets(st.sampled_from(range(len(row)))))
        asked.append([None if each in lacking else value for each, value in enumerate(row)])
    copied, inserted = written(*asked)
    assert copied == inserted


def test_members_of_enumerations_are_stored_by_their_values(written):
    row = [None] * len(COLUMNS)
    row[list(COLUMNS).index("words")] = Kind.ALONE
    row[list(COLUMNS).index("texts")] = [Kind.USAGE, "x"]
    row[list(COLUMNS).index("real")] = -math.inf
    copied, inserted = written(row)
    assert copied == inserted
    assert "alone" in copied[0][0]


def test_rows_beyond_one_portion_are_all_stored(written):
    row = [None] * len(COLUMNS)
    copied, inserted = written(*[[number, *row[1:]] for number in range(2_001)])
    assert len(copied) == 2_001
    assert copied == inserted


@pytest.mark.parametrize("value", ["\0", "a\0b"])
def test_texts_that_postgresql_cannot_store_are_errors_of_data(written, value):
    row = [None] * len(COLUMNS)
    row[list(COLUMNS).index("words")] = value
    with pytest.raises(DataError):
        written(row)


def test_the_hour_that_comes_twice_is_stored_twice(written):
    """Two times of one zone that differ by their fold alone are equal, and an hour apart."""
    first = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    rows = [[None] * len(COLUMNS) for _ in range(2)]
    for row, at in zip(rows, [first, first.replace(fold=1)], strict=True):
        row[list(COLUMNS).index("at")] = at
    copied, inserted = written(*rows)
    assert copied == inserted
    assert len(set(copied)) == 2


def test_ids_and_times_of_the_service_are_taken(written):
    row = [None] * len(COLUMNS)
    row[list(COLUMNS).index("key")] = UUID(int=7)
    row[list(COLUMNS).index("at")] = datetime(2026, 10, 25, 2, 30, 0, 1, tzinfo=UTC)
    row[list(COLUMNS).index("exact")] = Decimal("1E+3")
    copied, inserted = written(row)
    assert copied == inserted
