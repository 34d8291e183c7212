"""Metering: what decisions gave is written to the ledger, interval by interval.

Time is cut where the decision in force changes, where a schedule's slot ends, and at the boundaries
of the pool's decision interval. The intervals follow from what is stored and not from when this runs:
a worker that was away for an hour writes the same entries later, none twice and none left out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import structlog
from django.db import transaction
from django.db.models import Min, Q

import policies
from allocator_service.allocation.audit.decisions import stored_decision
from allocator_service.allocation.models import Allocation, Meter, Run, RunStatus
from allocator_service.allocation.selectors import slot_in_force
from allocator_service.core.errors import Gone
from allocator_service.core.quantities import FRACTIONAL_DIGITS, Resource
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.models import Kind
from allocator_service.pools.models import Metering, Pool
from allocator_service.pools.recompute import interval_around
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from policies import Allocation as Decision
from policies import tasks_alone, unserved_reasons

SOURCE = "decisions"
ENTRIES_AT_ONCE = 20_000
INTERVALS_AT_ONCE = 500
# For so long a decision helps with the metering that it needs; the rest is left to metering's tasks.
CATCHING_UP = timedelta(seconds=5)
# Later than this, metering is no longer left to when there is nothing to decide; and then it is late.
URGENT, LATE = timedelta(seconds=30), timedelta(minutes=2)
_QUANTUM = Decimal(1).scaleb(-FRACTIONAL_DIGITS)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Use:
    """What a decision uses all the while: amounts per tenant, workload and owner of the servers."""

    tenant: int
    workload: Any
    owner: int | None
    amounts: Sequence[float]
    kind: Kind


@dataclass(frozen=True)
class DueMetering:
    """A pool with an interval that is over and not metered, and when the first of them ended."""

    pool: Pool
    since: datetime


def meterings_due(*, now: datetime) -> list[DueMetering]:
    """The pools that are to be metered, the latest first, so that each has its turn."""
    pools = Pool.objects.select_related("meter")
    due = [each for each in (metering_due(pool, now=now) for pool in pools) if each is not None]
    return sorted(due, key=lambda each: (each.since, each.pool.pk))


def metering_due(pool: Pool, *, now: datetime) -> DueMetering | None:
    """Whether the pool is to be metered, and since when."""
    meter = getattr(pool, "meter", None)
    since = _first_decision(pool) if meter is None else meter.metered_until
    interval = None if since is None else next(_intervals(pool, since, now), None)
    return None if interval is None else DueMetering(pool, interval[2])


def pool_meter(*, pool_id: int, now: datetime) -> int:
    """Write the intervals that are over to the ledger; returns how many entries that were.

    As many as one task should: the next one goes on from there. None while another is at it.
    """
    return _meter(pool_id, now, wait=False).entries


def pool_meter_all(
    *, pool_id: int, now: datetime, clock: Callable[[], datetime] | None = None
) -> bool:
    """Write all intervals that are over, and wait for whoever is at it.

    With a `clock`, as many as `CATCHING_UP` has time for; returns whether that was all of them.
    """
    while _meter(pool_id, now, wait=True).more:
        if clock is not None and clock() - now > CATCHING_UP:
            return False
    return True


@dataclass(frozen=True)
class _Metered:
    entries: int
    more: bool


@transaction.atomic
def _meter(pool_id: int, now: datetime, *, wait: bool) -> _Metered:
    pool = Pool.objects.prefetch_related("resource_types").get(pk=pool_id)
    meter = _locked_meter(pool, wait=wait)
    if meter is None:
        return _Metered(0, more=False)
    written, more = 0, False
    decided: _Decided | None = None
    for number, (run, start, end) in enumerate(_intervals(pool, meter.metered_until, now)):
        more = written > ENTRIES_AT_ONCE or number > INTERVALS_AT_ONCE
        if more:
            break
        if decided is None or decided.run.pk != run.pk:
            decided = _decided(run)
        rows = list(_rows(pool, decided, start, end, now))
        entries_append(rows)
        written += len(rows)
        meter.metered_until = end
    meter.save()
    return _Metered(written, more)


def _locked_meter(pool: Pool, *, wait: bool) -> Meter | None:
    first = _first_decision(pool)
    if first is None:
        return None
    if not Meter.objects.filter(pk=pool.pk).exists():  # to insert it would wait for a lock
        Meter.objects.bulk_create([Meter(pool=pool, metered_until=first)], ignore_conflicts=True)
    rows = Meter.objects.select_for_update(no_key=True, skip_locked=not wait)
    return rows.filter(pool=pool).first()


def metering_hold(pool: Pool) -> datetime | None:
    """Until when the pool is metered; nobody meters it further until the open transaction ends.

    A decision begins there at the earliest: what is in the ledger is of the decision before it.
    """
    meter = _locked_meter(pool, wait=True)
    return None if meter is None else meter.metered_until


def _first_decision(pool: Pool) -> datetime | None:
    decided = Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED)
    first: datetime | None = decided.aggregate(at=Min("effective_from"))["at"]
    return first


def _takes_reports(pool: Pool, at: datetime) -> bool:
    """Was what is used reported at an instant, so that decisions only tell what is used alone?

    Before the last change of `metering` it was the other way round.
    """
    changed = pool.metering_changed_at
    return (pool.metering == Metering.REPORTED) == (changed is None or at >= changed)


def _intervals(
    pool: Pool, since: datetime, now: datetime
) -> Iterator[tuple[Run, datetime, datetime]]:
    """The intervals of time from `since` on that are over, in their order."""
    runs = (
        Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED)
        .filter(Q(effective_until=None) | Q(effective_until__gt=since))
        .order_by("effective_from")
    )
    for run in runs.iterator(chunk_size=100):
        if run.effective_from is None:
            continue
        start = max(since, run.effective_from)
        while run.effective_until is None or start < run.effective_until:
            ends = [interval_around(pool, start)[1]]
            if pool.metering_changed_at is not None and start < pool.metering_changed_at:
                ends.append(pool.metering_changed_at)
            if run.effective_until is not None:
                ends.append(run.effective_until)
            slot = slot_in_force(run=run, at=start)
            if slot is not None:
                ends.append(slot.end)
            end = min(ends)
            if end > now:
                return
            yield run, start, end
            start = end


@dataclass(frozen=True)
class _Decided:
    """A decision as it is stored; `decision` None: it can no longer be read.

    `rows` are the workloads and tenants of its allocations, `keys` those of tenants by slug.
    """

    run: Run
    decision: Decision | None
    rows: Sequence[tuple[Any, int]]
    keys: dict[str, int]


def _decided(run: Run) -> _Decided:
    try:
        decision = stored_decision(run).allocation
    except Gone:
        log.warning("run_pruned_before_it_was_metered", run=str(run.pk))
        return _Decided(run, None, [], {})
    stored = Allocation.objects.filter(run=run).order_by("position")
    rows = list(stored.values_list("workload_id", "tenant_id"))
    return _Decided(run, decision, rows, dict(Tenant.objects.values_list("slug", "pk")))


def _rows(
    pool: Pool, decided: _Decided, start: datetime, end: datetime, now: datetime
) -> Iterator[dict[str, Any]]:
    resources = resources_of(pool)
    for use in _uses(pool, decided, start):
        for resource, amount in zip(resources, use.amounts, strict=False):
            quantity = Decimal(repr(float(amount))).quantize(_QUANTUM, ROUND_HALF_EVEN)
            if quantity > 0:
                yield _row(pool, decided.run, use, resource, quantity, start, end, now)


def _row(
    pool: Pool,
    run: Run,
    use: _Use,
    resource: Resource,
    quantity: Decimal,
    start: datetime,
    end: datetime,
    now: datetime,
) -> dict[str, Any]:
    return {
        "pool_id": pool.pk,
        "tenant_id": use.tenant,
        "server_owner_id": use.owner,
        "workload_id": use.workload,
        "resource": resource.name,
        "unit": resource.unit,
        "quantity": quantity,
        "start": start,
        "end": end,
        "kind": use.kind.value,
        "corrects": None,
        "reason": "",
        "source": SOURCE,
        "event_id": None,
        "run_id": run.pk,
        "recorded_at": now,
    }


def _uses(pool: Pool, decided: _Decided, at: datetime) -> Iterator[_Use]:
    """What each tenant uses under a decision at an instant, and would use alone."""
    if decided.decision is None:
        return
    if not _takes_reports(pool, at):
        yield from _shared(decided.run, decided.decision, decided.rows, decided.keys, at)
    yield from _alone(decided.decision, decided.keys)


def _shared(
    run: Run,
    decision: Decision,
    rows: Sequence[tuple[Any, int]],
    keys: dict[str, int],
    at: datetime,
) -> Iterator[_Use]:
    """Usage per workload and owner; of the slot in force where time is divided."""
    problem = decision.problem
    slot = slot_in_force(run=run, at=at)
    placed: dict[tuple[int, int], npt.NDArray[np.float64]] = {}
    if slot is not None:
        position = {
            (problem.tenants[problem.workload_tenant[j]], problem.workload_names[j]): j
            for j in range(problem.n)
        }
        for row in slot.allocations:
            j = position[row["tenant"], row["workload"]]
            placed[j, -1] = float(row["tasks"]) * problem.demand[j]
    elif len(decision.placement_tasks):
        columns = (column.tolist() for column in policies.tasks_by_owner(decision))
        pieces = problem.pieces
        for piece, owner, tasks in zip(*columns, strict=True):
            key = int(pieces.workload[piece]), owner
            amounts = tasks * pieces.demand[piece]
            placed[key] = placed[key] + amounts if key in placed else amounts
    else:
        placed = {
            (j, -1): tasks * problem.demand[j]
            for j, tasks in enumerate(decision.tasks.tolist())
            if tasks
        }
    for (j, owner), amounts in sorted(placed.items(), key=itemgetter(0)):
        workload, tenant = rows[j]
        yield _Use(
            tenant,
            workload,
            None if owner < 0 else keys[problem.tenants[owner]],
            amounts.tolist(),
            Kind.USAGE,
        )


def _alone(decision: Decision, keys: dict[str, int]) -> Iterator[_Use]:
    """What each tenant would use in its entitled partition, whole tasks where the pool's are."""
    problem = decision.problem
    reasons = (
        unserved_reasons(problem, decision.classes.allowed)
        if decision.history is None
        else policies.reasons_not_to_run(problem, decision.choice)
    )
    runnable = reasons == ""
    tasks = tasks_alone(problem, runnable, whole=decision.mode == "indivisible")
    amounts = np.zeros((problem.t, problem.m))
    np.add.at(amounts, problem.workload_tenant, tasks[:, None] * problem.demand)
    for tenant, row in enumerate(amounts.tolist()):
        if any(row):
            yield _Use(keys[problem.tenants[tenant]], None, None, row, Kind.ALONE)
