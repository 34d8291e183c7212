"""Rows of FOCUS and lines of statements as the bytes of a file."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from allocator_service.billing.exports.focus import COLUMNS, DECIMALS, INSTANTS
from allocator_service.billing.exports.parquet import PRECISION, parquet_stream
from allocator_service.billing.statements.documents import LINE_COLUMNS
from allocator_service.core.documents import csv_bytes, json_bytes

LINE_DECIMALS = ("amount", "hours", "price", "charge", "fee", "billed", "effective")

LINE_SCALE = 18

TOO_LARGE = Decimal(10) ** (PRECISION - LINE_SCALE)


def focus_content(rows: Iterable[Mapping[str, Any]], *, file_format: str) -> Iterator[bytes]:
    """Return the rows as `csv`, `ndjson` or `parquet`."""
    if file_format == "parquet":
        return parquet_stream(rows, columns=COLUMNS, decimals=DECIMALS, instants=INSTANTS)
    return _csv(rows) if file_format == "csv" else (json_bytes(row) + b"\n" for row in rows)


def _csv(rows: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    head = csv_bytes([], COLUMNS)
    yield head
    for row in rows:
        yield csv_bytes([row], COLUMNS)[len(head) :]


def lines_parquet(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the lines of a statement as a Parquet file, in which spaces separate several entries."""
    none = dict.fromkeys(LINE_COLUMNS)  # statements of earlier releases lack some columns
    rows = [
        {**none, **line, "entries": " ".join(line.get("entries", ())) or None} for line in lines
    ]
    numbers = (row[name] for row in rows for name in LINE_DECIMALS)
    wide = any(abs(Decimal(number)) >= TOO_LARGE for number in numbers if number is not None)
    return b"".join(
        parquet_stream(
            rows,
            columns=LINE_COLUMNS,
            decimals=LINE_DECIMALS,
            instants=("from", "to"),
            integers=("number",),
            scale=LINE_SCALE,
            wide=wide,
        )
    )
