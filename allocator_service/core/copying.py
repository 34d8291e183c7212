"""Large writes: COPY through the transaction that is open on Django's connection."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection
from django.db.models import Model
from psycopg import sql


def copy_rows(model: type[Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Append `rows` to the model's table, values adapted by psycopg in the order of `columns`.

    Constraints are checked by PostgreSQL as for INSERT; defaults of Django fields are not applied.
    Raises Django's `IntegrityError` and its kin, whose cause is psycopg's.
    """
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(model._meta.db_table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    # Django translates what its cursor's methods raise, and a COPY fails at the end of its block.
    errors = connection.wrap_database_errors
    with errors, connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)
