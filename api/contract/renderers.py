"""Renderers of answers, one for each format."""

from collections.abc import Mapping
from typing import Any

from rest_framework.renderers import BaseRenderer

from allocator_service.core.documents import csv_bytes, json_bytes


class _Renderer(BaseRenderer):
    """Its `content` are the bytes of an answer's data."""

    # JSON is UTF-8, and its media type has no parameter for it (RFC 8259, section 11).
    charset: str | None = None
    render_style = "binary"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        # None is the answer without a body, such as 204.
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
    # Stated, because readers took text without it for ISO 8859-1 (RFC 2616, section 3.7.1).
    charset = "utf-8"

    def content(self, data: Any, context: Mapping[str, Any]) -> bytes:
        return csv_bytes(data["results"], context["columns"])


class NDJSONRenderer(_Renderer):
    media_type = "application/x-ndjson"
    format = "ndjson"

    def content(self, data: Any, context: Mapping[str, Any]) -> bytes:
        return b"".join(json_bytes(row) + b"\n" for row in data["results"])


class _FileRenderer(_Renderer):
    """A file in `data`."""

    def content(self, data: Any, context: Mapping[str, Any]) -> bytes:
        return data if isinstance(data, bytes) else json_bytes(data)


class ParquetRenderer(_FileRenderer):
    """A Parquet file in `data`. A streamed file uses the media type only."""

    media_type = "application/vnd.apache.parquet"
    format = "parquet"


class PDFRenderer(_FileRenderer):
    """A PDF file in `data`."""

    media_type = "application/pdf"
    format = "pdf"


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
    # The media type has no such parameter (RFC 9512).
    charset = None
