"""The stored form of decisions' documents, compressed JSON."""

from __future__ import annotations

import zlib
from typing import Any

import orjson

from allocator_service.core.errors import Conflict


def unreadable(detail: str) -> Conflict:
    """Return the error of a stored decision that cannot be read."""
    return Conflict(f"The stored decision cannot be read: {detail}", code="run.unreadable")


def stored_document(content: bytes | memoryview[int]) -> dict[str, Any]:
    """Unpack a stored document. Raises `Conflict` for invalid content."""
    try:
        document: dict[str, Any] = orjson.loads(zlib.decompress(content))
    except (zlib.error, orjson.JSONDecodeError) as error:
        raise unreadable(f"expected compressed JSON: {error}") from error
    return document
