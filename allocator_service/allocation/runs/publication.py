"""Publication of a decision in an open transaction."""

import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import orjson
from django.db import connection
from django.db.models import Q

from allocator_service.allocation.decided_slots import single_servers
from allocator_service.allocation.long_term.metering import metering_hold
from allocator_service.allocation.long_term.steps import step_starved, step_store
from allocator_service.allocation.models import (
    Allocation,
    Certificate,
    Floors,
    Run,
    RunStatus,
    Schedule,
)
from allocator_service.allocation.placements import placements_of_decision
from allocator_service.allocation.runs.known import DecidedTasks, Decisions
from allocator_service.allocation.runs.placement_dates import placement_dates_store
from allocator_service.allocation.runs.snapshots import PoolState
from allocator_service.allocation.selectors import finite_or_none
from allocator_service.allocation.stored_placements import placements_store
from allocator_service.core.binary_copying import (
    copy_fields,
    finite_fields,
    number_fields,
    raw_uuids,
    text_fields,
)
from allocator_service.core.outbox import event_record, events_record
from allocator_service.ledger.intake.entries import decision_chain
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload
from policies import (
    UNSERVED,
    CurrentPlacements,
    certificate_to_document,
    floors_of_workloads,
    floors_to_document,
    guarantees_unmet,
    schedule_to_document,
    summary_document,
    timetable,
)
from policies import Allocation as Decision
from policies import Schedule as Plan

# Tasks of a divisible decision that differ by less are the same, computed again.
SAME_TASKS = 1e-9
TICK = timedelta(microseconds=1)


def decision_publish(
    *,
    run_id: UUID,
    state: PoolState,
    allocation: Decision,
    digests: Mapping[str, str],
    seconds: float,
    begins: datetime | None,
    now: datetime,
    running: CurrentPlacements | None = None,
    known: Decisions | None = None,
) -> tuple[Run, datetime | None]:
    """Put a decision in force in place of the previous one, now or at the instant `begins`.

    `digests` are those of its proof, for the chain. `running` is where tasks ran before. `known` keeps
    where they run now, for the next decision of this process. Call it in a transaction that holds the
    pool's job: readers see the old decision whole until the commit, and the new one whole from then on.
    Returns the run and the first instant from which tasks may lose their servers, None if nothing waits
    for it.
    """
    run = Run.objects.select_related("pool").get(pk=run_id)
    previous = (
        Run.objects.select_for_update(of=("self",), no_key=True)
        .filter(pool=run.pool, status=RunStatus.SUCCEEDED, effective_until=None)
        .first()
    )
    run.finished_at = now
    run.effective_from = begins or now
    if previous is not None and previous.effective_from and previous.finished_at:
        # Two decisions never share an instant, even if the clocks of two workers differ. A clock that
        # was set back or a slow commit must not put a decision in force before the one that it
        # follows, or in time that is metered by that one.
        metered = metering_hold(run.pool) or now
        earliest = max(previous.effective_from + TICK, metered)
        run.finished_at = max(now, previous.finished_at + TICK)
        if begins is None:
            run.finished_at = max(run.finished_at, earliest)
        run.effective_from = max(begins or run.finished_at, earliest)
        previous.effective_until = run.effective_from
        previous.save(update_fields=["effective_until"])
    run.status = RunStatus.SUCCEEDED
    run.token = None
    run.solve_seconds = seconds
    run.summary = _finite(summary_document(allocation))
    run.save()
    # First of all rows: what follows compares them with those of the previous run.
    _copy_allocations(run, state, allocation)
    _record_allocation_changes(run, previous, now)
    # One large server in place of the pool has no servers to name.
    if not allocation.choice.sees_one_pool:
        placed = placements_of_decision(state.groups, state.tenant_pks, allocation)
        placements_store(run, placed)
        if known is not None and allocation.whole:
            known.keep(run.pool_id, run.pk, DecidedTasks(placed, state.workload_ids))
    released_at = placement_dates_store(
        run=run,
        allocation=allocation,
        running=running,
        dated=state.dated,
        groups=state.groups,
        workload_ids=state.workload_ids,
        workloads=state.document["workloads"],
        minimum=state.minimum,
    )
    if allocation.certificate is not None:
        content = orjson.dumps(certificate_to_document(allocation.certificate))
        Certificate.objects.create(run=run, document=zlib.compress(content, 1))
    if allocation.floors is not None:
        content = orjson.dumps(floors_to_document(allocation.floors))
        Floors.objects.create(run=run, document=zlib.compress(content, 1))
    _record_unmet_guarantees(run, previous, allocation, now)
    if allocation.schedule is not None:
        _keep_schedule(run, state, allocation, allocation.schedule)
    if allocation.history is not None:
        step_store(run, list(state.tenant_pks.values()), state.basis, allocation)
        _record_starvation(run, previous, state, allocation, now)
    _mark_unsatisfiable(run, state, allocation, now)
    decision_chain(
        pool=run.pool,
        run_id=run.pk,
        generation=state.generation,
        effective_from=run.effective_from,
        digests=digests,
    )
    event_record(
        kind="decision.published",
        pool=run.pool.slug,
        payload={"run": str(run.pk), "generation": run.generation},
        now=now,
    )
    return run, released_at


