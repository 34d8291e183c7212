"""Celery's scheduler, with a sign of life at each turn of its loop."""

from typing import Any

from celery.beat import PersistentScheduler
from django.conf import settings

from allocator_service.core.worker.pulse import Sign


class SigningScheduler(PersistentScheduler):
    """A scheduler that turns at least every five seconds, after waiting for the broker at its start."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        environment = settings.ENVIRONMENT
        self._sign = Sign(environment.pulse_file, environment.notify_socket)
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send due messages and return the seconds until the next one is due."""
        wait: float = super().tick(*args, **kwargs)
        self._sign()
        return wait
