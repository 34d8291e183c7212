"""The job engine on real connections: one claim at a time, and only its token publishes."""

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import timedelta
from functools import partial
from threading import Barrier, Event
from time import monotonic, sleep
from uuid import uuid4

import psycopg
import pytest
from django.db import connection, connections, transaction
from hypothesis import given
from hypothesis import strategies as st

from allocator_service.allocation.models import Simulation
from allocator_service.allocation.what_if.simulations import SIMULATION_JOBS, simulation_request
from allocator_service.backtests.jobs import BACKTEST_JOBS, cell_compute
from allocator_service.backtests.models import Backtest, Cell
from allocator_service.backtests.services import backtest_cancel
from allocator_service.core.errors import DomainError
from allocator_service.core.jobs import (
    JOBS_CHANNEL,
    MAX_ATTEMPTS,
    ClaimLost,
    Outcome,
    complete_job,
    hold_job,
    jobs_due,
    postpone_jobs,
    resend_job,
)
from allocator_service.core.locks import lock_key
from allocator_service.pools.models import Pool, RecomputeJob
from allocator_service.pools.recompute import DECISION_JOBS
from tests.concurrency.test_races import at_once
from tests.examples import examples
from tests.integration.backtests.test_jobs import prepared, requested
from tests.integration.conftest import NOON

pytestmark = pytest.mark.django_db(transaction=True)

SUCCEEDED = {"status": "succeeded", "result": {}, "finished_at": NOON}


@pytest.fixture
def job(fig2):
    return simulation_request(pool=fig2, tenant=None, changes={}, now=NOON)


def work(job):
    return job


def later(seconds):
    return NOON + timedelta(seconds=seconds)


def due(seconds, *, again):
    return jobs_due(SIMULATION_JOBS, now=later(seconds), again=again)


def died(job, at=NOON):
    """A claim whose worker died: its lock is released, and its row is as it left it."""
    with hold_job(SIMULATION_JOBS, job.pk) as held:
        return held.claim(at, work)


def test_of_eight_claimers_at_once_one_gets_the_job(job):
    claimed, over = Barrier(8), Barrier(8)

    def claim(_):
        claimed.wait()
        with hold_job(SIMULATION_JOBS, job.pk) as held:
            outcome = held.claim(NOON, work).outcome
            over.wait()
        return outcome

    outcomes = at_once(8, claim)
    assert sorted(each.name for each in outcomes) == ["BUSY"] * 7 + ["CLAIMED"]
    job.refresh_from_db()
    assert job.attempts == 1


def test_a_stale_token_completes_nothing(job):
    stale, fresh = died(job), died(job)
    with pytest.raises(ClaimLost), stale.fence() as row:
        complete_job(row, **SUCCEEDED)
    job.refresh_from_db()
    assert (job.status, job.token, job.attempts) == ("pending", fresh.token, 2)
    with fresh.fence() as row:
        complete_job(row, **SUCCEEDED)
    with pytest.raises(ClaimLost), fresh.fence():
        pass
    job.refresh_from_db()
    assert (job.status, job.token, job.claimed_at, job.attempts) == ("succeeded", None, None, 2)


def test_a_holder_whose_connection_was_cut_publishes_nothing(job):
    """PostgreSQL gives the lock of a connection that it has lost to another worker."""
    with suppress(psycopg.OperationalError), hold_job(SIMULATION_JOBS, job.pk) as held:
        claim = held.claim(NOON, work)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                " AND (classid::bigint << 32) | objid::bigint = %s",
                [lock_key(SIMULATION_JOBS.lock, str(job.pk))],
            )
            assert cursor.fetchall() == [(True,)]
        with ThreadPoolExecutor(1) as thread:
            other = thread.submit(in_a_thread, died, job).result()
        assert other.outcome is Outcome.CLAIMED
        with pytest.raises(ClaimLost), claim.fence():
            pass


