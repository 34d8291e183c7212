"""Parquet files of rows of text values, with exact decimals and instants in UTC."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROWS_AT_ONCE = 20_000
PRECISION, SCALE = 38, 12
WIDE_PRECISION = 76
CHUNK_BYTES = 64 * 1024


def parquet_stream(
    rows: Iterable[Mapping[str, Any]],
    *,
    columns: Sequence[str],
    decimals: Sequence[str],
    instants: Sequence[str],
    integers: Sequence[str] = (),
    scale: int = SCALE,
    wide: bool = False,
) -> Iterator[bytes]:
    """Yield the bytes of a Parquet file of the rows, which is written to the disk first."""
    # A Parquet file ends with its index, and a whole export does not fit into memory.
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        parquet_write(
            path,
            rows,
            columns=columns,
            decimals=decimals,
            instants=instants,
            integers=integers,
            scale=scale,
            wide=wide,
        )
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk


def parquet_write(
    path: Path,
    rows: Iterable[Mapping[str, Any]],
    *,
    columns: Sequence[str],
    decimals: Sequence[str],
    instants: Sequence[str],
    integers: Sequence[str] = (),
    scale: int = SCALE,
    wide: bool = False,
) -> None:
    """Write the rows to a file, a group of some thousand at a time.

    `wide` decimals have room for 76 digits instead of 38, which fewer readers understand.
    """
    # Not for processes that write no file: pyarrow takes 35 MiB of memory.
    import pyarrow as pa
    import pyarrow.parquet as pq

    decimal_type = pa.decimal256(WIDE_PRECISION, scale) if wide else pa.decimal128(PRECISION, scale)
    types = {
        **dict.fromkeys(columns, pa.string()),
        **dict.fromkeys(decimals, decimal_type),
        **dict.fromkeys(instants, pa.timestamp("us", tz="UTC")),
        **dict.fromkeys(integers, pa.int64()),
    }
    schema = pa.schema([(name, types[name]) for name in columns])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _groups(rows):
            values = {
                name: [_value(row[name], name in decimals, name in instants) for row in group]
                for name in columns
            }
            writer.write_table(pa.table(values, schema=schema))


def _groups(rows: Iterable[Mapping[str, Any]]) -> Iterable[list[Mapping[str, Any]]]:
    group: list[Mapping[str, Any]] = []
    for row in rows:
        group.append(row)
        if len(group) == ROWS_AT_ONCE:
            yield group
            group = []
    # Also if it is empty: a file without rows states its columns.
    yield group


def _value(value: Any, decimal: bool, instant: bool) -> Any:
    if value is None:
        return None
    if decimal:
        return Decimal(value)
    return datetime.fromisoformat(value) if instant else value
