"""When time-sharing pools plan again: a change waits for the end of the current slot."""

from datetime import datetime

from allocator_service.allocation.models import Run, Schedule
from allocator_service.allocation.selectors import slot_in_force
from allocator_service.pools.models import RecomputeJob
from policies import choose


def slot_end_to_wait_for(job: RecomputeJob, *, now: datetime) -> datetime | None:
    """The end of the slot that ran when the first change came, if it is still to come.

    None where nothing is cut short: no turns are taken, the pool's `replan` is `at-once`, or the job
    is one that somebody has begun already.
    """
    pool = job.pool
    choice = choose(pool.policy_name, pool.policy_mode, pool.policy_options)
    if not choice.policy.time_sharing or choice.option("replan") != "slot":
        return None
    run = Run.objects.in_force_at(now).filter(pool=pool).first()
    if job.first_change_at is None or run is None or run.effective_from is None:
        return None
    schedule = Schedule.objects.filter(run=run).only("intervals").first()
    if schedule is None or len(schedule.intervals) == 1:
        return None
    slot = slot_in_force(run=run, at=max(job.first_change_at, run.effective_from))
    return slot.end if slot is not None and slot.end > now else None
