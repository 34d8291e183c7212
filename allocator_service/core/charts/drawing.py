"""What every picture is made of: a title, text, lines, a legend, axes of numbers and of time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from math import floor, log10

from allocator_service.core.display import Precision, instant_text, short_day

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
DASHES = ("", "7 3", "2 3")
WIDTH, LABEL_WIDTH, MARGIN, GAP = 760, 170, 24, 12
LEGEND_TOP, LEGEND_ROW = 34, 18
GRID = "#ddd"
_STYLE = "font-family='system-ui, sans-serif' font-size='12' fill='#222' role='img'"
# An attribute and no style, so that a page's own colours go before it, under any content policy.
_PAPER = "<rect class='paper' width='100%' height='100%' fill='#fff'/>"
_TIME_STEPS = [
    timedelta(seconds=seconds)
    for seconds in (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200)
] + [timedelta(days=days) for days in (1, 2, 7, 14, 30, 90, 365, 1825, 7300)]
_MAX_TIME_TICKS = 7
_FLAT = 1e-6  # differences below this part of a value are rounding
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Chart:
    """A picture: its title, its height in pixels (all are equally wide), and what is drawn."""

    title: str
    height: float
    body: str

    @property
    def svg(self) -> str:
        """The whole document."""
        title = escape(self.title)
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {self.height:.0f}'"
            f" width='{WIDTH}' height='{self.height:.0f}' {_STYLE}><title>{title}</title>"
            f"{_PAPER}{self.body}</svg>"
        )


@dataclass(frozen=True)
class Reference:
    """A value to compare with, drawn across the picture.

    `is_included`: the axis of a picture over time includes it. Without this, a value that is far from
    the others is a mark at the edge, so that the axis fits the others.
    """

    value: float
    label: str
    is_included: bool = True


def column(title: str, charts: Sequence[Chart]) -> Chart:
    """The pictures in one, below each other."""
    parts, top = [], 0.0
    for chart in charts:
        parts.append(f"<g transform='translate(0,{top:.0f})'>{chart.body}</g>")
        top += chart.height + GAP
    return Chart(title, max(top - GAP, 40.0), "".join(parts))


def heading(title: str) -> str:
    """The title above a picture."""
    return (
        f"<text x='{MARGIN / 2:.0f}' y='22' font-size='15' font-weight='600'>{escape(title)}</text>"
    )


def legend(names: Sequence[str], *, left: float, dashed: bool = False) -> tuple[str, float]:
    """What each colour stands for, in as many rows as it takes; and where the rows end."""
    parts, x, y = [], left, float(LEGEND_TOP)
    for index, name in enumerate(names):
        width = 34 + 7 * len(short(name))
        if x > left and x + width > WIDTH - MARGIN / 2:
            x, y = left, y + LEGEND_ROW
        parts.append(_sample(index, x, y, dashed=dashed))
        parts.append(text(x + 18, y + 10, short(name)))
        x += width
    return "".join(parts), y + LEGEND_ROW + 12


def _sample(index: int, x: float, y: float, *, dashed: bool) -> str:
    if dashed:
        return (
            f"<line x1='{x:.0f}' y1='{y + 6:.0f}' x2='{x + 15:.0f}' y2='{y + 6:.0f}'"
            f" {stroke(index)}/>"
        )
    return f"<rect x='{x:.0f}' y='{y:.0f}' width='11' height='11' fill='{colour(index)}'/>"


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def stroke(index: int) -> str:
    """The attributes of a line: beyond the palette the colours come again, dashed."""
    dash = DASHES[index // len(COLOURS) % len(DASHES)]
    dashes = f" stroke-dasharray='{dash}'" if dash else ""
    return f"fill='none' stroke='{colour(index)}' stroke-width='2'{dashes}"


def text(x: float, y: float, content: str, *, anchor: str = "start") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{escape(content)}</text>"


def line(x1: float, y1: float, x2: float, y2: float, ink: str) -> str:
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{ink}'/>"


def tip(content: str) -> str:
    """What appears when a mark is pointed at."""
    return f"<title>{escape(content)}</title>"


def ticks(highest: float) -> list[float]:
    """Round numbers from 0 to at least `highest`, four to eight of them."""
    if highest <= 0:
        return [0.0, 1.0]
    magnitude = 10.0 ** floor(log10(highest))
    for step in (magnitude / 5, magnitude / 2, magnitude, magnitude * 2):
        count = int(-(-highest // step))
        if count <= 7:
            return [step * index for index in range(count + 1)]
    return [0.0, highest]


def fitted_ticks(lowest: float, highest: float) -> list[float]:
    """Round numbers that enclose an interval, from 0 unless that is far from the values."""
    span = highest - lowest
    if lowest < highest / 2 or span <= highest * _FLAT:
        return ticks(highest)
    step = ticks(span)[1]
    first, last = floor(lowest / step), -floor(-highest / step)
    return [step * index for index in range(first, last + 1)]


def tick_texts(marks: Sequence[float]) -> list[str]:
    """Return the numbers of an axis with as many digits as distinguish them."""
    if not marks or marks[0] <= 0:
        return [number(mark) for mark in marks]
    digits = max(0, -floor(log10(marks[1] - marks[0]) + 1e-9))
    return [f"{mark:,.{digits}f}" for mark in marks]


def number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def short(label: str) -> str:
    return label if len(label) <= 24 else label[:23] + "…"


@dataclass(frozen=True)
class TimeAxis:
    """Time from `left` to the right margin, in UTC."""

    start: datetime
    end: datetime
    left: float

    def x(self, at: datetime) -> float:
        whole = max((self.end - self.start).total_seconds(), 1e-6)
        share = (at - self.start).total_seconds() / whole
        return self.left + share * (WIDTH - MARGIN - self.left)

    def drawn(self, top: float, bottom: float) -> str:
        """Grid lines and labels at round instants, and below them the range."""
        step = self._step()
        label = "%H:%M:%S" if step < timedelta(minutes=1) else "%H:%M"
        parts = []
        for at in self._instants(step):
            x = self.x(at)
            day = step >= timedelta(days=1) or at == at.replace(hour=0, minute=0, second=0)
            parts.append(line(x, top, x, bottom, GRID))
            shown = short_day(at) if day else f"{at:{label}}"
            parts.append(text(min(x, WIDTH - 2 * MARGIN), bottom + 16, shown, anchor="middle"))
        precision: Precision = "second" if self.end - self.start < timedelta(hours=1) else "minute"
        begin, end = (instant_text(at, precision=precision) for at in (self.start, self.end))
        span = f"{begin} to {end}"
        parts.append(text(WIDTH - MARGIN, bottom + 34, span, anchor="end"))
        return "".join(parts)

    def _step(self) -> timedelta:
        length = self.end - self.start
        enough = (step for step in _TIME_STEPS if length / step <= _MAX_TIME_TICKS)
        return next(enough, length)

    def _instants(self, step: timedelta) -> list[datetime]:
        first = _EPOCH + -((_EPOCH - self.start) // step) * step
        first += step if first < self.start else timedelta(0)
        count = int((self.end - first) // step) + 1
        return [first + index * step for index in range(max(count, 0))]
