"""Terms under which agents reclaim the resources of running jobs above the decision."""

from dataclasses import dataclass

from allocator_service.core.durations import duration_seconds
from allocator_service.pools.models import Pool
from allocator_service.workloads.models import Workload, WorkloadState


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


@dataclass(frozen=True)
class WorkloadMinimum:
    """Seconds for which tasks of a workload run at least, in place of the pool's."""

    tenant: str
    workload: str
    minimum_run_seconds: int


def workload_minima(pool: Pool) -> list[WorkloadMinimum]:
    """Return the workloads of a pool that set a minimum."""
    rows = (
        Workload.objects.filter(pool=pool, state=WorkloadState.ACTIVE)
        .exclude(minimum_run="")
        .order_by("id")
        .values_list("tenant__slug", "name", "minimum_run")
    )
    return [WorkloadMinimum(slug, name, duration_seconds(text)) for slug, name, text in rows]
