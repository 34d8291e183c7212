"""Replanning of time-sharing pools at the end of a slot, computed ahead of it.

Computing takes time. A decision that began to compute when the slot ends would come late, and the old
timetable's next slot would be announced and metered until then. So it is computed `lead` before the
boundary and published with the boundary as the instant from which it is in force.
"""

from datetime import datetime, timedelta

from allocator_service.allocation.models import Run, RunStatus, Schedule
from allocator_service.allocation.selectors import slot_in_force
from allocator_service.pools.models import Pool, RecomputeJob
from policies import choose

# What claiming, reading, publishing and a busy machine take beside solving.
OVERHEAD = timedelta(seconds=2)
# A decision must be published so long before the boundary, or the commit may come after it.
COMMIT = timedelta(seconds=0.25)


def lead(run: Run) -> timedelta:
    """Return the time before a boundary at which computing the decision after this one begins."""
    return OVERHEAD + 2 * timedelta(seconds=run.solve_seconds or 0.0)


def planned_boundary(job: RecomputeJob, *, now: datetime) -> datetime | None:
    """Return the instant from which the job's decision is to be in force, or None for at once.

    A change waits for the end of the slot that runs when it comes, and a decision that repays deficits
    for the end of the period. Where that boundary has passed, it is the next one. A decision waits for
    nothing where turns are not taken or the pool's `replan` is `at-once`.
    """
    pool = job.pool
    choice = choose(pool.policy_name, pool.policy_mode, pool.policy_options)
    run = latest_decision(pool)
    schedule = Schedule.objects.filter(run=run).only("intervals", "period_seconds", "owed").first()
    if not choice.policy.time_sharing or run is None or schedule is None:
        return None
    changed = job.first_change_at or job.claimed_at  # of a claim whose worker died
    if changed is None and run.effective_from is not None:
        end = run.effective_from + timedelta(seconds=schedule.period_seconds)
        if end > now:
            return end
    if choice.option("replan") != "slot" or len(schedule.intervals) == 1:
        return None
    boundary = end_of_slot(run, changed or now)
    return boundary if boundary is None or boundary >= now else end_of_slot(run, now)


def end_of_slot(run: Run, at: datetime) -> datetime | None:
    """Return the end of the run's slot at an instant, or of its first slot before that begins."""
    if run.effective_from is None:
        return None
    slot = slot_in_force(run=run, at=max(at, run.effective_from))
    return None if slot is None else slot.end


def latest_decision(pool: Pool) -> Run | None:
    """Return the decision that no other one follows, in force now or from the next boundary on."""
    return Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED, effective_until=None).first()
