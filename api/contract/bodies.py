"""Reading of a request's body, within its limit and in a format of its route."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from allocator_service.core.errors import DomainError, FieldError, TooLarge, Unreadable
from api.contract.errors import LengthRequired, UnsupportedMediaType
from api.contract.parsers import CSVRowsParser

CHUNK_BYTES = 64 * 1024
DROPPED_BYTES = 64 * 1024 * 1024


def read_body(request: Request, *, large: bool) -> bytes:
    """Return the bytes of the body, at most 1 MiB, or 32 MiB where a route takes large ones.

    Raises `TooLarge` before reading a body whose Content-Length is too long, `LengthRequired` for a
    chunked body that the server in front of Django has not taken apart.
    """
    limit = settings.BULK_BODY_BYTES if large else settings.BODY_BYTES
    plain: HttpRequest = request._request
    declared = plain.META.get("CONTENT_LENGTH") or ""
    # `int` also takes signs, spaces and underscores, which no Content-Length has.
    length = int(declared) if declared.isdecimal() else 0
    if length > limit:
        _drop(plain, length)
        raise _too_large(limit)
    # Without `wsgi.input_terminated` the end of a chunked body is unknown, and a read could hang.
    if "HTTP_TRANSFER_ENCODING" in plain.META:
        if not plain.META.get("wsgi.input_terminated"):
            raise LengthRequired("Send the body with its Content-Length, not in chunks.")
        # Django reads no body without a Content-Length.
        body = plain.META["wsgi.input"].read(limit + 1)
    else:
        # One byte more than allowed distinguishes a body at its limit from one that exceeds it.
        body = plain.read(limit + 1)
        if len(body) < length:
            raise Unreadable("The body ended before its Content-Length.", code="request.truncated")
    if len(body) > limit:
        raise _too_large(limit)
    return bytes(body)


def _drop(plain: HttpRequest, length: int) -> None:
    """Read past a body, within reason.

    A client that still sends does not see an answer.
    """
    # Bounded, or a declared length of terabytes would occupy the worker.
    for _ in range(min(length, DROPPED_BYTES) // CHUNK_BYTES + 1):
        if not plain.read(CHUNK_BYTES):
            return


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit // 2**20} MiB: split the request.")


def parse_body(request: Request, body: bytes, parsers: Sequence[BaseParser]) -> Any:
    """Return the value in the body, by the parser of its content type, or `{}` for an empty body."""
    if not body:
        return {}
    plain: HttpRequest = request._request
    charset = (plain.content_params or {}).get("charset", "utf-8")
    # JSON is UTF-8 (RFC 8259): another charset would be read as other characters without an error.
    if charset.lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaType(f"The charset {charset[:40]} is not supported; send UTF-8.")
    for parser in parsers:
        if parser.media_type == plain.content_type:
            return parser.parse(io.BytesIO(body))
    taken = ", ".join(str(parser.media_type) for parser in parsers)
    raise UnsupportedMediaType(f"A body is sent as {taken}, named in Content-Type.")


def is_csv(request: Request) -> bool:
    return bool(request._request.content_type == CSVRowsParser.media_type)


@contextmanager
def name_rows() -> Iterator[None]:
    """Name the row in the errors of an item.

    Pointers count from 0, rows from 1.
    """
    try:
        yield
    except DomainError as error:
        error.errors = tuple(
            FieldError(item.pointer, item.code, _row_of(item.pointer) + item.detail)
            for item in error.errors
        )
        if error.errors:
            error.detail = error.errors[0].detail
        raise


def _row_of(pointer: str) -> str:
    index = pointer[1:].partition("/")[0]
    return f"Row {int(index) + 1}: " if index.isdecimal() else ""
