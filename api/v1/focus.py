"""Rows of FOCUS and lines of statements as the bytes of a file."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from allocator_service.billing.exports.focus import COLUMNS, DECIMALS, INSTANTS, SCALE
from allocator_service.billing.exports.parquet import PRECISION, parquet_stream
from allocator_service.billing.statements.documents import LINE_COLUMNS
from allocator_service.core.documents import csv_stream, json_bytes

LINE_DECIMALS = (
    "amount", "hours", "price", "charge", "fee", "billed", "effective", "committed_hours",
)  # fmt: skip

LINE_SCALE = 18


def focus_content(
    rows: Callable[[], Iterable[Mapping[str, Any]]], *, version: str, file_format: str
) -> Iterator[bytes]:
    """Return the rows as `csv`, `ndjson` or `parquet`."""
    if file_format == "parquet":
        return parquet_stream(
            rows(),
            columns=COLUMNS[version],
            decimals=DECIMALS,
            instants=INSTANTS,
            scale=SCALE,
            # Rows are made twice: a file states the width of its decimals before the first of them,
            # and all rows of a month at once could fill the memory.
            wide=_too_large(rows(), DECIMALS, SCALE),
        )
    if file_format == "csv":
        return csv_stream(rows(), COLUMNS[version])
    return (json_bytes(row) + b"\n" for row in rows())


def _too_large(rows: Iterable[Mapping[str, Any]], decimals: Iterable[str], scale: int) -> bool:
    """Return whether a number has no room in the decimals that most readers understand."""
    limit = Decimal(10) ** (PRECISION - scale)
    numbers = (row[name] for row in rows for name in decimals)
    return any(abs(Decimal(number)) >= limit for number in numbers if number is not None)


def lines_parquet(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the lines of a statement as a Parquet file, in which spaces separate several entries."""
    none = dict.fromkeys(LINE_COLUMNS)  # statements of earlier releases lack some columns
    rows = [
        {
            **none,
            **line,
            "entries": " ".join(line.get("entries", ())) or None,
            "parts": json_bytes(line["parts"]).decode() if line.get("parts") else None,
        }
        for line in lines
    ]
    return b"".join(
        parquet_stream(
            rows,
            columns=LINE_COLUMNS,
            decimals=LINE_DECIMALS,
            instants=("from", "to"),
            integers=("number",),
            scale=LINE_SCALE,
            wide=_too_large(rows, LINE_DECIMALS, LINE_SCALE),
        )
    )
