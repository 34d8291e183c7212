"""Timetables as Gantt charts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from html import escape

from allocator_service.core.charts.drawing import (
    CHARACTER,
    GRID,
    LABEL_ROW,
    Chart,
    Drawing,
    Frame,
    TimeAxis,
    colour,
    heading,
    label_text,
    legend,
    line,
    text,
    tip,
)

_ROW, _BAR = 24, 18


@dataclass(frozen=True)
class GanttBar:
    """A bar over an interval.

    `text` stands on the bar where it has room, and `series` is its colour.
    """

    start: datetime
    end: datetime
    text: str
    series: int


@dataclass(frozen=True)
class GanttRow:
    """A labelled row of bars."""

    label: str
    bars: Sequence[GanttBar]


def gantt_chart(
    *,
    title: str,
    series: Sequence[str],
    rows: Sequence[GanttRow],
    start: datetime,
    end: datetime,
    now: datetime | None = None,
) -> Chart:
    """Draw the rows over `[start, end)`, with a mark at `now` if it is within."""
    draw = partial(_gantt, title=title, series=series, rows=rows, start=start, end=end, now=now)
    return Chart(title, draw)


def _gantt(
    frame: Frame,
    *,
    title: str,
    series: Sequence[str],
    rows: Sequence[GanttRow],
    start: datetime,
    end: datetime,
    now: datetime | None,
) -> Drawing:
    named, more = heading(frame, title)
    left = frame.label_width
    keys, top = legend(frame, series, left=left, top=more)
    labels = [frame.label_lines(row.label) for row in rows]
    height_of_row = max(_ROW, LABEL_ROW * max(map(len, labels), default=1) + _ROW - LABEL_ROW)
    bottom = top + height_of_row * len(rows)
    axis = TimeAxis(frame, start, end, left)
    parts = [named, keys, axis.drawn(top, bottom)]
    for position, row in enumerate(rows):
        y = top + position * height_of_row
        parts.append(line(left, y + height_of_row, frame.right, y + height_of_row, GRID))
        parts.append(label_text(left - 8, y + height_of_row / 2, labels[position], row.label))
        parts += [_bar(row, bar, axis, y + (height_of_row - _ROW) / 2) for bar in row.bars]
    if now is not None and start <= now < end:
        parts.append(line(axis.x(now), top - 8, axis.x(now), bottom, "#222"))
        parts.append(text(axis.x(now) + 4, top - 2, "now"))
    return Drawing(bottom + axis.height, "".join(parts))


def _bar(row: GanttRow, bar: GanttBar, axis: TimeAxis, y: float) -> str:
    left, right = axis.x(bar.start), axis.x(bar.end)
    tooltip = tip(f"{row.label}, {bar.start:%H:%M:%S} to {bar.end:%H:%M:%S} UTC: {bar.text}")
    drawn = (
        f"<rect x='{left:.1f}' y='{y + 3:.1f}' width='{max(right - left, 0.5):.1f}' height='{_BAR}'"
        f" fill='{colour(bar.series)}' stroke='#fff'>{tooltip}</rect>"
    )
    if right - left < CHARACTER * len(bar.text) + 6:
        return drawn
    return drawn + (
        f"<text x='{(left + right) / 2:.1f}' y='{y + 16:.1f}' text-anchor='middle' fill='#fff'"
        f" stroke='#222' stroke-width='2.5' paint-order='stroke'>{escape(bar.text)}</text>"
    )
