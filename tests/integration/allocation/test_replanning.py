"""A change to a time-sharing pool waits for the end of the slot that runs, or does not."""

from datetime import timedelta

import pytest
from django.db.models import Max, Min

from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.long_term.metering import pool_meter_all
from allocator_service.allocation.long_term.replay import pool_replay
from allocator_service.allocation.models import Run
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.allocation.runs.snapshots import pool_state
from allocator_service.allocation.selectors import (
    decision_at,
    decision_now,
    input_of,
    slot_in_force,
)
from allocator_service.allocation.time_sharing.replanning import lead
from allocator_service.allocation.what_if.changes import with_changes
from allocator_service.core.durations import parse_duration
from allocator_service.core.jobs import jobs_due
from allocator_service.ledger.models import Entry
from allocator_service.pools.models import RecomputeJob
from allocator_service.pools.recompute import DECISION_JOBS, decision_request
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_create, pool_update
from allocator_service.workloads.services import WorkloadDraft, workload_withdraw, workloads_submit
from tests.integration.conftest import NOON, settings, vector

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)
CHANGE = NOON + SECOND
OF_A_TASK = {"u1": 5 / 15, "u2": 3.5 / 15}


@pytest.fixture
def turns(tenant):
    """The thesis' example: 15 and 15, tasks of 5,2 and 3,3.5 take turns in two slots."""

    def make(**options):
        policy = policy_choose("tda", None, {"period_seconds": 40, **options})
        pool = pool_create(slug="turns", settings=settings(policy=policy), now=NOON)
        servers_contribute(pool=pool, drafts=[ServerDraft("big", vector(15, 15))], now=NOON)
        drafts = [
            WorkloadDraft(tenant("u1"), "one", vector(5, 2)),
            WorkloadDraft(tenant("u2"), "two", vector(3, "3.5")),
        ]
        workloads_submit(pool=pool, drafts=drafts, now=NOON)
        return pool, decide(pool, NOON)

    return make


def decide(pool, at):
    return recompute_pool(pool_id=pool.pk, clock=lambda: at)


def waited_for(turns):
    """A pool with a change that waits for the end of the first slot; its decision, and that end."""
    pool, run = turns()
    decision_request(pool, now=CHANGE)
    assert decide(pool, CHANGE + SECOND / 4) is None
    return pool, run, NOON + 10 * SECOND


def test_a_change_is_computed_ahead_and_in_force_when_the_slot_that_runs_ends(turns):
    pool, run, end = waited_for(turns)
    begin = end - lead(run)
    assert end - 4 * SECOND < begin < end - SECOND
    assert RecomputeJob.objects.get(pool=pool).run_after == begin
    decision_request(pool, now=CHANGE + SECOND)  # another change waits for the same slot
    assert decide(pool, CHANGE + 2 * SECOND) is None
    assert jobs_due(DECISION_JOBS, now=begin - SECOND / 100, again=False) == []
    assert jobs_due(DECISION_JOBS, now=begin, again=False) == [pool.pk]
    planned = decide(pool, begin)
    assert (planned.finished_at, planned.effective_from) == (begin, end)
    run.refresh_from_db()
    assert run.effective_until == end
    assert decision_now(pool=pool, now=end - SECOND / 100) == run
    assert decision_now(pool=pool, now=end) == planned
    assert decision_at(pool=pool, at=end + SECOND) == planned


def test_nothing_of_the_old_timetable_is_metered_after_the_border(turns):
    pool, run, end = waited_for(turns)
    planned = decide(pool, end - SECOND)
    pool_meter_all(pool_id=pool.pk, now=end + 60 * SECOND)
    of_old = Entry.objects.filter(run_id=run.pk).aggregate(Max("end"))
    of_new = Entry.objects.filter(run_id=planned.pk).aggregate(Min("start"))
    assert (of_old["end__max"], of_new["start__min"]) == (end, end)


def test_what_comes_too_late_for_a_border_begins_at_the_next_one(turns):
    pool, _, end = waited_for(turns)
    ticks = iter([end - SECOND / 2, end - SECOND / 2, end - SECOND / 2, end + SECOND / 5])
    late = recompute_pool(pool_id=pool.pk, clock=lambda: next(ticks, end + SECOND / 2))
    assert late.effective_from == NOON + 40 * SECOND
    assert late.schedule.owed == {}  # computed for the border that it begins at: a whole period


def test_a_change_while_the_next_decision_is_planned_waits_for_its_first_slot(turns):
    pool, _, end = waited_for(turns)
    planned = decide(pool, end - SECOND)
    decision_request(pool, now=end - SECOND / 2)
    assert decide(pool, end - SECOND / 4) is None
    first = end + timedelta(seconds=planned.schedule.intervals[0][1])
    assert RecomputeJob.objects.get(pool=pool).run_after == first - lead(planned)


def test_at_once_cuts_the_slot_short(turns):
    pool, _ = turns(replan="at-once")
    decision_request(pool, now=CHANGE)
    assert decide(pool, CHANGE + SECOND / 4).effective_from == CHANGE + SECOND / 4


