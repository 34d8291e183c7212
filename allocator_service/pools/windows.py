"""The part of a pool's past that counts at an instant, by its window."""

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from allocator_service.core.durations import parse_duration
from allocator_service.pools.models import Pool, WindowKind


@dataclass(frozen=True)
class Past:
    """The interval `[since, until)` of a pool's past, unbounded if `since` is None.

    With `half_life` (seconds) every moment counts half as much per half-life that has passed at `until`,
    and `since` is None.
    """

    since: datetime | None
    until: datetime
    half_life: float | None = None


def past_of(pool: Pool, until: datetime, step_end: datetime | None = None) -> Past:
    """Return the past that counts at `until` for a decision on the step that ends at `step_end`.

    Calendar parts of lengths are the calendar's in the pool's time zone: a day is 23 or 25 hours where
    the clocks are changed. A half-life is a rate and has days of 24 hours.
    """
    zone = ZoneInfo(pool.timezone)
    if pool.window_kind == WindowKind.TUMBLING:
        length = parse_duration(pool.window_length)
        return Past(length.around(until, pool.window_anchor, zone)[0], until)
    if pool.window_kind == WindowKind.SLIDING:
        length = parse_duration(pool.window_length)
        return Past(min(until, length.times(-1).after(step_end or until, zone)), until)
    if pool.window_kind == WindowKind.DECAY:
        return Past(None, until, half_life_of(pool))
    if pool.window_kind == WindowKind.UNBOUNDED:
        return Past(None, until)
    return Past(until, until)


def half_life_of(pool: Pool) -> float | None:
    """Return the seconds in which the past loses half its weight, None where it does not decay."""
    if pool.window_kind != WindowKind.DECAY:
        return None
    return float(parse_duration(pool.window_half_life).nominal_seconds)
