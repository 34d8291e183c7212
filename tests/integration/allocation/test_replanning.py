"""A change to a pool that takes turns waits for the end of the slot that runs, or does not."""

from datetime import timedelta

import pytest

from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.recompute import recompute_pool
from allocator_service.allocation.selectors import slot_in_force
from allocator_service.pools.models import RecomputeJob
from allocator_service.pools.recompute import decision_wanted, jobs_due
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_create, pool_update
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.conftest import NOON, settings, vector

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)
CHANGE = NOON + SECOND


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


def test_a_change_waits_for_the_end_of_the_slot_that_runs(turns):
    pool, run = turns()
    end = slot_in_force(run=run, at=CHANGE).end
    assert CHANGE + 2 * SECOND < end < NOON + 40 * SECOND
    decision_wanted(pool, now=CHANGE)
    assert decide(pool, CHANGE + SECOND / 4) is None
    assert RecomputeJob.objects.get(pool=pool).run_after == end
    decision_wanted(pool, now=CHANGE + SECOND)  # another change waits for the same slot
    assert decide(pool, CHANGE + 2 * SECOND) is None
    assert jobs_due(now=end - SECOND / 100, again=False) == []
    assert jobs_due(now=end, again=False) == [pool.pk]
    assert decide(pool, end + SECOND / 10).effective_from == end + SECOND / 10
    run.refresh_from_db()
    assert run.effective_until == end + SECOND / 10


def test_at_once_cuts_the_slot_short(turns):
    pool, _ = turns(replan="at-once")
    decision_wanted(pool, now=CHANGE)
    assert decide(pool, CHANGE + SECOND / 4).effective_from == CHANGE + SECOND / 4


def test_a_job_whose_worker_died_does_not_wait_again(turns):
    pool, _ = turns()
    decision_wanted(pool, now=CHANGE)
    RecomputeJob.objects.update(first_change_at=None, claimed_at=CHANGE)  # as a claim leaves it
    assert decide(pool, CHANGE + SECOND).effective_from == CHANGE + SECOND


def test_another_policy_does_not_wait_for_turns_that_end(turns):
    pool, _ = turns()
    changed = settings(policy=policy_choose("drf", None, {}))
    pool_update(pool=pool, settings=changed, version=None, now=CHANGE)
    assert decide(pool, CHANGE + SECOND).effective_from == CHANGE + SECOND
