"""ISO 8601 durations.

Date parts are calendar units in a time zone, and time parts are exact.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from allocator_service.core.errors import Unacceptable

_PATTERN = re.compile(
    r"P(?=.)(?:([0-9]{1,4})Y)?(?:([0-9]{1,5})M)?(?:([0-9]{1,5})W)?(?:([0-9]{1,6})D)?"
    r"(?:T(?=.)(?:([0-9]{1,7})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,10})S)?)?",
    re.ASCII,
)

MAX_YEARS = 100
# Most days after which jobs can be taken back, and of the notice before.
MOST_RECLAIM_DAYS = 30


@dataclass(frozen=True)
class CalendarDuration:
    """A duration of calendar `months` and `days`, then exact `seconds`."""

    months: int
    days: int
    seconds: int

    @property
    def nominal_seconds(self) -> int:
        """The length without a calendar, with days of 24 hours and months of a twelfth of a year."""
        return self.months * 2_629_746 + self.days * 86_400 + self.seconds

    def times(self, count: int) -> "CalendarDuration":
        """Return a multiple, with the days that steps over months of different lengths would lose."""
        return CalendarDuration(self.months * count, self.days * count, self.seconds * count)

    def around(
        self, instant: datetime, anchor: datetime, zone: ZoneInfo
    ) -> tuple[datetime, datetime]:
        """Return the interval `[start, end)` around an instant, in the tiling of time from `anchor`."""
        count = int((instant - anchor).total_seconds() // self.nominal_seconds)
        while self.times(count).after(anchor, zone) > instant:
            count -= 1
        while self.times(count + 1).after(anchor, zone) <= instant:
            count += 1
        return self.times(count).after(anchor, zone), self.times(count + 1).after(anchor, zone)

    def after(self, instant: datetime, zone: ZoneInfo) -> datetime:
        """Return the instant this long after `instant`.

        Calendar parts keep the wall-clock time. A day that the month does not have becomes its last one.
        """
        local = instant.astimezone(zone)
        if self.months or self.days:
            month = local.year * 12 + local.month - 1 + self.months
            year, month = divmod(month, 12)
            first = local.replace(year=year, month=month + 1, day=1)
            following = (first.replace(day=28) + timedelta(days=4)).replace(day=1)
            day = min(local.day, (following - timedelta(days=1)).day)
            local = first.replace(day=day) + timedelta(days=self.days)
        return local.astimezone(UTC) + timedelta(seconds=self.seconds)


def parse_duration(
    text: object, *, pointer: str = "", most_days: int | None = None
) -> CalendarDuration:
    """Read `P7D`, `P1M`, `PT24H`, ... Raises `Unacceptable` for anything else and for zero length.

    `most_days` is the limit of a duration that may not be as long as most others.
    """
    match = _PATTERN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise Unacceptable(
            "A duration is written as in ISO 8601, in whole numbers: P7D, P1M, PT24H.",
            code="duration.syntax",
            pointer=pointer,
        )
    years, months, weeks, days, hours, minutes, seconds = (
        int(part or 0) for part in match.groups()
    )
    duration = CalendarDuration(
        months=12 * years + months,
        days=7 * weeks + days,
        seconds=3600 * hours + 60 * minutes + seconds,
    )
    if duration == CalendarDuration(0, 0, 0):
        raise Unacceptable(
            "A duration must be longer than zero.", code="duration.zero", pointer=pointer
        )
    if most_days is not None and duration.nominal_seconds > most_days * 86_400:
        raise Unacceptable(
            f"The duration must be at most {most_days} days.",
            code="duration.too_long",
            pointer=pointer,
        )
    years_about = duration.months / 12 + duration.days / 365 + duration.seconds / 31_536_000
    if years_about > MAX_YEARS:
        raise Unacceptable(
            f"A duration is at most {MAX_YEARS} years.", code="duration.too_long", pointer=pointer
        )
    return duration


def duration_seconds(text: str | None) -> int:
    """Return the nominal length of a duration that has been checked, 0 for none."""
    return parse_duration(text).nominal_seconds if text else 0
