"""A run that fails, or loses its worker or its claim, leaves the old decision in force."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest

from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.models import (
    Allocation,
    Run,
    RunStatus,
)
from allocator_service.allocation.runs import recompute
from allocator_service.allocation.selectors import decision_at
from allocator_service.allocation.services import run_request
from allocator_service.core.errors import Conflict
from allocator_service.core.jobs import jobs_due
from allocator_service.core.models import Event
from allocator_service.pools.models import RecomputeJob
from allocator_service.pools.recompute import DECISION_JOBS
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.conftest import NOON, recomputed, recomputed_elsewhere, vector

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_worker_sent_before_the_last_one_let_the_pool_go_is_sent_again_at_once(fig2):
    """The next decision may be due when one is published; its message may overtake the lock."""
    turned_away = []

    class Overtaking(logging.Handler):
        def emit(self, record):
            if "decision_published" in str(record.msg) and not turned_away:
                run_request(pool=fig2, reason="the next", now=NOON)
                assert jobs_due(DECISION_JOBS, now=NOON + timedelta(seconds=1), again=False) == [
                    fig2.pk
                ]
                with ThreadPoolExecutor(1) as thread:
                    turned_away.append(thread.submit(recomputed_elsewhere, fig2).result())

    logger, handler = logging.getLogger(recompute.__name__), Overtaking()
    logger.addHandler(handler)
    try:
        recomputed(fig2)
    finally:
        logger.removeHandler(handler)
    assert turned_away == [None]
    assert jobs_due(DECISION_JOBS, now=NOON + timedelta(seconds=1), again=False) == [fig2.pk]
    assert recomputed(fig2, NOON + timedelta(seconds=1)).reason == "the next"


@pytest.mark.parametrize("error", [OverflowError, KeyError, TypeError])
def test_a_run_that_fails_says_why_and_the_old_decision_stays_in_force(
    fig2, now, monkeypatch, error
):
    first = recomputed(fig2)
    run_request(pool=fig2, reason="", now=now)

    def breaks(*_, **__):
        raise error("a policy that breaks")

    monkeypatch.setattr(recompute.policies, "solve", breaks)
    failed = recomputed(fig2)
    assert failed.status == RunStatus.FAILED
    assert failed.error["code"] == "run.internal"
    assert error.__name__ in failed.error["detail"]
    assert decision_at(pool=fig2, at=now) == first
    assert Event.objects.filter(kind="decision.failed").count() == 1
    job = RecomputeJob.objects.get(pool=fig2)
    assert job.settled == job.wanted
    with pytest.raises(Conflict):
        run_verify(failed)


def test_a_worker_that_dies_three_times_on_one_problem_fails_the_run(fig2, monkeypatch):
    class Killed(BaseException):
        """Stands for kill -9: nothing of ours handles it."""

    def die(*_, **__):
        raise Killed

    monkeypatch.setattr(recompute.policies, "solve", die)
    for _ in range(3):
        with pytest.raises(Killed):
            recomputed(fig2)
    assert Run.objects.get().attempts == 3
    failed = recomputed(fig2)
    assert failed.status == RunStatus.FAILED
    assert failed.error["code"] == "run.worker_lost"
    assert Run.objects.count() == 1


def test_a_change_starts_the_attempts_anew(fig2, now, monkeypatch):
    """It may have made another problem of the one that killed the workers."""

    class Killed(BaseException):
        """Stands for kill -9."""

    def die(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(recompute.policies, "solve", die)
        for _ in range(3):
            with pytest.raises(Killed):
                recomputed(fig2)
    run_request(pool=fig2, reason="", now=now)
    run = recomputed(fig2)
    assert (run.status, run.attempts) == (RunStatus.SUCCEEDED, 1)


def test_a_worker_that_lost_its_claim_publishes_nothing(fig2, monkeypatch):
    original = recompute.policies.solve

    def lose_claim(*args, **kwargs):
        RecomputeJob.objects.filter(pool=fig2).update(token=uuid4())
        return original(*args, **kwargs)

    monkeypatch.setattr(recompute.policies, "solve", lose_claim)
    assert recomputed(fig2) is None
    assert Run.objects.get().status == RunStatus.RUNNING
    assert not Allocation.objects.exists()
    monkeypatch.setattr(recompute.policies, "solve", original)
    assert recomputed(fig2).attempts == 2


def test_a_worker_that_lost_its_claim_while_it_read_leaves_the_input_of_the_other(
    fig2, monkeypatch
):
    original = recompute.pool_state

    def lose_claim(*args, **kwargs):
        state = original(*args, **kwargs)
        other = uuid4()  # of whoever took the claim over
        Run.objects.update(token=other)
        RecomputeJob.objects.update(token=other)
        return state

    monkeypatch.setattr(recompute, "pool_state", lose_claim)
    assert recomputed(fig2) is None
    assert Run.objects.get().snapshot is None


def test_changes_made_during_a_run_are_decided_by_the_next(fig2, tenant, now, monkeypatch):
    original = recompute.pool_state

    def change_while_reading(pool_id, *, now, begins, known):
        state = original(pool_id, now=now, begins=begins, known=known)
        monkeypatch.setattr(recompute, "pool_state", original)
        workloads_submit(
            pool=fig2, drafts=[WorkloadDraft(tenant("u3"), "late", vector(1, 1))], now=now
        )
        return state

    monkeypatch.setattr(recompute, "pool_state", change_while_reading)
    first = recomputed(fig2)
    second = recomputed(fig2)
    assert (first.generation, second.generation) == (3, 4)
    assert (first.allocations.count(), second.allocations.count()) == (2, 3)