def _record_unmet_guarantees(
    run: Run, previous: Run | None, allocation: Decision, now: datetime
) -> None:
    """Record an event if other guarantees than before are unmet, or in other parts, or none again."""
    unmet = guarantees_unmet(allocation)
    before = {} if previous is None else previous.summary or {}
    # Only changes are events: a decision a minute would repeat the same one all day.
    if unmet != before.get("guarantees_unmet", []):
        payload = {"run": str(run.pk), "generation": run.generation, "guarantees": unmet}
        event_record(kind="guarantee.unmet", pool=run.pool.slug, payload=payload, now=now)


# Only rows that differ leave the database. A full join is never a nested loop, which statistics from
# before the run was stored would choose. The condition is that of `math.isclose`.
_CHANGED_TASKS = """
SELECT COALESCE(after.workload_id, before.workload_id), COALESCE(after.tenant_id, before.tenant_id),
       COALESCE(before.tasks, 0), COALESCE(after.tasks, 0)
FROM (SELECT * FROM run_allocation WHERE run_id = %(run)s) AS after
     FULL JOIN (SELECT * FROM run_allocation WHERE run_id = %(previous)s) AS before
     USING (workload_id)
WHERE abs(COALESCE(after.tasks, 0) - COALESCE(before.tasks, 0))
      > %(tolerance)s::float8 * GREATEST(after.tasks, before.tasks)
ORDER BY after.position, before.position
"""


