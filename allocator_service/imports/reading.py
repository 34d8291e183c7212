"""Texts and JSON documents in files."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from allocator_service.core.errors import FieldError, TooLarge, Unacceptable

MAX_ROWS = 200_000
MAX_VALUES = 1_000_000
MAX_FILE_BYTES = 512 * 2**20


def file_text(path: str) -> str:
    """Return the text of a file in UTF-8, without a byte order mark.

    Raises `Unacceptable` for a file that cannot be read or is in another encoding, `TooLarge` above
    512 MiB.
    """
    try:
        with Path(path).open("rb") as file:
            # One byte more, which shows that a file is larger without reading all of it.
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Unacceptable(
            f"{path} cannot be read: {error.strerror or error}.", code="import.file"
        ) from error
    if len(content) > MAX_FILE_BYTES:
        raise TooLarge(
            f"{path} is larger than {MAX_FILE_BYTES // 2**20} MiB: split it.",
            code="import.too_many",
        )
    return utf8_text(content, path)


def utf8_text(content: bytes, name: str) -> str:
    """Decode the content of the file `name`. Raises `Unacceptable` for an encoding other than UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Unacceptable(
            f"{name} is not UTF-8: line {line} has the byte 0x{content[error.start]:02x} where none"
            " can be. Convert it, for example with iconv -t UTF-8.",
            code="import.encoding",
        ) from error


def json_content(content: str | dict[str, Any]) -> dict[str, Any]:
    """Parse a JSON object, or return one that is parsed already.

    Raises `Unacceptable` for other content, and for NaN and Infinity.
    """
    if not isinstance(content, str):
        return content
    document = _json(content)
    if not isinstance(document, dict):
        raise not_the_json("expected an object")
    return document


def json_items(content: str) -> list[Any]:
    """Parse a JSON array and return its items. Raises `Unacceptable`, `TooLarge`."""
    items = _json(content)
    if not isinstance(items, list):
        raise not_the_json("expected an array")
    check_row_count(len(items))
    return items


def _json(content: str) -> Any:
    # The parser holds the interpreter until it ends: a second for a million values.
    # Each value follows one of these characters, so that there are at most as many.
    values = sum(map(content.count, ",[{"))
    if values > MAX_VALUES:
        raise TooLarge(
            f"Expected at most {MAX_VALUES:,} values, got about {values:,}: split the file.",
            code="import.too_many",
        )
    try:
        # Quantities are exact: no number becomes a float.
        return json.loads(content, parse_float=Decimal, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        raise not_the_json(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise not_the_json("it is nested too deeply or has a number too long to read") from error


def refuse_constant(name: str) -> NoReturn:
    """Raise `Unacceptable` for NaN and Infinity, which a JSON document cannot have."""
    raise Unacceptable(f"{name} is not a JSON number.", code="quantity.not_finite")


def not_the_json(reason: str) -> Unacceptable:
    """Return the error of content that cannot be parsed."""
    return Unacceptable(f"The content is not the expected JSON: {reason}.", code="import.json")


def list_at(document: dict[str, Any], name: str, command: str) -> list[Any]:
    """The list of this name in a document. Raises `Unacceptable` naming the command that makes one."""
    items = document.get(name)
    if not isinstance(items, list):
        raise Unacceptable(
            f'The content has no list "{name}": it is not the output of {command}.',
            code="import.shape",
        )
    check_row_count(len(items))
    return items


def check_row_count(rows: int) -> None:
    """Raise `TooLarge` for more than 200,000 rows."""
    if rows > MAX_ROWS:
        raise TooLarge(
            f"Expected at most {MAX_ROWS:,} rows in one file, got {rows:,}: split it.",
            code="import.too_many",
        )


def object_at(document: Any, *names: str) -> dict[str, Any]:
    """Return the object at a path of names, or an empty one if the path does not exist.

    Raises `Unacceptable` for a value that is not an object.
    """
    for name in names:
        document = document.get(name) if isinstance(document, dict) else document
        if document is None:
            return {}
    if not isinstance(document, dict):
        where = "".join(f"/{name}" for name in names)
        raise Unacceptable("Expected a JSON object.", code="import.shape", pointer=where)
    return document


def errors_of(error: Unacceptable) -> tuple[FieldError, ...]:
    """Return the errors of an exception. One without a place is about the whole row."""
    return error.errors or (FieldError("", error.code, error.detail),)
