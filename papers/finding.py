"""Finding of a reproduced table or figure, as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Verdict(Enum):
    """Did it come out?"""

    YES = "reproduced"
    PARTLY = "reproduced in part"
    NO = "not reproduced"

    @classmethod
    def of(cls, holds: Iterable[bool], *, same_input: bool = True) -> Verdict:
        """Return the verdict of some comparisons.

        It depends on whether all of them hold, at least half of them, or fewer.

        Args:
            holds: one for each number or sentence of the paper that ours stands beside.
            same_input: True for the paper's own trace or example. With another one curves cannot be
                compared point by point, and the best is "in part".
        """
        found = list(holds)
        if all(found) and same_input:
            return cls.YES
        return cls.PARTLY if 2 * sum(found) >= len(found) else cls.NO


@dataclass(frozen=True)
class Row:
    """One number beside another.

    Attributes:
        what: is measured.
        paper: what the paper prints, as text; a dash where it prints nothing.
        ours: what came out here, as text, with the spread over seeds where there are several.
    """

    what: str
    paper: str
    ours: str


@dataclass(frozen=True)
class Line:
    """Curve of x and y (P,), which are floats."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Figure:
    """A picture with some curves.

    Attributes:
        name: of its file; title, x_label, y_label: what is read on it.
        lines: the curves. points: are they single points, and not joined?
        logarithmic: is x?
    """

    name: str
    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    points: bool = False
    logarithmic: bool = False


@dataclass(frozen=True)
class Finding:
    """A table or figure of a paper beside our own numbers.

    Attributes:
        name: as on the command line; title, source: of the table or figure.
        setting: what was run here, in sentences.
        rows: the numbers. differences: why they differ, in sentences.
        verdict: did it come out?
        figures: our curves.
    """

    name: str
    title: str
    source: str
    setting: str
    rows: tuple[Row, ...]
    differences: tuple[str, ...]
    verdict: Verdict
    figures: tuple[Figure, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """Return the finding as JSON values, with null for numbers that do not exist."""
        return {
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "setting": self.setting,
            "verdict": self.verdict.value,
            "rows": [{"what": row.what, "paper": row.paper, "ours": row.ours} for row in self.rows],
            "differences": list(self.differences),
            "figures": [_figure(figure) for figure in self.figures],
        }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "title": figure.title,
        "x": figure.x_label,
        "y": figure.y_label,
        "lines": [
            {"name": line.name, "x": _numbers(line.x), "y": _numbers(line.y)}
            for line in figure.lines
        ],
    }


def _numbers(values: tuple[float, ...]) -> list[float | None]:
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]
