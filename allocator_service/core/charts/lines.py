"""Charts of quantities over time, at instants or constant over intervals."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from allocator_service.core.charts.drawing import (
    FOOT_ROW,
    GRID,
    MARGIN,
    Chart,
    Drawing,
    Frame,
    Reference,
    TimeAxis,
    colour,
    fitted_ticks,
    heading,
    legend,
    line,
    number,
    stroke,
    text,
    tick_texts,
    tip,
)
from allocator_service.core.display import instant_text

_LEFT, _PLOT = 60.0, 130.0
_DASH = 6  # pixels
_APART = 1.5  # pixels; lines of two pixels that are closer cover each other
Style = tuple[int, ...]


@dataclass(frozen=True)
class StepLine:
    """A named quantity that is constant over each `(start, end, value)`, None where it has no value."""

    label: str
    intervals: Sequence[tuple[datetime, datetime, float | None]]


def history_chart(
    *, title: str, unit: str, points: Sequence[tuple[datetime, float | None]], ink: int = 0
) -> Chart:
    """Return a chart of one quantity at instants, oldest first, with gaps where it has no value."""
    known = [(at, value) for at, value in points if value is not None]
    return Chart(title, partial(_history, title=title, unit=unit, known=known, ink=ink))


def _history(
    frame: Frame, *, title: str, unit: str, known: Sequence[tuple[datetime, float]], ink: int
) -> Drawing:
    named, more = heading(frame, title)
    top = 64.0 + more
    if not known:
        return _empty(named, top)
    axis = TimeAxis(frame, known[0][0], known[-1][0], _LEFT)
    values, grid = _values(frame, top, unit, [value for _, value in known])
    bottom = top + _PLOT
    place = [(axis.x(at), values.y(value)) for at, value in known]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in place)
    parts = [named, grid, axis.drawn(top, bottom)]
    parts.append(f"<polyline points='{path}' {stroke(ink)}/>")
    for (x, y), (at, value) in zip(place, known, strict=True):
        tooltip = tip(f"{instant_text(at, precision='second')}: {number(value)} {unit}")
        parts.append(
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='2.5' fill='{colour(ink)}'>{tooltip}</circle>"
        )
    return Drawing(bottom + axis.height, "".join(parts))


def steps_chart(
    *,
    title: str,
    unit: str,
    lines: Sequence[StepLine],
    reference: Reference | None = None,
    whole: bool = False,
    zone: str = "UTC",
) -> Chart:
    """Return a chart of several quantities, each constant over its intervals, on one axis of time.

    The numbers of the axis are integers if `whole`. Times are those of a time zone.
    """
    draw = partial(
        _steps,
        title=title,
        unit=unit,
        lines=lines,
        reference=reference,
        least_step=1.0 if whole else 0.0,
        zone=zone,
    )
    return Chart(title, draw)


def _steps(
    frame: Frame,
    *,
    title: str,
    unit: str,
    lines: Sequence[StepLine],
    reference: Reference | None,
    least_step: float,
    zone: str,
) -> Drawing:
    named, more = heading(frame, title)
    labels = [each.label for each in lines]
    keys, below = legend(frame, labels, left=_LEFT, top=more, dashed=True)
    top = below + 10  # the unit stands between
    spans = [interval for each in lines for interval in each.intervals]
    drawn = [value for _, _, value in spans if value is not None]
    if not drawn:
        return _empty(named, top)
    first, last = min(start for start, _, _ in spans), max(end for _, end, _ in spans)
    axis = TimeAxis(frame, first, last, _LEFT, zone)
    if reference is not None and (reference.is_included or _is_near(reference.value, drawn)):
        drawn.append(reference.value)
    values, grid = _values(frame, top, unit, drawn, least_step)
    bottom = top + _PLOT
    parts = [named, keys, grid, axis.drawn(top, bottom)]
    places = _grid(lines, axis, values)
    for index, each in enumerate(lines):
        if not frame.is_narrow:  # pages read the marks of the wide picture for both
            parts += _marks(each, axis, values, unit)
        parts += [_drawn(path, index, here) for path, here in _paths(index, places)]
    height = bottom + axis.height
    if reference is not None:
        # Beside the range of the axis, and below it in a narrow picture.
        height += FOOT_ROW if frame.is_narrow else 0
        parts += _reference(frame, reference, values, bottom, height - 12)
    return Drawing(height, "".join(parts))


def _is_near(value: float, drawn: Sequence[float]) -> bool:
    return min(drawn) / 2 <= value <= 2 * max(drawn)


def _reference(
    frame: Frame, reference: Reference, values: "_Values", bottom: float, label_at: float
) -> list[str]:
    """Draw a line at a value, or a mark at the edge if the axis ends before it."""
    label = reference.label
    right, top = frame.right, bottom - _PLOT
    if values.low <= reference.value <= values.high:
        y = values.y(reference.value)
        shape = line(_LEFT, y, right, y, "#222")
    else:
        is_above = reference.value > values.high
        y, tail = (top, 8) if is_above else (bottom, -8)
        shape = (
            f"<path class='mark' d='M{right:.0f},{y:.1f} l-5,{tail} l10,0 z' fill='currentColor'/>"
        )
        label += f" ({'above' if is_above else 'below'} the axis)"
    return [shape, text(frame.left_of_text(_LEFT), label_at, label)]


def _marks(each: StepLine, axis: TimeAxis, values: "_Values", unit: str) -> list[str]:
    """Draw an invisible area over each interval, whose tooltip shows its value."""
    parts: list[str] = []
    for start, end, value in each.intervals:
        if value is None:
            continue
        left, right, y = axis.x(start), axis.x(end), values.y(value)
        tooltip = tip(  # pages read it: api/static/pages/chart.js
            f"{each.label}, {instant_text(start, axis.zone, 'second')}: {number(value)} {unit}"
        )
        parts.append(
            f"<rect x='{left:.1f}' y='{y - 4:.1f}' width='{max(right - left, 1):.1f}' height='8'>"
            f"{tooltip}</rect>"
        )
    return ["<g fill='#fff' fill-opacity='0'>", *parts, "</g>"]


@dataclass(frozen=True)
class _Grid:
    """Heights of all lines, a row for each, between the places where any of them changes."""

    edges: Sequence[float]
    heights: Sequence[Sequence[float | None]]

    def beside(self, index: int, place: int) -> Style:
        """Return the lines that coincide with one in an interval, itself included."""
        y = self.heights[index][place]
        if y is None:
            return ()
        column = (row[place] for row in self.heights)
        return tuple(n for n, at in enumerate(column) if at is not None and abs(at - y) < _APART)


def _grid(lines: Sequence[StepLine], axis: TimeAxis, values: "_Values") -> _Grid:
    edges = sorted(
        {at for each in lines for start, end, _ in each.intervals for at in (start, end)}
    )
    heights = []
    for each in lines:
        starts = [start for start, _, _ in each.intervals]
        row: list[float | None] = []
        for at in edges[:-1]:
            place = bisect_right(starts, at) - 1
            _, end, value = each.intervals[place] if place >= 0 else (at, at, None)
            row.append(None if value is None or at >= end else values.y(value))
        heights.append(row)
    return _Grid([axis.x(at) for at in edges], heights)


def _paths(index: int, grid: _Grid) -> Iterator[tuple[list[str], Style]]:
    """Yield the pieces of a line, each with the lines that coincide with it there.

    Intervals that follow each other are one piece as long as these lines stay the same. A piece begins
    where all of them begin, so that their dashes alternate.
    """
    path: list[str] = []
    style: Style = ()
    level = None
    for place, y in enumerate(grid.heights[index]):
        here = grid.beside(index, place)
        left, right = grid.edges[place], grid.edges[place + 1]
        if path and here != style:
            # The step to another height belongs to the piece before it.
            yield ([*path, f"{left:.1f},{y:.1f}"] if y is not None else path), style
            path = []
        if y is not None:
            if path and y == level:
                path.pop()
            else:
                path.append(f"{left:.1f},{y:.1f}")
            path.append(f"{right:.1f},{y:.1f}")
        style, level = here, y
    if path:
        yield path, style


def _drawn(path: Sequence[str], index: int, here: Style) -> str:
    """Draw a piece of a line, in dashes between those of the lines that coincide with it."""
    look = stroke(index)
    if len(here) > 1:
        gap, offset = _DASH * (len(here) - 1), -_DASH * here.index(index)
        look = (
            f"fill='none' stroke='{colour(index)}' stroke-width='2'"
            f" stroke-dasharray='{_DASH} {gap}' stroke-dashoffset='{offset}'"
        )
    return f"<polyline points='{' '.join(path)}' {look}/>"


@dataclass(frozen=True)
class _Values:
    """Axis of values, from the lowest to the highest of its numbers."""

    low: float
    high: float
    bottom: float

    def y(self, value: float) -> float:
        return self.bottom - (value - self.low) * _PLOT / ((self.high - self.low) or 1)


def _values(
    frame: Frame, top: float, unit: str, drawn: Sequence[float], least_step: float = 0.0
) -> tuple[_Values, str]:
    """Return an axis that fits the values, and its grid."""
    marks = fitted_ticks(min(drawn), max(drawn), least_step)
    values = _Values(marks[0], marks[-1], top + _PLOT)
    parts = []
    for mark, shown in zip(marks, tick_texts(marks), strict=True):
        y = values.y(mark)
        parts.append(line(_LEFT, y, frame.right, y, GRID))
        parts.append(text(_LEFT - 6, y + 4, shown, anchor="end"))
    parts.append(text(MARGIN / 2, top - 12, unit))
    return values, "".join(parts)


def _empty(named: str, top: float) -> Drawing:
    return Drawing(top + 40, named + text(_LEFT, top + 16, "No values yet."))
