"""Celery tasks, each of which makes one service call with the time of the clock."""

import structlog
from celery import shared_task
from django.db import OperationalError

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import DomainError
from allocator_service.enforcement.absence import absent_members_end
from allocator_service.enforcement.services import reports_prune
from allocator_service.enforcement.watching import clusters_watch, enforcement_watch, pools_enforced
from allocator_service.pools.models import Pool

# Redis keeps one list per priority; workers empty the list of decisions (0) first.
AFTER_DECISIONS = 9
WATCH_SECONDS = 5.0

log = structlog.get_logger(__name__)


@shared_task(name="enforcement.watch", priority=AFTER_DECISIONS)
def watch() -> None:
    """Request a look at every pool with an agent, each in its own task.

    A failure of one stops no other.
    """
    for pool in pools_enforced():
        # The next look follows in as many seconds: older messages would only pile up.
        watch_pool.apply_async(args=[pool.pk], expires=WATCH_SECONDS, retry=False)


@shared_task(name="enforcement.watch_pool", priority=AFTER_DECISIONS)
def watch_pool(pool_id: int) -> None:
    """Take silent clusters out of decisions, and record events for states that last and their ends."""
    pool = Pool.objects.prefetch_related("resource_types").get(pk=pool_id)
    clusters_watch(pool=pool, now=utc_now())
    enforcement_watch(pool=pool, now=utc_now())


@shared_task(name="enforcement.retention", priority=AFTER_DECISIONS)
def retention() -> None:
    """Delete reports older than their retention, and end memberships of users who left."""
    reports_prune(now=utc_now())
    for pool in pools_enforced():
        try:
            absent_members_end(pool=pool, now=utc_now())
        except (DomainError, OperationalError) as error:
            # Such as a lock that another process holds for too long.
            log.warning("absent_members_not_ended", pool=pool.slug, error=str(error)[:200])