def test_a_job_whose_worker_died_keeps_its_border(turns):
    pool, _, end = waited_for(turns)
    RecomputeJob.objects.update(first_change_at=None, claimed_at=CHANGE)  # as a claim leaves it
    assert decide(pool, end - SECOND).effective_from == end


def test_a_pool_whose_clock_was_set_back_shows_its_decision_and_goes_on_deciding(turns):
    pool, run = turns(replan="at-once")
    back = NOON - timedelta(hours=1)
    assert decision_now(pool=pool, now=back) == run
    for number in range(3):
        decision_request(pool, now=back + number * SECOND)
        latest = decide(pool, back + number * SECOND + SECOND / 2)
        assert decision_now(pool=pool, now=back + number * SECOND + SECOND / 2) == latest
    assert latest.effective_from == NOON + 3 * timedelta(microseconds=1)
    decision_request(pool, now=NOON + SECOND)  # the clock has caught up
    assert decide(pool, NOON + SECOND).effective_from == NOON + SECOND


def test_another_policy_does_not_wait_for_turns_that_end(turns):
    pool, _ = turns()
    changed = settings(policy=policy_choose("drf", None, {}))
    pool_update(pool=pool, settings=changed, version=None, now=CHANGE)
    assert decide(pool, CHANGE + SECOND).effective_from == CHANGE + SECOND


def cut_short(pool, at):
    """A new period begins at an instant; its decision."""
    decision_request(pool, now=at)
    return decide(pool, at)


def shares_had(pool, since, until):
    """Dominant share × seconds of both, by halves of a second, from what was in force."""
    had = {"u1": 0.0, "u2": 0.0}
    at = since
    while at < until:
        run = Run.objects.in_force_at(at).get(pool=pool)
        for row in slot_in_force(run=run, at=at).allocations:
            had[row["tenant"]] += row["tasks"] * OF_A_TASK[row["tenant"]] / 2
        at += SECOND / 2
    return had


def test_a_period_that_is_cut_short_is_repaid_in_the_next_one(turns):
    """The slots are u1's for 10 s and then both's for 30 s; on average 1/2 and 0.525."""
    pool, first = turns(replan="at-once")
    assert first.schedule.intervals == [[0, 10, 0], [10, 40, 1]]
    cut = NOON + 10 * SECOND
    second = cut_short(pool, cut)
    assert second.schedule.owed == pytest.approx({"u1": -0.125, "u2": 0.13125})
    end = cut + 40 * SECOND
    had = shares_had(pool, NOON, end)
    assert abs(had["u1"] - had["u2"]) < 1  # to the second; without making up u1 has 9 more
    assert input_of(second)["tenants"] == [
        {"name": "u1", "weight": 1, "best_effort": False, "owed": pytest.approx(-0.125)},
        {"name": "u2", "weight": 1, "best_effort": False, "owed": pytest.approx(0.13125)},
    ]
    assert all(check["holds"] for check in run_verify(second)["checks"])


def test_what_was_repaid_is_not_repaid_again(turns):
    pool, _ = turns(replan="at-once")
    cut = NOON + 10 * SECOND
    cut_short(pool, cut)
    end = cut + 40 * SECOND
    begin = end - lead(Run.objects.get(pool=pool, effective_until=None))
    assert jobs_due(DECISION_JOBS, now=begin - SECOND / 100, again=False) == []
    assert jobs_due(DECISION_JOBS, now=begin, again=False) == [pool.pk]
    third = decide(pool, begin)
    assert third.effective_from == end
    assert third.schedule.owed == {}
    assert jobs_due(DECISION_JOBS, now=end + 400 * SECOND, again=False) == []


def test_what_is_owed_lasts_when_its_period_is_cut_short_as_well(turns):
    pool, _ = turns(replan="at-once")
    cut = NOON + 10 * SECOND
    second = cut_short(pool, cut)
    assert second.schedule.intervals == [[0, 36, 0], [36, 40, 1]]  # both's first, for u2
    third = cut_short(pool, cut + 2 * SECOND)
    # Two of forty seconds are over; u1 is due 0.4 a second and had 1/3, u2 is due 0.63 and had 0.7.
    made_up = second.schedule.made_up
    expected = {
        "u1": (-5.0 - 2 * made_up["u1"] + 2 * (0.4 - 1 / 3)) / 40,
        "u2": (5.25 - 2 * made_up["u2"] + 2 * (0.63 - 0.7)) / 40,
    }
    assert third.schedule.owed == pytest.approx(expected)


def test_what_one_period_cannot_repay_is_repaid_in_the_next_ones(turns):
    """A quarter of a turn of 40 s is more than a period of 10 s can give beside what is due in it."""
    pool, _ = turns(replan="at-once")
    policy = policy_choose("tda", None, {"period_seconds": 10, "replan": "at-once"})
    at = NOON + 10 * SECOND
    pool_update(pool=pool, settings=settings(policy=policy), version=None, now=at)
    run, owed = decide(pool, at), []
    while run.schedule.owed:
        owed.append(run.schedule.owed["u2"])
        assert 0 < run.schedule.made_up["u2"] <= owed[-1]
        at += 10 * SECOND
        assert jobs_due(DECISION_JOBS, now=at - lead(run) - SECOND / 100, again=False) == []
        assert jobs_due(DECISION_JOBS, now=at - lead(run), again=False) == [pool.pk]
        run = decide(pool, at - lead(run))
        assert run.effective_from == at
    assert owed[0] == pytest.approx(4 * 0.13125)
    assert owed == sorted(owed, reverse=True)
    assert len(owed) == 2
    had = shares_had(pool, NOON, at)
    assert abs(had["u1"] - had["u2"]) < 1


