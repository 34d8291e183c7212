"""Requests for new decisions, by the pool's generation and its job row in one transaction.

Changes are coalesced: a run starts 100 ms after the last one, and at most 2 s after the first. Under a
policy that remembers, changes wait for the next boundary of the pool's decision interval.
"""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import F, Q

from allocator_service.core.durations import parse_duration
from allocator_service.core.jobs import JobKind, complete_job, wake_relay
from allocator_service.core.locks import Lock
from allocator_service.pools.models import Pool, RecomputeJob

QUIET = timedelta(milliseconds=100)
PATIENCE = timedelta(seconds=2)

DECISION_JOBS = JobKind(
    RecomputeJob,
    Lock.RECOMPUTE,
    # A pool that moves to another installation is decided there.
    is_open=Q(wanted__gt=F("settled"), pool__moved_at=None),
    claim_fields=("claimed", "first_change_at"),
    order=("run_after",),
)

# One statement, so that requests of concurrent changes add up without a lock in Python. The quiet
# time moves with each change; patience, counted from the first, bounds how long they can postpone a run.
_REQUEST = """
INSERT INTO pool_recompute_job (pool_id, wanted, settled, first_change_at, run_after,
                                publications, claimed, attempts)
VALUES (%(pool)s, 1, 0, %(changed)s::timestamptz,
        COALESCE(%(boundary)s::timestamptz, %(changed)s::timestamptz + %(quiet)s::interval), 0, 0, 0)
ON CONFLICT (pool_id) DO UPDATE SET
    wanted = pool_recompute_job.wanted + 1,
    first_change_at = COALESCE(pool_recompute_job.first_change_at, %(changed)s::timestamptz),
    run_after = CASE WHEN %(boundary)s::timestamptz IS NOT NULL THEN
        CASE WHEN pool_recompute_job.wanted > pool_recompute_job.settled
             THEN LEAST(pool_recompute_job.run_after, %(boundary)s) ELSE %(boundary)s END
    ELSE LEAST(
        %(changed)s::timestamptz + %(quiet)s::interval,
        COALESCE(pool_recompute_job.first_change_at, %(changed)s::timestamptz)
            + %(patience)s::interval) END
"""


def pool_changed(pool: Pool, *, now: datetime) -> int:
    """Count a change of the locked pool and request a decision that includes it.

    Returns the generation, which the pool object then carries as well.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pool SET generation = generation + 1 WHERE id = %s RETURNING generation",
            [pool.pk],
        )
        # The caller reports it, and a decision of at least this generation includes the change.
        (pool.generation,) = cursor.fetchall()[0]
    decision_request(pool, now=now)
    return pool.generation


def decision_request(pool: Pool, *, now: datetime) -> None:
    """Request a decision without a change, for an operator or in place of an unfinished run."""
    boundary = interval_around(pool, now)[1] if pool.policy_long_term else None
    _request(pool, changed=now, boundary=boundary)


def decision_due(pool: Pool, *, at: datetime) -> None:
    """Request a decision at a future instant, for which no change has to wait."""
    _request(pool, changed=None, boundary=at)


def _request(pool: Pool, *, changed: datetime | None, boundary: datetime | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            _REQUEST,
            {
                "pool": pool.pk,
                "changed": changed,
                "quiet": str(QUIET),
                "patience": str(PATIENCE),
                "boundary": boundary,
            },
        )
    wake_relay(DECISION_JOBS.queue)


def interval_around(pool: Pool, instant: datetime) -> tuple[datetime, datetime]:
    """Return the decision interval `[start, end)` of the pool around an instant.

    Intervals are counted from the anchor of the pool's window.
    """
    duration = parse_duration(pool.decision_interval)
    return duration.around(instant, pool.window_anchor, ZoneInfo(pool.timezone))


def decision_complete(job: RecomputeJob, *, next_at: datetime | None = None) -> None:
    """Complete the locked job up to `claimed`. Later changes need another decision.

    They wait until `next_at`, if that is given: they came without a wait while the claim was held.
    """
    changes: dict[str, Any] = {} if next_at is None else {"run_after": next_at}
    if job.claimed == job.wanted:
        changes["first_change_at"] = None
    complete_job(job, settled=job.claimed, attempts=0, **changes)
    wake_relay(DECISION_JOBS.queue)
