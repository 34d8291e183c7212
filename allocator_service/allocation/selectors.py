"""Reads of runs and decisions.

`tenant` is that of a tenant key, or None for a caller that may see all.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from allocator_service.allocation.documents import stored_document
from allocator_service.allocation.models import (
    Allocation,
    Certificate,
    Heartbeat,
    Run,
    RunStatus,
    Schedule,
)
from allocator_service.allocation.runs.snapshots import snapshot_document
from allocator_service.core.errors import Gone, Missing
from allocator_service.core.jobs import BACKTESTS
from allocator_service.core.rows import RowReader, only_row, selecting
from allocator_service.core.selecting import get_or_missing
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from policies import choose

# Beat asks the worker every 10 s, relay and sender report every 2 s. A process that is silent for
# longer has stopped.
SILENCE = {
    "worker": timedelta(seconds=35),
    "relay": timedelta(seconds=10),
    "sender": timedelta(seconds=10),
    BACKTESTS: timedelta(seconds=60),  # its signs may wait for whatever goes first
}


NONE_IN_FORCE = "No decision was in force then."


def runs_for(tenant: Tenant | None) -> QuerySet[Run]:
    """Return the runs that a caller may see."""
    return Run.objects.for_tenant(tenant).select_related("pool")


def run_get(*, run_id: UUID, tenant: Tenant | None) -> Run:
    """Return the run of this id, if the caller may see it. Raises `Missing`."""
    return get_or_missing(runs_for(tenant), "run.not_found", pk=run_id)


def decision_at(*, pool: Pool, at: datetime) -> Run:
    """Return the run whose decision was in force in the pool at an instant. Raises `Missing`."""
    run = Run.objects.in_force_at(at).filter(pool=pool).select_related("pool").first()
    if run is None:
        raise Missing(NONE_IN_FORCE, code="decision.none")
    return run


_RUN = RowReader(Run, "run")
_IN_FORCE = """
FROM run LEFT JOIN run_schedule AS schedule ON schedule.run_id = run.id
WHERE run.pool_id = %(pool)s AND run.status = 'succeeded' AND run.effective_from <= {at}
AND COALESCE(run.effective_until, 'infinity') > {at}
""".replace(
    # The pool's time does not run back: it is that of the last decision until a clock has caught up.
    "{at}",
    """GREATEST(%(now)s::timestamptz, (
    SELECT finished_at FROM run
    WHERE pool_id = %(pool)s AND status = 'succeeded' AND effective_until IS NULL))""",
)
_RUN_IN_FORCE = selecting(f"SELECT {{run}}, schedule.run_id {_IN_FORCE}", run=_RUN)
_VERSION = f"""
SELECT run.id, run.effective_from, run.effective_until, schedule.period_seconds, schedule.intervals
{_IN_FORCE}
"""


def decision_now(*, pool: Pool, now: datetime) -> Run:
    """Return the run whose decision is in force in the pool. Raises `Missing`.

    The pool's time does not run back: after a clock was set back it stands still at the instant of the
    last decision until the clock has caught up.
    """
    row = _row_in_force(_RUN_IN_FORCE, pool, now)
    run = _RUN.read(row)
    run.pool = pool
    if row[_RUN.width] is None:
        schedule: Any = Run._meta.get_field("schedule")
        # The join has looked for it: without the cached None, each access would ask the database again.
        schedule.set_cached_value(run, None)
    return run


def decision_version(*, pool: Pool, now: datetime) -> tuple[UUID, datetime | None, datetime | None]:
    """Return which decision is in force, its end if that is known, and the start of its slot.

    Raises `Missing` as `decision_now`.
    """
    run_id, start, end, period, intervals = _row_in_force(_VERSION, pool, now)
    if period is None:
        return run_id, end, None
    slot, _, _ = _interval_at(start, period, json.loads(intervals), now)
    return run_id, end, slot


def _row_in_force(statement: str, pool: Pool, now: datetime) -> tuple[Any, ...]:
    row = only_row(statement, {"pool": pool.pk, "now": now})
    if row is None:
        raise Missing(NONE_IN_FORCE, code="decision.none")
    return row


def decisions_in_force(*, pools: Iterable[Pool], now: datetime) -> dict[int, Run]:
    """Return the runs whose decisions are in force, by their pools' keys.

    It is `decision_now` for many pools.
    """
    of_pools = Run.objects.filter(pool__in=list(pools))
    found = {run.pool_id: run for run in of_pools.in_force_at(now)}
    latest = of_pools.filter(status=RunStatus.SUCCEEDED, effective_until=None)
    # Only after a clock was set back: the pool's time is then that of its last decision.
    for ahead in latest.filter(finished_at__gt=now):
        found |= {
            run.pool_id: run
            for run in of_pools.in_force_at(ahead.finished_at).filter(pool=ahead.pool_id)
        }
    return found


def allocated_to(*, runs: Iterable[Run], tenant: Tenant) -> dict[UUID, list[float]]:
    """Return the resources that each run gives to a tenant in total, in its pool's order.

    Runs that give it nothing are left out.
    """
    sums: dict[UUID, list[float]] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT run_id, sum(amount) FROM run_allocation,
                unnest(resources) WITH ORDINALITY AS part (amount, place)
            WHERE run_id = ANY(%s) AND tenant_id = %s
            GROUP BY run_id, place ORDER BY run_id, place
            """,
            [[run.pk for run in runs], tenant.pk],
        )
        for run_id, amount in cursor.fetchall():
            sums.setdefault(run_id, []).append(amount)
    return sums


