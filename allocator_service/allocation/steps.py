"""What pools under long-term policies remember: their window on the ledger, at the boundaries of steps.

A step is an interval of the pool's decision interval, and its decision is made from what is in the
ledger before it: what was used, metered or reported, and what would have been used alone, as far as
the window reaches (policies §4). A decision that comes late is for all of its step and reads the same.
"""

import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson
from django.db.models import Min

from allocator_service.allocation.models import Run, RunStatus, Step
from allocator_service.core.durations import parse_duration
from allocator_service.core.quantities import Resource
from allocator_service.ledger.models import Entry
from allocator_service.ledger.windows import WindowState, window_state
from allocator_service.pools.models import Pool, WindowKind
from allocator_service.pools.recompute import interval_around
from policies import Allocation as Decision
from policies import Problem
from policies.history import History, history_from_document, history_to_document
from policies.windows import Window


def step_keep(run: Run, tenant_ids: Sequence[int], decision: Decision) -> None:
    """Store what the policy remembers after a decision's step."""
    after = decision.history
    if after is None:
        return
    document = history_to_document(after, decision.problem.tenants, decision.problem.resources)
    Step.objects.create(
        run=run,
        tenant_ids=list(tenant_ids),
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
    """The history of the step around `at`, in the shape of an evaluation's.

    `tenants` are the members' keys and slugs. Seconds are the unit of time.
    """
    begin, end = interval_around(pool, at)
    state = window_state(pool, begin, end)
    waiting = _waiting(pool, begin)
    return {
        "step": (end - begin).total_seconds(),
        "elapsed": _elapsed(pool, state, begin),
        "tenants": {
            slug: {
                "used": _named(resources, pk, state.used),
                "alone": _named(resources, pk, state.alone),
                "waiting": waiting.get(pk, 0.0),
            }
            for pk, slug in tenants
        },
    }


def starvation_timeout(pool: Pool) -> float | None:
    """Seconds after which a tenant that waits goes first, where the policy's options do not say.

    The window's length, or its half-life; None (never) where it is unbounded.
    """
    if pool.window_kind in (WindowKind.TUMBLING, WindowKind.SLIDING):
        return float(parse_duration(pool.window_length).nominal_seconds)
    if pool.window_kind == WindowKind.DECAY:
        return float(parse_duration(pool.window_half_life).nominal_seconds)
    return None


def _waiting(pool: Pool, begin: datetime) -> dict[int, float]:
    """For how long each tenant has had pending tasks and received nothing, when the step begins.

    The last decision says it for the end of its step; where none was made since, waiting went on.
    """
    last = (
        Step.objects.filter(run__pool=pool, run__status=RunStatus.SUCCEEDED)
        .select_related("run")
        .order_by("-run__effective_from")
        .first()
    )
    if last is None or last.run.effective_from is None:
        return {}
    since = (begin - interval_around(pool, last.run.effective_from)[1]).total_seconds()
    return {
        pk: max(waited + since, 0.0) if waited else 0.0
        for pk, waited in zip(last.tenant_ids, last.waiting, strict=True)
    }


def _elapsed(pool: Pool, state: WindowState, begin: datetime) -> float:
    """Seconds of the window that are over, by their weight: since the pool's first decision or entry."""
    decided = Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED)
    firsts = (
        decided.aggregate(at=Min("effective_from"))["at"],
        Entry.objects.filter(pool=pool).aggregate(at=Min("start"))["at"],
    )
    since = min((at for at in firsts if at is not None), default=begin)
    if state.past.since is not None:
        since = max(since, state.past.since)
    half_life = state.past.half_life
    window = Window.unbounded() if half_life is None else Window.decay(half_life)
    return window.elapsed(0.0, (begin - since).total_seconds(), 0.0)


def _named(
    resources: Sequence[Resource], tenant: int, amounts: Mapping[tuple[int, str], Any]
) -> dict[str, float]:
    """By resource name; decayed amounts may be less than 0 by the noise of rounding."""
    return {
        resource.name: max(float(amounts.get((tenant, resource.name), 0)), 0.0)
        for resource in resources
    }
