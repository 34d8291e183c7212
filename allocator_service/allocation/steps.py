"""What pools under long-term policies remember: the decisions of the past, through their window.

Every decision says what each tenant uses per second while it is in force, and what it would use
alone; the history of the next step is that over the time in which they were in force, as far as
the window reaches (policies §4). Decisions of memoryless policies are not remembered.
"""

import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import orjson

from allocator_service.allocation.models import Run, RunStatus, Step
from allocator_service.core.durations import parse_duration
from allocator_service.core.quantities import Resource
from allocator_service.pools.models import Pool, WindowKind
from allocator_service.pools.recompute import interval_around
from policies import Allocation as Decision
from policies import Problem
from policies.history import History, history_from_document, history_to_document
from policies.windows import Intervals, Window

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def step_keep(run: Run, tenant_ids: Sequence[int], before: History, decision: Decision) -> None:
    """Store what a decision adds to the past while it is in force."""
    after = decision.history
    if after is None:
        return
    problem = decision.problem
    used = np.zeros((problem.t, problem.m))
    np.add.at(used, problem.workload_tenant, decision.tasks[:, None] * problem.demand)
    alone = (after.alone - before.alone) / after.step
    document = history_to_document(after, problem.tenants, problem.resources)
    Step.objects.create(
        run=run,
        tenant_ids=list(tenant_ids),
        used=used.ravel().tolist(),
        alone=np.maximum(alone, 0.0).ravel().tolist(),
        waiting=after.waiting.tolist(),
        history=zlib.compress(orjson.dumps(document), 1),
    )


def step_history(step: Step, problem: Problem) -> History:
    """What the policy remembered after the step."""
    document = orjson.loads(zlib.decompress(step.history))
    return history_from_document(document, problem.tenants, problem.resources)


def history_at(
    pool: Pool, tenants: Sequence[tuple[int, str]], resources: Sequence[Resource], at: datetime
) -> dict[str, Any]:
    """The history of the step from `at` to the next boundary, in the shape of an evaluation's.

    `tenants` are the members' keys and slugs. Seconds are the unit of time.
    """
    window = _window(pool, at)
    t, dt = _seconds(at), _seconds(interval_around(pool, at)[1]) - _seconds(at)
    steps = _steps(pool, at, window.start(t, dt))
    shape = (len(tenants), len(resources))
    history: dict[str, Any] = {"step": dt, "elapsed": 0.0, "tenants": {}}
    if not steps:
        return history
    index = {pk: position for position, (pk, _) in enumerate(tenants)}
    remembered = {
        column: window.remembered(_intervals(steps, column, index, shape, t), len(tenants), t, dt)
        for column in ("used", "alone")
    }
    last = steps[-1]
    waiting = dict(zip(last.tenant_ids, last.waiting, strict=True))
    since = min(_seconds(step.run.effective_from) for step in steps if step.run.effective_from)
    history["elapsed"] = window.elapsed(since, t, dt)
    history["tenants"] = {
        slug: {
            "used": _named(resources, remembered["used"][position]),
            "alone": _named(resources, remembered["alone"][position]),
            "waiting": waiting.get(pk, 0.0),
        }
        for position, (pk, slug) in enumerate(tenants)
    }
    return history


def _window(pool: Pool, at: datetime) -> Window:
    if pool.window_kind == WindowKind.TUMBLING:
        zone = ZoneInfo(pool.timezone)
        begin, _ = parse_duration(pool.window_length).around(at, pool.window_anchor, zone)
        return Window.tumbling([_seconds(begin)])
    if pool.window_kind == WindowKind.SLIDING:
        begin, end = _length(pool.window_length, at, pool)
        return Window.sliding(_seconds(end) - _seconds(begin))
    if pool.window_kind == WindowKind.DECAY:
        begin, end = _length(pool.window_half_life, at, pool)
        return Window.decay(_seconds(end) - _seconds(begin))
    return Window.unbounded()


def _length(text: str, at: datetime, pool: Pool) -> tuple[datetime, datetime]:
    """The duration that ends at an instant; of a month, the calendar's month before it."""
    zone = ZoneInfo(pool.timezone)
    duration = parse_duration(text)
    return duration.times(-1).after(at, zone), at


def _steps(pool: Pool, at: datetime, since: float) -> list[Step]:
    """The steps in force after `since` seconds, in their order."""
    steps = Step.objects.filter(run__pool=pool, run__status=RunStatus.SUCCEEDED).filter(
        run__effective_from__lt=at
    )
    if np.isfinite(since):
        begin = datetime.fromtimestamp(since, UTC)
        steps = steps.exclude(run__effective_until__lte=begin)
    chosen = steps.select_related("run").defer("history").order_by("run__effective_from")
    return list(chosen)


def _intervals(
    steps: Sequence[Step], column: str, index: dict[int, int], shape: tuple[int, int], t: float
) -> Intervals:
    """One interval per step and tenant that is a member now; resources added later count 0."""
    start, end, tenant, rate = [], [], [], []
    for step in steps:
        begin, until = step.run.effective_from, step.run.effective_until
        if begin is None:
            continue
        finish = min(t, _seconds(until)) if until else t
        values = np.array(getattr(step, column)).reshape(len(step.tenant_ids), -1)
        width = min(values.shape[1], shape[1])
        for pk, row in zip(step.tenant_ids, values, strict=True):
            if pk in index and finish > _seconds(begin):
                start.append(_seconds(begin))
                end.append(finish)
                tenant.append(index[pk])
                rate.append(np.pad(row[:width], (0, shape[1] - width)))
    return Intervals(
        start=np.array(start, dtype=np.float64),
        end=np.array(end, dtype=np.float64),
        tenant=np.array(tenant, dtype=np.int64),
        rate=np.array(rate, dtype=np.float64).reshape(-1, shape[1]),
    )


def _seconds(instant: datetime) -> float:
    return (instant - EPOCH).total_seconds()


def _named(resources: Sequence[Resource], amounts: Any) -> dict[str, float]:
    names = [resource.name for resource in resources]
    return dict(zip(names, amounts.tolist(), strict=True))
