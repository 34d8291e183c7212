"""Closing of pools for their move to another installation.

Two installations must never decide, meter or bill the same pool. A pool that moves is therefore closed
here before it is exported. Every change of it is rejected from then on.

Changes that lock the pool's row find the mark there (`pool_lock`). Usage, metering, publication and
billing do not lock the row, as they would wait for one another. They share an advisory lock of the pool
(`refuse_moved`), which closing takes alone.
"""

from contextlib import suppress
from datetime import datetime

from django.db import OperationalError, connection, transaction
from psycopg.errors import DeadlockDetected, LockNotAvailable

from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.errors import Conflict, Unacceptable, Unavailable
from allocator_service.core.locks import Lock, lock_in_transaction, share_in_transaction
from allocator_service.core.selecting import missing
from allocator_service.pools.locking import moved_error, pool_lock
from allocator_service.pools.models import MOVED_TO_LENGTH, Pool, RecomputeJob
from allocator_service.pools.recompute import pool_changed

ATTEMPTS = 20
# Less than PostgreSQL's `deadlock_timeout`: of two transactions that wait for each other, closing ends.
_WAIT = "SET LOCAL lock_timeout = '800ms'"


def refuse_moved(pool_id: int) -> None:
    """Raise `Conflict` with `pool.moved` for a pool that is closed for a move.

    The pool cannot be closed until the open transaction ends.
    """
    share_in_transaction(Lock.POOL_MOVE, str(pool_id))
    # A statement of its own: its snapshot must be younger than the lock.
    moved = Pool.objects.filter(pk=pool_id, moved_at__isnull=False).first()
    if moved is not None:
        raise moved_error(moved)


def pool_move(*, pool: Pool, to: str | None, now: datetime) -> Pool:
    """Close a pool for its move, after the changes that have begun. Idempotent.

    `to` states where the pool goes, as errors then do. None leaves what was stated. Raises `Unavailable`
    if the pool is changed without a pause.
    """
    _refuse_place(to)
    for _ in range(ATTEMPTS):
        with suppress(_Busy):
            return _move(pool, to, now)
    raise Unavailable(
        f"The pool {pool.slug} is being changed without a pause: try again.", code="pool.busy"
    )


class _Busy(Exception):
    """Another transaction holds a lock of the pool."""


def _move(pool: Pool, to: str | None, now: datetime) -> Pool:
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(_WAIT)
            return _move_once(pool, to, now)
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable | DeadlockDetected):
            raise _Busy from error
        raise


def _move_once(pool: Pool, to: str | None, now: datetime) -> Pool:
    lock_in_transaction(Lock.POOL_MOVE, str(pool.pk))
    locked = (
        Pool.objects.select_for_update(of=("self",), no_key=True)
        .filter(pk=pool.pk, retired_at=None)
        .first()
    )
    if locked is None:
        raise missing("pool.not_found")
    before, is_new = stated_fields(locked), locked.moved_at is None
    if not is_new and to in (None, locked.moved_to):
        return locked
    locked.moved_at = locked.moved_at or now
    locked.moved_to = locked.moved_to if to is None else to
    locked.save(update_fields=["moved_at", "moved_to"])
    if is_new:
        # The worker that computes a decision now can no longer publish it. What was requested stays so.
        RecomputeJob.objects.filter(pool=locked).update(
            token=None, claimed_at=None, published_at=None, publications=0, attempts=0
        )
    audit_record(action="pool.move", instance=locked, before=before, now=now, pool=locked.slug)
    return locked


@transaction.atomic
def pool_move_cancel(*, pool: Pool, now: datetime) -> Pool:
    """Open a pool again that was closed for a move, and request a decision.

    Raises `Conflict` for a pool that was not closed. The caller must know that no other installation has
    imported the pool.
    """
    locked = pool_lock(pool, moved=True)
    if locked.moved_at is None:
        raise Conflict(f"The pool {pool.slug} is not closed for a move.", code="pool.not_moved")
    before = stated_fields(locked)
    locked.moved_at, locked.moved_to = None, ""
    locked.save(update_fields=["moved_at", "moved_to"])
    pool_changed(locked, now=now)
    audit_record(action="pool.stay", instance=locked, before=before, now=now, pool=locked.slug)
    return locked


def _refuse_place(to: str | None) -> None:
    if to is None or (to.isprintable() and len(to) <= MOVED_TO_LENGTH):
        return
    detail = f"The destination must be one line of at most {MOVED_TO_LENGTH} characters."
    raise Unacceptable(detail, code="pool.moved_to")
