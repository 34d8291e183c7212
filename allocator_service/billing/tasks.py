"""Celery tasks, each of which makes one service call with the time of the clock."""

from celery import shared_task

from allocator_service.billing.watching import late_entries_watch, manifests_write, pools_watch
from allocator_service.core.clock import utc_now

# Redis keeps one list per priority; workers empty the list of decisions (0) first.
AFTER_DECISIONS = 9


@shared_task(name="billing.watch", priority=AFTER_DECISIONS)
def watch() -> None:
    """Record the budgets that have reached a threshold and the banks that are empty."""
    pools_watch(now=utc_now())


@shared_task(name="billing.late", priority=AFTER_DECISIONS)
def late() -> None:
    """Record newly numbered entries that lie in closed months."""
    late_entries_watch()


@shared_task(name="billing.manifests", priority=AFTER_DECISIONS, time_limit=3600)
def manifests() -> None:
    """Write the manifests of closed months."""
    manifests_write()
