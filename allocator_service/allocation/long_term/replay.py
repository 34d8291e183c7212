"""Replay of a pool's decisions and metering over simulated time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from zoneinfo import ZoneInfo

from django.db.models import Sum

from allocator_service.allocation.long_term.metering import pool_meter_all
from allocator_service.allocation.models import Allocation, Run, RunStatus
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.core.dates import date_range_text, is_settable
from allocator_service.core.durations import CalendarDuration
from allocator_service.core.errors import Conflict, Unacceptable
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.ledger.windows import window_state
from allocator_service.pools.models import Pool, RecomputeJob
from allocator_service.pools.recompute import decision_request
from allocator_service.tenants.models import Tenant


@dataclass(frozen=True)
class ReplayedDecision:
    """A decision at a simulated instant, and what the pool's window remembers when it is made.

    Attributes:
        tasks: by tenant.
        sharing_degrees: by tenant; None where nothing would have been used alone.
    """

    at: datetime
    run: Run
    tasks: dict[str, float]
    sharing_degrees: dict[str, float | None]


def pool_replay(
    *, pool: Pool, since: datetime, until: datetime, step: CalendarDuration
) -> Iterator[ReplayedDecision]:
    """Decide at `since` and after every `step` before `until`, and meter what is over.

    Raises `Unacceptable` for an empty interval or dates out of range, and `Conflict` for a pool that
    has a decision at `since` or later, or that another worker decides at the same time.
    """
    if not since < until:
        raise Unacceptable("--to is not after --from.", code="drive.interval")
    for option, instant in (("--from", since), ("--to", until)):
        if not is_settable(instant):
            raise Unacceptable(date_range_text(option), code="drive.interval")
    if Run.objects.filter(
        pool=pool, status=RunStatus.SUCCEEDED, effective_from__gte=since
    ).exists():
        raise Conflict(
            f"The pool {pool} has decisions at {since:%Y-%m-%d %H:%M:%S} or later: replay it from after"
            " them, or replay another pool.",
            code="drive.decided",
        )
    zone = ZoneInfo(pool.timezone)
    for number in count():
        # From the beginning each time: month after month would drift from the 31st to the 28th.
        at = step.times(number).after(since, zone)
        if at >= until:
            break
        yield _decide(pool, at)
    _settle_ledger(pool, until)


def _decide(pool: Pool, at: datetime) -> ReplayedDecision:
    _settle_ledger(pool, at)
    decision_request(pool, now=at)
    # The clock stands at the instant: what is decided is what a worker had decided then.
    run = recompute_pool(pool_id=pool.pk, clock=lambda: at, early=True) or _in_force_while_waiting(
        pool, at
    )
    if run.status != RunStatus.SUCCEEDED:
        error = run.error or {}
        raise Conflict(f"{error.get('code')}: {error.get('detail')}", code="drive.failed")
    rows = Allocation.objects.filter(run=run).values_list("tenant_id").annotate(Sum("tasks"))
    tasks = dict(rows)
    tenants = Tenant.objects.filter(memberships__pool=pool).order_by("slug")
    state = window_state(pool, at)
    return ReplayedDecision(
        at,
        run,
        {tenant.slug: tasks.get(tenant.pk, 0.0) for tenant in tenants},
        {tenant.slug: state.sharing_degrees.get(tenant.pk) for tenant in tenants},
    )


def _in_force_while_waiting(pool: Pool, at: datetime) -> Run:
    """Return the decision in force while a new one waits for the end of a slot. Raises `Conflict`."""
    run = Run.objects.in_force_at(at).filter(pool=pool).first()
    if run is None or not RecomputeJob.objects.filter(pool=pool, run_after__gt=at).exists():
        raise Conflict(
            f"The pool {pool} is being decided by another worker.", code="drive.not_alone"
        )
    return run


def _settle_ledger(pool: Pool, now: datetime) -> None:
    """Write what is over to the ledger, seal it and add it to the totals, as the relay does."""
    pool_meter_all(pool_id=pool.pk, now=now)
    entries_seal_all(now=now)
    # Totals too, so that reports read a replayed pool as any other.
    while totals_advance():
        pass
