"""Row locks of this app.

Every change to a pool, or to anything in it, locks the pool's row first. Changes of one pool are
therefore serial, their generations are in commit order, and nothing can deadlock.
"""

from uuid import UUID

from allocator_service.core.selecting import missing
from allocator_service.pools.models import Pool, Server


def pool_lock(pool: Pool) -> Pool:
    """Return the present pool, locked until the transaction ends. Raises `Missing` once retired."""
    locked = (
        # Not FOR UPDATE: inserts that refer to the pool take FOR KEY SHARE on it and need not wait.
        Pool.objects.select_for_update(of=("self",), no_key=True)
        .filter(pk=pool.pk, retired_at=None)
        .first()
    )
    if locked is None:
        raise missing("pool.not_found")
    return locked


def server_lock(server_id: UUID) -> Server:
    """Return the present server, locked until the transaction ends. Lock its pool before."""
    return (
        # The row alone: PostgreSQL refuses to lock the nullable side of an outer join.
        Server.objects.select_for_update(of=("self",), no_key=True)
        .select_related("contributed_by", "pool")
        .get(pk=server_id)
    )
