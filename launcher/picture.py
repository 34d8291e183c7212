"""Draws a decision as an SVG picture: what each tenant got of each resource, and had brought."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

# Okabe and Ito's palette, which readers with any colour vision can tell apart.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_INK = "#222222"
_GRID = "#dddddd"
_LEFT, _RIGHT, _TOP, _BOTTOM = 150, 40, 108, 56
_PLOT_WIDTH = 610
_BAR, _BAR_GAP, _GROUP_GAP = 11, 2, 11


@dataclass(frozen=True)
class Bars:
    """One tenant's bars: for each resource the per cent of the pool that it got and had brought."""

    label: str
    allocated: tuple[float, ...]
    contributed: tuple[float, ...]


def draw(title: str, subtitle: str, resources: Sequence[str], rows: Sequence[Bars]) -> str:
    """An SVG document with a horizontal bar per tenant and resource, in per cent of the pool."""
    group_height = len(resources) * (_BAR + _BAR_GAP) + _GROUP_GAP
    plot_height = group_height * len(rows)
    top_value = _round_up(max(max(row.allocated + row.contributed) for row in rows))
    width, height = _LEFT + _PLOT_WIDTH + _RIGHT, _TOP + plot_height + _BOTTOM

    def x(percent: float) -> float:
        return round(_LEFT + _PLOT_WIDTH * percent / top_value, 2)

    root = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="Helvetica, Arial, DejaVu Sans, sans-serif" '
        f'fill="{_INK}" role="img" aria-label="{escape(title, quote=True)}">'
    )
    parts = [
        root,
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(_LEFT, 30, title, size=19, weight="600"),
        _text(_LEFT, 52, subtitle, size=13),
        *_legend(resources),
        *_axis(x, top_value, plot_height),
    ]
    for index, row in enumerate(rows):
        parts += _group(x, row, _TOP + index * group_height + _GROUP_GAP / 2)
    return "\n".join([*parts, "</svg>", ""])


def _legend(resources: Sequence[str]) -> list[str]:
    parts, left = [], float(_LEFT)
    for resource, colour in zip(resources, _COLOURS, strict=False):
        parts.append(f'<rect x="{left}" y="67" width="22" height="{_BAR}" fill="{colour}"/>')
        parts.append(_text(left + 29, 77, f"{resource}, allocated"))
        left += 60 + 7.5 * len(f"{resource}, allocated")
    parts.append(_mark(left + 2, 65, _BAR + 4))
    parts.append(_text(left + 12, 77, "contributed"))
    return parts


def _axis(x: Callable[[float], float], top_value: int, plot_height: float) -> list[str]:
    bottom = _TOP + plot_height
    parts = []
    step = max(1, top_value // 5)
    for percent in range(0, top_value + 1, step):
        parts.append(
            f'<line x1="{x(percent)}" x2="{x(percent)}" y1="{_TOP}" y2="{bottom}" stroke="{_GRID}"/>'
        )
        parts.append(_text(x(percent), bottom + 18, f"{percent} %", anchor="middle"))
    middle = _LEFT + _PLOT_WIDTH / 2
    parts.append(_text(middle, bottom + 40, "per cent of the pool's total", anchor="middle"))
    return parts


def _group(x: Callable[[float], float], row: Bars, top: float) -> list[str]:
    bars = len(row.allocated) * (_BAR + _BAR_GAP)
    parts = [_text(_LEFT - 10, top + bars / 2 + 4, row.label, anchor="end")]
    for index, (got, brought) in enumerate(zip(row.allocated, row.contributed, strict=True)):
        y = top + index * (_BAR + _BAR_GAP)
        width = round(x(got) - x(0), 2)
        parts.append(
            f'<rect x="{x(0)}" y="{y}" width="{width}" height="{_BAR}" fill="{_COLOURS[index]}"/>'
        )
        parts.append(_mark(x(brought), y - 2, _BAR + 4))
    return parts


def _mark(x: float, y: float, height: float) -> str:
    """A dark stroke with a white edge, so that it shows on bars and beside them."""
    line = f'<line x1="{x}" x2="{x}" y1="{y}" y2="{y + height}"'
    return f'{line} stroke="#ffffff" stroke-width="5"/>{line} stroke="{_INK}" stroke-width="2.5"/>'


def _text(
    x: float, y: float, content: str, *, size: int = 13, weight: str = "400", anchor: str = "start"
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(content)}</text>'
    )


def _round_up(percent: float) -> int:
    """The end of the axis: a multiple of 5 that is not below `percent`."""
    return max(5, -int(-percent // 5) * 5)
