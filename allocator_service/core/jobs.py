"""The job engine, in which rows of PostgreSQL are jobs for one worker at a time (docs/adr/0014).

A row is the job, and a message only carries its id. The engine does seven things with a row:

1. `jobs_due` claims the *publication* of due rows, and the relay sends their ids. A row that no worker
   claims, or that is not complete a while after its claim, is sent again: the message or the worker
   may be lost.
2. `hold_job` takes the job's advisory *lock*, which PostgreSQL releases when the worker dies.
3. `Hold.claim` counts the *attempt* and writes a fresh *token* into the row, and commits.
4. `Claim.fence` opens the transaction that publishes the result. It raises `ClaimLost` if another worker
   has claimed the row since.
5. `complete_job` releases the row in that transaction.
6. `postpone_jobs` leaves unclaimed rows until an instant.
7. `wake_relay` announces a new row, and `resend_job` a row whose last message was turned away.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4

import structlog
from celery import Task
from django.db import connection, models, transaction
from django.db.models import Min, Q, QuerySet

from allocator_service.core.errors import DomainError
from allocator_service.core.locks import Lock, try_lock_across_transactions
from allocator_service.core.notifications import notify

# A job that crashes its worker crashes the next one too: three deaths end the job, with the reason.
MAX_ATTEMPTS = 3
# Age of a message, or of a claim that is not complete, at which the row is sent again. The second and
# later waits take twice as long, so that a long queue is not filled with copies.
RESEND_AFTER = timedelta(seconds=5)
JOBS_CHANNEL = "allocator_jobs"
# The queue of simulations of whole traces, which has workers of its own: their ALLOCATOR_PROCESS.
BACKTESTS = "backtests"

log = structlog.get_logger(__name__)


class Job(models.Model):
    """A row that is a job.

    `published_at` is when its id was last sent and `publications` how often since the last claim.
    `claimed_at` and `token` are those of the last claim, null once it is complete. `attempts` counts the
    claims of the same work: all but the last ended with their worker.
    """

    attempts = models.PositiveSmallIntegerField(default=0)
    token = models.UUIDField(null=True, editable=False)
    claimed_at = models.DateTimeField(null=True)
    published_at = models.DateTimeField(null=True)
    publications = models.PositiveIntegerField(default=0, db_default=0)

    class Meta:
        abstract = True


class ScheduledJob(Job):
    """A job that is not due before `run_after`."""

    run_after = models.DateTimeField()

    class Meta:
        abstract = True


_ENGINE_FIELDS = ("attempts", "token", "claimed_at", "published_at", "publications")
J = TypeVar("J", bound=Job)
W = TypeVar("W")


@dataclass(frozen=True)
class JobKind(Generic[J]):
    """The rows of a model as jobs.

    `is_open` selects the rows that need work, claimed or not. `lock` is the namespace of their advisory
    locks. `claim_fields` are fields that a claim sets besides the engine's. `order` is the order in
    which due rows are published. `queue` is the queue of their messages, empty for that of decisions.
    """

    model: type[J]
    lock: Lock
    is_open: Q
    claim_fields: tuple[str, ...] = ()
    order: tuple[str, ...] = ("pk",)
    queue: str = ""

    def open_rows(self) -> QuerySet[J]:
        """Return the rows that need work."""
        return self.model._default_manager.filter(self.is_open)


class Outcome(Enum):
    """The outcomes of a request for a claim."""

    CLAIMED = "This worker computes the job."
    EXHAUSTED = "This worker fails the job: its workers died too often."
    BUSY = "Another worker computes the job."
    UNNEEDED = "The job is complete, cancelled, or not due."


class ClaimLost(Exception):
    """Another worker has claimed the job since, or the job was completed or cancelled."""


@dataclass(frozen=True)
class Claim(Generic[J, W]):
    """A worker's right to compute a job, until another worker claims it.

    `work` is what the caller's `begin` returned, None without a claim.
    """

    outcome: Outcome
    kind: JobKind[J]
    key: int | UUID
    token: UUID | None = None
    attempt: int = 0
    work: W | None = None

    def refuse_exhausted(self, name: str) -> None:
        """Raise `DomainError` if the attempts at the job, a `name`, are used up."""
        if self.outcome is Outcome.EXHAUSTED:
            raise DomainError(
                f"The worker broke off {MAX_ATTEMPTS} times while it computed or published this"
                f" {name}.",
                code="run.worker_lost",
            )

    @contextmanager
    def fence(self) -> Iterator[J]:
        """Open the transaction that publishes the result, with the job's row locked.

        The advisory lock alone does not suffice: the worker's connection may have been cut while it
        computed, and PostgreSQL then gave the lock to another worker.

        Raises `ClaimLost` if the row does not carry this claim's token.
        """
        with transaction.atomic():
            # NO KEY: rows that refer to the job can still be inserted while it is locked.
            rows = self.kind.model._default_manager.select_for_update(no_key=True)
            job = rows.filter(pk=self.key, token=self.token).first() if self.token else None
            if job is None:
                log.warning("claim_lost", job=self.kind.model._meta.db_table, key=str(self.key))
                raise ClaimLost
            yield job


@dataclass(frozen=True)
class Hold(Generic[J]):
    """The result of trying a job's lock.

    `is_alone` is true if the lock was taken.
    """

    kind: JobKind[J]
    key: int | UUID
    is_alone: bool

    def claim(self, now: datetime, begin: Callable[[J], W | None]) -> Claim[J, W]:
        """Count an attempt at an open job, give the row a fresh token, and commit.

        The commit precedes the work, so that an attempt that kills its worker is counted.

        `begin` is called with the locked row, on which the attempt and the token are set; `claimed_at`
        is still that of a claim whose worker died. It sets the kind's `claim_fields` and returns the
        work, or None to leave the row unclaimed.
        """
        if not self.is_alone:
            return Claim(Outcome.BUSY, self.kind, self.key)
        unneeded: Claim[J, W] = Claim(Outcome.UNNEEDED, self.kind, self.key)
        with transaction.atomic():
            locked = self.kind.model._default_manager.select_for_update(of=("self",), no_key=True)
            job = locked.filter(pk=self.key).first()
            # A statement of its own sees all that was committed while the first one waited for the row.
            if job is None or not self.kind.open_rows().filter(pk=self.key).exists():
                return unneeded
            job.attempts, job.token = job.attempts + 1, uuid4()
            work = begin(job)
            if work is None:
                return unneeded
            job.claimed_at, job.published_at, job.publications = now, None, 0
            # One UPDATE: a second one in this transaction would have PostgreSQL check the foreign keys,
            # which locks the rows that they refer to.
            job.save(update_fields=(*_ENGINE_FIELDS, *self.kind.claim_fields))
        outcome = Outcome.EXHAUSTED if job.attempts > MAX_ATTEMPTS else Outcome.CLAIMED
        return Claim(outcome, self.kind, self.key, job.token, job.attempts, work)


@contextmanager
def hold_job(kind: JobKind[J], key: int | UUID) -> Iterator[Hold[J]]:
    """Hold the job's advisory lock while the block runs its transactions.

    A worker that finds the lock taken leaves at once. Its message is lost, although the job may be due
    again: it can overtake the lock's release. The job is therefore sent again after the release.
    """
    with try_lock_across_transactions(kind.lock, str(key)) as is_alone:
        yield Hold(kind, key, is_alone)
    if is_alone:
        resend_job(kind, key)


def complete_job(job: Job, **changes: Any) -> None:
    """Release a job whose row is locked, with `changes` of its other fields."""
    released = {"token": None, "claimed_at": None, "published_at": None, "publications": 0}
    for name, value in (released | changes).items():
        setattr(job, name, value)
    job.save(update_fields=[*released, *changes])


def postpone_jobs(jobs: QuerySet[Any], *, until: datetime) -> None:
    """Leave unclaimed scheduled jobs until an instant, at which they are sent anew."""
    jobs.update(run_after=until, published_at=None, publications=0)


def resend_job(kind: JobKind[J], key: int | UUID) -> None:
    """Have an open job that was sent, but not claimed, sent again at once."""
    waiting = kind.open_rows().filter(pk=key, claimed_at=None).exclude(published_at=None)
    if waiting.update(published_at=None, publications=0):
        wake_relay(kind.queue)


def wake_relay(queue: str) -> None:
    """Have the relay look for due jobs of a queue as soon as the transaction is committed."""
    notify(JOBS_CHANNEL, queue)


# Filled by `ready` of the apps, before a relay or a worker starts.
_registered: list[tuple[JobKind[Any], Task]] = []


def register_jobs(kind: JobKind[Any], task: Task) -> None:
    """Have the relay send the ids of due jobs to the task that computes one."""
    _registered.append((kind, task))


# One statement, as it runs at least once a second. An array is computed once. A subquery that the
# planner runs again for each row locks more rows than its limit: those that it has locked are skipped.
_CLAIM_PUBLICATION = """
WITH due AS MATERIALIZED (
    SELECT ARRAY({select} FOR NO KEY UPDATE OF {table} SKIP LOCKED) AS ids),
