"""Answers to questions, each with a chart and a table, and the texts of their numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.utils.safestring import SafeString, mark_safe

from allocator_service.allocation.policies import options_text, policy_title
from allocator_service.core.charts import Chart

HOUR = 3600.0
PER_CENT = 100.0


class Table(NamedTuple):
    """The numbers behind a chart, with cells as texts."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Answer(NamedTuple):
    """The answer to one question, with its chart and the table behind it."""

    question: str
    chart: Chart
    table: Table

    @property
    def picture(self) -> SafeString:
        """The chart as markup of a page."""
        return mark_safe(self.chart.picture)  # noqa: S308 - drawn here, every text escaped


def label_of(policy: Mapping[str, Any]) -> str:
    """Return a policy's name for people, with the options that it was given."""
    options = options_text(policy["options"])
    title = policy_title(policy["name"])
    return f"{title} ({options})" if options else title


def mean(found: Mapping[str, Any] | None) -> float | None:
    return None if found is None else found["mean"]


def scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def spread(found: Mapping[str, Any] | None, shown: Any) -> str:
    """Return the mean, with the range over the seeds where they differ."""
    if found is None:
        return "–"
    if found["least"] == found["most"]:
        return str(shown(found["mean"]))
    return f"{shown(found['mean'])} ({shown(found['least'])} to {shown(found['most'])})"


def part(value: float | None) -> str:
    """Return a part of the whole, in per cent."""
    return "–" if value is None else f"{PER_CENT * value:.1f}\N{NO-BREAK SPACE}%"


def number(value: float | None) -> str:
    """Return a number in three digits."""
    return "–" if value is None else f"{value:.3g}"


def span(seconds: float | None) -> str:
    """Return seconds for people, in the largest unit of which there are at least two."""
    if seconds is None:
        return "–"
    for size, unit in ((86_400.0, "d"), (HOUR, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f}\N{NO-BREAK SPACE}{unit}"
    return f"{seconds:.3g}\N{NO-BREAK SPACE}s"
