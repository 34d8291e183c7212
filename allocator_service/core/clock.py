"""The clock. Only interfaces read it; services, selectors and policies take the time as an argument."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings


def utc_now() -> datetime:
    """The present instant, aware, in UTC.

    Where CLOCK_FILE names a file, which production settings refuse, it says what time it is in every
    process until it is replaced: an instant, as 2026-01-05T00:00:00Z, at which time stands still, or by
    how many seconds the clock differs from the machine's, as +90 or -45.5.
    """
    file = settings.ENVIRONMENT.clock_file
    if not file:
        return datetime.now(UTC)
    text = Path(file).read_text(encoding="ascii").strip()
    if text[:1] in ("+", "-"):
        return datetime.now(UTC) + timedelta(seconds=float(text))
    return datetime.fromisoformat(text).astimezone(UTC)