sent AS (
    UPDATE {table} SET published_at = %s, publications = publications + 1
    WHERE {key} = ANY(ARRAY(SELECT unnest(ids) FROM due)) RETURNING {key} AS id)
SELECT id FROM sent, due ORDER BY array_position(due.ids, sent.id)
"""


@cache
def _open_statement(kinds: tuple[JobKind[Any], ...]) -> tuple[str, list[Any]]:
    """Return the statement that answers for each kind whether a row is open, built once."""
    queries = [kind.open_rows().values("pk")[:1].query.sql_with_params() for kind in kinds]
    exists = ", ".join(f"EXISTS ({statement})" for statement, _ in queries)
    return f"SELECT {exists}", [each for _, parameters in queries for each in parameters]


def open_jobs() -> Sequence[tuple[JobKind[Any], Task]]:
    """Return the registered kinds with an open job, without which a kind has none that is due."""
    with connection.cursor() as cursor:
        cursor.execute(*_open_statement(tuple(kind for kind, _ in _registered)))
        (found,) = cursor.fetchall()
    return tuple(each for each, is_open in zip(_registered, found, strict=True) if is_open)


def next_due(kind: JobKind[J]) -> datetime | None:
    """Return the first instant at which a job is due that was not sent yet."""
    if not issubclass(kind.model, ScheduledJob):
        return None
    waiting = kind.open_rows().filter(published_at=None, claimed_at=None)
    first: datetime | None = waiting.aggregate(first=Min("run_after"))["first"]
    return first


def jobs_due(kind: JobKind[J], *, now: datetime, again: bool, limit: int = 100) -> list[Any]:
    """Claim the publication of due jobs and return their ids, to be sent after the commit.

    `again` includes those whose message may be lost: sent `RESEND_AFTER` ago or earlier (twice that from
    the second time on), and not claimed since. A claimed job is sent again if it is not complete that
    long after its claim. If its worker is alive, the message is rejected at the lock.
    """
    silent = now - RESEND_AFTER
    sendable = Q(published_at=None)
    if again:
        sendable |= Q(published_at__lt=silent, publications__lte=1)
        sendable |= Q(published_at__lt=silent - RESEND_AFTER)
    due = kind.open_rows().filter(sendable, Q(claimed_at=None) | Q(claimed_at__lt=silent))
    if issubclass(kind.model, ScheduledJob):
        due = due.filter(run_after__lte=now)
    select, parameters = due.order_by(*kind.order).values("pk")[:limit].query.sql_with_params()
    table, key = kind.model._meta.db_table, kind.model._meta.pk.column
    with connection.cursor() as cursor:
        statement = _CLAIM_PUBLICATION.format(table=table, key=key, select=select)
        cursor.execute(statement, [*parameters, now])
        return [id_ for (id_,) in cursor.fetchall()]
