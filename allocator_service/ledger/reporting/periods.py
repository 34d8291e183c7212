"""Periods of reports and their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from allocator_service.core.durations import parse_duration
from allocator_service.core.errors import Unreadable
from allocator_service.ledger.intake.usage import EARLIEST
from allocator_service.pools.models import Pool

DEFAULT_LENGTH = "P7D"
MAX_INTERVALS = 1_000


@dataclass(frozen=True)
class Period:
    """An interval `[start, end)`, divided at `edges`. The first edge is the start, the last the end."""

    edges: Sequence[datetime]

    @property
    def start(self) -> datetime:
        return self.edges[0]

    @property
    def end(self) -> datetime:
        return self.edges[-1]

    @property
    def intervals(self) -> list[tuple[datetime, datetime]]:
        """The intervals `[start, end)` in their order."""
        return list(zip(self.edges[:-1], self.edges[1:], strict=True))


def report_period(
    *,
    pool: Pool,
    start: datetime | None,
    end: datetime | None,
    step: str | None,
    now: datetime,
) -> Period:
    """Return the period of a report.

    The default is the 7 days before its end. Without a step it has one interval. A period that
    would end after `now` ends now. Steps are counted from the start, in the pool's time zone, and
    the last one may be shorter. Raises `Unreadable` with `report.period` for an empty period, a
    start before 2000, and more than 1,000 intervals.
    """
    zone = ZoneInfo(pool.timezone)
    until = min(end or now, now)
    if until < EARLIEST:
        raise _refusal("to", f"The period must end in {EARLIEST:%Y} or later.")
    since = start or parse_duration(DEFAULT_LENGTH).times(-1).after(until, zone)
    if since >= until:
        raise _refusal("from", "The period is empty: from must be before to, and before now.")
    if since < EARLIEST:
        raise _refusal("from", f"The period must begin in {EARLIEST:%Y} or later.")
    if step is None:
        return Period([since, until])
    duration = parse_duration(step)
    edges = [since]
    while edges[-1] < until:
        # While they are made: seconds of a year would not fit in memory.
        if len(edges) > MAX_INTERVALS:
            raise _refusal(
                "step", f"There are more than {MAX_INTERVALS} intervals: choose a longer step."
            )
        # From the start each time: months added to 31 January one by one would stay at the 28th.
        edges.append(min(duration.times(len(edges)).after(since, zone), until))
    return Period([edge.astimezone(UTC) for edge in edges])


def _refusal(parameter: str, detail: str) -> Unreadable:
    return Unreadable(detail, code="report.period", extra={"parameter": parameter})
