"""Parsers of bodies, one of strict JSON and one of CSV rows."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import IO, Any

from rest_framework.parsers import BaseParser

from allocator_service.core.errors import Unreadable

MAX_DEPTH = 32
MAX_INTEGER_DIGITS = 40
MAX_NUMBER_LENGTH = 1_000
MAX_EXPONENT = 308

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NEITHER_BRACKET_NOR_QUOTE = bytes(set(range(256)) - set(b'[]{}"'))
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class StrictJSONParser(BaseParser):
    """JSON in UTF-8 (RFC 8259) without duplicate names and numbers beyond doubles."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        return json_document(stream.read())


class MergePatchParser(StrictJSONParser):
    """A merge patch (RFC 7396), in which null removes a member."""

    media_type = "application/merge-patch+json"


class CSVRowsParser(BaseParser):
    """Rows whose columns are fields, such as `capacity.cpu` for the member `cpu` of `capacity`."""

    media_type = "text/csv"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        return csv_rows(stream.read())


def json_document(body: bytes) -> Any:
    """Return the JSON value of a body, `{}` for an empty one. Decimals stay exact.

    Raises `Unreadable` for anything that is not JSON as clients are asked to write it.
    """
    if not body.strip():
        return {}
    _refuse_deep(body)
    # Without escaped backslashes, each "\u" that is left begins an escape.
    escapes = body.replace(rb"\\", b"")
    if rb"\u0000" in escapes:
        raise Unreadable("Text may not contain the character U+0000.", code="json.nul")
    try:
        document = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_members,
            parse_int=_integer,
            parse_float=_decimal,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"The body is not UTF-8: byte {error.start} is wrong.", code="json.encoding"
        ) from error
    except json.JSONDecodeError as error:
        raise Unreadable(
            f"The body is not JSON: {error.msg} (line {error.lineno}, column {error.colno}).",
            code="json.syntax",
        ) from error
    except RecursionError as error:
        raise _too_deep() from error
    if _SURROGATE.search(escapes):
        _refuse_lone_surrogates(document)
    return document


def _refuse_deep(body: bytes) -> None:
    """Refuse nesting beyond the limit before anything recurses.

    What remains of the body are its brackets outside strings; each pass removes the innermost.
    """
    # Escaped quotes do not end a string. Then every second part between quotes is outside strings.
    marks = body.replace(rb"\\", b"").replace(rb"\"", b"").translate(_BRACKETS, b"")
    marks = marks.translate(None, _NEITHER_BRACKET_NOR_QUOTE)
    brackets = b"".join(marks.split(b'"')[::2])
    for _ in range(MAX_DEPTH):
        outer = brackets.replace(b"[]", b"")
        if len(outer) == len(brackets):
            break
        brackets = outer
    if b"[]" in brackets or brackets.count(b"[") > MAX_DEPTH:
        raise _too_deep()


def _too_deep() -> Unreadable:
    return Unreadable(f"The body nests deeper than {MAX_DEPTH} levels.", code="json.depth")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Python keeps the last of two equal names, where a proxy or a log may read the first.
    members = dict(pairs)
    if len(members) != len(pairs):
        twice = _first_repeated(name for name, _ in pairs)
        raise Unreadable(f'The name "{twice[:80]}" appears twice.', code="json.duplicate")
    return members


def _first_repeated(names: Iterable[str]) -> str:
    """Return the first duplicate name, or an empty string."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


def _integer(digits: str) -> int:
    # Reading n digits takes time in the square of n.
    if len(digits.removeprefix("-")) > MAX_INTEGER_DIGITS:
        raise Unreadable(f"An integer has at most {MAX_INTEGER_DIGITS} digits.", code="json.number")
    return int(digits)


def _decimal(text: str) -> Decimal:
    if len(text) > MAX_NUMBER_LENGTH:
        raise Unreadable(
            f"A number has at most {MAX_NUMBER_LENGTH} characters.", code="json.number"
        )
    # `Decimal` refuses exponents that no double has, which the next check refuses by name.
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("Infinity")
    if not number.is_finite() or abs(number.adjusted()) > MAX_EXPONENT:
        raise Unreadable(f"The number {text[:40]} is out of range.", code="json.number")
    return number


def _refuse_constant(name: str) -> Any:
    raise Unreadable(f"{name} is not JSON; unlimited is written null.", code="json.number")


def _refuse_lone_surrogates(document: Any) -> None:
    try:
        json.dumps(document, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unreadable("Text may not contain a lone surrogate.", code="json.surrogate") from error


def csv_rows(body: bytes) -> list[dict[str, Any]]:
    """Return the rows of a CSV body as documents of texts, in which an empty cell is an omitted field.

    The first row names the columns. Raises `Unreadable`, with the row counted from 1 after it.
    """
    try:
        # Spreadsheets begin UTF-8 files with a byte order mark.
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"The body is not UTF-8: byte {error.start} is wrong.", code="csv.encoding"
        ) from error
    if "\0" in text:
        raise Unreadable("Text may not contain the character U+0000.", code="csv.nul")
    # Without `newline=""` line ends within quoted cells would be changed.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = [column.strip() for column in next(reader, [])]
        _refuse_columns(columns)
        return [_row(number, columns, cells) for number, cells in enumerate(reader, 1) if cells]
    except csv.Error as error:
        raise Unreadable(
            f"The body is not CSV: {error} (line {reader.line_num}).", code="csv.syntax"
        ) from error


def _refuse_columns(columns: Sequence[str]) -> None:
    if not any(columns):
        raise Unreadable("The first row names the columns.", code="csv.header")
    if "" in columns:
        raise Unreadable(f"Column {columns.index('') + 1} has no name.", code="csv.header")
    if twice := _first_repeated(columns):
        raise Unreadable(f'The column "{twice[:80]}" appears twice.', code="csv.header")
    names = set(columns)
    for column in columns:
        # A cell cannot be both an object and a member of it.
        if "." in column and column.partition(".")[0] in names:
            raise Unreadable(
                f'The column "{column[:80]}" is a part of another column.', code="csv.header"
            )


def _row(number: int, columns: Sequence[str], cells: Sequence[str]) -> dict[str, Any]:
    if len(cells) != len(columns):
        raise Unreadable(
            f"Row {number} has {len(cells)} cells; the header names {len(columns)} columns.",
            code="csv.row",
            pointer=f"/{number - 1}",
        )
    document: dict[str, Any] = {}
    for column, cell in zip(columns, cells, strict=True):
        if cell == "":
            continue
        name, dot, member = column.partition(".")
        if dot:
            # The header was checked: no column is both an object and one of its members.
            document.setdefault(name, {})[member] = cell
        else:
            document[name] = cell
    return document
