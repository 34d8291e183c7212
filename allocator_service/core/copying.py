"""Large writes by COPY, in the open transaction of Django's connection."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Model
from psycopg import sql
from psycopg.abc import Transformer as AbstractTransformer
from psycopg.adapt import PyFormat, Transformer

_ROWS_AT_ONCE = 1_000
# From so many rows on, foreign keys are checked by new plans.
MANY_ROWS = 200


def copy_rows(model: type[Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Append `rows` to the model's table, values in the order of `columns`.

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
        other = _adapted(Transformer(cursor.connection))
        lines: list[str] = []
        for row in rows:
            lines.append("\t".join([_TEXTS.get(type(value), other)(value) for value in row]))
            copied += 1
            if len(lines) == _ROWS_AT_ONCE:
                copy.write("\n".join(lines) + "\n")
                lines.clear()
        if lines:
            copy.write("\n".join(lines) + "\n")
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


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES) if _SPECIAL(text) else text


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# What has a meaning of its own in COPY's text form.
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_SPECIAL = re.compile(r"[\\\t\n\r]").search
_SIMPLE: Mapping[type, Callable[[Any], str]] = {
    int: str,
    float: repr,
    Decimal: str,
    UUID: str,
    date: date.isoformat,
    datetime: datetime.isoformat,
}
# By the type itself: a subclass may be adapted in another way.
_TEXTS = {**_SIMPLE, NoneType: lambda _: r"\N", str: _escaped}
_ELEMENTS = {**_SIMPLE, NoneType: lambda _: "NULL", str: _quoted}


def _adapted(transformer: AbstractTransformer) -> Callable[[Any], str]:
    """Return a function that writes arrays, and values of other types as psycopg does."""

    def text(value: Any) -> str:
        if type(value) is list and set(map(type, value)) <= _ELEMENTS.keys():
            return _escaped("{" + ",".join([_ELEMENTS[type(each)](each) for each in value]) + "}")
        dumped = transformer.get_dumper(value, PyFormat.TEXT).dump(value)
        return r"\N" if dumped is None else _escaped(bytes(dumped).decode())

    return text
