"""What pools under long-term policies remember: their window on the ledger, at the boundaries of steps.

A step is an interval of the pool's decision interval, and its decision is made from what is in the
ledger before it: what was used, metered or reported, and what would have been used alone, as far as
the window reaches (policies §4). A decision that comes late is for all of its step and reads the same.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from django.db.models import Min

from allocator_service.allocation.documents import stored_document
from allocator_service.allocation.models import Run, RunStatus, Step
from allocator_service.core.durations import parse_duration
from allocator_service.core.quantities import Resource
from allocator_service.ledger.models import Entry
from allocator_service.ledger.windows import Known, known_entries, window_state
from allocator_service.pools.models import Pool, WindowKind
from allocator_service.pools.recompute import interval_around
from allocator_service.pools.windows import Past
from policies import Allocation as Decision
from policies import History, Problem, Window, history_from_document, history_to_document


@dataclass(frozen=True)
class Basis:
    """What of the ledger a step is decided from: what its window reaches, of the entries there were."""

    past: Past
    known: Known


def step_keep(run: Run, tenant_ids: Sequence[int], basis: Basis | None, decision: Decision) -> None:
    """Store what the policy remembers after a decision's step, and which entries it was made from."""
    after = decision.history
    if after is None or basis is None:
        return
    document = history_to_document(after, decision.problem.tenants, decision.problem.resources)
    Step.objects.create(
        run=run,
        tenant_ids=list(tenant_ids),
        waiting=after.waiting.tolist(),
        history=zlib.compress(orjson.dumps(document), 1),
        begin=basis.past.until,
        since=basis.past.since,
        half_life=basis.past.half_life,
        sealed_through=basis.known.sealed_through,
        unsealed=list(basis.known.unsealed),
        metered_until=basis.known.metered_until,
    )


def step_starved(
    previous: Run | None, tenant_ids: Sequence[int], decision: Decision
) -> dict[str, float]:
    """Who will have waited for the policy's starvation timeout when the step ends, and for how long.

    By slug, in seconds. Whoever had waited as long when the step of the `previous` decision ended is
    not named again.
    """
    timeout = decision.choice.options.get("starvation_timeout")
    if decision.history is None or timeout is None:
        return {}
    last = Step.objects.filter(run=previous).first()
    before = {} if last is None else dict(zip(last.tenant_ids, last.waiting, strict=True))
    waiting = decision.history.waiting.tolist()
    return {
        slug: waited
        for slug, pk, waited in zip(decision.problem.tenants, tenant_ids, waiting, strict=True)
        if waited >= float(timeout) > before.get(pk, 0.0)
    }


def step_basis(step: Step) -> Basis | None:
    """What of the ledger the step was decided from; None of steps of before this was kept."""
    if step.begin is None or step.sealed_through is None or step.unsealed is None:
        return None
    past = Past(step.since, step.begin, step.half_life)
    return Basis(past, Known(step.sealed_through, step.unsealed, step.metered_until))


def step_document(step: Step) -> dict[str, Any]:
    """What the policy remembered after the step, in the shape of an evaluation's `history`."""
    return stored_document(step.history)


def step_history(step: Step, problem: Problem) -> History:
    """What the policy remembered after the step."""
    return history_from_document(step_document(step), problem.tenants, problem.resources)


def step_decided_last(pool: Pool) -> datetime | None:
    """When the step begins whose decision no other one follows; None before the first."""
    begin: datetime | None = (
        Step.objects.filter(
            run__pool=pool, run__status=RunStatus.SUCCEEDED, run__effective_until=None
        )
        .values_list("begin", flat=True)
        .first()
    )
    return begin


def history_at(
    pool: Pool, tenants: Sequence[tuple[int, str]], resources: Sequence[Resource], at: datetime
) -> tuple[dict[str, Any], Basis]:
    """The history of the step around `at`, in the shape of an evaluation's, and what it was read from.

    `tenants` are the members' keys and slugs. Seconds are the unit of time. The pool's time does not
    run back: after a clock was set back, the step is the one that was decided last.
    """
    begin, end = interval_around(pool, max(at, step_decided_last(pool) or at))
    state = window_state(pool, begin, end)
    waiting = _waiting(pool, begin)
    history = {
        "step": (end - begin).total_seconds(),
        "elapsed": elapsed_seconds(state.past, _first(pool)),
        "tenants": {
            slug: {
                "used": _named(resources, pk, state.used),
                "alone": _named(resources, pk, state.alone),
                "waiting": waiting.get(pk, 0.0),
            }
            for pk, slug in tenants
        },
    }
    return history, Basis(state.past, known_entries(pool))


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


def _first(pool: Pool) -> datetime | None:
    """When the pool's first decision came into force, or its first entry begins."""
    decided = Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED)
    firsts = (
        decided.aggregate(at=Min("effective_from"))["at"],
        Entry.objects.filter(pool=pool).aggregate(at=Min("start"))["at"],
    )
    return min((at for at in firsts if at is not None), default=None)


def elapsed_seconds(past: Past, first: datetime | None) -> float:
    """Seconds of a window that are over, by their weight, in a pool that has a past since `first`."""
    since = past.until if first is None else first
    if past.since is not None:
        since = max(since, past.since)
    window = Window.unbounded() if past.half_life is None else Window.decay(past.half_life)
    return window.elapsed(0.0, (past.until - since).total_seconds(), 0.0)


def _named(
    resources: Sequence[Resource], tenant: int, amounts: Mapping[tuple[int, str], Any]
) -> dict[str, float]:
    """By resource name; decayed amounts may be less than 0 by the noise of rounding."""
    return {
        resource.name: max(float(amounts.get((tenant, resource.name), 0)), 0.0)
        for resource in resources
    }
