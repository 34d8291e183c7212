"""`manage.py relay`: publish due recompute jobs until told to stop."""

import signal
from typing import Any

from django.core.management.base import BaseCommand

from allocator_service.allocation.runs.relay import Relay
from allocator_service.core.clock import utc_now


class Command(BaseCommand):
    help = "Publish the pools whose decisions are due to the workers; runs until SIGTERM."
    requires_system_checks = []

    def handle(self, *_: Any, **__: Any) -> None:
        relay = Relay(clock=utc_now)
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: relay.stop())
        relay.run()
