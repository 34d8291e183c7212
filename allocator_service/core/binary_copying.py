"""Large writes by COPY in PostgreSQL's binary form, column by column.

Numbers are neither written as text nor parsed, so that it takes less time than `copy_rows`.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.db import connection
from django.db.models import Model
from psycopg import sql

from allocator_service.core.copying import plans_renew

Field = bytes
"""A value in binary form after its length, or several of them."""

# COPY's signature, no flags and no extension. The trailer is a row of -1 fields.
_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_TRAILER = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_FLOAT8 = 701  # the number of the type in PostgreSQL's catalogue, which the header of an array has
_ROWS_AT_ONCE = 1_000


def copy_fields(
    model: type[Model], columns: Sequence[str], fields: Sequence[Sequence[Field]]
) -> None:
    """Append rows to the model's table, given as lists of fields by column.

    A list may have the fields of several consecutive columns (`number_fields`). Constraints and errors
    are those of `copy_rows`.
    """
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(model._meta.db_table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    begin = len(columns).to_bytes(2, "big")
    rows = [begin + b"".join(row) for row in zip(*fields, strict=True)]
    errors = connection.wrap_database_errors
    with errors, connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(_HEADER)
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            copy.write(b"".join(rows[first : first + _ROWS_AT_ONCE]))
        copy.write(_TRAILER)
    plans_renew(len(rows))


def number_fields(*columns: npt.NDArray[Any]) -> list[Field]:
    """Return the fields of consecutive columns of numbers in each row.

    Numbers of 4 and 8 bytes are `int4` and `int8` or `float8`, 16 raw bytes a `uuid`, and a table is a
    column of `float8[]`.
    """
    count = len(columns[0])
    names: list[tuple[Any, ...]] = []
    values: list[Any] = []
    for number, column in enumerate(columns):
        if column.ndim == 2:
            width = column.shape[1]
            element = np.dtype([("length", ">i4"), ("value", ">f8")])
            names += [(f"head{number}", ">i4", (6,)), (f"value{number}", element, (width,))]
            # The length, one dimension without nulls, the type, and the dimension, counted from 1.
            head = [20 + element.itemsize * width, 1, 0, _FLOAT8, width, 1]
            table = np.empty((count, width), dtype=element)
            table["length"], table["value"] = 8, column
            values += [head, table]
        else:
            kind = column.dtype if column.dtype.kind == "V" else column.dtype.newbyteorder(">")
            names += [(f"length{number}", ">i4"), (f"value{number}", kind)]
            values += [column.dtype.itemsize, column]
    rows = np.empty(count, dtype=np.dtype(names))
    for (name, *_), value in zip(names, values, strict=True):
        rows[name] = value
    return _parts(rows.tobytes(), rows.dtype.itemsize)


def finite_fields(column: npt.NDArray[np.float64]) -> list[Field]:
    """Return the fields of numbers, null in place of those that are not finite."""
    fields = number_fields(column)
    for position in np.flatnonzero(~np.isfinite(column)).tolist():
        fields[position] = _NULL
    return fields


def text_fields(texts: Iterable[str]) -> list[Field]:
    """Return the fields of texts."""
    written: dict[str, Field] = {}
    fields = []
    for text in texts:
        field = written.get(text)
        if field is None:
            content = text.encode()
            field = written[text] = len(content).to_bytes(4, "big") + content
        fields.append(field)
    return fields


def raw_uuids(uuids: Sequence[UUID]) -> npt.NDArray[np.void]:
    """Return ids as a column of `number_fields`."""
    return np.frombuffer(b"".join(each.bytes for each in uuids), dtype="V16")


def _parts(content: bytes, size: int) -> list[bytes]:
    return [content[begin : begin + size] for begin in range(0, len(content), size)]
