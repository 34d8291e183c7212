"""Pictures as SVG, drawn on the server: bars and histories with axes, units and a legend.

Colours are of Okabe and Ito's palette, which people with any kind of colour vision can tell apart;
series differ in lightness too, so a printed page keeps them apart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from math import floor, log10

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_WIDTH, _LABEL_WIDTH, _ROW, _BAR, _TOP, _MARGIN = 760, 170, 18, 11, 64, 24
_STYLE = (
    "font-family='system-ui, sans-serif' font-size='12' fill='#222' role='img'"
    " style='background:#fff'"
)


@dataclass(frozen=True)
class BarRow:
    """One labelled group of bars: a value per series, None for none."""

    label: str
    values: Sequence[float | None]


def bar_chart(
    *,
    title: str,
    unit: str,
    series: Sequence[str],
    rows: Sequence[BarRow],
    stacked: bool = False,
) -> str:
    """Horizontal bars, one group a row; `stacked` puts a row's values behind each other."""
    lines = 1 if stacked else len(series)
    height_of_row = lines * (_BAR + 1) + _ROW - _BAR
    highest = max((_extent(row.values, stacked=stacked) for row in rows), default=0.0)
    ticks = _ticks(highest)
    plot = _WIDTH - _LABEL_WIDTH - 2 * _MARGIN
    scale = plot / (ticks[-1] or 1)
    height = _TOP + height_of_row * len(rows) + 40
    parts = [_head(title, height), _legend(series)]
    bottom = height - 32
    for tick in ticks:
        x = _LABEL_WIDTH + tick * scale
        parts.append(_line(x, _TOP - 6, x, bottom, "#ddd"))
        parts.append(_text(x, bottom + 14, _number(tick), anchor="middle"))
    parts.append(_text(_LABEL_WIDTH + plot, bottom + 28, unit, anchor="end"))
    for position, row in enumerate(rows):
        top = _TOP + position * height_of_row
        parts.append(
            _text(_LABEL_WIDTH - 8, top + height_of_row / 2, _short(row.label), anchor="end")
        )
        parts += _bars(row, series, top, scale, stacked=stacked)
    return "".join([*parts, "</svg>"])


def _bars(
    row: BarRow, series: Sequence[str], top: float, scale: float, *, stacked: bool
) -> Iterable[str]:
    left = float(_LABEL_WIDTH)
    for index, (name, value) in enumerate(zip(series, row.values, strict=True)):
        if value is None:
            continue
        y = top + 2 + (0 if stacked else index * (_BAR + 1))
        width = value * scale
        tip = escape(f"{row.label}, {name}: {_number(value)}")
        yield (
            f"<rect x='{left:.1f}' y='{y:.1f}' width='{width:.1f}' height='{_BAR}'"
            f" fill='{COLOURS[index % len(COLOURS)]}'><title>{tip}</title></rect>"
        )
        if stacked:
            left += width


def history_chart(
    *, title: str, unit: str, points: Sequence[tuple[datetime, float | None]], colour: int = 0
) -> str:
    """One quantity over time, oldest first; gaps where it has no value."""
    height, bottom, left = 220, 180, 60
    parts = [_head(title, height)]
    known = [(at, value) for at, value in points if value is not None]
    if not known:
        return "".join([*parts, _text(left, 90, "No values yet."), "</svg>"])
    first, last = known[0][0], known[-1][0]
    seconds = max((last - first).total_seconds(), 1.0)
    ticks = _ticks(max(value for _, value in known))
    scale = (bottom - _TOP) / (ticks[-1] or 1)
    for tick in ticks:
        y = bottom - tick * scale
        parts.append(_line(left, y, _WIDTH - _MARGIN, y, "#ddd"))
        parts.append(_text(left - 6, y + 4, _number(tick), anchor="end"))
    place = [
        (
            left + (at - first).total_seconds() / seconds * (_WIDTH - _MARGIN - left),
            bottom - value * scale,
        )
        for at, value in known
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in place)
    ink = COLOURS[colour]
    parts.append(f"<polyline points='{path}' fill='none' stroke='{ink}' stroke-width='1.5'/>")
    for (x, y), (at, value) in zip(place, known, strict=True):
        tip = escape(f"{at:%Y-%m-%d %H:%M:%S} UTC: {_number(value)} {unit}")
        parts.append(
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='2.5' fill='{ink}'><title>{tip}</title></circle>"
        )
    parts.append(_text(left, bottom + 18, f"{first:%Y-%m-%d %H:%M:%S}"))
    parts.append(
        _text(_WIDTH - _MARGIN, bottom + 18, f"{last:%Y-%m-%d %H:%M:%S} UTC", anchor="end")
    )
    parts.append(_text(left - 6, _TOP - 12, unit, anchor="end"))
    return "".join([*parts, "</svg>"])


def _head(title: str, height: float) -> str:
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height:.0f}'"
        f" width='{_WIDTH}' height='{height:.0f}' {_STYLE}><title>{escape(title)}</title>"
        f"<text x='{_MARGIN / 2:.0f}' y='22' font-size='15' font-weight='600'>{escape(title)}</text>"
    )


def _legend(series: Sequence[str]) -> str:
    parts, x = [], float(_LABEL_WIDTH)
    for index, name in enumerate(series):
        parts.append(
            f"<rect x='{x:.0f}' y='34' width='11' height='11' fill='{COLOURS[index % len(COLOURS)]}'/>"
        )
        parts.append(_text(x + 16, 44, name))
        x += 34 + 7 * len(name)
    return "".join(parts)


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{escape(text)}</text>"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}'/>"


def _extent(values: Sequence[float | None], *, stacked: bool) -> float:
    known = [value for value in values if value is not None]
    return sum(known) if stacked else max(known, default=0.0)


def _ticks(highest: float) -> list[float]:
    """Round numbers from 0 to at least `highest`, four to eight of them."""
    if highest <= 0:
        return [0.0, 1.0]
    magnitude = 10.0 ** floor(log10(highest))
    for step in (magnitude / 5, magnitude / 2, magnitude, magnitude * 2):
        count = int(-(-highest // step))
        if count <= 7:
            return [step * index for index in range(count + 1)]
    return [0.0, highest]


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _short(label: str) -> str:
    return label if len(label) <= 24 else label[:23] + "…"
