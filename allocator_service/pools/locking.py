"""Row locks of this app.

Every change to a pool, or to anything in it, locks the pool's row first. Changes of one pool are
therefore serial, their generations are in commit order, and nothing can deadlock.
"""

from uuid import UUID

from allocator_service.core.display import instant_text
from allocator_service.core.errors import Conflict
from allocator_service.core.selecting import missing
from allocator_service.pools.models import Pool, Server


def pool_lock(pool: Pool, *, moved: bool = False) -> Pool:
    """Return the present pool, locked until the transaction ends. Raises `Missing` once retired.

    Raises `Conflict` with `pool.moved` for a pool that is closed for a move, unless `moved`.
    """
    locked = (
        # Not FOR UPDATE: inserts that refer to the pool take FOR KEY SHARE on it and need not wait.
        Pool.objects.select_for_update(of=("self",), no_key=True)
        .filter(pk=pool.pk, retired_at=None)
        .first()
    )
    if locked is None:
        raise missing("pool.not_found")
    if locked.moved_at is not None and not moved:
        raise moved_error(locked)
    return locked


def moved_error(pool: Pool) -> Conflict:
    """Return the error for a change of a pool that is closed for its move to another installation."""
    since = "" if pool.moved_at is None else f" since {instant_text(pool.moved_at)}"
    place = pool.moved_to or "another installation"
    return Conflict(
        f"The pool {pool.slug} has been closed for changes{since}: it moves to {place}.",
        code="pool.moved",
    )


def server_lock(server_id: UUID) -> Server:
    """Return the present server, locked until the transaction ends. Lock its pool before."""
    return (
        # The row alone: PostgreSQL refuses to lock the nullable side of an outer join.
        Server.objects.select_for_update(of=("self",), no_key=True)
        .select_related("contributed_by", "pool")
        .get(pk=server_id)
    )
