"""Documents and rows as bytes, the same for every interface."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from allocator_service.core.spreadsheets import inert

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC


def json_bytes(document: Any) -> bytes:
    """Return a document as the bytes of its JSON.

    Instants are in UTC with `Z`, ids texts, and numbers in the shortest form that reads back equal.
    """
    try:
        return orjson.dumps(document, option=_OPTIONS)
    except TypeError:
        # Rare, so that the usual document is written in one pass.
        return orjson.dumps(_writable(document), option=_OPTIONS)


def _writable(value: Any) -> Any:
    """Return the value with integers beyond 64 bits, which orjson refuses, as digits."""
    if isinstance(value, Mapping):
        return {name: _writable(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return orjson.Fragment(str(value))
    return value


def csv_bytes(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    """Return the rows under a header, in which `capacity.cpu` is the member `cpu` of `capacity`."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([inert(column) for column in columns])
    for row in rows:
        writer.writerow([_cell(row, column) for column in columns])
    return text.getvalue().encode()


def csv_stream(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[bytes]:
    """Yield the bytes of `csv_bytes`, row by row."""
    head = csv_bytes([], columns)
    yield head
    for row in rows:
        yield csv_bytes([row], columns)[len(head) :]


def _cell(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    # A key such as a label may itself contain a point, so the whole name is tried first.
    if value is None and "." in column:
        name, _, member = column.partition(".")
        inner = row.get(name)
        value = inner.get(member) if isinstance(inner, Mapping) else None
    if value is None:
        return ""
    return inert(value) if isinstance(value, str) else json_bytes(value).decode().strip('"')
