"""Large writes by COPY, in the open transaction of Django's connection."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Model
from psycopg import sql

_NUMBERS = {int, float, Decimal}
# From so many rows on, foreign keys are checked by new plans.
MANY_ROWS = 200


def copy_rows(model: type[Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Append `rows` to the model's table, values adapted by psycopg in the order of `columns`.

    Rows are read during the COPY, which holds the connection: an iterable that queries the database
    would wait for ever.

    Constraints are checked by PostgreSQL as for INSERT; defaults of Django fields are not applied.
    Raises Django's `IntegrityError` and its kin, whose cause is psycopg's.
    """
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(model._meta.db_table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    # Django translates what its cursor's methods raise, and a COPY fails at the end of its block.
    errors, copied = connection.wrap_database_errors, 0
    with errors, connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row([_as_text(value) if type(value) is list else value for value in row])
            copied += 1
    plans_renew(copied)


def plans_renew(copied: int) -> None:
    """Have plans made anew after many rows were copied.

    A session keeps the plan by which it checks a foreign key. Made while one page held the table
    referred to, it reads the whole table for each row, however many there are by now. The foreign keys
    of the rows are checked at the transaction's end.
    """
    if copied >= MANY_ROWS:
        with connection.cursor() as cursor:
            cursor.execute("DISCARD PLANS")


def _as_text(values: list[Any]) -> Any:
    """Return an array of numbers in PostgreSQL's form, for which psycopg takes a third of the time."""
    if set(map(type, values)) <= _NUMBERS:
        return "{" + ",".join(map(str, values)) + "}"
    return values
