"""Requests for runs, heartbeats of processes, and retention."""

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction

from allocator_service.allocation.models import (
    Certificate,
    Floors,
    Heartbeat,
    Placement,
    PlacementDocument,
    Run,
    RunStatus,
    ServerClass,
    Snapshot,
)
from allocator_service.core.ids import new_id
from allocator_service.core.models import IdempotencyClaim
from allocator_service.core.outbox import events_prune, request_id
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Pool
from allocator_service.pools.recompute import decision_request

IDEMPOTENCY_RETENTION = timedelta(hours=72)
RUNS_PRUNED_AT_ONCE = 1_000
METERING = "metering"


@transaction.atomic
def run_request(*, pool: Pool, reason: str, now: datetime) -> Run:
    """Request a decision without a change. Return the pending run if one waits already."""
    pool = pool_lock(pool)
    run = Run.objects.filter(pool=pool, status=RunStatus.PENDING).first()
    if run is None:
        run = Run.objects.create(
            id=new_id(), pool=pool, reason=reason, created_at=now, request_id=request_id()
        )
    elif reason and not run.reason:
        run.reason = reason
        run.save(update_fields=["reason"])
    decision_request(pool, now=now)
    return run


def heartbeat_record(*, process: str, now: datetime) -> None:
    """Record that a process (`worker`, `relay`, `sender`, `backtests`) was at work at `now`.

    For `metering`, it is the end of the oldest interval that is over and not metered, if any.
    """
    Heartbeat.objects.update_or_create(process=process, defaults={"seen_at": now})


def retention_apply(*, now: datetime) -> int:
    """Delete placements, certificates and inputs of runs, events, claims and sessions past retention.

    Summaries, allocations and decisions are kept permanently; a decision in force is kept whole.
    Returns how many runs were pruned.
    """
    before = now - timedelta(days=settings.ENVIRONMENT.run_retention_days)
    old = list(
        Run.objects.filter(pruned_at=None, finished_at__lt=before)
        .exclude(status=RunStatus.SUCCEEDED, effective_until=None)
        # A decision is kept as long after its time in force, however early it was computed.
        .exclude(status=RunStatus.SUCCEEDED, effective_until__gt=before)
        .order_by("pk")
        .values_list("pk", flat=True)[:RUNS_PRUNED_AT_ONCE]
    )
    with transaction.atomic():
        Run.objects.filter(pk__in=old).update(pruned_at=now)
        # Of all that are pruned: the release before does not know the table.
        PlacementDocument.objects.filter(run__pruned_at__isnull=False).delete()
        Placement.objects.filter(run__in=old).delete()
        ServerClass.objects.filter(run__in=old).delete()
        Certificate.objects.filter(run__in=old).delete()
        Floors.objects.filter(run__in=old).delete()
        (
            Snapshot.objects.filter(created_at__lt=before, document__isnull=False)
            # Equal states share a snapshot, which a younger run may still need.
            .exclude(runs__in=Run.objects.filter(pruned_at=None))
            .update(document=None)
        )
    events_prune(before=now - timedelta(days=settings.ENVIRONMENT.event_retention_days))
    IdempotencyClaim.objects.filter(created_at__lt=now - IDEMPOTENCY_RETENTION).delete()
    Session.objects.filter(expire_date__lt=now).delete()
    return len(old)
