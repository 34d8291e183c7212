"""Parquet files of archived entries.

A file holds the entries of one month in the order of their sequence, with the columns of the NDJSON
export and the keys of the database. docs/chain.md specifies the columns. PyArrow is imported where it
is used: most processes read no archive.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, reduce
from io import BufferedReader, BytesIO, RawIOBase
from operator import and_
from pathlib import Path
from typing import Any

from django.conf import settings

from allocator_service.core.errors import Unavailable
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.models import Archive

FORMAT = 1
METADATA_KEY = b"allocator.ledger"
ROWS_IN_GROUP = 50_000
_READ_BYTES = 1024 * 1024

# By the names of the NDJSON export, then what only the database knows.
_TEXTS = (
    "id", "pool", "tenant", "server_owner", "workload", "resource", "unit", "amount", "kind",
    "corrects", "reason", "source", "event_id", "run", "digest",
)  # fmt: skip
_INSTANTS = ("start", "end", "recorded_at")
_INTEGERS = ("sequence", "block", "pool_id", "tenant_id", "server_owner_id")
COLUMNS = (
    "sequence", "id", "pool", "tenant", "server_owner", "workload", "resource", "unit", "quantity",
    "start", "end", "amount", "kind", "corrects", "reason", "source", "event_id", "run",
    "recorded_at", "digest", "block", "pool_id", "tenant_id", "server_owner_id",
)  # fmt: skip
# Columns of `ledger_entry` by those of a file.
STORED = {
    **{
        name: name
        for name in COLUMNS
        if name not in ("sequence", "pool", "tenant", "server_owner", "digest", "block")
    },
    "workload": "workload_id",
    "run": "run_id",
}


@cache
def schema() -> Any:
    """Return the Arrow schema of a file."""
    import pyarrow as pa

    types = {
        **dict.fromkeys(_TEXTS, pa.string()),
        **dict.fromkeys(_INSTANTS, pa.timestamp("us", tz="UTC")),
        **dict.fromkeys(_INTEGERS, pa.int64()),
        "quantity": pa.decimal128(36, 12),
    }
    return pa.schema([(name, types[name]) for name in COLUMNS])


def directory() -> Path:
    """Return the directory of archives. Raises `Unavailable` if none is set."""
    if not settings.ENVIRONMENT.ledger_archive_dir:
        raise unavailable(
            "LEDGER_ARCHIVE_DIR is not set", "set it to the directory of the archives"
        )
    return Path(settings.ENVIRONMENT.ledger_archive_dir)


def unavailable(what: str, remedy: str) -> Unavailable:
    """Return the error of archived entries that cannot be read."""
    return Unavailable(
        f"Archived entries of the ledger cannot be read: {what}; {remedy}.",
        code="ledger.archive_unavailable",
    )


def file_write(
    path: Path,
    rows: Iterator[bytes],
    metadata: Mapping[str, Any],
    *,
    rows_in_group: int = ROWS_IN_GROUP,
) -> None:
    """Write rows of CSV, with quoted values and without a header, to a file that reaches the disk."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    convert = csv.ConvertOptions(
        column_types=schema(),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
        timestamp_parsers=[csv.ISO8601],
    )
    parse = csv.ParseOptions(newlines_in_values=True)
    read = csv.ReadOptions(column_names=list(COLUMNS), block_size=8 * _READ_BYTES)
    described = schema().with_metadata({METADATA_KEY: json.dumps(metadata).encode()})
    with (
        path.open("wb") as file,
        pq.ParquetWriter(
            file,
            described,
            compression="zstd",
            compression_level=9,
            write_page_checksum=True,
            write_statistics=True,
        ) as writer,
        csv.open_csv(
            BufferedReader(_Chunks(rows), _READ_BYTES),
            read_options=read,
            parse_options=parse,
            convert_options=convert,
        ) as batches,
    ):
        waiting: list[Any] = []
        count = 0
        for batch in batches:
            waiting.append(batch)
            count += batch.num_rows
            if count >= rows_in_group:
                writer.write_table(pa.Table.from_batches(waiting), row_group_size=rows_in_group)
                waiting, count = [], 0
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting), row_group_size=rows_in_group)
    with path.open("rb") as written:
        os.fsync(written.fileno())


