"""How a change asks for a new decision: the pool's generation and its job row, in one transaction.

Changes are coalesced: a run starts 250 ms after the last one, and at most 2 s after the first. Under
a policy that remembers, changes wait for the next boundary of the pool's decision interval.
"""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import F

from allocator_service.core.durations import parse_duration
from allocator_service.pools.models import Pool, RecomputeJob

QUIET = timedelta(milliseconds=250)
PATIENCE = timedelta(seconds=2)
CHANNEL = "allocator_recompute"

_WANT = """
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
    """Count a change of the locked pool and ask for a decision that includes it.

    Returns the generation, which the pool object then carries as well.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pool SET generation = generation + 1 WHERE id = %s RETURNING generation",
            [pool.pk],
        )
        (pool.generation,) = cursor.fetchall()[0]
    decision_wanted(pool, now=now)
    return pool.generation


def decision_wanted(pool: Pool, *, now: datetime) -> None:
    """Ask for a decision without a change, as an operator does, or a run that nobody finished."""
    boundary = interval_around(pool, now)[1] if pool.policy_long_term else None
    _want(pool, changed=now, boundary=boundary)


def decision_due(pool: Pool, *, at: datetime) -> None:
    """Ask for a decision at an instant to come, for which no change has to wait."""
    _want(pool, changed=None, boundary=at)


def _want(pool: Pool, *, changed: datetime | None, boundary: datetime | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            _WANT,
            {
                "pool": pool.pk,
                "changed": changed,
                "quiet": str(QUIET),
                "patience": str(PATIENCE),
                "boundary": boundary,
            },
        )
        cursor.execute(f"NOTIFY {CHANNEL}")


def interval_around(pool: Pool, instant: datetime) -> tuple[datetime, datetime]:
    """The decision interval `[start, end)` of the pool around an instant, by its window's anchor."""
    duration = parse_duration(pool.decision_interval)
    return duration.around(instant, pool.window_anchor, ZoneInfo(pool.timezone))


def job_settle(job: RecomputeJob, *, next_at: datetime | None = None) -> None:
    """Mark what the locked job's claim had seen as done; changes made since are still wanted.

    They wait until `next_at`, if that is given, as they did not while the claim was at it.
    """
    job.settled = job.claimed
    job.claimed_at = None
    job.published_at = None
    job.token = None
    job.attempts = 0
    if next_at is not None:
        job.run_after = next_at
    fields = ["settled", "claimed_at", "published_at", "token", "attempts", "run_after"]
    job.save(update_fields=fields)
    with connection.cursor() as cursor:
        cursor.execute(f"NOTIFY {CHANNEL}")


def job_send_again(pool_id: int) -> None:
    """Let the message of a job that waits be sent at once: the last one was not acted upon."""
    waiting = RecomputeJob.objects.filter(pk=pool_id, claimed_at=None, wanted__gt=F("settled"))
    if waiting.exclude(published_at=None).update(published_at=None, publications=0):
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")


# An array is computed once. A subquery that the planner runs again for each row locks more rows than its
# limit, because those that it has locked already are skipped.
_DUE = """
UPDATE pool_recompute_job SET published_at = %(now)s, publications = publications + 1
WHERE pool_id = ANY(ARRAY(
    SELECT pool_id FROM pool_recompute_job
    WHERE wanted > settled AND run_after <= %(now)s
      AND (published_at IS NULL
           OR published_at < %(now)s - %(patience)s::interval * LEAST(publications, 2) AND %(again)s)
      AND (claimed_at IS NULL OR claimed_at < %(now)s - %(patience)s::interval)
    ORDER BY run_after LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED))
RETURNING pool_id
"""
REPUBLISH_AFTER = timedelta(seconds=5)


def jobs_due(*, now: datetime, again: bool, limit: int = 100) -> list[int]:
    """Claim the publication of the jobs whose time has come; returns their pools' ids.

    `again`: also those published 5 s ago or more (10 s from the second time on) that nobody has
    claimed or whose claimant has gone silent, because the message may be lost. Commit before sending.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _DUE, {"now": now, "patience": str(REPUBLISH_AFTER), "again": again, "limit": limit}
        )
        return [pool_id for (pool_id,) in cursor.fetchall()]
