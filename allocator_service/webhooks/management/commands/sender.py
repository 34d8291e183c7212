"""The command `manage.py sender`, which sends webhooks until SIGTERM."""

import random
import signal
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from allocator_service.core.clock import utc_now
from allocator_service.core.worker.pulse import Sign
from allocator_service.webhooks.sender import Sender


class Command(BaseCommand):
    help = "Send webhooks to their receivers; runs until SIGTERM."
    requires_system_checks = []

    def handle(self, *_: Any, **__: Any) -> None:
        environment = settings.ENVIRONMENT
        sender = Sender(
            clock=utc_now,
            random=random.random,
            secret_key=settings.SECRET_KEY,
            allowed=environment.webhook_allowed_networks,
            sign=Sign(environment.pulse_file, environment.notify_socket),
        )
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: sender.stop())
        sender.run()
