"""How a change asks for a new decision: the pool's generation and its job row, in one transaction.

Changes are coalesced: a run starts 250 ms after the last one, and at most 2 s after the first.
"""

from datetime import datetime, timedelta

from django.db import connection

from allocator_service.pools.models import Pool

QUIET = timedelta(milliseconds=250)
PATIENCE = timedelta(seconds=2)
CHANNEL = "allocator_recompute"

_WANT = """
INSERT INTO pool_recompute_job (pool_id, wanted, settled, first_change_at, run_after,
                                publications, claimed, attempts)
VALUES (%(pool)s, 1, 0, %(now)s, %(now)s + %(quiet)s, 0, 0, 0)
ON CONFLICT (pool_id) DO UPDATE SET
    wanted = pool_recompute_job.wanted + 1,
    first_change_at = COALESCE(pool_recompute_job.first_change_at, %(now)s),
    run_after = LEAST(
        %(now)s + %(quiet)s, COALESCE(pool_recompute_job.first_change_at, %(now)s) + %(patience)s)
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
    with connection.cursor() as cursor:
        cursor.execute(
            _WANT, {"pool": pool.pk, "now": now, "quiet": QUIET, "patience": PATIENCE}
        )
        cursor.execute(f"NOTIFY {CHANNEL}")
