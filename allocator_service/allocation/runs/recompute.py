"""One recompute: claim the pool's job, read one snapshot, solve, publish in one transaction.

The row in PostgreSQL is the job (docs/adr/0003). A dead worker's claim is taken over as soon as its
lock is released; a worker that lost its claim publishes nothing, because its token is no longer the
job's; the third death in a row on the same problem is a failure that says so.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import structlog
from django.db import transaction

import policies
from allocator_service.allocation.audit.decisions import decision_digests
from allocator_service.allocation.long_term.metering import LATE, metering_due, pool_meter_all
from allocator_service.allocation.long_term.steps import step_decided_last
from allocator_service.allocation.models import Run, RunStatus
from allocator_service.allocation.policies import domain_error
from allocator_service.allocation.runs.publication import decision_publish
from allocator_service.allocation.runs.snapshots import PoolState, pool_state, snapshot_store
from allocator_service.allocation.time_sharing.replanning import (
    COMMIT,
    border_to_plan_for,
    end_of_slot,
    latest_decision,
    lead,
)
from allocator_service.core.errors import FAULTS_OF_OURS, DomainError
from allocator_service.core.ids import new_id
from allocator_service.core.locks import Lock, try_lock_across_transactions
from allocator_service.core.outbox import event_record, request_id
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.pools.models import Pool, RecomputeJob
from allocator_service.pools.recompute import (
    decision_due,
    decision_wanted,
    interval_around,
    job_send_again,
    job_settle,
)
from policies import Allocation, PolicyError, problem_from_document

Clock = Callable[[], datetime]
MAX_ATTEMPTS = 3
SOLVE_SECONDS = 60.0
PUT_OFF = timedelta(seconds=1)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Claim:
    """The right to compute a pool's next decision, until another worker takes it over.

    `border` is the instant from which it is to be in force; None: as soon as it is computed.
    """

    pool_id: int
    run_id: UUID
    token: UUID
    attempt: int
    border: datetime | None


def recompute_pool(*, pool_id: int, clock: Clock, early: bool = False) -> Run | None:
    """Compute and publish the pool's next decision; `early`: whether or not its boundary has come.

    Returns the finished run, or None when there was nothing to do: nothing wanted, a boundary to wait
    for, another worker at it, or the claim lost on the way. Doing it twice does nothing the second time.
    """
    with try_lock_across_transactions(Lock.RECOMPUTE, str(pool_id)) as alone:
        run = _recompute(pool_id, clock, early) if alone else None
    if alone:  # whoever was sent for the next decision before the lock was let go has turned away
        job_send_again(pool_id)
    return run


def _recompute(pool_id: int, clock: Clock, early: bool) -> Run | None:
    if not _caught_up(pool_id, clock):
        return None
    claim = _claim(pool_id, clock(), early)
    if claim is None:
        return None
    if claim.attempt > MAX_ATTEMPTS:
        error = DomainError(
            f"The worker broke off {MAX_ATTEMPTS} times while it computed or published this"
            " decision.",
            code="run.worker_lost",
        )
        return _fail(claim, error, clock())
    try:
        begun = clock()
        if Pool.objects.filter(pk=pool_id, policy_long_term=True).exists():
            pool_meter_all(pool_id=pool_id, now=begun)  # what is over is what it remembers
            entries_seal_all(now=begun)
        border = claim.border
        while True:
            state = pool_state(pool_id, now=border or begun, begins=True)
            _keep_input(claim, state, begun)
            started = clock()
            allocation = document_solve(state.document)
            seconds = (clock() - started).total_seconds()
            digests = decision_digests(state.document, allocation)
            now = clock()
            if border is None or now + (timedelta() if early else COMMIT) <= border:
                break
            border = _border_after(pool_id, now + 2 * (now - begun))
    except DomainError as error:
        return _fail(claim, error, clock())
    return _publish(claim, _Solved(state, allocation, digests, seconds, border), clock())


@dataclass(frozen=True)
class _Solved:
    state: PoolState
    allocation: Allocation
    digests: Mapping[str, str]
    seconds: float
    border: datetime | None


def _border_after(pool_id: int, at: datetime) -> datetime | None:
    """The next end of a slot, for a decision that is too late for the one it was computed for."""
    run = latest_decision(Pool.objects.get(pk=pool_id))
    return None if run is None else end_of_slot(run, at)


def _caught_up(pool_id: int, clock: Clock) -> bool:
    """Whether the past that a decision remembers is nearly metered; helps with that for some seconds.

    After a day without workers it may take minutes: the job is put off by a moment, and the worker
    is free for the other pools. Metering's own tasks go on meanwhile.
    """
    begun = clock()
    pool = Pool.objects.filter(pk=pool_id, policy_long_term=True).select_related("meter").first()
    due = None if pool is None else metering_due(pool, now=begun)
    if due is None or begun - due.since <= LATE:
        return True
    if pool_meter_all(pool_id=pool_id, now=begun, clock=clock):
        return True
    RecomputeJob.objects.filter(pk=pool_id, claimed_at=None, run_after__lte=begun).update(
        run_after=clock() + PUT_OFF, published_at=None, publications=0
    )
    log.info("decision_waits_for_metering", pool_id=pool_id)
    return False


@transaction.atomic
def _claim(pool_id: int, now: datetime, early: bool) -> Claim | None:
    job = (
        RecomputeJob.objects.select_for_update(of=("self",), no_key=True)
        .select_related("pool")
        .filter(pk=pool_id)
        .first()
    )
    if job is None or job.wanted <= job.settled:
        return None
    if job.pool.retired_at is not None:
        _abandon(job, now)
        return None
    if job.pool.policy_long_term and now < job.run_after and not early:
        # A second message for a step that has been decided; or this clock is behind the relay's.
        _put_off(job, job.run_after)
        return None
    if job.pool.policy_long_term and not early and _is_decided(job.pool, now):
        _put_off(job, interval_around(job.pool, now)[1])
        return None
    border = border_to_plan_for(job, now=now)
    latest = latest_decision(job.pool)
    if border is not None and latest is not None and now < border - lead(latest):
        _put_off(job, border - lead(latest))
        return None
    job.attempts = job.attempts + 1 if job.claimed == job.wanted else 1
    job.claimed = job.wanted
    job.claimed_at = now
    job.first_change_at = None
    job.published_at = None
    job.publications = 0
    job.token = uuid4()
    job.save()
    run = (
        Run.objects.filter(pool_id=pool_id, status=RunStatus.RUNNING).first()
        or Run.objects.filter(pool_id=pool_id, status=RunStatus.PENDING).first()
        or Run(id=new_id(), pool_id=pool_id, created_at=now, request_id=request_id())
    )
    run.status = RunStatus.RUNNING
    run.started_at = run.started_at or now
    run.attempts = job.attempts
    run.token = job.token
    run.save()
    return Claim(pool_id, run.pk, job.token, job.attempts, border)


def _put_off(job: RecomputeJob, until: datetime) -> None:
    job.run_after, job.published_at, job.publications = until, None, 0
    job.save(update_fields=["run_after", "published_at", "publications"])


def _is_decided(pool: Pool, now: datetime) -> bool:
    """Whether the step around `now` has its decision: a clock that was set back has come there again.

    Before that, changes are decided for the step that was decided last: the pool's time stands still.
    """
    last = step_decided_last(pool)
    return last is not None and interval_around(pool, now)[0] <= last <= now


def _abandon(job: RecomputeJob, now: datetime) -> None:
    """A retired pool needs no further decision."""
    waiting = Run.objects.filter(pool_id=job.pk, status__in=[RunStatus.PENDING, RunStatus.RUNNING])
    waiting.update(status=RunStatus.CANCELLED, finished_at=now, token=None)
    job.claimed = job.wanted
    job_settle(job)


def _keep_input(claim: Claim, state: PoolState, now: datetime) -> None:
    with transaction.atomic():
        digest = snapshot_store(state, now=now)
        Run.objects.filter(pk=claim.run_id, token=claim.token).update(
            snapshot_id=digest, generation=state.generation, policy=state.document["policy"]
        )


def document_solve(document: Mapping[str, Any]) -> Allocation:
    """Solve the problem of an evaluation document by the policy that it names.

    Raises `DomainError` with the policy's reason, or `run.internal` for one that breaks.
    """
    try:
        parsed = problem_from_document(document)
        return policies.solve(
            parsed.problem,
            parsed.policy,
            mode=parsed.mode,
            options=parsed.options,
            time_limit=SOLVE_SECONDS,
            running=parsed.running,
            history=parsed.history,
        )
    except PolicyError as error:
        raise domain_error(error) from error
    except FAULTS_OF_OURS as error:
        log.exception("solve_failed", policy=document["policy"])
        raise DomainError(
            f"The policy failed ({type(error).__name__}); the cause is in the worker's log.",
            code="run.internal",
        ) from error


def _publish(claim: Claim, solved: _Solved, now: datetime) -> Run | None:
    state = solved.state
    with transaction.atomic():
        job = _own_job(claim)
        if job is None:
            return None
        run = decision_publish(
            run_id=claim.run_id,
            state=state,
            allocation=solved.allocation,
            digests=solved.digests,
            seconds=solved.seconds,
            begins=solved.border,
            now=now,
        )
        _settle(job, now, now if state.basis is None else state.basis.past.until)
        if state.deficits and run.effective_from is not None:
            period = timedelta(seconds=run.schedule.period_seconds)
            decision_due(run.pool, at=run.effective_from + period - lead(run))
    log.info(
        "decision_published", pool_id=claim.pool_id, run=str(run.pk), generation=run.generation
    )
    return run


def _fail(claim: Claim, error: DomainError, now: datetime) -> Run | None:
    """Close the run with its reason; the decision in force stays in force."""
    with transaction.atomic():
        job = _own_job(claim)
        if job is None:
            return None
        run = Run.objects.select_related("pool").get(pk=claim.run_id)
        run.status = RunStatus.FAILED
        run.error = {"code": error.code, "detail": error.detail}
        run.finished_at = now
        run.token = None
        run.save()
        event_record(
            kind="decision.failed",
            pool=run.pool.slug,
            payload={"run": str(run.pk), "code": error.code, "detail": error.detail},
            now=now,
        )
        _settle(job, now, now)
    log.warning("run_failed", pool_id=claim.pool_id, run=str(run.pk), code=error.code)
    return run


def _own_job(claim: Claim) -> RecomputeJob | None:
    """The job row, locked, if the claim still holds it."""
    job = (
        RecomputeJob.objects.select_for_update(of=("self",), no_key=True)
        .filter(pk=claim.pool_id, token=claim.token)
        .first()
    )
    if job is None:
        log.warning("claim_lost", pool_id=claim.pool_id, run=str(claim.run_id))
    return job


def _settle(job: RecomputeJob, now: datetime, step: datetime) -> None:
    """Let the job go; a pool that remembers is wanted again when the step around `step` ends.

    What it remembers has changed then. Changes made while this step was decided wait for that as well,
    and a decision that was published after it makes the next one due at once.
    """
    pool = Pool.objects.get(pk=job.pk)
    if pool.policy_long_term:
        job_settle(job, next_at=interval_around(pool, step)[1])
        decision_wanted(pool, now=step)
    else:
        job_settle(job)
    waiting = Run.objects.filter(pool_id=job.pk, status=RunStatus.PENDING).select_related("pool")
    for run in waiting:
        decision_wanted(run.pool, now=now)
