"""Terms under which agents take back what running jobs above the decision hold."""

from dataclasses import dataclass

from allocator_service.core.durations import duration_seconds
from allocator_service.pools.models import Pool


@dataclass(frozen=True)
class ReclaimTerms:
    """Terms of a pool, in seconds.

    At most `churn` tasks end in each interval; None is any number.
    """

    minimum_run_seconds: int
    notice_seconds: int
    churn: int | None
    interval_seconds: int


def reclaim_terms(pool: Pool) -> ReclaimTerms:
    """Return the terms of a pool."""
    return ReclaimTerms(
        duration_seconds(pool.minimum_run),
        duration_seconds(pool.notice),
        pool.churn,
        duration_seconds(pool.decision_interval),
    )
