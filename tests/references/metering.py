"""Metering in the plain way: an entry for each use and each interval, closed at once."""

from datetime import datetime
from decimal import Decimal

from allocator_service.allocation.long_term.metered_uses import decided_by, metered_uses
from allocator_service.allocation.models import Run, RunStatus
from allocator_service.allocation.selectors import slot_in_force
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.models import Meter
from allocator_service.pools.recompute import interval_around
from allocator_service.pools.selectors import resources_of


def meter_by_interval(pool, now):
    """Append the entries of every interval that is over, unchanged uses again."""
    runs = Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED).order_by("effective_from")
    first = runs.first()
    if first is None:
        return
    begin = {"metered_until": first.effective_from}
    meter, _ = Meter.objects.get_or_create(pool=pool, defaults=begin)
    at = meter.metered_until
    for run in runs:
        if run.effective_until is not None and run.effective_until <= at:
            continue
        decided = decided_by(run)
        while run.effective_until is None or at < run.effective_until:
            slot = slot_in_force(run=run, at=at)
            changed = pool.metering_changed_at
            end = min(
                interval_around(pool, at)[1],
                *([] if slot is None else [slot.end]),
                *([] if run.effective_until is None else [run.effective_until]),
                *([changed] if changed is not None and at < changed else []),
                datetime.max.replace(tzinfo=at.tzinfo),
            )
            if end > now:
                return
            reported = (pool.metering == "reported") == (changed is None or at >= changed)
            uses = metered_uses(decided, slot, resources_of(pool), alone_only=reported)
            entries_append([
                _entry(pool, run, tenant, use, at, end) for tenant, rows in uses.items() for use in rows
            ])  # fmt: skip
            at = end
            Meter.objects.filter(pool=pool).update(metered_until=end)


def _entry(pool, run, tenant, use, start, end):
    return {
        "pool_id": pool.pk, "tenant_id": tenant, "server_owner_id": use.owner,
        "workload_id": use.workload, "resource": use.resource, "unit": use.unit,
        "quantity": Decimal(use.quantity), "start": start, "end": end, "kind": use.kind,
        "corrects": None, "reason": "", "source": "decisions", "event_id": None, "run_id": run.pk,
        "recorded_at": end,
    }  # fmt: skip
