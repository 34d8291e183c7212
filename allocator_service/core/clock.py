"""The wall clock, read by interfaces only: services, selectors and policies are told the time."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The present instant, aware, in UTC."""
    return datetime.now(UTC)
