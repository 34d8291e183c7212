"""The common parts of charts, such as titles, text, lines, legends and axes."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from html import escape
from math import floor, log10
from zoneinfo import ZoneInfo

from allocator_service.core.display import Precision, instant_text, short_day

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
DASHES = ("", "7 3", "2 3")
MARGIN, GAP = 24, 12
LEGEND_TOP, LEGEND_ROW, TITLE_ROW, FOOT_ROW = 34, 18, 19, 16
LABEL_ROW, LABEL_LINES = 14, 3
GRID = "#ddd"
BAR = 11
CHARACTER = 7  # pixels of a character of text, at most on average
_KEY = 34  # pixels of a sample in the legend with its margins
_STYLE = "font-family='system-ui, sans-serif' font-size='12' fill='#222' role='img'"
# An attribute and no style, so that a page's own colours go before it, under any content policy.
_PAPER = "<rect class='paper' width='100%' height='100%' fill='#fff'/>"
_TIME_STEPS = [
    timedelta(seconds=seconds)
    for seconds in (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200)
] + [timedelta(days=days) for days in (1, 2, 7, 14, 30, 90, 365, 1825, 7300)]
_FLAT = 1e-6  # differences below this part of a value are rounding
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - of the clocks of any zone


@dataclass(frozen=True)
class Frame:
    """Width of a picture and of the labels at its left, in pixels.

    `*_length` fields count characters.
    """

    width: int
    label_width: int
    label_length: int
    title_length: int
    time_ticks: int

    @property
    def right(self) -> float:
        """Right end of an axis."""
        return self.width - MARGIN

    @property
    def is_narrow(self) -> bool:
        return self.width < WIDE.width

    def label_lines(self, label: str) -> list[str]:
        """Return the lines of a label, the last one cut if there would be more."""
        return textwrap.wrap(label, self.label_length, max_lines=LABEL_LINES, placeholder="…") or [
            ""
        ]

    def left_of_text(self, left: float) -> float:
        """Return the left edge of a text above or below an axis.

        A narrow picture has no room to indent it.
        """
        return MARGIN / 2 if self.is_narrow else left


WIDE = Frame(width=760, label_width=170, label_length=24, title_length=200, time_ticks=7)
NARROW = Frame(width=360, label_width=110, label_length=15, title_length=38, time_ticks=5)


@dataclass(frozen=True)
class Drawing:
    """Shapes of a picture, and its height in pixels."""

    height: float
    body: str


@dataclass(frozen=True)
class Chart:
    """A picture that can be drawn for pages and for phones."""

    title: str
    draw: Callable[[Frame], Drawing]

    @property
    def svg(self) -> str:
        """The SVG document of the wide picture."""
        return self._document(WIDE)

    @property
    def picture(self) -> str:
        """The picture as drawn for pages and for phones.

        A page has both, and its style sheet shows the one that fits. Without it, the wide one is shown.
        """
        # An attribute of presentation, which every rule of a style sheet overrides.
        return self.svg + self._document(NARROW, "class='narrow' display='none' ")

    def _document(self, frame: Frame, attributes: str = "") -> str:
        title, drawing = escape(self.title), self.draw(frame)
        return (
            f"<svg {attributes}xmlns='http://www.w3.org/2000/svg'"
            f" viewBox='0 0 {frame.width} {drawing.height:.0f}'"
            f" width='{frame.width}' height='{drawing.height:.0f}' {_STYLE}><title>{title}</title>"
            f"{_PAPER}{drawing.body}</svg>"
        )


@dataclass(frozen=True)
class Reference:
    """A value to compare with, drawn across the picture.

    With `is_included`, the axis of a picture over time includes it. Without this, a value that is far
    from the others is a mark at the edge, so that the axis fits the others.
    """

    value: float
    label: str
    is_included: bool = True


def column(title: str, charts: Sequence[Chart]) -> Chart:
    """Combine the pictures in one, below each other."""

    def draw(frame: Frame) -> Drawing:
        parts, top = [], 0.0
        for chart in charts:
            drawing = chart.draw(frame)
            parts.append(f"<g transform='translate(0,{top:.0f})'>{drawing.body}</g>")
            top += drawing.height + GAP
        return Drawing(max(top - GAP, 40.0), "".join(parts))

    return Chart(title, draw)


def heading(frame: Frame, title: str) -> tuple[str, float]:
    """Return the title above a picture, and the height of its lines after the first."""
    lines = textwrap.wrap(title, frame.title_length) or [""]
    parts = [
        f"<text x='{MARGIN / 2:.0f}' y='{22 + TITLE_ROW * index}' font-size='15' font-weight='600'>"
        f"{escape(each)}</text>"
        for index, each in enumerate(lines)
    ]
    return "".join(parts), float(TITLE_ROW * (len(lines) - 1))


def legend(
    frame: Frame,
    names: Sequence[str],
    *,
    left: float,
    top: float,
    dashed: bool = False,
    marked: str = "",
) -> tuple[str, float]:
    """Return the meaning of each colour, and where the rows of the legend end.

    `top` is the height of the title's lines after the first, `marked` the meaning of marks. A name
    that is wider than the picture has several lines.
    """
    left = frame.left_of_text(left)
    right = frame.width - MARGIN / 2
    longest = int((right - left - _KEY) / CHARACTER)
    parts, x, y, height = [], left, LEGEND_TOP + top, LEGEND_ROW
    for index, name in enumerate([*names, marked] if marked else names):
        lines = textwrap.wrap(name, longest) or [""]
        width = _KEY + CHARACTER * max(map(len, lines))
        if x > left and x + width > right:
            x, y, height = left, y + height, LEGEND_ROW
        is_mark = index == len(names)
        parts.append(bar_mark(x + 5, y) if is_mark else _sample(index, x, y, dashed=dashed))
        parts += [text(x + 18, y + 10 + LABEL_ROW * at, each) for at, each in enumerate(lines)]
        height = max(height, LEGEND_ROW + LABEL_ROW * (len(lines) - 1))
        x += width
    return "".join(parts), y + height + 12


def bar_mark(x: float, y: float) -> str:
    """Return a dark stroke with a white edge, which shows on a bar and beside it."""
    stroke = f"<line x1='{x:.1f}' y1='{y - 2:.1f}' x2='{x:.1f}' y2='{y + BAR + 2:.1f}'"
    return f"{stroke} stroke='#fff' stroke-width='5'/>{stroke} stroke='#222' stroke-width='2.5'/>"


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
    """Return the attributes of a line, dashed beyond the palette because its colours repeat."""
    dash = DASHES[index // len(COLOURS) % len(DASHES)]
    dashes = f" stroke-dasharray='{dash}'" if dash else ""
    return f"fill='none' stroke='{colour(index)}' stroke-width='2'{dashes}"


def text(x: float, y: float, content: str, *, anchor: str = "start") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{escape(content)}</text>"


def line(x1: float, y1: float, x2: float, y2: float, ink: str) -> str:
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{ink}'/>"


def label_text(x: float, y: float, lines: Sequence[str], label: str) -> str:
    """Return the lines of a label that ends at `x`, centred on the height `y`.

    A label whose last line is cut is whole in a tooltip.
    """
    first = y + 3 - LABEL_ROW * (len(lines) - 1) / 2
    drawn = "".join(
        text(x, first + LABEL_ROW * index, each, anchor="end") for index, each in enumerate(lines)
    )
    is_cut = lines[-1].endswith("…") and not label.endswith("…")
    return f"<g>{tip(label)}{drawn}</g>" if is_cut else drawn


def tip(content: str) -> str:
    """Return the text that appears when a mark is pointed at."""
    return f"<title>{escape(content)}</title>"


def ticks(highest: float, least_step: float = 0.0) -> list[float]:
    """Return round numbers from 0 to at least `highest`.

    They are four to eight, or fewer if `least_step` apart.
    """
    if highest <= 0:
        return [0.0, 1.0]
    magnitude = 10.0 ** floor(log10(highest))
    for step in (magnitude / 5, magnitude / 2, magnitude, magnitude * 2):
        count = int(-(-highest // step))
        if count <= 7 and step >= least_step:
            return [step * index for index in range(count + 1)]
    return [0.0, highest]


def fitted_ticks(lowest: float, highest: float, least_step: float = 0.0) -> list[float]:
    """Return round numbers that enclose an interval, from 0 unless that is far from the values."""
    span = highest - lowest
    if lowest < highest / 2 or span <= highest * _FLAT:
        return ticks(highest, least_step)
    step = ticks(span, least_step)[1]
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


@dataclass(frozen=True)
class TimeAxis:
    """Time from `left` to the right margin, by the clocks of a time zone."""

    frame: Frame
    start: datetime
    end: datetime
    left: float
    zone: str = "UTC"

    @property
    def height(self) -> float:
        """Height of the labels below the axis."""
        return 46.0 + (FOOT_ROW if self.frame.is_narrow else 0)

    def x(self, at: datetime) -> float:
        whole = max((self.end - self.start).total_seconds(), 1e-6)
        share = (at - self.start).total_seconds() / whole
        return self.left + share * (self.frame.right - self.left)

    def drawn(self, top: float, bottom: float) -> str:
        """Draw grid lines and labels at round instants, with the range below them."""
        step = self._step()
        label = "%H:%M:%S" if step < timedelta(minutes=1) else "%H:%M"
        parts = []
        for at in self._instants(step):
            x = self.x(at)
            day = step >= timedelta(days=1) or at.time() == time()
            parts.append(line(x, top, x, bottom, GRID))
            shown = short_day(at) if day else f"{at:{label}}"
            parts.append(
                text(min(x, self.frame.right - MARGIN), bottom + 16, shown, anchor="middle")
            )
        precision: Precision = "second" if self.end - self.start < timedelta(hours=1) else "minute"
        begin, end = (instant_text(at, self.zone, precision) for at in (self.start, self.end))
        lines = [f"{begin} to", end] if self.frame.is_narrow else [f"{begin} to {end}"]
        for index, each in enumerate(lines):
            y = bottom + 34 + FOOT_ROW * index
            parts.append(text(self.frame.right, y, each, anchor="end"))
        return "".join(parts)

    def _step(self) -> timedelta:
        length = self.end - self.start
        enough = (step for step in _TIME_STEPS if length / step <= self.frame.time_ticks)
        return next(enough, length)

    def _instants(self, step: timedelta) -> list[datetime]:
        """Return the round instants of the zone's clocks, without those that the clocks skip."""
        zone = ZoneInfo(self.zone)
        start, end = (at.astimezone(zone).replace(tzinfo=None) for at in (self.start, self.end))
        first = _EPOCH + -((_EPOCH - start) // step) * step
        count = (end - first) // step + 1
        clocks = [first + index * step for index in range(max(count, 0))]
        instants = [at.replace(tzinfo=zone).astimezone(UTC).astimezone(zone) for at in clocks]
        return [
            at
            for clock, at in zip(clocks, instants, strict=True)
            if at.replace(tzinfo=None) == clock and self.start <= at <= self.end
        ]
