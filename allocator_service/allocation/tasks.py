"""Celery tasks, each of which makes one service call with the time of the clock."""

from uuid import UUID

from celery import shared_task

from allocator_service.allocation.long_term.metering import URGENT, meterings_due, pool_meter
from allocator_service.allocation.runs.budgets import budgets_watch
from allocator_service.allocation.runs.recompute import SOLVE_SECONDS, recompute_pool
from allocator_service.allocation.services import METERING, heartbeat_record, retention_apply
from allocator_service.allocation.what_if.simulations import simulation_run
from allocator_service.core.clock import utc_now
from allocator_service.core.garbage import pause_collection

METER_SECONDS = 10.0
# One interval of 100,000 tenants is written by one task, however busy the machine is.
METERING_LIMIT_SECONDS = 900
# Two solves may use their whole time. The message returns after 180 s (`visibility_timeout`).
SIMULATION_SECONDS = 2 * SOLVE_SECONDS + 45
# Redis keeps one list per priority; workers empty the list of decisions (0) first.
DECISIONS, AFTER_DECISIONS = 0, 9


@shared_task(name="allocation.recompute")
def recompute(pool_id: int) -> None:
    """Compute the pool's next decision if one is requested."""
    # A decision makes many documents and no cycles, and is searched for them after its publication.
    with pause_collection():
        recompute_pool(pool_id=pool_id, clock=utc_now)


@shared_task(name="allocation.simulate", time_limit=SIMULATION_SECONDS)
def simulate(simulation_id: str) -> None:
    """Compute a pending simulation."""
    simulation_run(simulation_id=UUID(simulation_id), clock=utc_now)


@shared_task(name="allocation.meter")
def meter() -> None:
    """Request metering of the pools that are due, the furthest behind first, each in its own task.

    A failure of one stops no other. A task that expires before a worker takes it is later next time, and
    so further in front.
    """
    now = utc_now()
    due = meterings_due(now=now)
    for each in due:
        meter_pool.apply_async(
            args=[each.pool.pk],
            priority=DECISIONS if now - each.since > URGENT else AFTER_DECISIONS,
            expires=METER_SECONDS,
            retry=False,
        )
    heartbeat_record(process=METERING, now=min((each.since for each in due), default=now))


@shared_task(
    name="allocation.meter_pool", priority=AFTER_DECISIONS, time_limit=METERING_LIMIT_SECONDS
)
def meter_pool(pool_id: int) -> None:
    """Write the past use that the pool's decisions gave to the ledger."""
    pool_meter(pool_id=pool_id, now=utc_now())


@shared_task(name="allocation.budgets", priority=AFTER_DECISIONS)
def budgets() -> None:
    """Request decisions where the ledger has exhausted a budget or opened it again."""
    budgets_watch(now=utc_now())


@shared_task(name="allocation.heartbeat")
def heartbeat() -> None:
    """Show that beat sends and a worker works."""
    heartbeat_record(process="worker", now=utc_now())


@shared_task(name="allocation.retention", priority=AFTER_DECISIONS)
def retention() -> None:
    """Delete parts of runs and other records whose retention has passed."""
    retention_apply(now=utc_now())
