"""The deficits of a time-sharing pool's tenants when a period is cut short.

A schedule is fair over its period, not at every moment of it. When a change begins a new period early,
a tenant's deficit is its average for as long as the old period ran, less what it had. The new period
repays as much of it as one period can. Repeating that period would repay too much, so a decision that
repays the rest follows at its end. A deficit that a whole period can hardly reduce is dropped.
"""

from datetime import datetime, timedelta

from allocator_service.allocation.models import Allocation, Run, Schedule
from allocator_service.pools.models import Pool
from policies import choose

# A decision that follows a whole period comes a little late: this much of a slot is dropped. Of a
# period that is cut short nothing is dropped, or changes in quick succession would add up.
SECONDS_LET_GO = 1.0
# A period that repays less than this part of a tenant's deficit hardly reduces it.
PROGRESS = 0.1


def deficits_at(pool: Pool, at: datetime) -> dict[str, float]:
    """Return the tenants' deficits for a new period that begins at an instant, by slug, in its lengths.

    Dominant share × time: what the schedule in force gives on average over its period, for as long as
    the period has run, less what its slots gave. Its own deficits count as far as it has not repaid
    them, and against a tenant that was repaid more. A surplus is below 0.
    """
    run = Run.objects.in_force_at(at).filter(pool=pool).first()
    schedule = Schedule.objects.filter(run=run).first()
    if run is None or run.effective_from is None or schedule is None:
        return {}
    period = float(schedule.period_seconds)
    # Whole periods are fair by themselves: only the part of the last one leaves a deficit.
    turns, within = divmod(at - run.effective_from, timedelta(seconds=period))
    passed = within.total_seconds()
    elapsed = turns * period + passed
    repays = schedule.owed if schedule.made_up is None else schedule.made_up
    deficits = {
        name: part * period - repays[name] * elapsed
        for name, part in schedule.owed.items()
        if turns == 0 or abs(repays[name]) > PROGRESS * abs(part)
    }
    most: dict[str, float] = {}
    for start, end, shares in _turns(run, schedule):
        had = max(min(end, passed) - start, 0.0)
        for name, share in shares.items():
            due = share * (end - start) * passed / period
            deficits[name] = deficits.get(name, 0.0) + due - share * had
            most[name] = max(most.get(name, 0.0), share)
    late = (
        abs(amount) <= most.get(name, 1.0) * SECONDS_LET_GO for name, amount in deficits.items()
    )
    if turns > 0 and all(late):
        return {}
    length = float(
        choose(pool.policy_name, pool.policy_mode, pool.policy_options).option("period_seconds")
    )
    return {name: amount / length for name, amount in deficits.items()}


def deficits_in_force(pool: Pool, at: datetime) -> dict[str, float]:
    """Return the deficits that the period in force is to repay, by slug, in its lengths."""
    run = Run.objects.in_force_at(at).filter(pool=pool).first()
    schedule = Schedule.objects.filter(run=run).first()
    return {} if schedule is None else schedule.owed


def _turns(run: Run, schedule: Schedule) -> list[tuple[float, float, dict[str, float]]]:
    """Return the slots of a period as start and end in seconds, with the tenants' dominant shares."""
    rows = Allocation.objects.filter(run=run, tasks__gt=0).values_list(
        "workload__tenant__slug", "workload__name", "dominant_share", "tasks"
    )
    of_a_task = {(tenant, name): share / tasks for tenant, name, share, tasks in rows}
    slots = schedule.plan["slots"]
    turns = []
    for start, end, slot in schedule.intervals:
        shares: dict[str, float] = {}
        for row in slots[slot]["allocations"]:
            share = row["tasks"] * of_a_task[row["tenant"], row["workload"]]
            shares[row["tenant"]] = shares.get(row["tenant"], 0.0) + share
        turns.append((float(start), float(end), shares))
    return turns
