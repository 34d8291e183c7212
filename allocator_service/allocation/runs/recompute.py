"""One recompute of a pool.

It claims the pool's job, reads one snapshot, solves it and publishes the decision in one transaction.
The row in PostgreSQL is the job (docs/adr/0003), and the job engine claims it (`core.jobs`).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction

import policies
from allocator_service.allocation.audit.digests import decision_digests
from allocator_service.allocation.long_term.metering import LATE, metering_due, pool_meter_all
from allocator_service.allocation.long_term.steps import step_decided_last
from allocator_service.allocation.models import Run, RunStatus
from allocator_service.allocation.policies import domain_error
from allocator_service.allocation.runs.budgets import exhausted_stored, next_change_of_budgets
from allocator_service.allocation.runs.known import Known
from allocator_service.allocation.runs.publication import decision_publish
from allocator_service.allocation.runs.snapshots import PoolState, pool_state, snapshot_store
from allocator_service.allocation.time_sharing.replanning import (
    COMMIT,
    end_of_slot,
    latest_decision,
    lead,
    planned_boundary,
)
from allocator_service.core.errors import FAULTS_OF_OURS, Conflict, DomainError
from allocator_service.core.ids import new_id
from allocator_service.core.jobs import Claim, ClaimLost, hold_job, postpone_jobs
from allocator_service.core.outbox import event_record, request_id
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.pools.budgets import opening_of, pools_with_budgets
from allocator_service.pools.limits import next_change_of_limits
from allocator_service.pools.models import Pool, RecomputeJob
from allocator_service.pools.moving import refuse_moved
from allocator_service.pools.recompute import (
    DECISION_JOBS,
    decision_complete,
    decision_due,
    decision_request,
    interval_around,
)
from policies import (
    Allocation,
    CurrentPlacements,
    ParsedProblem,
    PolicyError,
    problem_from_document,
)

Clock = Callable[[], datetime]
SOLVE_SECONDS = 60.0
METERING_WAIT = timedelta(seconds=1)

log = structlog.get_logger(__name__)

_KNOWN = Known()


@dataclass(frozen=True)
class _Work:
    """The run to compute, and the instant from which its decision is to be in force.

    `boundary` is None for a decision that is in force as soon as it is computed.
    """

    pool_id: int
    run_id: UUID
    boundary: datetime | None


_Claim = Claim[RecomputeJob, _Work]


def recompute_pool(*, pool_id: int, clock: Clock, early: bool = False) -> Run | None:
    """Compute and publish the pool's next decision.

    With `early`, its boundary need not have come. Idempotent. Return the finished run, or None if the
    job is not claimed or the claim was lost.
    """
    with hold_job(DECISION_JOBS, pool_id) as held:
        if not held.is_alone or not _caught_up(pool_id, clock):
            return None
        now = clock()
        claim = held.claim(now, partial(_begin, now=now, early=early))
        if claim.work is None:
            return None
        with suppress(ClaimLost):
            return _compute(claim, claim.work, clock, early)
    return None


def _compute(claim: _Claim, work: _Work, clock: Clock, early: bool) -> Run:
    try:
        claim.refuse_exhausted("decision")
        solved = _solve(claim, work, clock, early)
    except DomainError as error:
        return _fail(claim, work, error, clock())
    return _publish(claim, work, solved, clock())


@dataclass(frozen=True)
class _Solved:
    """A solved problem.

    `read_at` is the instant as of which the pool was read.
    """

    state: PoolState
    read_at: datetime
    allocation: Allocation
    digests: Mapping[str, str]
    seconds: float
    boundary: datetime | None
    running: CurrentPlacements | None


def _solve(claim: _Claim, work: _Work, clock: Clock, early: bool) -> _Solved:
    """Solve the pool's state, again for a later boundary while the answer is too late for its own."""
    pool_id, begun = work.pool_id, clock()
    if Pool.objects.filter(pk=pool_id, policy_long_term=True).exists():
        pool_meter_all(pool_id=pool_id, now=begun)  # what is over is what it remembers
        entries_seal_all(now=begun)
    elif pool_id in pools_with_budgets():
        # A budget that the interval before has exhausted binds from now on. After an outage, metering
        # may take longer than a decision should wait: `budgets_watch` follows the ledger then.
        pool_meter_all(pool_id=pool_id, now=begun, clock=clock)
        entries_seal_all(now=begun)
    boundary = work.boundary
    while True:
        state = pool_state(pool_id, now=boundary or begun, begins=True, known=_KNOWN)
        # Stored before it is solved: the input of a run that crashes its worker can be looked at.
        _store_input(claim, work, state, begun)
        started = clock()
        # From the document alone, which is stored: a replay computes the same.
        parsed, allocation = _read_and_solve(state.document)
        seconds = (clock() - started).total_seconds()
        # Before the transaction of publication, which holds a lock that metering waits for.
        digests = decision_digests(state.document, state.written, allocation)
        now = clock()
        if boundary is None or now + (timedelta() if early else COMMIT) <= boundary:
            return _Solved(
                state, boundary or begun, allocation, digests, seconds, boundary, parsed.running
            )
        # Twice the time of this attempt, or a solver that is a little slower would be late again.
        boundary = _boundary_after(pool_id, now + 2 * (now - begun))


