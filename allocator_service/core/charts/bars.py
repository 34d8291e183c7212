"""Horizontal bars, a labelled group for each row."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil

from allocator_service.core.charts.drawing import (
    BAR,
    CHARACTER,
    FOOT_ROW,
    GRID,
    LABEL_ROW,
    MARGIN,
    Chart,
    Drawing,
    Frame,
    Reference,
    bar_mark,
    colour,
    heading,
    label_text,
    legend,
    line,
    number,
    text,
    ticks,
    tip,
)

_ROW, _LABEL_GAP = 18, 3


@dataclass(frozen=True)
class BarRow:
    """A labelled group of bars with a value per series, None for a missing one.

    `marks` are the values to compare with, one per series, drawn as strokes.
    """

    label: str
    values: Sequence[float | None]
    marks: Sequence[float] = ()


def bar_chart(
    *,
    title: str,
    unit: str,
    series: Sequence[str],
    rows: Sequence[BarRow],
    stacked: bool = False,
    reference: Reference | None = None,
    marked: str = "",
) -> Chart:
    """Return horizontal bars, a group in each row.

    `stacked` puts the values of a row behind each other. `marked` is the text of the rows' marks in the
    legend.
    """
    drawing = partial(
        _drawn,
        title=title,
        unit=unit,
        series=series,
        rows=rows,
        stacked=stacked,
        reference=reference,
        marked=marked,
    )
    return Chart(title, drawing)


def _drawn(
    frame: Frame,
    *,
    title: str,
    unit: str,
    series: Sequence[str],
    rows: Sequence[BarRow],
    stacked: bool,
    reference: Reference | None,
    marked: str,
) -> Drawing:
    lines = 1 if stacked else len(series)
    labels = [frame.label_lines(row.label) for row in rows]
    height_of_bars = lines * (BAR + 1) + _ROW - BAR
    height_of_row = max(height_of_bars, LABEL_ROW * max(map(len, labels), default=1) + _LABEL_GAP)
    highest = max((_extent(row.values, stacked=stacked) for row in rows), default=0.0)
    highest = max([highest, *(mark for row in rows for mark in row.marks)])
    marks = ticks(max(highest, reference.value if reference else 0.0))
    left = float(frame.label_width)
    plot = frame.right - left - MARGIN
    scale = plot / (marks[-1] or 1)
    named, more = heading(frame, title)
    keys, top = legend(frame, series, left=left, top=more, marked=marked)
    height = top + height_of_row * len(rows) + 40
    parts = [named, keys]
    bottom = height - 32
    every = _label_interval(marks, plot)
    for index, mark in enumerate(marks):
        x = left + mark * scale
        parts.append(line(x, top - 6, x, bottom, GRID))
        if index % every == 0:
            parts.append(text(x, bottom + 14, number(mark), anchor="middle"))
    parts.append(text(left + plot, bottom + 28, unit, anchor="end"))
    for position, row in enumerate(rows):
        y = top + position * height_of_row
        parts.append(label_text(left - 8, y + height_of_row / 2, labels[position], row.label))
        y += (height_of_row - height_of_bars) / 2
        parts += _bars(row, series, left, y, scale, stacked=stacked)
        parts += [
            bar_mark(left + mark * scale, y + 2 + index * (BAR + 1))
            for index, mark in enumerate(row.marks)
        ]
    if reference is not None:
        x = left + reference.value * scale
        # Beside the unit, and below it in a narrow picture.
        height += FOOT_ROW if frame.is_narrow else 0
        parts.append(line(x, top - 6, x, bottom, "#222"))
        parts.append(text(frame.left_of_text(left), height - 4, reference.label))
    return Drawing(height, "".join(parts))


def _label_interval(marks: Sequence[float], plot: float) -> int:
    """Return the least interval of labels on an axis at which they do not touch."""
    longest = max(len(number(mark)) for mark in marks) + 1
    return ceil(longest * CHARACTER * (len(marks) - 1) / plot) or 1


def _bars(
    row: BarRow, series: Sequence[str], left: float, top: float, scale: float, *, stacked: bool
) -> Iterable[str]:
    for index, (name, value) in enumerate(zip(series, row.values, strict=True)):
        y = top + 2 + (0 if stacked else index * (BAR + 1))
        if value is None:
            if not stacked:
                yield text(left + 4, y + 10, "–")
            continue
        width = max(value, 0.0) * scale
        tooltip = tip(f"{row.label}, {name}: {number(value)}")
        yield (
            f"<rect x='{left:.1f}' y='{y:.1f}' width='{width:.1f}' height='{BAR}'"
            f" fill='{colour(index)}'>{tooltip}</rect>"
        )
        if stacked:
            left += width


def _extent(values: Sequence[float | None], *, stacked: bool) -> float:
    known = [value for value in values if value is not None]
    return sum(known) if stacked else max(known, default=0.0)
