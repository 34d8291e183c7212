"""Celery's scheduler, with a sign of life at each turn of its loop."""

from typing import Any

from celery.beat import PersistentScheduler
from django.conf import settings

from allocator_service.core.worker.pulse import Sign


class SigningScheduler(PersistentScheduler):  # type: ignore[misc] # untyped
    """Turns at least every five seconds; before its first turn it waits for the broker."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        environment = settings.ENVIRONMENT
        self._sign = Sign(environment.pulse_file, environment.notify_socket)
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due; returns for how many seconds nothing is."""
        wait: float = super().tick(*args, **kwargs)
        self._sign()
        return wait
