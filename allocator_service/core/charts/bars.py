"""Horizontal bars, a labelled group for each row."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from allocator_service.core.charts.drawing import (
    GRID,
    LABEL_WIDTH,
    MARGIN,
    WIDTH,
    Chart,
    Reference,
    colour,
    heading,
    legend,
    line,
    number,
    short,
    text,
    ticks,
    tip,
)

_ROW, _BAR = 18, 11


@dataclass(frozen=True)
class BarRow:
    """One labelled group of bars: a value per series, None for none.

    `marks` are what the values are compared with, one per series, drawn as strokes.
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
    """Horizontal bars, one group a row; `stacked` puts a row's values behind each other.

    `marked` says in the legend what the rows' marks are.
    """
    lines = 1 if stacked else len(series)
    height_of_row = lines * (_BAR + 1) + _ROW - _BAR
    highest = max((_extent(row.values, stacked=stacked) for row in rows), default=0.0)
    highest = max([highest, *(mark for row in rows for mark in row.marks)])
    marks = ticks(max(highest, reference.value if reference else 0.0))
    plot = WIDTH - LABEL_WIDTH - 2 * MARGIN
    scale = plot / (marks[-1] or 1)
    keys, top = legend(series, left=LABEL_WIDTH)
    height = top + height_of_row * len(rows) + 40
    parts = [heading(title), keys]
    if marked:
        left = LABEL_WIDTH + sum(34 + 7 * len(short(name)) for name in series)
        parts += [_mark(left + 5, top - 30), text(left + 18, top - 20, marked)]
    bottom = height - 32
    for mark in marks:
        x = LABEL_WIDTH + mark * scale
        parts.append(line(x, top - 6, x, bottom, GRID))
        parts.append(text(x, bottom + 14, number(mark), anchor="middle"))
    parts.append(text(LABEL_WIDTH + plot, bottom + 28, unit, anchor="end"))
    for position, row in enumerate(rows):
        y = top + position * height_of_row
        parts.append(
            text(LABEL_WIDTH - 8, y + height_of_row / 2 + 3, short(row.label), anchor="end")
        )
        parts += _bars(row, series, y, scale, stacked=stacked)
        parts += [
            _mark(LABEL_WIDTH + mark * scale, y + 2 + index * (_BAR + 1))
            for index, mark in enumerate(row.marks)
        ]
    if reference is not None:
        x = LABEL_WIDTH + reference.value * scale
        parts.append(line(x, top - 6, x, bottom, "#222"))
        parts.append(text(LABEL_WIDTH, bottom + 28, reference.label))
    return Chart(title, height, "".join(parts))


def _bars(
    row: BarRow, series: Sequence[str], top: float, scale: float, *, stacked: bool
) -> Iterable[str]:
    left = float(LABEL_WIDTH)
    for index, (name, value) in enumerate(zip(series, row.values, strict=True)):
        y = top + 2 + (0 if stacked else index * (_BAR + 1))
        if value is None:
            if not stacked:
                yield text(left + 4, y + 10, "–")
            continue
        width = max(value, 0.0) * scale
        tooltip = tip(f"{row.label}, {name}: {number(value)}")
        yield (
            f"<rect x='{left:.1f}' y='{y:.1f}' width='{width:.1f}' height='{_BAR}'"
            f" fill='{colour(index)}'>{tooltip}</rect>"
        )
        if stacked:
            left += width


def _mark(x: float, y: float) -> str:
    """A dark stroke with a white edge, so that it shows on a bar and beside it."""
    stroke = f"<line x1='{x:.1f}' y1='{y - 2:.1f}' x2='{x:.1f}' y2='{y + _BAR + 2:.1f}'"
    return f"{stroke} stroke='#fff' stroke-width='5'/>{stroke} stroke='#222' stroke-width='2.5'/>"


def _extent(values: Sequence[float | None], *, stacked: bool) -> float:
    known = [value for value in values if value is not None]
    return sum(known) if stacked else max(known, default=0.0)
