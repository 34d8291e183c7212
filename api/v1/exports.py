"""Exports of ledger entries as one stream."""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from django.http import StreamingHttpResponse

from allocator_service.billing.exports.parquet import parquet_stream
from allocator_service.core.streams import Stream
from allocator_service.ledger.exporting import Export
from api.contract.renderers import ParquetRenderer

DECIMALS, INSTANTS = ("quantity", "amount"), ("start", "end", "recorded_at")

# 12 digits of a quantity and 6 of its seconds.
AMOUNT_SCALE = 18


def copy_format(file_format: str) -> str:
    """Return the format of the copy that a file is written from."""
    return "ndjson" if file_format == ParquetRenderer.format else file_format


def stream_entries(export: Export, renderer: Any, columns: Sequence[str]) -> StreamingHttpResponse:
    """Answer an export in the format of a renderer."""
    media_type = "; charset=".join(filter(None, (renderer.media_type, renderer.charset)))
    parquet = renderer.format == ParquetRenderer.format
    content = ParquetEntries(export.stream, columns) if parquet else export.stream
    return StreamingHttpResponse(content, content_type=media_type)


class ParquetEntries:
    """The file of a stream of NDJSON, which the response closes."""

    def __init__(self, stream: Stream, columns: Sequence[str]) -> None:
        self._stream, self._columns = stream, columns

    def __iter__(self) -> Iterator[bytes]:
        return parquet_stream(
            self._rows(),
            columns=self._columns,
            decimals=DECIMALS,
            instants=INSTANTS,
            integers=[name for name in self._columns if name == "sequence"],
            scale=AMOUNT_SCALE,
        )

    def close(self) -> None:
        """Release the snapshot."""
        self._stream.close()

    def _rows(self) -> Iterator[dict[str, Any]]:
        rest = b""
        for chunk in self._stream:
            # Chunks of the copy end anywhere, also within a line.
            *lines, rest = (rest + chunk).split(b"\n")
            yield from map(orjson.loads, lines)
