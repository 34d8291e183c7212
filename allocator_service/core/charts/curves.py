"""Charts of one quantity over another, both on logarithmic scales."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, floor, log10

from allocator_service.core.charts.drawing import (
    GRID,
    MARGIN,
    Chart,
    Drawing,
    Frame,
    colour,
    heading,
    legend,
    line,
    number,
    stroke,
    text,
    tip,
)

_LEFT, _PLOT = 78.0, 200.0


@dataclass(frozen=True)
class Curve:
    """A named quantity at each of several `(size, value)`, both above 0, smallest size first."""

    label: str
    points: Sequence[tuple[float, float]]


def growth_chart(*, title: str, sizes: str, unit: str, curves: Sequence[Curve]) -> Chart:
    """Return values of `unit` over the `sizes`, where a slope of 1 is in proportion."""
    return Chart(title, partial(_growth, title=title, sizes=sizes, unit=unit, curves=curves))


def _growth(frame: Frame, *, title: str, sizes: str, unit: str, curves: Sequence[Curve]) -> Drawing:
    named, more = heading(frame, title)
    labels = [each.label for each in curves]
    keys, top = legend(frame, labels, left=_LEFT, top=more, dashed=True)
    top += 12
    bottom = top + _PLOT
    points = [point for each in curves for point in each.points]
    if not points:
        return Drawing(top + 40, named + text(_LEFT, top + 16, "No values yet."))
    across = _decades([size for size, _ in points])
    upwards = _decades([value for _, value in points])
    parts = [named, keys, text(MARGIN / 2, top - 12, unit)]
    for exponent in range(across[0], across[1] + 1):
        x = _x(frame, 10.0**exponent, across)
        parts.append(line(x, top, x, bottom, GRID))
        parts.append(text(x, bottom + 16, f"{10.0**exponent:,.15g}", anchor="middle"))
    for exponent in range(upwards[0], upwards[1] + 1):
        y = _y(10.0**exponent, upwards, bottom)
        parts.append(line(_LEFT, y, frame.right, y, GRID))
        parts.append(text(_LEFT - 6, y + 4, number(10.0**exponent), anchor="end"))
    parts.append(text(frame.right, bottom + 34, sizes, anchor="end"))
    for index, each in enumerate(curves):
        place = [
            (_x(frame, size, across), _y(value, upwards, bottom)) for size, value in each.points
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in place)
        parts.append(f"<polyline points='{path}' {stroke(index)}/>")
        for (x, y), (size, value) in zip(place, each.points, strict=True):
            shown = tip(f"{each.label}, {number(size)} {sizes}: {number(value)} {unit}")
            parts.append(
                f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour(index)}'>{shown}</circle>"
            )
    return Drawing(bottom + 46, "".join(parts))


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten around the values, at least one decade apart."""
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)


def _x(frame: Frame, size: float, decades: tuple[int, int]) -> float:
    part = (log10(size) - decades[0]) / (decades[1] - decades[0])
    return _LEFT + part * (frame.right - MARGIN - _LEFT)


def _y(value: float, decades: tuple[int, int], bottom: float) -> float:
    return bottom - (log10(value) - decades[0]) / (decades[1] - decades[0]) * _PLOT
