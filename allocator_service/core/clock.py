"""The clock. Only interfaces read it; services, selectors and policies take the time as an argument."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings


def utc_now() -> datetime:
    """Return the present instant, aware, in UTC.

    CLOCK_FILE may name a file, which production settings reject. Its content then sets the time of every
    process until it is replaced: an instant, as 2026-01-05T00:00:00Z, at which time stands still, or the
    number of seconds by which the clock differs from the machine's, as +90 or -45.5.
    """
    file = settings.ENVIRONMENT.clock_file
    if not file:
        return datetime.now(UTC)
    text = Path(file).read_text(encoding="ascii").strip()
    if text[:1] in ("+", "-"):
        return datetime.now(UTC) + timedelta(seconds=float(text))
    return datetime.fromisoformat(text).astimezone(UTC)
