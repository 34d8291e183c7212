"""The app of backtests."""

from django.apps import AppConfig


class BacktestsConfig(AppConfig):
    name = "allocator_service.backtests"
    label = "backtests"
    verbose_name = "Backtests"

    def ready(self) -> None:
        from allocator_service.backtests import tasks
        from allocator_service.backtests.comparisons import COMPARISON_JOBS
        from allocator_service.backtests.jobs import BACKTEST_JOBS, CELL_JOBS
        from allocator_service.core.jobs import register_jobs

        register_jobs(BACKTEST_JOBS, tasks.advance)
        register_jobs(CELL_JOBS, tasks.compute)
        register_jobs(COMPARISON_JOBS, tasks.compare)
