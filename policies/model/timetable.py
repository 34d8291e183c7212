"""A schedule on the clock: which slot runs when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.model.allocation import Allocation, gap_of, least_average
from policies.model.tolerance import DISCRETE_TOLERANCE


@dataclass(frozen=True)
class Interval:
    """``[start, end)`` in whole seconds from the start of the period, in which ``slot`` runs."""

    start: int
    end: int
    slot: int


@dataclass(frozen=True)
class Timetable:
    """A schedule on the clock.

    Attributes:
        intervals: one after the other; slots shorter than a second are left out.
        objective: of the intervals as they are; gap: its distance from the schedule's proven
            bound; gap_before: the same before rounding to whole seconds.
    """

    intervals: tuple[Interval, ...]
    objective: float
    gap: float
    gap_before: float


def timetable(allocation: Allocation, period: int = 3600) -> Timetable:
    """Slots as intervals of a period of whole seconds; the remainder goes to the last slot.

    Args:
        allocation: an answer with a schedule.
        period: seconds, at least 1.

    Raises:
        ValueError: no schedule, or a period shorter than a second.
    """
    schedule = allocation.schedule
    if schedule is None:
        raise ValueError(f"policy {allocation.policy.name!r} does not divide time")
    if period < 1:
        raise ValueError(f"a period has at least one second, not {period}")
    seconds = np.floor(schedule.fraction * period * (1 + DISCRETE_TOLERANCE)).astype(np.int64)
    seconds[-1] += period - int(seconds.sum())
    edges = np.concatenate([[0], np.cumsum(seconds)]).tolist()
    intervals = tuple(
        Interval(edges[slot], edges[slot + 1], slot)
        for slot in range(len(seconds))
        if seconds[slot] > 0
    )
    average = (seconds / period) @ schedule.tasks
    objective = least_average(allocation.problem, average, allocation.limited_by)
    return Timetable(intervals, objective, gap_of(objective, schedule.lp_bound), schedule.gap)


def slot_at(table: Timetable, offset: float) -> int:
    """The slot in force ``offset`` seconds after the start of some period; periods repeat.

    Args:
        table: from :func:`timetable`.
        offset: seconds, also negative or beyond one period.
    """
    within = offset % table.intervals[-1].end
    return next(interval.slot for interval in table.intervals if within < interval.end)