def runs_with_slots(runs: Iterable[Run]) -> set[UUID]:
    """Return the runs that divide time, whose allocations are averages of a period."""
    found = Schedule.objects.filter(run__in=[run.pk for run in runs])
    return set(found.values_list("run_id", flat=True))


def allocations_of(*, run: Run, tenant: Tenant | None) -> QuerySet[Allocation]:
    """Return the run's allocations, one per workload, in the order of its input."""
    allocations = Allocation.objects.filter(run=run).select_related("tenant", "workload")
    return allocations if tenant is None else allocations.filter(tenant=tenant)


def certificate_of(run: Run) -> dict[str, Any]:
    """Return the run's certificate. Raises `Missing` for a policy without one, `Gone` once pruned."""
    refuse_pruned(run)
    certificate = Certificate.objects.filter(run=run).first()
    if certificate is None:
        raise Missing(
            "The run has no certificate: it did not succeed, or its policy has none.",
            code="certificate.none",
        )
    return stored_document(certificate.document)


def schedule_of(run: Run) -> Schedule:
    """Return the run's schedule. Raises `Missing` for a decision that does not divide time."""
    schedule = Schedule.objects.filter(run=run).first()
    if schedule is None:
        raise Missing("The run has no schedule: its policy plans none.", code="schedule.none")
    return schedule


@dataclass(frozen=True)
class SlotInForce:
    """A slot on the clock, over `[start, end)`, with its allocations and the schedule that has it."""

    start: datetime
    end: datetime
    fraction: float
    allocations: list[dict[str, Any]]
    schedule: Schedule


def slot_in_force(*, run: Run, at: datetime) -> SlotInForce | None:
    """Return the slot of the run's schedule at an instant while it is in force, or None without one."""
    try:
        schedule = run.schedule
    except Schedule.DoesNotExist:
        return None
    if run.effective_from is None:
        return None
    start, end, slot = _interval_at(
        run.effective_from, schedule.period_seconds, schedule.intervals, at
    )
    planned = schedule.plan["slots"][slot]
    return SlotInForce(start, end, planned["fraction"], planned["allocations"], schedule)