def _boundary_after(pool_id: int, at: datetime) -> datetime | None:
    """Return the next end of a slot, for a decision that is too late for the one it was computed for."""
    run = latest_decision(Pool.objects.get(pk=pool_id))
    return None if run is None else end_of_slot(run, at)


def _caught_up(pool_id: int, clock: Clock) -> bool:
    """Return whether the past that a decision remembers is nearly metered.

    Meters it for some seconds first if it is not.

    After a day without workers it may take minutes. The job is then postponed for a moment, and the
    worker is free for the other pools. Metering's own tasks go on meanwhile.
    """
    begun = clock()
    pool = Pool.objects.filter(pk=pool_id, policy_long_term=True).select_related("meter").first()
    metering = None if pool is None else metering_due(pool, now=begun)
    if metering is None or begun - metering.since <= LATE:
        return True
    if pool_meter_all(pool_id=pool_id, now=begun, clock=clock):
        return True
    due = RecomputeJob.objects.filter(pk=pool_id, claimed_at=None, run_after__lte=begun)
    postpone_jobs(due, until=clock() + METERING_WAIT)
    log.info("decision_waits_for_metering", pool_id=pool_id)
    return False


def _begin(job: RecomputeJob, now: datetime, early: bool) -> _Work | None:
    """Return the run that a claim computes, or None for a job that is abandoned or postponed."""
    if job.pool.retired_at is not None:
        _abandon(job, now)
        return None
    boundary = planned_boundary(job, now=now)
    # The row stays unclaimed, so that this was no attempt.
    if until := _too_early(job, boundary, now, early):
        postpone_jobs(RecomputeJob.objects.filter(pk=job.pk), until=until)
        return None
    if (
        job.claimed != job.wanted
    ):  # a change since the last attempt may have made it another problem
        job.attempts = 1
    # Changes from here on count their patience anew: the snapshot may not include them.
    job.claimed, job.first_change_at = job.wanted, None
    run = (
        # A run of a killed worker first, then one that an operator requested.
        Run.objects.filter(pool_id=job.pk, status=RunStatus.RUNNING).first()
        or Run.objects.filter(pool_id=job.pk, status=RunStatus.PENDING).first()
        or Run(id=new_id(), pool_id=job.pk, created_at=now, request_id=request_id())
    )
    run.status = RunStatus.RUNNING
    run.started_at = run.started_at or now
    run.attempts = job.attempts
    run.token = job.token
    run.save()
    return _Work(job.pk, run.pk, boundary)


def _too_early(
    job: RecomputeJob, boundary: datetime | None, now: datetime, early: bool
) -> datetime | None:
    """Return the instant until which the decision must wait, or None if it is due."""
    if job.pool.policy_long_term and not early:
        if now < job.run_after:
            # A second message for a step that has been decided; or this clock is behind the relay's.
            return job.run_after
        if _is_decided(job.pool, now):
            return interval_around(job.pool, now)[1]
    latest = latest_decision(job.pool)
    if boundary is not None and latest is not None and now < boundary - lead(latest):
        return boundary - lead(latest)
    return None


def _is_decided(pool: Pool, now: datetime) -> bool:
    """Return whether the step around `now` already has its decision, because a clock was set back.

    Before that, changes are decided for the step that was decided last: the pool's time stands still.
    """
    last = step_decided_last(pool)
    return last is not None and interval_around(pool, now)[0] <= last <= now


def _abandon(job: RecomputeJob, now: datetime) -> None:
    """Cancel the waiting runs of a retired pool and complete its job."""
    waiting = Run.objects.filter(pool_id=job.pk, status__in=[RunStatus.PENDING, RunStatus.RUNNING])
    waiting.update(status=RunStatus.CANCELLED, finished_at=now, token=None)
    # Nothing is left to decide, however many changes were requested.
    job.claimed = job.wanted
    decision_complete(job)


