"""Changes are coalesced, and a message that gets lost is sent again: the row is the job."""

from datetime import timedelta

import pytest
from django.db.models import F

from allocator_service.core.jobs import jobs_due, next_due, open_jobs
from allocator_service.pools.models import RecomputeJob
from allocator_service.pools.recompute import (
    DECISION_JOBS,
    QUIET,
    decision_complete,
    decision_request,
)
from tests.integration.conftest import NOON

pytestmark = pytest.mark.django_db


def due(seconds, *, again=False):
    return jobs_due(DECISION_JOBS, now=NOON + timedelta(seconds=seconds), again=again)


def test_a_run_starts_a_tenth_of_a_second_after_the_last_change(pool):
    assert due(0.09) == []
    decision_request(pool, now=NOON + timedelta(seconds=0.09))
    assert due(0.18) == []
    assert due(0.19) == [pool.pk]


def test_a_run_starts_two_seconds_after_the_first_change_at_the_latest(pool):
    for tenth in range(1, 21):
        decision_request(pool, now=NOON + timedelta(seconds=tenth / 10))
    assert due(1.99) == []
    assert due(2.0) == [pool.pk]


def test_the_relay_knows_when_a_job_that_it_has_not_sent_is_due(pool):
    assert next_due(DECISION_JOBS) == NOON + QUIET
    assert due(1) == [pool.pk]
    assert next_due(DECISION_JOBS) is None


def test_only_kinds_of_open_jobs_are_looked_at(pool):
    assert [kind for kind, _ in open_jobs()] == [DECISION_JOBS]
    RecomputeJob.objects.update(settled=F("wanted"))
    assert open_jobs() == ()


def test_a_job_is_published_once_until_it_is_overdue(pool):
    assert due(1) == [pool.pk]
    assert due(2) == []
    assert due(2, again=True) == []
    assert due(6.1, again=True) == [pool.pk]
    assert due(15, again=True) == []  # from the second time on after ten seconds
    assert due(16.2, again=True) == [pool.pk]


def test_a_settled_job_is_not_due_and_a_new_change_makes_it_so(pool):
    job = RecomputeJob.objects.get(pool=pool)
    job.claimed = job.wanted
    decision_complete(job)
    assert due(60, again=True) == []
    decision_request(pool, now=NOON + timedelta(seconds=60))
    assert due(61) == [pool.pk]


def test_a_claimed_job_is_left_alone_until_its_claimant_has_gone_silent(pool):
    RecomputeJob.objects.filter(pool=pool).update(claimed_at=NOON + timedelta(seconds=1))
    assert due(5.9) == []
    assert due(6.1) == [pool.pk]
