"""Renderers of answers, one for each format."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from rest_framework.renderers import BaseRenderer

from allocator_service.core.spreadsheets import inert

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC


class _Renderer(BaseRenderer):
    """Its `content` are the bytes of an answer's data."""

    charset: str | None = None
    render_style = "binary"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        return b"" if data is None else self.content(data, renderer_context or {})

    def content(self, data: Any, context: Mapping[str, Any]) -> bytes:
        raise NotImplementedError


class OrjsonRenderer(_Renderer):
    media_type = "application/json"
    format = "json"

    def content(self, data: Any, context: Mapping[str, Any]) -> bytes:
        return json_bytes(data)


class CSVRenderer(_Renderer):
    """Rows of a page, in the columns of the view."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def content(self, data: Any, context: Mapping[str, Any]) -> bytes:
        return csv_bytes(data["results"], context["columns"])


class NDJSONRenderer(_Renderer):
    media_type = "application/x-ndjson"
    format = "ndjson"

    def content(self, data: Any, context: Mapping[str, Any]) -> bytes:
        return b"".join(json_bytes(row) + b"\n" for row in data["results"])


class ParquetRenderer(_Renderer):
    """A Parquet file in `data`. A streamed file uses the media type only."""

    media_type = "application/vnd.apache.parquet"
    format = "parquet"

    def content(self, data: Any, context: Mapping[str, Any]) -> bytes:
        return data if isinstance(data, bytes) else json_bytes(data)


class _TextRenderer(_Renderer):
    """`data` is the text."""

    charset: str | None = "utf-8"

    def content(self, data: Any, context: Mapping[str, Any]) -> bytes:
        return str(data).encode()


class PlainTextRenderer(_TextRenderer):
    media_type = "text/plain"
    format = "txt"


class SVGRenderer(_TextRenderer):
    """`data` is the picture."""

    media_type = "image/svg+xml"
    format = "svg"


class HTMLRenderer(_TextRenderer):
    """`data` is the page."""

    media_type = "text/html"
    format = "html"


class YAMLRenderer(_TextRenderer):
    """`data` is a stream of documents."""

    media_type = "application/yaml"
    format = "yaml"
    charset = None


def json_bytes(document: Any) -> bytes:
    """Instants in UTC with `Z`, ids as texts, numbers in the shortest form that reads back equal."""
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
