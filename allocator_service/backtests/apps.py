"""The app of backtests."""

from django.apps import AppConfig


class BacktestsConfig(AppConfig):
    name = "allocator_service.backtests"
    label = "backtests"
    verbose_name = "Backtests"

    def ready(self) -> None:
        from allocator_service.backtests import tasks
        from allocator_service.backtests.jobs import backtests_due, cells_due
        from allocator_service.core.jobs import published

        published(tasks.advance, backtests_due)
        published(tasks.compute, cells_due)
