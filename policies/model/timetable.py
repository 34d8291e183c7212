"""Timetable of a schedule, in seconds of its period."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.model.allocation import Allocation
from policies.model.objectives import gap_of, least_average
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

    Attributes
    ----------
    intervals : tuple of Interval
        One after the other; slots shorter than a second are left out.
    objective : float
        Of the intervals as they are.
    gap : float
        Its relative distance from the schedule's proven bound.
    gap_before : float
        The same before rounding to whole seconds.

    Examples
    --------
    >>> from policies import Problem, solve, timetable
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]], tasks=[3, 2])
    >>> timetable(solve(problem, "tda"), 60).intervals
    (Interval(start=0, end=60, slot=0),)
    """

    intervals: tuple[Interval, ...]
    objective: float
    gap: float
    gap_before: float


def timetable(allocation: Allocation, period: int = 3600) -> Timetable:
    """Convert slots to intervals of whole seconds.

    The last slot gets the remainder.

    Parameters
    ----------
    allocation : Allocation
        An answer with a schedule.
    period : int, default 3600
        Seconds, at least 1.

    Returns
    -------
    Timetable
        The intervals of one period.

    Raises
    ------
    ValueError
        There is no schedule, or the period is shorter than a second.

    Examples
    --------
    >>> from policies import Problem, solve, timetable
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]], tasks=[3, 2])
    >>> timetable(solve(problem, "tda"), 60).intervals[-1].end
    60
    """
    schedule = allocation.schedule
    if schedule is None:
        raise ValueError(f"policy {allocation.policy.name!r} is not time-sharing")
    if period < 1:
        raise ValueError(f"the period is {period} seconds; it must be at least 1")
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
    """Return the slot in force at a moment.

    Periods repeat.

    Parameters
    ----------
    table : Timetable
        From :func:`timetable`.
    offset : float
        Seconds after the start of some period; negative and longer ones count too.

    Returns
    -------
    int
        Index of the slot.

    Examples
    --------
    >>> from policies import Problem, slot_at, solve, timetable
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]], tasks=[3, 2])
    >>> slot_at(timetable(solve(problem, "tda"), 60), 61.5)
    0
    """
    within = offset % table.intervals[-1].end
    return next(interval.slot for interval in table.intervals if within < interval.end)
