"""Documents and rows as bytes, the same for every interface."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


# Numbers that orjson writes in another form than Python: `1e-7` for `1e-07`, and `0.00001` for `1e-05`.
# Expressions that begin with a literal are searched for ten times as fast as others.
_ONE_DIGIT = re.compile(rb"e-([1-9])(?![0-9])")
_FIVE_PLACES = re.compile(rb"0\.0000([1-9])([0-9]*)")


def canonical_bytes(document: Any) -> bytes:
    """Return a document as JSON with sorted keys, no spaces and numbers as Python writes them.

    These are the bytes of `json.dumps`, two to eight times as fast. Numbers must be finite.
    """
    try:
        written = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        written = b"\\"
    return canonical_form(written, document)


def canonical_form(written: bytes, document: Any) -> bytes:
    """Return the `canonical_bytes` of a document that `orjson` has written with sorted keys."""
    if b"\\" in written:  # rare, and then quotes do not separate texts from numbers
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode()
    return _rewritten(_FIVE_PLACES, _with_exponent, _rewritten(_ONE_DIGIT, _with_zero, written))


def _rewritten(
    number: re.Pattern[bytes], form: Callable[[re.Match[bytes]], bytes], written: bytes
) -> bytes:
    """Return a document without backslashes in which numbers, but not texts, have another form."""
    parts, begin, quotes = [], 0, 0
    for found in number.finditer(written):
        quotes += written.count(b'"', begin, found.start())
        parts += [written[begin : found.start()], found[0] if quotes % 2 else form(found)]
        begin = found.end()
    return b"".join([*parts, written[begin:]])


def _with_zero(found: re.Match[bytes]) -> bytes:
    return b"e-0" + found[1]


def _with_exponent(found: re.Match[bytes]) -> bytes:
    first, others = found.groups()
    if found.string[max(found.start() - 1, 0) : found.start()].isdigit():  # the end of 10.00001
        return found[0]
    return first + (b"." + others if others else b"") + b"e-05"


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
