"""FOCUS rows as the bytes of a file, in the order in which they come."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from allocator_service.billing.exports.focus import COLUMNS, DECIMALS, INSTANTS
from allocator_service.billing.exports.parquet import parquet_write
from api.contract.renderers import csv_bytes, json_bytes

CHUNK_BYTES = 256 * 1024


def focus_content(rows: Iterable[Mapping[str, Any]], *, file_format: str) -> Iterator[bytes]:
    """The rows as `csv`, `ndjson` or `parquet`."""
    if file_format == "parquet":
        return _parquet(rows)
    return _csv(rows) if file_format == "csv" else (json_bytes(row) + b"\n" for row in rows)


def _csv(rows: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    head = csv_bytes([], COLUMNS)
    yield head
    for row in rows:
        yield csv_bytes([row], COLUMNS)[len(head) :]


def _parquet(rows: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "focus.parquet"
        parquet_write(path, rows, columns=COLUMNS, decimals=DECIMALS, instants=INSTANTS)
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
