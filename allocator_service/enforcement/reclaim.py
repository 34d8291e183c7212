"""Terms under which agents take back what running jobs above the decision hold."""

from dataclasses import dataclass

from allocator_service.core.durations import parse_duration
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
        _seconds(pool.minimum_run),
        _seconds(pool.notice),
        pool.churn,
        _seconds(pool.decision_interval),
    )


def _seconds(duration: str) -> int:
    return parse_duration(duration).nominal_seconds if duration else 0
