"""The clock. Only interfaces read it; services, selectors and policies take the time as an argument."""

from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings


def utc_now() -> datetime:
    """The present instant, aware, in UTC.

    Where CLOCK_FILE names a file, which production settings refuse, the instant that is written in
    it, as 2026-01-05T00:00:00Z: time stands still in every process until the file is replaced.
    """
    file = settings.ENVIRONMENT.clock_file
    if not file:
        return datetime.now(UTC)
    return datetime.fromisoformat(Path(file).read_text(encoding="ascii").strip()).astimezone(UTC)
