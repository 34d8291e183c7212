"""Sheets as PDF files, with bounds on lines, time, memory and files at once."""

import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import structlog
from django.conf import settings

from allocator_service.core.errors import DomainError, TooLarge, Unavailable

# Beside busy neighbours 5,000 lines, 4 s of a processor, took longer than a request may.
MAX_ROWS = 2_000
SECONDS = 20.0
MEMORY_BYTES = 2 * 2**30
NICENESS = 5
RETRY_SECONDS = 2
# The web threads that wait for a file are never all of them: the others answer everybody else.
PLACES = max(1, settings.WEB_THREADS // 2)
_FOLDER = Path(__file__).parent
# Nothing of the service's environment, such as its secrets. One thread and one arena of memory, so that
# the limit of addresses does not depend on the number of processors.
_ENVIRONMENT = {"RAYON_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
_places = threading.BoundedSemaphore(PLACES)
log = structlog.get_logger(__name__)


def typeset(sheet: Mapping[str, Any], *, timestamp: int) -> bytes:
    """Return the PDF file of a sheet. Equal sheets and timestamps give equal bytes.

    Raises `Unavailable` if all places are taken or the file takes too long. The caller refuses documents
    of too many lines first, before it writes their texts.
    """
    if not _places.acquire(blocking=False):
        raise Unavailable(
            f"This process is making {PLACES} PDF files already: repeat the request.",
            code="statement.pdf_busy",
            retry_after=RETRY_SECONDS,
        )
    try:
        return _file(sheet, timestamp)
    finally:
        _places.release()


def refuse_long(count: int) -> None:
    """Raise `TooLarge` for more rows than a PDF file may have."""
    if count > MAX_ROWS:
        raise TooLarge(
            f"A PDF file has at most {MAX_ROWS:,} lines, and this statement has {count:,}: use the page,"
            " CSV, NDJSON or Parquet.",
            code="statement.pdf_too_large",
        )


def _file(sheet: Mapping[str, Any], timestamp: int) -> bytes:
    request = {
        "template": _template(),
        "root": str(_FOLDER),
        "sheet": sheet,
        "timestamp": timestamp,
        "memory_bytes": MEMORY_BYTES,
        "niceness": NICENESS,
    }
    try:
        # The program and its arguments are ours; what a tenant wrote is in the input alone.
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-I", str(_FOLDER / "typesetter.py")],
            input=orjson.dumps(request),
            capture_output=True,
            env=_ENVIRONMENT,
            cwd=_FOLDER,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(
            f"The PDF file took longer than {SECONDS:g} s and was stopped: use the page, CSV, NDJSON or"
            " Parquet.",
            code="statement.pdf_timeout",
            retry_after=30,
        ) from error
    if done.returncode:
        log.error("typesetting_failed", code=done.returncode, error=done.stderr[-2_000:].decode())
        raise DomainError(
            "The PDF file could not be made: use the page, CSV, NDJSON or Parquet. The cause is in our"
            " log.",
            code="statement.pdf_failed",
        )
    return done.stdout


@cache
def _template() -> str:
    return (_FOLDER / "sheet.typ").read_text()