def test_what_no_period_can_make_up_for_is_let_go(turns):
    """u1 is owed the turn of u2, whose tasks are withdrawn: it has everything already."""
    pool, _ = turns(replan="at-once")
    run = cut_short(pool, NOON + 30 * SECOND)
    assert run.schedule.owed
    workload_withdraw(workload=pool.workloads.get(name="two"), now=NOON + 31 * SECOND)
    run = decide(pool, NOON + 31 * SECOND)
    while run.schedule.owed:
        made_up = run.schedule.made_up
        at = run.effective_from + 40 * SECOND
        run = decide(pool, at)
    assert at < NOON + 80 * SECOND
    assert abs(made_up["u1"]) < 1e-12


def test_what_was_repaid_twice_is_a_surplus(turns):
    """The decision that owes nothing was two periods late: the repayment had been given again."""
    pool, _ = turns(replan="at-once")
    cut = NOON + 10 * SECOND
    second = cut_short(pool, cut)
    third = cut_short(pool, cut + 80 * SECOND)
    made_up = second.schedule.made_up
    assert third.schedule.owed == pytest.approx(
        {name: amount - 2 * made_up[name] for name, amount in second.schedule.owed.items()}
    )
    assert third.schedule.owed["u1"] > 0 > third.schedule.owed["u2"]


def test_nothing_is_owed_at_the_end_of_a_period_and_less_than_a_second_is_let_go(turns):
    pool, _ = turns(replan="at-once")
    assert cut_short(pool, NOON + 80 * SECOND).schedule.owed == {}
    assert cut_short(pool, NOON + 120 * SECOND + SECOND / 2).schedule.owed == {}


def test_changes_that_come_close_together_starve_nobody(turns):
    """Twice a second a new period begins: nobody's turn is always the one that does not come."""
    pool, _ = turns(replan="at-once")
    for change in range(1, 81):
        cut_short(pool, NOON + change * SECOND / 2)
    had = shares_had(pool, NOON, NOON + 40 * SECOND)
    assert abs(had["u1"] - had["u2"]) < 1  # in 40 s; as if nothing were owed, u2 has nothing


def test_a_simulation_of_nothing_is_the_decision_in_force_with_its_deficits(turns):
    pool, _ = turns(replan="at-once")
    second = cut_short(pool, NOON + 10 * SECOND)
    later = NOON + 25 * SECOND
    state = pool_state(pool.pk, now=later)
    assert state.document == input_of(second)
    changed = with_changes(state, {"policy": {"name": "drf"}}, resources=resources_of(pool))
    assert not any("owed" in tenant for tenant in changed.document["tenants"])


def test_another_policy_has_no_deficits(turns):
    pool, _ = turns(replan="at-once")
    changed = settings(policy=policy_choose("drf", None, {}))
    pool_update(pool=pool, settings=changed, version=None, now=NOON + 10 * SECOND)
    run = decide(pool, NOON + 10 * SECOND)
    assert not any("owed" in tenant for tenant in input_of(run)["tenants"])
    back = settings(policy=policy_choose("tda", None, {"period_seconds": 40}))
    pool_update(pool=pool, settings=back, version=None, now=NOON + 20 * SECOND)
    assert decide(pool, NOON + 20 * SECOND).schedule.owed == {}


def test_who_comes_later_is_owed_nothing(turns, tenant):
    pool, _ = turns(replan="at-once")
    draft = WorkloadDraft(tenant("u3"), "three", vector(1, 1))
    workloads_submit(pool=pool, drafts=[draft], now=NOON + 10 * SECOND)
    assert set(decide(pool, NOON + 10 * SECOND).schedule.owed) == {"u1", "u2"}


def test_time_goes_on_while_a_decision_waits_for_the_end_of_a_slot(turns):
    """ReplayedDecision every 5 s, a pool whose slots end after 10 and 40 s decides anew at these."""
    pool, _ = turns()
    replayed = list(
        pool_replay(
            pool=pool,
            since=NOON + 5 * SECOND,
            until=NOON + 60 * SECOND,
            step=parse_duration("PT5S"),
        )
    )
    decided = [each.run.effective_from - NOON for each in replayed]
    assert len(replayed) == 11
    assert decided[:2] == [0 * SECOND, 10 * SECOND]
    assert sorted(set(decided)) == decided_times(pool)


def decided_times(pool):
    runs = Run.objects.filter(pool=pool).order_by("effective_from")
    return [at - NOON for at in runs.values_list("effective_from", flat=True)]
