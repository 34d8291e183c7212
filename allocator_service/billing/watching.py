"""Periodic checks of budgets and banks, and the writing of manifests."""

from datetime import datetime

import structlog

from allocator_service.billing.budgets import budgets_check
from allocator_service.billing.models import Closing
from allocator_service.billing.rating.late import FOUND_AT_ONCE, late_entries_find
from allocator_service.billing.service_units import banks_check
from allocator_service.billing.statements.manifest import closings_without_manifest, manifest_write
from allocator_service.core.errors import DomainError
from allocator_service.pools.models import Pool

log = structlog.get_logger(__name__)


def pools_watch(*, now: datetime) -> None:
    """Check the budgets and banks of every pool. A failure of one stops no other."""
    for pool in Pool.objects.filter(retired_at=None, moved_at=None).prefetch_related(
        "resource_types"
    ):
        for check in (budgets_check, banks_check):
            try:
                check(pool=pool, now=now)
            # Such as a pool that is retired meanwhile: budgets of the others must still be watched.
            except DomainError as error:
                log.warning("billing_not_watched", pool=pool.slug, reason=error.detail)


def late_entries_watch() -> None:
    """Record newly numbered entries that lie in closed months, in every pool that has any."""
    for pool in Pool.objects.filter(pk__in=Closing.objects.values("pool")):
        # In batches, so that no transaction becomes long.
        while late_entries_find(pool=pool) == FOUND_AT_ONCE:
            pass


def manifests_write() -> int:
    """Write the manifests that closed months lack, and return their number."""
    closings = closings_without_manifest()
    for closing in closings:
        manifest_write(closing=closing)
    return len(closings)
