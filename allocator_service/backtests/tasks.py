"""Celery tasks, each of which makes one service call with the time of the clock.

Those of backtests have a separate queue with separate workers, so that decisions never wait for them.
"""

from uuid import UUID

from celery import shared_task

from allocator_service.backtests.comparisons import comparison_run
from allocator_service.backtests.services import backtests_prune
from allocator_service.backtests.turns import turn_take
from allocator_service.core.clock import utc_now
from allocator_service.core.jobs import BACKTESTS

# The simulation ends itself long before (`jobs.LONGEST_SECONDS`).
TIME_LIMIT_SECONDS = 7200
# Eight policies of a comparison may use all of their time. The message returns after 180 s.
COMPARISON_SECONDS = 120
# Redis keeps one list per priority; workers empty the list of decisions (0) first.
AFTER_DECISIONS = 9


@shared_task(name="backtests.advance", queue=BACKTESTS, time_limit=TIME_LIMIT_SECONDS)
def advance(backtest_id: str) -> None:
    """Read the input of a backtest, or combine its results, if it is its owner's turn."""
    turn_take(advances=True, unit=UUID(backtest_id), clock=utc_now)


@shared_task(name="backtests.compute", queue=BACKTESTS, time_limit=TIME_LIMIT_SECONDS)
def compute(cell_id: str) -> None:
    """Simulate a cell of a backtest, if it is its owner's turn."""
    turn_take(advances=False, unit=UUID(cell_id), clock=utc_now)


@shared_task(name="backtests.compare", priority=AFTER_DECISIONS, time_limit=COMPARISON_SECONDS)
def compare(pool_id: int) -> None:
    """Compute the pending comparison of a pool's policies."""
    comparison_run(pool_id=pool_id, clock=utc_now)


@shared_task(name="backtests.retention", priority=AFTER_DECISIONS)
def retention() -> None:
    """Delete inputs that have been kept long enough."""
    backtests_prune(now=utc_now())
