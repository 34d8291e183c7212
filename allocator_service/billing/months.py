"""Calendar months in a pool's time zone."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

HOUR_SECONDS = 3600
HOUR_DIGITS = 12  # of hours in documents
MONTH_PATTERN = "^(2[0-9]{3})-(0[1-9]|1[0-2])$"
_MONTH = re.compile(MONTH_PATTERN.strip("^$"), re.ASCII)


@dataclass(frozen=True)
class Month:
    """A month by its first day, with the hours of the clocks of its time zone."""

    first: date
    zone: ZoneInfo

    @property
    def start(self) -> datetime:
        """Midnight before the first day, in UTC."""
        # By the calendar of the zone: a month with a change of clocks is an hour shorter or longer.
        midnight = datetime(self.first.year, self.first.month, 1, tzinfo=self.zone)
        return midnight.astimezone(UTC)

    @property
    def end(self) -> datetime:
        """Midnight after the last day, in UTC."""
        return self.next.start

    @property
    def next(self) -> "Month":
        return self._shifted(1)

    @property
    def previous(self) -> "Month":
        return self._shifted(-1)

    def _shifted(self, months: int) -> "Month":
        year, month = divmod(self.first.year * 12 + self.first.month - 1 + months, 12)
        return Month(date(year, month + 1, 1), self.zone)

    def __str__(self) -> str:
        return f"{self.first:%Y-%m}"

    def __lt__(self, other: "Month") -> bool:
        return self.first < other.first


def month_of(instant: datetime, timezone: str) -> Month:
    """Return the month around an instant."""
    zone = ZoneInfo(timezone)
    return Month(instant.astimezone(zone).date().replace(day=1), zone)


def month_named(text: str, timezone: str) -> Month | None:
    """Return the month that is written as 2027-03, or None for any other text."""
    match = _MONTH.fullmatch(text)
    return Month(date(int(match[1]), int(match[2]), 1), ZoneInfo(timezone)) if match else None


def months_between(start: datetime, end: datetime, timezone: str) -> list[Month]:
    """Return the months that `[start, end)` reaches into, in their order."""
    months = [month_of(start, timezone)]
    while months[-1].end < end:
        months.append(months[-1].next)
    return months
