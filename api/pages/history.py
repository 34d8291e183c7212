"""A tenant's allocation over time, as a picture and step by step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.safestring import SafeString

from allocator_service.allocation.history import (
    MOST_DECISIONS,
    AllocationHistory,
    Step,
    allocation_history,
)
from allocator_service.allocation.words import cause_text
from allocator_service.core.charts import Chart, StepLine, steps_chart
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Unreadable
from allocator_service.core.snapshots import one_snapshot
from allocator_service.core.templatetags.shown import age
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from api.pages.live import live_of, run_in_force
from api.pages.views import PoolPage

PERIODS = {"1": "24 hours", "7": "7 days", "30": "30 days"}
STEPS_SHOWN, STEPS_DRAWN, LINES_DRAWN = 50, 48, 6


@dataclass(frozen=True)
class ShownStep:
    """A step that changed something, and what was changed in the pool before it."""

    start: datetime
    changed: Mapping[str, tuple[float, float]]
    causes: Sequence[str]


@dataclass(frozen=True)
class ShownHistory:
    """The picture of a history, and its newest steps that changed something, newest first."""

    chart: Chart
    steps: Sequence[ShownStep]
    more: bool
    cut: bool

    @property
    def svg(self) -> SafeString:
        """The picture. What it shows of names was escaped when it was drawn."""
        return SafeString(self.chart.picture)


def history_of(*, pool: Pool, tenant: Tenant, days: int, now: datetime) -> ShownHistory | None:
    """Return what the last days gave to a tenant, or None if no decision was in force."""
    since = now - timedelta(days=days)
    found = allocation_history(pool=pool, tenant=tenant, since=since, now=now)
    if not found.steps:
        return None
    changed = [step for step in reversed(found.steps) if step.changed]
    shown = [
        ShownStep(step.start, step.changed, [cause_text(each) for each in step.causes])
        for step in changed[:STEPS_SHOWN]
    ]
    return ShownHistory(_chart(found, pool.timezone), shown, len(changed) > STEPS_SHOWN, found.cut)


def _chart(found: AllocationHistory, zone: str) -> Chart:
    highest: dict[str, float] = {}
    for step in found.steps:
        for name, tasks in step.tasks.items():
            highest[name] = max(tasks, highest.get(name, 0.0))
    # By name among equals: a line must keep its colour when the page loads itself again.
    drawn = sorted(highest, key=lambda name: (-highest[name], name))[:LINES_DRAWN]
    title = "Tasks of your workloads"
    if len(drawn) < len(highest):
        title += f", the {len(drawn)} largest of {len(highest):,}"
    steps = [(step.start, step.end, step.tasks) for step in found.steps]
    if len(steps) > STEPS_DRAWN:
        steps, width = _means(found.steps, drawn)
        title += f", means of {age(width)}"
    lines = [_line(name, steps) for name in drawn]
    values = (value for each in lines for _, _, value in each.intervals)
    whole = all(value is None or value == int(value) for value in values)
    return steps_chart(title=title, unit="tasks", lines=lines, whole=whole, zone=zone)


_Interval = tuple[datetime, datetime, Mapping[str, float]]


def _line(name: str, steps: Sequence[_Interval]) -> StepLine:
    """Return a workload's line, in which equal values that follow each other are one interval."""
    intervals: list[tuple[datetime, datetime, float | None]] = []
    for start, end, tasks in steps:
        value = tasks.get(name, 0.0)
        if intervals and intervals[-1][1:] == (start, value):
            intervals[-1] = (intervals[-1][0], end, value)
        else:
            intervals.append((start, end, value))
    return StepLine(name, intervals)


def _means(steps: Sequence[Step], names: Sequence[str]) -> tuple[list[_Interval], timedelta]:
    """Return the means of equal intervals, so that what is sent has a bound, and their length."""
    begin = steps[0].start
    width = (steps[-1].end - begin) / STEPS_DRAWN
    sums: list[dict[str, float]] = [dict.fromkeys(names, 0.0) for _ in range(STEPS_DRAWN)]
    for step in steps:
        # The end of the last interval is not the beginning of one more.
        first = min((step.start - begin) // width, STEPS_DRAWN - 1)
        last = min((step.end - begin) // width, STEPS_DRAWN - 1)
        # A step counts in each interval by the part of it that it covers.
        for index in range(first, last + 1):
            edge = begin + index * width
            within = (min(step.end, edge + width) - max(step.start, edge)) / width
            for name in names:
                sums[index][name] += step.tasks.get(name, 0.0) * max(within, 0.0)
    means: list[_Interval] = [
        (
            begin + index * width,
            begin + (index + 1) * width,
            {n: round(v, 6) for n, v in row.items()},
        )
        for index, row in enumerate(sums)
    ]
    return means, width


class HistoryPage(PoolPage):
    """Allocation of the tenant over 24 hours, 7 or 30 days."""

    def get(self, request: HttpRequest, pool: str) -> HttpResponseBase:
        days = request.GET.get("days", "7")
        if days not in PERIODS:
            raise Unreadable("The period is 1, 7 or 30 days.")
        now = utc_now()
        # The state must be that of the picture, or the open page would miss a change between them.
        with one_snapshot():
            of_pool = self.pool
            found = history_of(pool=of_pool, tenant=self.tenant, days=int(days), now=now)
            run = run_in_force(pool=of_pool, now=now)
            live = live_of(pool=of_pool, run=run, now=now)
        return self.shown(
            "history",
            live=live,
            pool=of_pool,
            history=found,
            periods=PERIODS.items(),
            days=days,
            most=MOST_DECISIONS,
            steps_shown=STEPS_SHOWN,
        )