def _record_allocation_changes(run: Run, previous: Run | None, now: datetime) -> None:
    """Record an event for every tenant that runs other numbers of tasks than before.

    Allocations of the run must be stored.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _CHANGED_TASKS,
            {
                "run": run.pk,
                "previous": None if previous is None else previous.pk,
                "tolerance": SAME_TASKS,
            },
        )
        rows = cursor.fetchall()
    slugs = Tenant.objects.in_bulk({tenant for _, tenant, _, _ in rows})
    changed: dict[str, list[dict[str, Any]]] = {}
    for workload, tenant, before, after in rows:
        entry = {"workload": str(workload), "before": before, "after": after}
        changed.setdefault(slugs[tenant].slug, []).append(entry)
    payloads = {
        tenant: {"run": str(run.pk), "generation": run.generation, "workloads": workloads}
        for tenant, workloads in changed.items()
    }
    events_record(kind="allocation.changed", pool=run.pool.slug, payloads=payloads, now=now)


def _record_starvation(
    run: Run, previous: Run | None, state: PoolState, allocation: Decision, now: datetime
) -> None:
    """Record an event for each tenant whose wait has reached the starvation timeout of the policy."""
    starved = step_starved(previous, list(state.tenant_pks.values()), allocation)
    payloads: dict[str, dict[str, Any]] = {
        tenant: {
            "run": str(run.pk),
            "generation": run.generation,
            "waiting_seconds": waited,
            "timeout_seconds": float(allocation.choice.option("starvation_timeout")),
        }
        for tenant, waited in starved.items()
    }
    events_record(kind="tenant.starved", pool=run.pool.slug, payloads=payloads, now=now)


def _keep_schedule(run: Run, state: PoolState, allocation: Decision, plan: Plan) -> None:
    table = timetable(allocation, allocation.choice.option("period_seconds"))
    document = schedule_to_document(allocation.problem, plan)
    Schedule.objects.create(
        run=run,
        document=zlib.compress(orjson.dumps(document), 1),
        period_seconds=table.intervals[-1].end,
        intervals=[[item.start, item.end, item.slot] for item in table.intervals],
        gap_on_the_clock=finite_or_none(table.gap),
        owed=state.deficits,
        made_up=None
        if plan.repaid is None
        else dict(zip(allocation.problem.tenants, plan.repaid.tolist(), strict=True)),
        servers=_packed_servers(state, allocation.problem.server_names, document),
    )


def _packed_servers(
    state: PoolState, names: Sequence[str], document: Mapping[str, Any]
) -> dict[str, tuple[str, int | None]]:
    """Return name and owner of the servers of a schedule, by their names in its document.

    `names` are those of the rows of the input.
    """
    used = {
        item["server"]
        for slot in document["slots"]
        for row in slot["allocations"]
        for item in row.get("servers", ())
    }
    found: dict[str, tuple[str, int | None]] = {}
    for name, group in zip(names, state.groups, strict=True) if used else ():
        owner = state.tenant_pks[group.contributed_by] if group.contributed_by else None
        # The document numbers identical servers, which have names of their own.
        numbered = zip(single_servers(name, group.count), group.names, strict=True)
        found |= {single: (real, owner) for single, real in numbered if single in used}
    return found


def _copy_allocations(run: Run, state: PoolState, allocation: Decision) -> None:
    problem, count = allocation.problem, allocation.problem.n
    owner = problem.workload_tenant
    floors = np.array(floors_of_workloads(allocation), dtype=np.float64).reshape(count, 2)
    numbers = number_fields(
        np.repeat(raw_uuids([run.pk]), count),
        np.arange(count, dtype=np.int32),
        raw_uuids(state.workload_ids),
        np.array(state.workload_tenant_pks, dtype=np.int64),
        allocation.tasks,
        allocation.tasks[:, None] * problem.demand,
    )
    copy_fields(
        Allocation,
        ["run_id", "position", "workload_id", "tenant_id", "tasks", "resources",
         "dominant_resource", "dominant_share", "tenant_share", "weighted_share", "level",
         "limited_by", "floor", "floor_met"],
        [
            numbers,
            text_fields(problem.resources[r] for r in allocation.dominant_resource.tolist()),
            number_fields(allocation.dominant_share, allocation.tenant_share[owner]),
            finite_fields(allocation.weighted_share[owner]),
            finite_fields(allocation.level[owner]),
            text_fields(allocation.limited_by),
            finite_fields(floors[:, 0]),
            finite_fields(floors[:, 1]),
        ],
    )  # fmt: skip


def _mark_unsatisfiable(run: Run, state: PoolState, allocation: Decision, now: datetime) -> None:
    """Set the condition of the workloads where it has changed, and record an event if it is new.

    Workloads that have no condition before and after are not read.
    """
    reasons = {
        id_: reason
        for id_, reason in zip(state.workload_ids, allocation.limited_by, strict=True)
        if reason in UNSERVED
    }
    has_condition = Q(pool=run.pool) & ~Q(unsatisfiable="")
    # Both halves: a condition can be new, and one that is stored can have ended.
    current = Workload.objects.filter(has_condition | Q(pk__in=list(reasons))).values_list(
        "pk", "unsatisfiable", "tenant__slug"
    )
    decided = set(state.workload_ids)
    changed: dict[str, list[UUID]] = {}
    for id_, present, tenant in current:
        reason = reasons.get(id_, "")
        # A workload that came after the snapshot has the condition that its submission found.
        if reason == present or id_ not in decided:
            continue
        changed.setdefault(reason, []).append(id_)
        # No event for the end: the next decision records one when it serves the workload.
        if reason:
            event_record(
                kind="workload.unsatisfiable",
                pool=run.pool.slug,
                tenant=tenant,
                payload={"run": str(run.pk), "workload": str(id_), "reason": reason},
                now=now,
            )
    for reason, ids in changed.items():
        Workload.objects.filter(pk__in=ids).update(unsatisfiable=reason)


def _finite(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with null in place of numbers that are not finite."""
    return {
        key: _finite(value)
        if isinstance(value, Mapping)
        else finite_or_none(value)
        if isinstance(value, float)
        else value
        for key, value in document.items()
    }