def _interval_at(
    effective_from: datetime, period_seconds: int, intervals: Sequence[Any], at: datetime
) -> tuple[datetime, datetime, int]:
    """Return start and end of the interval of a schedule at an instant, and its slot."""
    period = timedelta(seconds=period_seconds)
    # The plan repeats until another decision is in force.
    turns, within = divmod(at - effective_from, period)
    start, end, slot = next(
        interval for interval in intervals if within < timedelta(seconds=interval[1])
    )
    began = effective_from + turns * period
    return began + timedelta(seconds=start), began + timedelta(seconds=end), slot


def allocated_in_slot(*, run: Run, tenant: Tenant, at: datetime) -> list[float]:
    """Return what a decision that divides time gives to a tenant in the slot of an instant.

    In the pool's order, as entitlements state it. Empty for a decision without slots.
    """
    slot = slot_in_force(run=run, at=at)
    if slot is None:
        return []
    document = input_of(run)
    names = [resource["name"] for resource in document["resources"]]
    demands = {
        each["name"]: each["demand"]
        for each in document["workloads"]
        if each["tenant"] == tenant.slug
    }
    mine = [row for row in slot.allocations if row["tenant"] == tenant.slug]
    return [
        sum(row["tasks"] * float(demands[row["workload"]].get(name, 0)) for row in mine)
        for name in names
    ]


def input_of(run: Run) -> dict[str, Any]:
    """Return the snapshot that the run computed from, in the shape of an evaluation."""
    if run.snapshot is None:
        raise Missing("The run has not read its input yet.", code="run.no_input")
    return snapshot_document(run.snapshot)


@dataclass(frozen=True)
class PlacedDemand:
    """Demand of one task, or of one piece of each kind in a decision that places pieces."""

    kinds: Sequence[Sequence[float]]
    has_pieces: bool


def demands_of(run: Run) -> dict[UUID, PlacedDemand]:
    """Return the placed demand of each workload when the run read its input, by the workload's id.

    A workload may have changed since. Raises `Gone` once the input is pruned.
    """
    if run.snapshot is None:
        return {}
    document = snapshot_document(run.snapshot)
    names = [resource["name"] for resource in document["resources"]]
    places_pieces = choose(**run.policy).places_pieces
    demands = {}
    for id_, workload in zip(run.snapshot.workload_ids, document["workloads"], strict=True):
        pieces = workload.get("pieces") if places_pieces else None
        kinds = [
            [float(each["demand"].get(name, 0)) for name in names] for each in pieces or [workload]
        ]
        demands[id_] = PlacedDemand(kinds, pieces is not None)
    return demands


def finite_or_none(value: float) -> float | None:
    """Return a number as it is stored and served, or None for one that is not finite."""
    return value if math.isfinite(value) else None


def failed_since(*, pool: Pool, run: Run | None) -> Run | None:
    """Return the latest failed run after the decision in force, the reason why no newer one is."""
    failures = Run.objects.filter(pool=pool, status=RunStatus.FAILED)
    if run is not None and run.effective_from is not None:
        failures = failures.filter(finished_at__gt=run.effective_from)
    # Keys ascend with time.
    return failures.order_by("-pk").first()


def heartbeat_age_seconds(*, process: str, now: datetime) -> float | None:
    """Return the seconds since the process was last seen at work, None if never."""
    beat = Heartbeat.objects.filter(pk=process).first()
    return None if beat is None else (now - beat.seen_at).total_seconds()


def refuse_pruned(run: Run) -> None:
    """Raise `Gone` for a run whose proof is no longer kept."""
    if run.pruned_at is not None:
        raise Gone("This part of the run is no longer kept.", code="run.pruned")


def server_selectors(*, run: Run, tenant: str) -> dict[str, dict[str, Any]]:
    """Return the server selectors of a tenant's workloads in a run, by name."""
    rows = Allocation.objects.filter(run=run, tenant__slug=tenant)
    return dict(rows.values_list("workload__name", "workload__server_selector"))
