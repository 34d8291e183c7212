"""Steps of pools under long-term policies, with the window on the ledger that each is decided from.

A step is an interval of the pool's decision interval. Its decision is made from the ledger's entries
before it within the window (policies §4): the use that was metered or reported, and the use that each
tenant would have had alone. A decision that comes late is for its whole step and reads the same entries.
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
from allocator_service.ledger.selectors import first_start
from allocator_service.ledger.windows import Known, known_entries, window_state
from allocator_service.pools.models import Pool, WindowKind
from allocator_service.pools.recompute import interval_around
from allocator_service.pools.windows import Past
from policies import Allocation as Decision
from policies import History, Problem, Window, history_from_document, history_to_document


@dataclass(frozen=True)
class Basis:
    """The part of the ledger that a step is decided from.

    `past` is the reach of its window, and `known` are the entries there were.
    """

    past: Past
    known: Known


def step_store(
    run: Run, tenant_ids: Sequence[int], basis: Basis | None, decision: Decision
) -> None:
    """Store what the policy remembers after a decision's step, with the entries it was made from."""
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
    """Return the tenants that will have waited for the starvation timeout at the end of the step.

    Waits are in seconds, by slug. A tenant that had waited as long at the end of the step of the
    `previous` decision is left out.
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
        # Only the step that crosses the timeout, so that a long wait is one event.
        if waited >= float(timeout) > before.get(pk, 0.0)
    }


def step_basis(step: Step) -> Basis | None:
    """Return the part of the ledger that the step was decided from, or None if it was not stored."""
    # Steps of earlier releases did not store it.
    if step.begin is None or step.sealed_through is None or step.unsealed is None:
        return None
    past = Past(step.since, step.begin, step.half_life)
    return Basis(past, Known(step.sealed_through, step.unsealed, step.metered_until))


def step_document(step: Step) -> dict[str, Any]:
    """Return what the policy remembered after the step, in the shape of an evaluation's `history`."""
    return stored_document(step.history)


def step_history(step: Step, problem: Problem) -> History:
    """Return what the policy remembered after the step."""
    return history_from_document(step_document(step), problem.tenants, problem.resources)


def step_decided_last(pool: Pool) -> datetime | None:
    """Return the start of the step with the latest decision, or None before the first."""
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
    """Return the history of the step around `at`, as in an evaluation, and the part of the ledger read.

    `tenants` are the members' keys and slugs. Seconds are the unit of time. The pool's time does not run
    back: after a clock was set back, the step is the one that was decided last.
    """
    # From the step's beginning, not from `at`: a decision that comes late must not remember more.
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
    """Return the default seconds after which a waiting tenant goes first.

    They hold unless the policy's options set them, and are the window's length or its half-life. None
    (never) for an unbounded window.
    """
    if pool.window_kind in (WindowKind.TUMBLING, WindowKind.SLIDING):
        return float(parse_duration(pool.window_length).nominal_seconds)
    if pool.window_kind == WindowKind.DECAY:
        return float(parse_duration(pool.window_half_life).nominal_seconds)
    return None


def _waiting(pool: Pool, begin: datetime) -> dict[int, float]:
    """Return the seconds each tenant has had pending tasks and received nothing, when the step begins.

    The last decision stores them for the end of its step. Waiting went on through any steps since then
    without a decision.
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
        # Not below 0: after a clock was set back, the step may lie before the end of the last one.
        pk: max(waited + since, 0.0) if waited else 0.0
        for pk, waited in zip(last.tenant_ids, last.waiting, strict=True)
    }


def _first(pool: Pool) -> datetime | None:
    """Return the start of the pool's first decision or of its first entry, whichever is earlier."""
    decided = Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED)
    firsts = (
        decided.aggregate(at=Min("effective_from"))["at"],
        first_start(pool=pool),
    )
    return min((at for at in firsts if at is not None), default=None)


def elapsed_seconds(past: Past, first: datetime | None) -> float:
    """Return the weighted seconds of a window that are over, in a pool with a past since `first`."""
    since = past.until if first is None else first
    if past.since is not None:
        since = max(since, past.since)
    window = Window.unbounded() if past.half_life is None else Window.decay(past.half_life)
    return window.elapsed(0.0, (past.until - since).total_seconds(), 0.0)


def _named(
    resources: Sequence[Resource], tenant: int, amounts: Mapping[tuple[int, str], Any]
) -> dict[str, float]:
    """Return the amounts by resource name, with 0 in place of negative ones.

    Decayed amounts may be less than 0 by the noise of rounding.
    """
    return {
        resource.name: max(float(amounts.get((tenant, resource.name), 0)), 0.0)
        for resource in resources
    }