def _store_input(claim: _Claim, work: _Work, state: PoolState, now: datetime) -> None:
    with transaction.atomic():
        digest = snapshot_store(state, now=now)
        # The token is the fence: a worker that lost its claim must not change its successor's run.
        Run.objects.filter(pk=work.run_id, token=claim.token).update(
            snapshot_id=digest,
            generation=state.generation,
            policy=state.document["policy"],
            budgets=exhausted_stored(state.budgets),
        )


def document_solve(document: Mapping[str, Any]) -> Allocation:
    """Solve the problem of an evaluation document by the policy that it names.

    Raises `DomainError` with the policy's reason, or `run.internal` for one that breaks.
    """
    return _read_and_solve(document)[1]


def _read_and_solve(document: Mapping[str, Any]) -> tuple[ParsedProblem, Allocation]:
    try:
        parsed = problem_from_document(document)
        return parsed, policies.solve(
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


def _publish(claim: _Claim, work: _Work, solved: _Solved, now: datetime) -> Run:
    state = solved.state
    with _fence(claim) as job:
        run, released_at = decision_publish(
            run_id=work.run_id,
            state=state,
            allocation=solved.allocation,
            digests=solved.digests,
            seconds=solved.seconds,
            begins=solved.boundary,
            now=now,
            running=solved.running,
            known=_KNOWN.decisions,
        )
        # A change between the claim and the reading would be decided a second time.
        job.claimed = state.requested
        _complete(job, now, now if state.basis is None else state.basis.past.until)
        if state.deficits and run.effective_from is not None:
            period = timedelta(seconds=run.schedule.period_seconds)
            # The period repays only part of the deficits, and repeated it would repay them again.
            decision_due(run.pool, at=run.effective_from + period - lead(run))
        _await_limits(run.pool, solved.read_at)
        _await_budgets(run.pool, solved)
        if released_at is not None:
            decision_due(run.pool, at=released_at)
    log.info("decision_published", pool_id=job.pk, run=str(run.pk), generation=run.generation)
    return run


@contextmanager
def _fence(claim: _Claim) -> Iterator[RecomputeJob]:
    """Open the transaction that ends a run, with the job's row locked. Raises `ClaimLost`.

    A pool that was closed for a move meanwhile is decided where it goes.
    """
    with transaction.atomic():
        # Before the job's row, which closing locks after the pool.
        try:
            refuse_moved(int(claim.key))
        except Conflict as error:
            raise ClaimLost from error
        with claim.fence() as job:
            yield job


def _fail(claim: _Claim, work: _Work, error: DomainError, now: datetime) -> Run:
    """Close the run with the reason of its failure. The decision in force stays in force."""
    with _fence(claim) as job:
        run = Run.objects.select_related("pool").get(pk=work.run_id)
        run.status = RunStatus.FAILED
        run.error = {"code": error.code, "detail": error.detail}
        run.finished_at = now
        run.token = None
        run.save()
        event_record(
            kind="decision.failed",
            pool=run.pool.slug,
            # Members read it, and the detail of the error may name what others brought.
            payload={
                "run": str(run.pk),
                "code": error.code,
                "detail": "The previous decision stays in force.",
            },
            now=now,
        )
        _complete(job, now, now)
        _await_limits(run.pool, run.started_at or now)
        openings = [opening_of(each) for each in run.budgets]
        if openings:
            decision_due(run.pool, at=min(openings))
    log.warning("run_failed", pool_id=job.pk, run=str(run.pk), code=error.code)
    return run


def _await_limits(pool: Pool, read_at: datetime) -> None:
    """Request a decision for the next instant at which a limit of the pool begins or ends."""
    following = next_change_of_limits(pool, after=read_at)
    if following is not None:
        decision_due(pool, at=following)


def _await_budgets(pool: Pool, solved: _Solved) -> None:
    """Request a decision for the next instant at which a budget is exhausted or opens again."""
    following = next_change_of_budgets(
        pool,
        states=solved.state.budgets,
        document=solved.state.document,
        allocation=solved.allocation,
        read_at=solved.read_at,
    )
    if following is not None:
        decision_due(pool, at=following)


def _complete(job: RecomputeJob, now: datetime, step: datetime) -> None:
    """Complete the job.

    A pool that remembers needs a new decision when the step around `step` ends, because what it
    remembers has changed then. Changes made while this step was decided wait for that as well. A
    decision that was published after the step makes the next one due at once.
    """
    pool = Pool.objects.get(pk=job.pk)
    if pool.policy_long_term:
        decision_complete(job, next_at=interval_around(pool, step)[1])
        decision_request(pool, now=step)
    else:
        decision_complete(job)
    waiting = Run.objects.filter(pool_id=job.pk, status=RunStatus.PENDING).select_related("pool")
    for run in waiting:
        decision_request(run.pool, now=now)
