"""Dates that requests and commands may set.

Their range is far enough from the ends of the calendar for a period of the longest duration in any
time zone.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from django.core.exceptions import ValidationError
from django.utils.dateparse import parse_datetime

EARLIEST_DATE = datetime(2000, 1, 1, tzinfo=UTC)
LATEST_DATE = datetime(2200, 1, 1, tzinfo=UTC)


def is_settable(instant: datetime) -> bool:
    """Return True for an instant within the range of dates."""
    return EARLIEST_DATE <= instant <= LATEST_DATE


def date_validator(field: str) -> Callable[[datetime], None]:
    """Return the validator of a form's date, which requests call `field`."""

    def validate(instant: datetime) -> None:
        if not is_settable(instant):
            raise ValidationError(date_range_text(field))

    return validate


def date_range_text(field: str) -> str:
    """Return the refusal of a field whose date is out of range."""
    return f"`{field}` must be between {EARLIEST_DATE:%Y} and {LATEST_DATE:%Y}."


def instant_or_none(text: str) -> datetime | None:
    """Return the instant of a time with its offset in UTC, otherwise None."""
    try:
        instant = parse_datetime(text)
        if instant is None or instant.tzinfo is None:
            return None
        # An offset can move an instant beyond the years that `datetime` has: OverflowError.
        return instant.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