def in_a_thread(action, *arguments):
    try:
        return action(*arguments)
    finally:
        connection.close()


def await_a_waiter():
    """Return when another connection waits for a lock of this transaction."""
    query = (
        "SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    )
    deadline = monotonic() + 10
    with connection.cursor() as cursor:
        while monotonic() < deadline:
            cursor.execute(query)
            if cursor.rowcount:
                return
            sleep(0.01)
    raise AssertionError("no connection waits")


def test_a_publication_and_a_claim_at_once_exclude_each_other(job):
    """Either the result is published, and nothing is left to claim, or the claim comes first."""
    claim, locked = died(job), Event()

    def claim_again():
        locked.wait()
        with hold_job(SIMULATION_JOBS, job.pk) as held:
            return held.claim(NOON, work).outcome

    with ThreadPoolExecutor(1) as thread:
        other = thread.submit(in_a_thread, claim_again)
        with claim.fence() as row:
            locked.set()
            await_a_waiter()
            complete_job(row, **SUCCEEDED)
        assert other.result() is Outcome.UNNEEDED


def test_attempts_count_the_claims_whose_worker_died(job):
    with hold_job(SIMULATION_JOBS, job.pk) as held:
        assert held.claim(NOON, work).attempt == 1
        with ThreadPoolExecutor(3) as threads:  # turned away at the lock
            others = [threads.submit(in_a_thread, died, job) for _ in range(3)]
        assert {each.result().outcome for each in others} == {Outcome.BUSY}
    assert [died(job).outcome for _ in range(MAX_ATTEMPTS - 1)] == [Outcome.CLAIMED] * 2
    last = died(job)
    assert (last.outcome, last.attempt) == (Outcome.EXHAUSTED, MAX_ATTEMPTS + 1)
    with pytest.raises(DomainError) as refused:
        last.refuse_exhausted("simulation")
    assert refused.value.code == "run.worker_lost"


def test_a_claim_that_is_not_begun_counts_nothing(job):
    with hold_job(SIMULATION_JOBS, job.pk) as held:
        unclaimed = held.claim(NOON, lambda _: None)
        assert unclaimed.outcome is Outcome.UNNEEDED
        with pytest.raises(ClaimLost), unclaimed.fence():
            pass
    job.refresh_from_db()
    assert (job.attempts, job.token, job.claimed_at) == (0, None, None)


def test_a_job_is_sent_once_and_again_when_its_message_may_be_lost(job):
    assert due(0, again=True) == [job.pk]
    assert due(99, again=False) == []
    assert due(5, again=True) == []
    assert due(5.1, again=True) == [job.pk]
    assert due(15.1, again=True) == []
    assert due(15.2, again=True) == [job.pk]


def test_a_claimed_job_is_sent_again_when_its_claimer_is_silent(job):
    due(0, again=True)
    died(job, later(1))
    assert due(5.9, again=True) == []
    assert due(6.1, again=False) == [job.pk]


def test_a_job_whose_message_was_turned_away_is_sent_again_at_the_release(job):
    """The message of the next work may overtake the release of the lock."""
    with hold_job(SIMULATION_JOBS, job.pk):
        due(0, again=False)
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(in_a_thread, died, job).result().outcome is Outcome.BUSY
        assert due(1, again=False) == []
    assert due(1, again=False) == [job.pk]


def test_a_postponed_job_is_sent_anew_at_its_instant_and_not_before(pool):
    def sent(seconds):
        return jobs_due(DECISION_JOBS, now=later(seconds), again=True)

    assert sent(1) == [pool.pk]
    postpone_jobs(RecomputeJob.objects.filter(pk=pool.pk), until=later(60))
    assert sent(59.9) == []
    assert sent(60) == [pool.pk]
    assert RecomputeJob.objects.get().publications == 1


def test_two_relays_send_a_job_once(job):
    with ThreadPoolExecutor(1) as thread:
        with transaction.atomic():
            assert due(0, again=False) == [job.pk]
            other = thread.submit(in_a_thread, partial(due, 0, again=False))
            wait([other], timeout=1)
        assert other.result() == []


def test_the_relay_is_woken_after_the_commit(job):
    due(0, again=False)
    parameters = connections["default"].get_connection_params()
    names = ("dbname", "host", "port", "user", "password")
    address = {name: parameters[name] for name in names if name in parameters}
    with psycopg.connect(**address, autocommit=True) as relay:
        relay.execute(f"LISTEN {JOBS_CHANNEL}")
        resend_job(SIMULATION_JOBS, job.pk)
        assert len(list(relay.notifies(timeout=2, stop_after=1))) == 1
        resend_job(SIMULATION_JOBS, job.pk)  # nothing was sent since
        resend_job(SIMULATION_JOBS, uuid4())
        assert list(relay.notifies(timeout=0.2)) == []


class Model:
    """The engine as one would describe it, beside a row: its states, without its races."""

    def __init__(self):
        self.token, self.attempts, self.is_open = None, 0, True

    def claim(self):
        if not self.is_open:
            return Outcome.UNNEEDED
        self.attempts += 1
        return Outcome.CLAIMED if self.attempts <= MAX_ATTEMPTS else Outcome.EXHAUSTED


@pytest.mark.usefixtures("fig2")
@given(st.lists(st.sampled_from(["claim", "publish", "publish stale"]), max_size=8))
@examples(100)
def test_whatever_happens_in_whatever_order_the_last_claim_alone_publishes(steps):
    job = Simulation.objects.create(pool=Pool.objects.get(), changes={}, created_at=NOON)
    model, claims = Model(), []
    for number, step in enumerate(steps):
        if step == "claim":
            expected, claim = model.claim(), died(job)
            assert claim.outcome is expected
            if claim.work is not None:
                claims.append(claim)
                model.token = claim.token
            continue
        claim = next(iter(claims[-1:] if step == "publish" else claims[:-1]), None)
        if claim is None:
            continue
        try:
            with claim.fence() as row:
                complete_job(row, **SUCCEEDED | {"result": {"of": number}})
            published = True
        except ClaimLost:
            published = False
        assert published == (model.is_open and claim.token == model.token)
        if published:
            model.is_open, model.token = False, None
    row = Simulation.objects.get(pk=job.pk)
    assert (row.status == "pending", row.attempts, row.token) == (
        model.is_open, model.attempts, model.token,
    )  # fmt: skip


def test_a_cancellation_does_not_wait_for_a_claim_that_waits_for_it():
    """Both lock the backtest and its cells: in one order, or PostgreSQL ends one of them."""
    backtest = prepared()
    with ThreadPoolExecutor(1) as thread:
        with transaction.atomic():
            Backtest.objects.select_for_update().get(pk=backtest.pk)
            compute = partial(cell_compute, cell_id=backtest.cells.first().pk, clock=lambda: NOON)
            other = thread.submit(in_a_thread, compute)
            await_a_waiter()
            backtest_cancel(backtest=backtest, now=NOON)
        other.result()
    assert not Cell.objects.exists()


def test_a_claim_sees_what_was_committed_while_it_waited_for_the_row():
    """The backtest has cells by then: there are no results to combine yet."""
    backtest = requested()
    with hold_job(BACKTEST_JOBS, backtest.pk) as held:
        claim = held.claim(NOON, work)

    def claim_again():
        with hold_job(BACKTEST_JOBS, backtest.pk) as held:
            return held.claim(NOON, work).outcome

    with ThreadPoolExecutor(1) as thread:
        with claim.fence() as row:
            other = thread.submit(in_a_thread, claim_again)
            await_a_waiter()
            complete_job(row, status="running", prepared_at=NOON, attempts=0)
            Cell.objects.create(backtest=row, position=0, policy=0, seed=0)
        assert other.result() is Outcome.UNNEEDED
