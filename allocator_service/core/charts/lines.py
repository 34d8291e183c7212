"""Quantities over time: at instants, or constant over intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from allocator_service.core.charts.drawing import (
    GRID,
    MARGIN,
    WIDTH,
    Chart,
    Reference,
    TimeAxis,
    colour,
    heading,
    legend,
    line,
    number,
    stroke,
    text,
    ticks,
    tip,
)
from allocator_service.core.display import instant_text

_LEFT, _PLOT = 60.0, 130.0


@dataclass(frozen=True)
class StepLine:
    """A named quantity that is constant over each `(start, end, value)`; None where it has none."""

    label: str
    intervals: Sequence[tuple[datetime, datetime, float | None]]


def history_chart(
    *, title: str, unit: str, points: Sequence[tuple[datetime, float | None]], ink: int = 0
) -> Chart:
    """One quantity at instants, oldest first; gaps where it has no value."""
    known = [(at, value) for at, value in points if value is not None]
    top = 64.0
    if not known:
        return _empty(title, top)
    axis = TimeAxis(known[0][0], known[-1][0], _LEFT)
    scale, grid = _values(top, unit, max(value for _, value in known))
    bottom = top + _PLOT
    place = [(axis.x(at), bottom - value * scale) for at, value in known]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in place)
    parts = [heading(title), grid, axis.drawn(top, bottom)]
    parts.append(f"<polyline points='{path}' {stroke(ink)}/>")
    for (x, y), (at, value) in zip(place, known, strict=True):
        tooltip = tip(f"{instant_text(at, precision='second')}: {number(value)} {unit}")
        parts.append(
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='2.5' fill='{colour(ink)}'>{tooltip}</circle>"
        )
    return Chart(title, bottom + 46, "".join(parts))


def steps_chart(
    *, title: str, unit: str, lines: Sequence[StepLine], reference: Reference | None = None
) -> Chart:
    """Several quantities, each constant over its intervals, on one axis of time."""
    keys, below = legend([each.label for each in lines], left=_LEFT, dashed=True)
    top = below + 10  # the unit stands between
    spans = [interval for each in lines for interval in each.intervals]
    values = [value for _, _, value in spans if value is not None]
    if not values:
        return _empty(title, top)
    axis = TimeAxis(min(start for start, _, _ in spans), max(end for _, end, _ in spans), _LEFT)
    highest = max([*values, *([reference.value] if reference else [])])
    scale, grid = _values(top, unit, highest)
    bottom = top + _PLOT
    parts = [heading(title), keys, grid, axis.drawn(top, bottom)]
    for index, each in enumerate(lines):
        parts += _steps(index, each, axis, bottom, scale, unit)
    if reference is not None:
        y = bottom - reference.value * scale
        parts.append(line(_LEFT, y, WIDTH - MARGIN, y, "#222"))
        parts.append(text(_LEFT, bottom + 34, reference.label))
    return Chart(title, bottom + 46, "".join(parts))


def _steps(
    index: int, each: StepLine, axis: TimeAxis, bottom: float, scale: float, unit: str
) -> list[str]:
    """Runs of intervals that follow each other are one line; a tooltip shows the value of each."""
    parts: list[str] = []
    path: list[str] = []
    for start, end, value in each.intervals:
        if value is None:
            parts += _drawn(path, index)
            path = []
            continue
        left, right, y = axis.x(start), axis.x(end), bottom - value * scale
        path += [f"{left:.1f},{y:.1f}", f"{right:.1f},{y:.1f}"]
        tooltip = tip(  # pages read it: api/static/pages/chart.js
            f"{each.label}, {instant_text(start, precision='second')}: {number(value)} {unit}"
        )
        parts.append(
            f"<rect x='{left:.1f}' y='{y - 4:.1f}' width='{max(right - left, 1):.1f}' height='8'"
            f" fill='#fff' fill-opacity='0'>{tooltip}</rect>"
        )
    return parts + _drawn(path, index)


def _drawn(path: Sequence[str], index: int) -> list[str]:
    return [f"<polyline points='{' '.join(path)}' {stroke(index)}/>"] if path else []


def _values(top: float, unit: str, highest: float) -> tuple[float, str]:
    """Pixels per unit, and the grid of the axis of values."""
    marks = ticks(highest)
    bottom = top + _PLOT
    scale = _PLOT / (marks[-1] or 1)
    parts = []
    for mark in marks:
        y = bottom - mark * scale
        parts.append(line(_LEFT, y, WIDTH - MARGIN, y, GRID))
        parts.append(text(_LEFT - 6, y + 4, number(mark), anchor="end"))
    parts.append(text(MARGIN / 2, top - 12, unit))
    return scale, "".join(parts)


def _empty(title: str, top: float) -> Chart:
    return Chart(title, top + 40, heading(title) + text(_LEFT, top + 16, "No values yet."))
