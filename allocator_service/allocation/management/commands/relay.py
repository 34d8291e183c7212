"""The command `manage.py relay`, which publishes due recompute jobs until it is stopped."""

import signal
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from allocator_service.allocation.runs.relay import Relay
from allocator_service.core.clock import utc_now
from allocator_service.core.worker.pulse import Sign


class Command(BaseCommand):
    help = "Publish the pools whose decisions are due to the workers; runs until SIGTERM."
    requires_system_checks = []

    def handle(self, *_: Any, **__: Any) -> None:
        environment = settings.ENVIRONMENT
        sign = Sign(environment.pulse_file, environment.notify_socket)
        relay = Relay(clock=utc_now, sign=sign)
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: relay.stop())
        relay.run()