class _Chunks(RawIOBase):
    """Chunks of bytes as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = next(self._chunks, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def file_digest(path: Path) -> bytes:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


# Files whose digest this process has compared, by path, size, time of change and digest. A file that was
# altered with its size and time kept is found by `manage.py verify`, which compares each file again.
_compared: set[tuple[str, int, int, bytes]] = set()


def archive_path(archive: Archive, *, again: bool = False) -> Path:
    """Return the path of an archive's file if it is the one that was written.

    Its digest is compared once per process, or `again`. Raises `Unavailable` naming the file.
    """
    path = directory() / archive.name
    remedy = "restore the file from a backup"
    try:
        status = path.stat()
        if status.st_size != archive.size:
            what = f"{archive.name} has {status.st_size:,} bytes instead of {archive.size:,}"
            raise unavailable(what, remedy)
        key = (str(path), status.st_size, status.st_mtime_ns, bytes(archive.sha256))
        if again or key not in _compared:
            if file_digest(path) != bytes(archive.sha256):
                raise unavailable(f"{archive.name} was altered", remedy)
            _compared.add(key)
    except FileNotFoundError as error:
        raise unavailable(f"{archive.name} is missing from {path.parent}", remedy) from error
    except OSError as error:
        raise unavailable(f"{archive.name} cannot be opened ({error.strerror})", remedy) from error
    return path


def file_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of a file. Raises `ValueError` for a file of another kind or format."""
    import pyarrow.parquet as pq

    described = pq.read_schema(path)
    found = json.loads((described.metadata or {}).get(METADATA_KEY, b"{}"))
    if found.get("format") != FORMAT or not described.equals(schema()):
        raise ValueError(f"{path.name} is not a ledger archive of format {FORMAT}")
    return dict(found)


def group_ends(path: Path) -> list[int]:
    """Return the last sequence of each group of rows of a file, in their order."""
    import pyarrow.parquet as pq

    with _damage_reported(path):
        described = pq.read_metadata(path)
        column = COLUMNS.index("sequence")
        return [
            described.row_group(group).column(column).statistics.max
            for group in range(described.num_row_groups)
        ]


@contextmanager
def _damage_reported(path: Path) -> Iterator[None]:
    """Raise `Unavailable` for errors of reading a file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        what = f"{path.name} is damaged ({type(error).__name__})"
        raise unavailable(what, "restore the file from a backup") from error


def file_rows(path: Path, selections: Sequence[Selection]) -> Iterator[bytes]:
    """Yield rows that any of the selections includes, as CSV with the columns of `STORED`."""
    import pyarrow.dataset as ds
    from pyarrow import csv

    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    formats = ds.ParquetFileFormat(
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    )
    with _damage_reported(path):
        rows = ds.dataset(path, schema=schema(), format=formats)
        scanner = rows.scanner(
            columns=list(STORED),
            filter=_any([_expression(each) for each in selections]),
            batch_size=ROWS_IN_GROUP,
            batch_readahead=2,
            fragment_readahead=1,
        )
        for batch in scanner.to_batches():
            if batch.num_rows:
                sink = BytesIO()
                csv.write_csv(batch, sink, write_options=options)
                yield sink.getvalue()


def _any(conditions: Sequence[Any]) -> Any:
    """Return the disjunction of conditions.

    It is as deep as their number has digits in base 2: Arrow evaluates expressions by recursion.
    """
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return _any(conditions[:middle]) | _any(conditions[middle:])


def _expression(selection: Selection) -> Any:
    """Return the filter of a selection."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def instant(at: Any) -> Any:
        return pc.scalar(pa.scalar(at, type=pa.timestamp("us", tz="UTC")))

    sequence, start, end = pc.field("sequence"), pc.field("start"), pc.field("end")
    conditions: list[Any] = [pc.scalar(True)]
    if selection.pool is not None:
        conditions.append(pc.field("pool_id") == selection.pool)
    if selection.tenant is not None:
        conditions.append(pc.field("tenant_id") == selection.tenant)
    if selection.after is not None:
        conditions.append(sequence > selection.after)
    if selection.through is not None:
        conditions.append(sequence <= selection.through)
    if selection.begin is not None:
        conditions.append(end > instant(selection.begin))
    if selection.end is not None:
        conditions.append(start < instant(selection.end))
    if selection.ids is not None:
        ids = pa.array([str(id_) for id_ in selection.ids], type=pa.string())
        conditions.append(pc.field("id").isin(ids))
    if selection.changes is not None:
        edges = [
            (column >= instant(begin)) & (column < instant(until))
            for begin, until in selection.changes
            for column in (start, end)
        ]
        conditions.append(_any(edges) if edges else pc.scalar(False))
    return reduce(and_, conditions)
